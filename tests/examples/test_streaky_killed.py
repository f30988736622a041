"""`kill -9` of a worker in the middle of a day: nobody is forgotten, and what is in the database
is there once."""

from __future__ import annotations

import pytest

from tests.examples.streaky_kit import (
    WAIT_SECONDS,
    Streaky,
    expected_checks,
    expected_keys,
    people,
)
from tests.kit.process import Child
from tests.kit.waiting import eventually
from tickwork.core.message.batch import Batch

USERS = 150
SETTINGS = [{"SLOTS": 20}]
DEATHS = 2
EXPIRE_NODES = "UPDATE tickwork_nodes SET expires_at = started_at"


@pytest.mark.parametrize("streaky", SETTINGS, indirect=True, ids=["killed"])
async def test_a_worker_that_is_killed_loses_nobody_and_repeats_no_row(streaky: Streaky) -> None:
    worker = await half_done(streaky)
    await kill(streaky, worker)
    # A dead node's lease is 15 seconds of waiting; here they have passed.
    await streaky.users.database.write((EXPIRE_NODES, [()]))
    streaky.worker()
    await judge(streaky, deaths=1)


@pytest.mark.soak
@pytest.mark.parametrize("streaky", SETTINGS, indirect=True, ids=["killed"])
async def test_what_killed_workers_held_comes_back_by_itself(streaky: Streaky) -> None:
    worker = await half_done(streaky)
    other = streaky.worker()
    for _ in range(DEATHS):
        await kill(streaky, worker)
        worker, other = other, streaky.worker()
    await judge(streaky, DEATHS)


async def half_done(streaky: Streaky) -> Child:
    """A worker in the middle of the day."""
    await streaky.prepare(people(USERS))
    await streaky.stand_in(seconds=0.1)
    await streaky.start()
    return streaky.worker()


async def kill(streaky: Streaky, worker: Child) -> None:
    """Kills it while it has units under way, after some more were done."""
    before = (await streaky.progress()).completed

    async def under_way() -> Batch | None:
        now = await streaky.progress()
        return now if now.completed > before + 10 and now.processing else None

    await eventually(under_way, timeout_seconds=WAIT_SECONDS)
    worker.kill9()
    now = await streaky.progress()
    assert now.completed < USERS, "too late to lose anything"


async def judge(streaky: Streaky, deaths: int) -> None:
    """Everybody was checked, in one row each; who had not committed has one reminder."""
    users = people(USERS)
    ended = await streaky.done()
    assert (ended.completed, ended.failed, ended.total) == (USERS, 0, USERS)
    assert list(await streaky.rows("streaky_checks")) == expected_checks(users)
    assert [key for key, *_ in await streaky.rows("streaky_reminders")] == expected_keys(users)
    assert len(await streaky.rows("streaky_days")) == 1
    seen = await streaky.seen()
    assert sorted(seen["notified"]) == expected_keys(users)
    # Outside a thing may happen twice, under the same key; but only if somebody died of it.
    assert max(seen["fetched"].values()) <= 1 + deaths
