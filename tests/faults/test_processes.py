"""`tickwork run --processes`: a parent whose children are drained, killed and replaced."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import pytest

from tests.faults.open_store import opened
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import DEFAULT
from tickwork.ops.context import Context
from tickwork.ops.send import compose, send
from tickwork.store.contract import Store

on_postgres = pytest.mark.parametrize("home", ["postgres"], indirect=True)

APP = """
    import asyncio
    import os
    from pathlib import Path

    from tickwork import Tickwork

    app = Tickwork()
    app.queue("work")
    app.queue("out")
    VERSION = 1

    @app.on("work", max_concurrency=1)
    async def handle(message):
        if message.body == "wait":
            print("began", os.getpid(), flush=True)
            await asyncio.sleep(3600)
        message.send("out", {"body": message.body, "pid": os.getpid(), "version": VERSION})
"""

Write = Callable[[str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the module `shop` in the test's own folder."""

    def write(text: str) -> None:
        (tmp_path / "shop.py").write_text(dedent(text))

    return write


class Crew:
    """A parent and its children, by their log."""

    def __init__(self, children: Children, folder: Path, url: str, *words: str) -> None:
        environ = {"TICKWORK_DATABASE": url, "PYTHONDONTWRITEBYTECODE": "1"}
        self.parent = children.spawn(
            "tickwork", "run", "shop:app", *words, env=environ, folder=folder
        )

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.parent.stderr().split("\n")[:-1]]

    def pids(self) -> list[int]:
        """Of all that ever were ready, in their order."""
        return [line["pid"] for line in self.lines if line["event"] == "a process is ready"]

    async def ready(self, count: int) -> list[int]:
        """Waits until so many were ready, from the start."""
        await eventually(
            lambda: len(self.pids()) >= count or self.parent.returncode is not None,
            what=f"{count} children",
        )
        assert len(self.pids()) >= count, self.parent.stderr()
        return self.pids()

    async def logged(self, event: str) -> dict[str, Any]:
        """The first line of this event."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.lines if line["event"].startswith(event)]

        await eventually(found, what=event)
        return found()[0]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def outputs(store: Store) -> list[Any]:
    found = await store.messages.peek(DEFAULT, "out", 1_000)
    return [msgspec.json.decode(message.body) for message in found]


async def send_all(store: Store, *bodies: object) -> None:
    for body in bodies:
        await send(Context(store, DEFAULT), "work", compose(body))


@on_postgres
async def test_all_children_handle_messages_and_a_signal_drains_them(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    pids = await crew.ready(2)
    async with opened(home.url) as store:

        async def both_have_handled() -> bool:
            await send_all(store, *range(20))
            return {output["pid"] for output in await outputs(store)} == {*pids}

        await eventually(both_have_handled)
    crew.parent.signal(signal.SIGTERM)
    await crew.parent.succeeded()
    assert not any(map(is_alive, pids))


@on_postgres
async def test_a_second_signal_ends_the_drain_of_all_children(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    await crew.ready(2)
    async with opened(home.url) as store:
        await send_all(store, "wait", "wait")
        await crew.parent.line("began")
        await eventually(lambda: crew.parent.stdout().count("began") == 2)
        crew.parent.signal(signal.SIGTERM)
        await crew.logged("stopping: running handlers finish")
        crew.parent.signal(signal.SIGTERM)
        await crew.parent.succeeded()
        # They are back at once, not when a lease has expired.
        assert (await store.queues.counts(DEFAULT, "work")).ready == 2


@on_postgres
async def test_a_child_that_is_killed_is_restarted_and_its_claim_comes_back(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    await crew.ready(2)
    async with opened(home.url) as store:
        await send_all(store, "wait")
        victim = int((await crew.parent.line("began")).split()[1])
        os.kill(victim, signal.SIGKILL)
        ended = await crew.logged("a process ended")
        assert (ended["pid"], ended["signal"]) == (victim, "SIGKILL")
        assert victim not in (await crew.ready(3))[2:]
        # The lease of the dead one expires, and another child begins with the same message.
        await eventually(lambda: crew.parent.stdout().count("began") == 2)
    crew.parent.signal(signal.SIGTERM)
    crew.parent.signal(signal.SIGTERM)
    assert await crew.parent.wait() == 0


@on_postgres
async def test_children_whose_parent_is_killed_drain(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    pids = await crew.ready(2)
    crew.parent.kill9()
    await eventually(lambda: not any(map(is_alive, pids)), what="the children to end")
    assert any(line["event"].startswith("the parent process is gone") for line in crew.lines)


async def test_an_app_on_sqlite_runs_in_one_process_and_says_so(
    children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, f"sqlite:///{tmp_path}/own.db", "--processes", "3")
    await crew.logged("SQLite has one writer, so this app runs in one process")
    assert len(await crew.ready(1)) == 1
    crew.parent.signal(signal.SIGTERM)
    await crew.parent.succeeded()
    assert len(crew.pids()) == 1


async def test_an_app_that_cannot_start_says_so_once_with_its_exit_code(
    children: Children, tmp_path: Path, write: Write
) -> None:
    write("1 / 0")
    words = ("run", "shop:app", "--processes", "2", "--log-format", "console")
    ended = children.run("tickwork", *words, env={}, folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.count("importing shop failed: ZeroDivisionError") == 1


async def test_a_parent_gives_up_if_its_children_die_at_once_again_and_again(
    children: Children, tmp_path: Path, write: Write
) -> None:
    write(f"{APP}\n    os.kill(os.getpid(), 9)\n")
    crew = Crew(children, tmp_path, f"sqlite:///{tmp_path}/own.db", "--processes", "2")
    assert await crew.parent.wait() == 1
    await crew.logged("a process died at once again and again")
    ended = [line["signal"] for line in crew.lines if line["event"] == "a process ended"]
    assert ended == ["SIGKILL"] * 5
