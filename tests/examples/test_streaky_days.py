"""A day of Streaky, with the worker and the fake services as processes, on both stores."""

from datetime import UTC, datetime, time
from pathlib import Path

import pytest

from examples.streaky import app
from examples.streaky.database import database_at
from examples.streaky.users import Users
from tests.examples.streaky_kit import (
    BATCH,
    DAY,
    WAIT_SECONDS,
    Streaky,
    expected_checks,
    expected_keys,
    sample_users,
)
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, Counts
from tickwork.testing import harness

CATASTROPHIC_PATTERN = r"^(.+)+!$"
"""A regular expression that takes 2^n steps for a name of n letters."""


async def keys(streaky: Streaky) -> list[str]:
    return [key for key, *_ in await streaky.rows("streaky_reminders")]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("streaky", [{"CONCURRENCY": 2}], indirect=True, ids=["two at a time"])
async def test_everyone_is_checked_once_and_only_users_without_a_commit_are_reminded(
    streaky: Streaky, children: Children
) -> None:
    users = sample_users(12)
    inactive = users[10]._replace(id=100, is_active=False)
    without_token = users[11]._replace(id=101, token=None)
    await streaky.prepare([*users, inactive, without_token])
    await streaky.fake_services()
    worker, day = streaky.worker(), streaky.day()
    await day.succeeded(WAIT_SECONDS)
    assert day.lines()[0] == f"batch bat_{BATCH.hex}"
    assert day.lines()[-1] == "12 users: 0 pending, 0 processing, 12 completed, 0 failed"
    await streaky.done()
    assert list(await streaky.rows("streaky_checks")) == expected_checks(users)
    assert await keys(streaky) == sorted(expected_keys(users))
    seen = await streaky.seen()
    assert sorted(seen["notified"]) == expected_keys(users)
    assert {*seen["notified"].values(), *seen["fetched"].values()} == {1}
    assert seen["texts"][f"{DAY}/3"] == "user-3, your streak of 3 days ends tonight: no commit yet."
    assert seen["texts"][f"{DAY}/7"] == "user-7, a good day to begin a streak."

    # The same day again, with one user more: the same batch, and nothing happens.
    await streaky.users.add([users[0]._replace(id=102)])
    again = streaky.day()
    await again.succeeded(WAIT_SECONDS)
    assert again.lines() == [day.lines()[0], day.lines()[-1]]
    assert len(await streaky.rows("streaky_checks")) == 12
    assert len(await streaky.rows("streaky_days")) == 1

    shown = children.spawn("tickwork", "batches", "show", str(BATCH), "--database", streaky.url)
    await shown.succeeded(WAIT_SECONDS)
    assert "completed" in shown.lines()[-1]
    worker.terminate()
    await worker.succeeded(WAIT_SECONDS)


async def test_a_day_starts_at_noon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It includes all active users with a token. A day that would start too late is skipped."""
    url = f"sqlite:///{tmp_path / 'users.db'}"
    users = Users(database_at(url))
    monkeypatch.setattr(app, "users", users)
    monkeypatch.setenv("TICKWORK_DATABASE", url)  # For the processes of its checks.
    await users.create_tables()
    first, *others = sample_users(3)
    await users.add([*others, first._replace(is_active=False)])
    start = datetime.combine(DAY, time(11), UTC)
    async with harness(app.app, start=start) as h:
        await h.advance(minutes=59)
        assert await h.store.batches.list(DEFAULT, 9) == ()
        await h.advance(minutes=1)
        (batch,) = await h.store.batches.list(DEFAULT, 9)
        assert (batch.id, batch.total) == (BATCH, 2)
        await h.outage(days=1, hours=11)
        await h.drain()
        await h.outage(hours=20)
        await h.drain()
        assert len(await h.store.batches.list(DEFAULT, 9)) == 2
    await users.database.close()


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("streaky", [{"CONCURRENCY": 2}], indirect=True, ids=["two at a time"])
async def test_a_bad_credential_becomes_a_dead_letter_and_the_day_completes(
    streaky: Streaky, home: Home
) -> None:
    users = sample_users(6)
    await streaky.prepare([*users, users[1]._replace(id=100, token="revoked")])  # noqa: S106
    await streaky.fake_services()
    streaky.worker()
    await streaky.start()
    ended = await streaky.done()
    assert (ended.completed, ended.failed, ended.total) == (6, 1, 7)
    assert [row[1:] for row in await streaky.rows("streaky_days")] == [(7, 6, 1)]
    assert list(await streaky.rows("streaky_checks")) == expected_checks(users)
    store = await home.open()
    (letter,) = (await store.dead_letters.list(DEFAULT, "checks", Selection(limit=10))).letters
    await store.close()
    assert (letter.reason, letter.attempts) == ("permanent", 1)
    assert "Bad credentials" in str(letter.error)
    assert "revoked" not in str(letter)


# In tasks: all fail at the same time, however slowly processes start.
@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("streaky", [{"ISOLATION": "task"}], indirect=True, ids=["tasks"])
async def test_checks_succeed_after_the_services_were_down_broken_and_rate_limited(
    streaky: Streaky, home: Home
) -> None:
    users = sample_users(8)
    await streaky.prepare(users)
    streaky.worker()  # The services are not running yet.
    await streaky.start()
    store = await home.open()

    async def all_have_failed_once() -> bool:
        return (await store.queues.counts(DEFAULT, "checks")).delayed == 8

    await eventually(all_have_failed_once, timeout_seconds=WAIT_SECONDS)
    await store.close()
    await streaky.fake_services()
    await streaky.faults(failing=True)

    async def all_have_been_requested() -> bool:
        return len((await streaky.seen())["fetched"]) == 8

    await eventually(all_have_been_requested, timeout_seconds=WAIT_SECONDS)
    await streaky.faults(limited=3)
    ended = await streaky.done()
    assert (ended.completed, ended.failed) == (8, 0)
    assert list(await streaky.rows("streaky_checks")) == expected_checks(users)
    assert await keys(streaky) == expected_keys(users)


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    "streaky",
    [{"CONCURRENCY": 2, "CPU_SECONDS": 1, "RETRIES": 0}],
    indirect=True,
    ids=["one second"],
)
async def test_a_check_that_exceeds_its_cpu_limit_fails_and_the_others_finish(
    streaky: Streaky, home: Home
) -> None:
    users = sample_users(12)
    burning = [
        user._replace(id=user.id + 100, repositories=CATASTROPHIC_PATTERN) for user in users[:2]
    ]
    await streaky.prepare([*users, *burning])
    await streaky.fake_services()
    streaky.worker()
    await streaky.start()
    ended = await streaky.done()
    assert (ended.completed, ended.failed) == (12, 2)
    assert list(await streaky.rows("streaky_checks")) == expected_checks(users)
    assert await keys(streaky) == sorted(expected_keys(users))
    store = await home.open()
    letters = (await store.dead_letters.list(DEFAULT, "checks", Selection(limit=10))).letters
    assert await store.queues.counts(DEFAULT, "checks") == Counts(dead=2)
    await store.close()
    assert all("CPU time" in str(letter.error) for letter in letters), letters
