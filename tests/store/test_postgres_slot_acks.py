"""Successes of slots on PostgreSQL, many in one statement, are correct under concurrency and do not
deadlock."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.conformance.acts import make_queue, pull
from tests.conformance.barriers import rival
from tests.conformance.schedule_acts import (
    again,
    create,
    created_due,
    end,
    end_next,
    firings,
    plan_now,
)
from tests.kit.waiting import eventually
from tests.store.test_postgres_locks import two_without_deadlocks
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message import decide
from tickwork.core.message.outcome import Failed, Succeeded
from tickwork.core.model import SYSTEM, Message, QueueSettings, Settlement
from tickwork.core.schedule.model import Schedule
from tickwork.core.schedule.slot_outcome import AFTER_SUCCESS, LastOutcome
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

FAIL = "UPDATE tickwork_schedules SET error_count = 3, last_error = 'no', last_status = 'failed'"
SCHEDULES = 24
ROUNDS, SLOTS_A_ROUND = 6, 2


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """A store on the database, in virtual time."""
    opened = await home.open(clock)
    yield opened
    await opened.close()


async def test_a_success_that_waited_for_another_settlement_is_shown(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """Applied to the schedule as it is then, not as it was when the settlement started."""
    await make_queue(store)
    made = await created_due(store, clock)
    (message,) = await pull(store)
    async with rival(home.url) as other:
        await other.does(FAIL)
        ending = asyncio.create_task(end(store, message))
        await eventually(other.is_waited_for, what="the end waits for its schedule")
        await other.commits()
        assert (await ending).refused == ()
    assert shown(await again(store, made)) == AFTER_SUCCESS


async def test_a_further_success_takes_no_lock_on_the_schedule(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """A concurrent settlement of another slot comes after it."""
    await make_queue(store)
    made = await created_due(store, clock)
    await end_next(store)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    (message,) = await pull(store)
    async with rival(home.url) as other:
        await other.does(FAIL)
        assert (await end(store, message)).refused == ()
        await other.commits()
    assert shown(await again(store, made)) == LastOutcome(3, "no", "failed")
    assert len(await firings(store, made)) == 2


async def test_concurrent_settlements_of_the_same_schedules_do_not_deadlock(
    home: Home, clock: VirtualClock
) -> None:
    async with two_without_deadlocks(home, clock) as (store, other):
        await make_queue(store)
        made = [await create(store, clock, interval_seconds=30) for _ in range(SCHEDULES)]
        for _ in range(ROUNDS):
            clock.advance(seconds=60)
            await plan_now(store, clock)
            claimed = await pull(store, limit=SCHEDULES * 4)
            early, late = claimed[: len(claimed) // 2], claimed[len(claimed) // 2 :]
            await asyncio.gather(
                *(end(store, message, Failed("no"), max_retries=0) for message in early[::5]),
                settle([message for message in early if message not in early[::5]], store),
                settle(late[::-1], other),
            )
        for schedule in made:
            found = [firing.slot for firing in await firings(store, schedule) if firing.attempt]
            assert len(found) == len({*found}) == ROUNDS * SLOTS_A_ROUND


async def test_repeated_successes_are_recorded_once(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    made = [await create(store, clock) for _ in range(3)]
    clock.advance(seconds=60)
    await plan_now(store, clock)
    claimed = await pull(store, limit=3)
    await end(store, claimed[0])
    await settle(claimed, store)
    await settle([*claimed, *claimed], store)
    for schedule in made:
        assert [firing.status for firing in await firings(store, schedule)] == ["succeeded"]
        assert shown(await again(store, schedule)) == AFTER_SUCCESS


async def settle(messages: Sequence[Message], store: Store) -> None:
    """Acks all of them as succeeded."""
    endings = [
        decide.settle(message, Succeeded(), QueueSettings(), took_seconds=0.0)
        for message in messages
    ]
    await store.messages.settle(SYSTEM, Settlement(tuple(endings)))


def shown(schedule: Schedule) -> LastOutcome:
    return LastOutcome(schedule.error_count, schedule.last_error, schedule.last_status)
