"""A handler that kills its worker process, and what happens to other messages."""

from __future__ import annotations

import pytest

from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.service.programs import deadly, handlers
from tests.service.workplace import Workplace
from tests.stores.home import Home
from tickwork.core.message.body import decode_body
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, LOST_CLAIMS_MAX, REASON_MAX_RETRIES, REASON_WORKER_LOST

OTHERS = ["a", "b", "c"]
LIVES_MAX = 10


@pytest.mark.parametrize(
    ("home", "isolation"),
    [
        ("sqlite", "thread"),
        ("postgres", "task"),
        pytest.param("sqlite", "task", marks=pytest.mark.soak),
        pytest.param("postgres", "thread", marks=pytest.mark.soak),
    ],
    indirect=["home"],
)
async def test_who_ends_its_worker_is_dead_in_the_end_and_the_others_are_done_once(
    home: Home, children: Children, isolation: str
) -> None:
    """Nothing keeps a handler in a task or a thread from that. It costs claims, and no more: it
    runs alone, and then no longer. Memory that is refused is its own failure."""
    app = deadly.build(home.url, isolation)
    store = await app._engine.open()
    await app.queue("work").send_batch([OTHERS[0], "exit", OTHERS[1], "allocate", OTHERS[2]])
    lives: list[Child] = []

    async def is_done() -> bool:
        if not lives or lives[-1].returncode is not None:
            assert len(lives) < LIVES_MAX
            lives.append(children.spawn(deadly.PROGRAM, home.url, isolation))
        counts = await store.queues.counts(DEFAULT, "work")
        return (counts.dead, counts.ready + counts.delayed + counts.claimed) == (2, 0)

    await eventually(is_done, what="all to be done or dead")
    letters = (await store.dead_letters.list(DEFAULT, "work", Selection())).letters
    dead = {decode_body(letter.body, letter.content_type): letter for letter in letters}
    out = await store.messages.peek(DEFAULT, "out", 100)
    assert sorted(decode_body(message.body, message.content_type) for message in out) == OTHERS
    died = [live.returncode for live in lives if live.returncode is not None]
    assert (dead["exit"].reason, died) == (REASON_WORKER_LOST, [3] * LOST_CLAIMS_MAX)
    assert dead["allocate"].reason == REASON_MAX_RETRIES
    assert "MemoryError" in (dead["allocate"].error or "")
    await app.close()


async def test_in_processes_each_costs_its_own_message_on_either_store(home: Home) -> None:
    place = Workplace(home.url)
    bad = {
        "raise": "ValueError: no luck",
        "burn": "used more than 0.2 seconds of CPU time",
        "allocate": "used more than 128 MiB of memory",
        "_exit": "exited with code 3",
        "kill": "killed from outside",
    }
    limits = {"cpu_seconds": 0.2, "memory_bytes": 128 * 1024 * 1024}
    place.handle(handlers.end, isolation="process", max_concurrency=2, **limits)
    async with place.app.running():
        await place.send(OTHERS[0], *bad, *OTHERS[1:])
        errors = await place.until_dead(len(bad))
        assert all(any(error in text for text in errors) for error in bad.values())
        assert sorted(await place.until_out(len(OTHERS))) == OTHERS
