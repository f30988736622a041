"""The alarm of an entity: one at a time, retried, consumed by its handler's commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from tests.conformance.acts import TTL_SECONDS, claim, dead, join, settle
from tickwork import Entity, InvalidInput, Permanent, read
from tickwork.core.entity.call import queue_of
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, LOST_CLAIMS_MAX, REASON_WORKER_LOST, SYSTEM
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

SECOND, START = timedelta(seconds=1), datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
SLEEPERS = queue_of("Sleeper")


class Sleeper(Entity):
    """Notes its alarms in its storage. What fails notes in memory, which is not rolled back."""

    failures: int = 0
    seen: list[Any]
    entered: ClassVar[asyncio.Event]
    leave: ClassVar[asyncio.Event]

    async def wake_in(self, seconds: float) -> None:
        await self.set_alarm(self.now + seconds * SECOND)

    async def wake_at(self, at: Any) -> None:
        await self.set_alarm(datetime.fromisoformat(at))

    async def forget(self) -> None:
        await self.delete_alarm()

    async def clear(self) -> None:
        await self.storage.delete_all()

    async def clear_and_wake_in(self, seconds: float) -> None:
        await self.storage.delete_all()
        await self.wake_in(seconds)

    async def wake_in_and_fail(self, seconds: float) -> None:
        await self.wake_in(seconds)
        raise ValueError("no")

    async def touch(self) -> None:
        await self.storage.put("touched", value=True)

    async def touch_slowly(self) -> None:
        self.entered.set()
        await self.leave.wait()
        await self.touch()

    @read
    async def alarm_in(self) -> float | None:
        at = await self.get_alarm()
        return None if at is None else (at - START).total_seconds()

    @read
    async def rung(self) -> Any:
        return await self.storage.get("rung", [])

    async def alarm(self, info: Any) -> None:
        at = (self.now - START).total_seconds()
        self.seen.append((at, info.retries, info.late_seconds, await self.get_alarm()))
        await self.storage.put("rung", [*await self.storage.get("rung", []), at])
        if type(self).failures > 0:
            type(self).failures -= 1
            await self.set_alarm(self.now + 1000 * SECOND)
            raise ValueError("not now")
        if type(self).failures < 0:
            raise Permanent("never")
        if again := await self.storage.get("again"):
            await self.set_alarm(self.now + again * SECOND)

    async def again(self, seconds: float) -> None:
        await self.storage.put("again", seconds)
        await self.wake_in(seconds)


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    app.queue("events")
    app.queue("starts")

    @app.on("starts")
    async def start(message: Any) -> None:
        await app.entity(Sleeper, message.body).again(10)

    app.entities.register(Sleeper)
    Sleeper.failures, Sleeper.seen = 0, []
    Sleeper.entered, Sleeper.leave = asyncio.Event(), asyncio.Event()
    async with harness(app, database=database, start=START) as made:
        yield made


async def test_an_alarm_fires_once_at_its_time(app: Tickwork, h: Harness) -> None:
    sleeper = app.entity(Sleeper, "a")
    await sleeper.wake_in(60)
    await h.advance(seconds=59)
    assert (await sleeper.rung(), await sleeper.alarm_in()) == ([], 60)
    await h.advance(days=2)
    assert (await sleeper.rung(), await sleeper.alarm_in()) == ([60], None)
    assert Sleeper.seen == [(60, 0, 0.0, None)]


async def test_the_last_alarm_that_was_set_counts(app: Tickwork, h: Harness) -> None:
    sleeper = app.entity(Sleeper, "a")
    for seconds in (60, 10, 30):
        await sleeper.wake_in(seconds)
    with pytest.raises(ValueError, match="no"):
        await sleeper.wake_in_and_fail(5)
    assert len(await h.sent(SLEEPERS)) == 1  # The messages of the others are gone.
    await h.advance(days=1)
    assert await sleeper.rung() == [30]
    await sleeper.wake_in(10)
    await sleeper.forget()
    await sleeper.wake_in(20)
    await sleeper.clear()
    await h.advance(days=1)
    assert (await sleeper.rung(), len(Sleeper.seen)) == ([], 1)


async def test_delete_all_removes_the_alarm_but_not_one_that_is_set_after_it(
    app: Tickwork, h: Harness
) -> None:
    sleeper = app.entity(Sleeper, "a")
    await sleeper.wake_in(10)
    await sleeper.clear_and_wake_in(20)
    await h.advance(minutes=1)
    assert await sleeper.rung() == [20]


async def test_a_time_in_the_past_is_now_and_its_handler_is_told_how_late(
    app: Tickwork, h: Harness
) -> None:
    sleeper = app.entity(Sleeper, "a")
    await sleeper.wake_in(-5)
    assert await sleeper.alarm_in() == 0
    await h.drain()
    assert Sleeper.seen == [(0, 0, 0.0, None)]
    await app.entities.set_alarm("Sleeper", "a", START - timedelta(days=1))
    assert await app.entities.get_alarm("Sleeper", "a") == START
    await sleeper.forget()
    await sleeper.wake_in(60)
    await h.outage(hours=1)
    await h.drain()
    assert Sleeper.seen[1:] == [(3600, 0, 3540.0, None)]


async def test_a_handler_sets_the_next_alarm(app: Tickwork, h: Harness) -> None:
    sleeper = app.entity(Sleeper, "a")
    await sleeper.again(10)
    await h.advance(seconds=35)
    assert (await sleeper.rung(), await sleeper.alarm_in()) == ([10, 20, 30], 40)


async def test_alarms_keep_the_correlation_and_are_no_chain_of_hops(
    app: Tickwork, h: Harness
) -> None:
    await app.queue("starts").send("a", correlation_id="story")
    await h.advance(seconds=35)
    alarms = [sent.message for sent in await h.sent(SLEEPERS)]
    assert [(alarm.correlation_id, alarm.hops) for alarm in alarms] == [("story", 0)] * 4


async def test_a_failing_handler_is_rolled_back_and_retried_while_calls_go_on(
    app: Tickwork, h: Harness
) -> None:
    sleeper = app.entity(Sleeper, "a")
    await sleeper.wake_in(10)
    Sleeper.failures = 3
    await h.advance(seconds=11)
    assert (await sleeper.rung(), await sleeper.alarm_in()) == ([], 10)  # As it was first set.
    await sleeper.touch()  # The waiting retry blocks no call, and a call leaves it alone.
    await h.advance(seconds=30)
    assert (await sleeper.rung(), await sleeper.alarm_in()) == ([24], None)
    assert [seen[:2] for seen in Sleeper.seen] == [(10, 0), (12, 1), (16, 2), (24, 3)]


async def test_a_call_replaces_or_cancels_the_retry_of_an_alarm(app: Tickwork, h: Harness) -> None:
    sleeper = app.entity(Sleeper, "a")
    Sleeper.failures = 2
    await sleeper.wake_in(0)
    await h.advance(seconds=1)
    await sleeper.forget()
    await h.advance(minutes=1)
    await sleeper.wake_in(0)
    await h.advance(seconds=1)
    await sleeper.wake_in(60)
    await h.advance(minutes=5)
    assert await sleeper.rung() == [1 + 60 + 1 + 60]


@pytest.mark.parametrize(("failures", "attempts"), [(7, 7), (-1, 1)])
async def test_an_alarm_that_used_up_its_retries_is_a_dead_letter_that_can_be_replayed(
    app: Tickwork, h: Harness, failures: int, attempts: int
) -> None:
    await h.store.subscriptions.put(DEFAULT, "entity.alarm_dead", "events")
    sleeper = app.entity(Sleeper, "a")
    await sleeper.wake_in(10)
    Sleeper.failures = failures
    await h.advance(minutes=10)
    (dead,) = (await h.store.dead_letters.list(SYSTEM, SLEEPERS, Selection(limit=10))).letters
    assert (dead.attempts, len(Sleeper.seen)) == (attempts, attempts)
    assert (await sleeper.rung(), await sleeper.alarm_in()) == ([], None)
    (event,) = await h.sent("events")
    assert (event.message.type, event.body["entity"], event.body["key"]) == (
        "entity.alarm_dead",
        "Sleeper",
        "a",
    )
    Sleeper.failures = 0
    await app.dead_letters.replay(SLEEPERS)
    await h.advance(seconds=1)
    assert (len(await sleeper.rung()), await sleeper.alarm_in()) == (1, None)


async def test_an_alarm_that_kills_its_workers_is_dead_and_reported_like_any_other(
    app: Tickwork, h: Harness
) -> None:
    await h.store.subscriptions.put(DEFAULT, "entity.alarm_dead", "events")
    sleeper = app.entity(Sleeper, "a/b")
    await sleeper.wake_in(0)
    for _ in range(LOST_CLAIMS_MAX):
        node = await join(h.store)
        for separate in (False, True):
            await claim(h.store, node, queue=SLEEPERS, scope=SYSTEM, separate=separate)
        h._clock.advance(seconds=TTL_SECONDS)
        await h.store.reaper.reap(SYSTEM, 100)
    (event,) = await h.sent("events")
    assert (event.body["key"], event.body["reason"]) == ("a/b", REASON_WORKER_LOST)
    assert (await sleeper.rung(), await sleeper.alarm_in()) == ([], None)
    await app.dead_letters.replay(SLEEPERS)
    await h.advance(seconds=1)
    assert len(await sleeper.rung()) == 1


async def test_an_alarm_that_dies_during_a_call_is_not_set_again_by_its_commit(
    app: Tickwork, h: Harness
) -> None:
    sleeper = app.entity(Sleeper, "a")
    await sleeper.wake_in(0)
    touching = asyncio.ensure_future(sleeper.touch_slowly())
    await Sleeper.entered.wait()
    (message,) = await claim(h.store, await join(h.store), queue=SLEEPERS, scope=SYSTEM)
    await settle(h.store, dead(message, reason=REASON_WORKER_LOST), scope=SYSTEM)
    Sleeper.leave.set()
    await touching
    assert await sleeper.alarm_in() is None
    await app.dead_letters.replay(SLEEPERS)
    await h.advance(seconds=1)
    assert len(await sleeper.rung()) == 1


@pytest.mark.parametrize("at", ["2026-03-02T08:30:00", "2027-03-04T08:30:00Z"])
async def test_a_wrong_time_is_refused(app: Tickwork, h: Harness, at: str) -> None:
    with pytest.raises(InvalidInput, match="at: must"):
        await app.entity(Sleeper, "a").wake_at(at)
    assert await h.sent(SLEEPERS) == []


async def test_many_alarms_at_one_time_all_fire(app: Tickwork, h: Harness) -> None:
    await asyncio.gather(*(app.entity(Sleeper, str(number)).wake_in(10) for number in range(20)))
    await h.advance(seconds=11)
    assert [seen[0] for seen in Sleeper.seen] == [10] * 20
