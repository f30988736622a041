"""`kill -9` of a worker in the middle of a day: every user is checked, in one row each."""

from __future__ import annotations

import pytest

from tests.examples.streaky_kit import (
    WAIT_SECONDS,
    Streaky,
    expected_checks,
    expected_keys,
    sample_users,
)
from tests.kit.process import Child
from tests.kit.waiting import eventually
from tickwork.core.message.batch import Batch

USERS = 150
SETTINGS = [{"CONCURRENCY": 20, "ISOLATION": "task"}]
DEATHS = 2
EXPIRE_NODES = "UPDATE tickwork_nodes SET expires_at = started_at"


@pytest.mark.one_store("postgres")
@pytest.mark.parametrize("streaky", SETTINGS, indirect=True, ids=["killed"])
async def test_a_killed_worker_loses_no_user_and_repeats_no_row(streaky: Streaky) -> None:
    worker = await start_worker(streaky)
    await kill(streaky, worker)
    # Expire the dead node's lease now instead of waiting 15 seconds.
    await streaky.users.database.write((EXPIRE_NODES, [()]))
    streaky.worker()
    await judge(streaky, deaths=1)


@pytest.mark.soak
@pytest.mark.parametrize("streaky", SETTINGS, indirect=True, ids=["killed"])
async def test_claims_of_killed_workers_are_handled_by_others(streaky: Streaky) -> None:
    worker = await start_worker(streaky)
    other = streaky.worker()
    for _ in range(DEATHS):
        await kill(streaky, worker)
        worker, other = other, streaky.worker()
    await judge(streaky, DEATHS)


async def start_worker(streaky: Streaky) -> Child:
    """Start a day and a worker."""
    await streaky.prepare(sample_users(USERS))
    await streaky.fake_services(seconds=0.1)
    await streaky.start()
    return streaky.worker()


async def kill(streaky: Streaky, worker: Child) -> None:
    """Kill it while it runs handlers, after at least ten more were completed."""
    before = (await streaky.progress()).completed

    async def is_busy() -> Batch | None:
        now = await streaky.progress()
        return now if now.completed > before + 10 and now.processing else None

    await eventually(is_busy, timeout_seconds=WAIT_SECONDS)
    worker.kill9()
    now = await streaky.progress()
    assert now.completed < USERS, "the day was already complete"


async def judge(streaky: Streaky, deaths: int) -> None:
    """Every user has one check; users without a commit have one reminder."""
    users = sample_users(USERS)
    ended = await streaky.done()
    assert (ended.completed, ended.failed, ended.total) == (USERS, 0, USERS)
    assert list(await streaky.rows("streaky_checks")) == expected_checks(users)
    assert [key for key, *_ in await streaky.rows("streaky_reminders")] == expected_keys(users)
    assert len(await streaky.rows("streaky_days")) == 1
    seen = await streaky.seen()
    assert sorted(seen["notified"]) == expected_keys(users)
    # A request may be repeated, with the same key, once for every killed worker.
    assert max(seen["fetched"].values()) <= 1 + deaths
