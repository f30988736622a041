"""`tickwork batches watch` prints every change until the batch is completed."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from tests.cli.kit import Desk
from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.stores.clock import START
from tickwork import wiring
from tickwork.cli import batches
from tickwork.cli.batches import LINE_SECONDS, Progress
from tickwork.core.answers.batch import BatchAnswer
from tickwork.core.answers.ids import Id
from tickwork.core.message.batch import BatchStatus, NewBatch
from tickwork.core.model import (
    DEFAULT,
    ClaimRequest,
    Ending,
    Fate,
    NewMessage,
    QueueSettings,
    Settlement,
)
from tickwork.ops.batches import create_batch
from tickwork.ops.context import Context
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


@dataclass
class Watched:
    """A batch of three items that another process may watch."""

    store: Store
    url: str
    id: UUID

    async def work(self, fate: Fate = Fate.ACK, limit: int = 1) -> None:
        request = ClaimRequest(queue="emails", holder=new_id(), limit=limit, lease_seconds=30)
        messages = await self.store.messages.claim(DEFAULT, request)
        endings = [
            Ending(claim=message.current_claim, fate=fate, reason="x") for message in messages
        ]
        await self.store.messages.settle(DEFAULT, Settlement(tuple(endings)))

    def watch(self, children: Children, *options: str) -> Child:
        words = ("batches", "watch", str(self.id), "--database", self.url)
        return children.spawn("tickwork", *words, *options)


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    """A batch with three pending items."""
    url = f"sqlite:///{tmp_path}/tickwork.db"
    store = await wiring.open_store(wiring.Settings(database=url))
    await store.queues.put(DEFAULT, "emails", QueueSettings())
    batch = await create_batch(Context(store, DEFAULT), "emails", [1, 2, 3])
    yield Watched(store, url, batch.id)
    await store.close()


async def test_every_change_is_a_json_line_until_completion(
    watched: Watched, children: Children
) -> None:
    child = watched.watch(children, "--json")
    await child.line('"pending":3')
    for done in (1, 2, 3):
        await watched.work()
        await child.line(f'"completed":{done}')
    await child.succeeded()
    looks = [json.loads(line) for line in child.lines()]
    assert looks[0]["rate_per_second"] is None
    assert looks[-1]["status"] == "completed"
    assert looks[-1]["rate_per_second"] > 0
    for look in looks:
        assert look["pending"] + look["processing"] + look["completed"] + look["failed"] == 3
        assert look["id"] == f"bat_{watched.id.hex}"
    assert all(before != after for before, after in pairwise(looks))


async def test_failed_items_are_reported_and_set_the_exit_code(
    watched: Watched, children: Children
) -> None:
    child = watched.watch(children)
    assert await child.line("3 pending") == ("3 pending, 0 processing, 0 completed, 0 failed, of 3")
    await watched.work()
    await watched.work(Fate.DEAD, limit=2)
    assert await child.wait() == 1
    assert child.lines()[-1] == "0 pending, 0 processing, 1 completed, 2 failed, of 3"
    assert child.stderr() == (
        f"tickwork: 2 of 3 items failed; see `tickwork batches items bat_{watched.id.hex}`\n"
    )


def look(completed: int) -> Progress:
    """The progress of a batch of nine items."""
    batch = BatchAnswer(
        id=Id("bat_1"),
        tenant="default",
        queue="emails",
        status=BatchStatus.COMPLETED if completed == 9 else BatchStatus.RUNNING,
        total=9,
        pending=9 - completed,
        processing=0,
        completed=completed,
        failed=0,
        created_at=START,
        completed_at=None,
    )
    return Progress(batch, rate_per_second=2.0, remaining_seconds=(9 - completed) / 2)


@pytest.mark.parametrize(
    ("as_json", "told"), [(True, [0, 1, 2, 3, 5, 9]), (False, [0, 3, 9])], ids=["json", "lines"]
)
async def test_each_change_is_printed_once_and_lines_are_limited(
    as_json: bool,
    told: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 100.0
    monkeypatch.setattr(batches, "monotonic", lambda: now)

    async def looks() -> AsyncIterator[Progress]:
        nonlocal now
        for completed in (0, 0, 1, 2, 2, 3, 3, 5, 9):
            now = 101.0 if completed < 3 else 101.0 + LINE_SECONDS
            yield look(completed)

    assert (await batches.show(looks(), as_json=as_json)).completed == 9
    lines = capsys.readouterr().out.splitlines()
    if as_json:
        assert [json.loads(line)["completed"] for line in lines] == told
    else:
        assert [int(line.split()[4]) for line in lines] == told
        assert lines[0] == (
            "9 pending, 0 processing, 0 completed, 0 failed, of 9; 2.0 per second, 0:00:04 left"
        )


async def test_ctrl_c_exits_without_a_traceback(watched: Watched, children: Children) -> None:
    child = watched.watch(children)
    await child.line("3 pending")
    os.kill(child.pid, signal.SIGINT)
    assert await child.wait() == 130
    assert child.stderr() == ""


async def test_a_terminal_shows_a_bar_and_keeps_the_last_line(watched: Watched) -> None:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    words = ("batches", "watch", str(watched.id), "--database", watched.url)
    seen = bytearray()

    def shows(text: str) -> bool:
        with suppress(OSError):  # Nothing yet, or nobody there any more.
            seen.extend(os.read(ours, 100_000))
        return text.encode() in seen

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tickwork", *words),
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"},
    )
    os.close(theirs)
    try:
        await eventually(lambda: shows("3 pending, 0 processing"))
        await watched.work()
        await eventually(lambda: shows("1 completed, 0 failed, of 3; "))
        assert b"33%" in seen
        await watched.work(limit=2)
        await eventually(lambda: shows("3 completed, 0 failed, of 3\r\n"))
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


def test_a_filling_batch_has_no_remaining_time(desk: Desk) -> None:
    batch_id, items = new_id(), [NewMessage(id=new_id(), body=b"1") for _ in range(2_500)]
    totals = []
    for stored in (1_200, 2_400):
        desk.store(partial(fill, batch_id=batch_id, items=items[:stored]))
        stopped = desk.run("batches", "watch", str(batch_id), "--timeout-seconds", "0")
        assert (stopped.exit_code, stopped.stderr) == (
            1,
            f"tickwork: batch bat_{batch_id.hex} was not completed within the timeout\n",
        )
        assert stopped.stdout.endswith(" so far\n")
        look = json.loads(
            desk.run("batches", "watch", str(batch_id), "--timeout-seconds", "0", "--json").stdout
        )
        assert (look["status"], look["remaining_seconds"]) == ("filling", None)
        assert f"of {look['total']} so far" in stopped.stdout
        totals.append(look["total"])
    assert 0 < totals[0] < totals[1]


def test_a_completed_batch_is_shown_once(desk: Desk) -> None:
    async def over(store: Store) -> UUID:
        await store.queues.put(DEFAULT, "emails", QueueSettings())
        batch = await create_batch(Context(store, DEFAULT), "emails", [])
        return batch.id

    batch_id = str(desk.store(over))
    assert desk.answer("batches", "watch", batch_id) == (
        "0 pending, 0 processing, 0 completed, 0 failed, of 0\n"
    )
    assert desk.json("batches", "watch", batch_id)["status"] == "completed"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "ID is missing"),
        (["x"], 2, "ID: 'x' is not an id"),
        ([str(new_id())], 1, "there is no batch"),
        ([str(new_id()), "--timeout-seconds", "-1"], 2, "--timeout-seconds: must be from 0 to "),
        ([str(new_id()), "--timeout-seconds", "nan"], 2, "--timeout-seconds: must be from 0 to "),
        ([str(new_id()), "--timeout-seconds", "soon"], 2, "--timeout-seconds: must be a number"),
    ],
)
def test_bad_usage_is_one_line(desk: Desk, words: list[str], code: int, says: str) -> None:
    desk.answer("migrate")
    refused = desk.run("batches", "watch", *words)
    assert (refused.exit_code, refused.stdout) == (code, "")
    assert refused.stderr.startswith(f"tickwork: {says}")
    assert len(refused.stderr.splitlines()) == 1


async def fill(store: Store, *, batch_id: UUID, items: list[NewMessage]) -> None:
    """Creates a batch and fails after these items."""

    def failing() -> Iterator[NewMessage]:
        yield from items
        raise RuntimeError("the maker failed")

    await store.queues.put(DEFAULT, "emails", QueueSettings())
    with pytest.raises(RuntimeError):
        await store.batches.create(DEFAULT, NewBatch(id=batch_id, queue="emails"), failing())
