"""Leaders, changes and settlements at the same schedules on PostgreSQL: the fences hold, and
nothing deadlocks."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from tests.conformance.acts import ALL, WORK, ack_all, make_queue, pull
from tests.conformance.barriers import CLAIM, SEND, barrier, rival
from tests.conformance.schedule_acts import (
    again,
    create,
    created_due,
    end,
    end_next,
    firings,
    in_shard,
    lead,
    look,
    messages,
    new_schedule,
    one_plan,
    pause,
    plan_all,
    planned,
    resume,
    shard_of_schedule,
    slots,
    trigger,
    update,
    write,
)
from tests.kit.waiting import eventually
from tests.store.test_postgres_locks import keys_left, two_without_deadlocks
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.outcome import Failed, Permanent
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.schedule.model import OnDead, OverlapPolicy, Schedule, ScheduleStatus
from tickwork.errors import Conflict
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

TAKE_SHARD = "UPDATE tickwork_shards SET token = token + 1 WHERE shard = $1"
NOTE = (
    "UPDATE ON tickwork_schedules FOR EACH ROW "
    "WHEN (NEW.last_status IS DISTINCT FROM OLD.last_status)"
)
PAUSE = "UPDATE ON tickwork_schedules FOR EACH ROW WHEN (NEW.status = 'paused')"
ANSWERED_SECONDS = 0.5
ROUNDS = 4
SCHEDULES = 16


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """A store on the database, in virtual time."""
    opened = await home.open(clock)
    yield opened
    await opened.close()


async def test_a_plan_that_waited_for_a_new_leader_is_lost(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """Checking the token once is not enough: it was valid when the plan started."""
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    async with rival(home.url) as taker:
        await taker.does(TAKE_SHARD, shard_of_schedule(made))
        planning = asyncio.create_task(write(store, leader, [decided]))
        await eventually(taker.is_waited_for, what="the plan waits for the taker")
        await taker.commits()
        result = await planning
    assert (result.done, result.lost) == ((), (0,))
    assert await messages(store, made) == []
    assert await again(store, made) == made


async def test_taking_a_shard_waits_for_a_running_plan(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    async with barrier(home.url, before=SEND) as stop, rival(home.url) as taker:
        planning = asyncio.create_task(write(store, leader, [decided]))
        await stop.reached()
        taking = asyncio.create_task(taker.does(TAKE_SHARD, shard_of_schedule(made)))
        assert not await stop.is_passed_by(taking)
        await stop.opens()
        assert (await planning).done == (0,)
        await taking
        await taker.commits()
    assert (await write(store, leader, [decided])).lost == (0,)
    assert len(await messages(store, made)) == 1


async def test_a_pause_withdraws_messages_of_a_concurrent_plan(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    async with barrier(home.url, before=SEND) as stop:
        planning = asyncio.create_task(write(store, leader, [decided]))
        await stop.reached()
        pausing = asyncio.create_task(pause(store, made))
        assert not await stop.is_passed_by(pausing)
        await stop.opens()
        assert (await planning).done == (0,)
        paused = await pausing
    assert (paused.status, paused.next_slot) == (ScheduleStatus.PAUSED, made.next_slot)
    assert (paused.fired, await messages(store, made)) == (0, [])


async def test_a_plan_that_waited_for_a_change_is_stale(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    async with barrier(home.url, before=PAUSE) as stop:
        pausing = asyncio.create_task(pause(store, made))
        await stop.reached()
        planning = asyncio.create_task(write(store, leader, [decided]))
        assert not await stop.is_passed_by(planning)
        await stop.opens()
        await pausing
        assert (await planning).stale == (0,)
    assert await messages(store, made) == []


async def test_a_plan_is_stale_after_a_change_and_its_reversal(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """The next slot is the same again; the version is not."""
    assert home.kind == "postgres"
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock)
    await resume(store, await pause(store, made))
    assert (await again(store, made)).next_slot == decided.next_slot
    assert (await write(store, leader, [decided])).stale == (0,)


async def test_a_message_that_is_being_claimed_is_not_withdrawn(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    async with barrier(home.url, before=CLAIM) as stop:
        pulling = asyncio.create_task(pull(store))
        await stop.reached()
        pausing = asyncio.create_task(pause(store, made))
        await stop.opens()
        ((claimed,), paused) = await asyncio.gather(pulling, pausing)
    assert (paused.status, paused.fired) == (ScheduleStatus.PAUSED, made.fired)
    assert await slots(store, made) == [claimed.slot]
    assert paused.next_slot == made.next_slot


async def test_a_message_whose_claim_was_rolled_back_is_withdrawn(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    async with rival(home.url) as other:
        await other.does("SELECT FROM tickwork_messages FOR UPDATE")
        pausing = asyncio.create_task(pause(store, made))
        done, _ = await asyncio.wait([pausing], timeout=ANSWERED_SECONDS)
        assert not done
        await other.commits()
        paused = await pausing
    assert (await messages(store, made), paused.fired) == ([], 0)


async def test_a_settlement_and_a_change_lock_the_key_first(
    home: Home, clock: VirtualClock
) -> None:
    """Both need the key of buffered slots, and the schedule."""
    async with two_without_deadlocks(home, clock) as (store, other):
        await make_queue(store)
        made = await created_due(
            store, clock, overlap=OverlapPolicy.BUFFER_ALL, interval_seconds=20
        )
        (head,) = await pull(store)
        async with barrier(home.url, before=NOTE) as stop:
            ending = asyncio.create_task(end(store, head))
            await stop.reached()
            pausing = asyncio.create_task(pause(other, made))
            assert not await stop.is_passed_by(pausing)
            await stop.opens()
            await asyncio.gather(ending, pausing)
        assert await messages(store, made) == []


async def test_concurrent_creates_with_one_idempotency_key_make_one_schedule(
    home: Home, clock: VirtualClock
) -> None:
    async with two_without_deadlocks(home, clock) as (store, other):
        await make_queue(store)
        keys = [f"key-{number}" for number in range(SCHEDULES)]

        async def make(opened_store: Store, wanted: list[str]) -> list[Schedule]:
            new = [
                new_schedule(clock, idempotency_key=key, fingerprint=b"a", name=f"name of {key}")
                for key in wanted
            ]
            return list(await opened_store.schedules.create(DEFAULT, new))

        first, second = await asyncio.gather(make(store, keys), make(other, keys[::-1]))
        assert first == second[::-1]
        new = [new_schedule(clock, name="taken") for _ in range(2)]
        made = await asyncio.gather(
            *(
                opened_store.schedules.create(DEFAULT, [one])
                for opened_store, one in zip((store, other), new, strict=True)
            ),
            return_exceptions=True,
        )
        assert sorted(isinstance(answer, Conflict) for answer in made) == [False, True]


async def test_two_nodes_that_believe_they_lead_plan_each_slot_once(
    home: Home, clock: VirtualClock
) -> None:
    async with two_without_deadlocks(home, clock) as (store, other):
        await make_queue(store)
        made = [await create(store, clock) for _ in range(SCHEDULES)]
        leader = await lead(store)
        clock.advance(seconds=60)
        for _ in range(ROUNDS):
            plans = await planned(store, clock, leader)
            results = await asyncio.gather(
                write(store, leader, plans), write(other, leader, plans[::-1])
            )
            assert sum(len(result.done) for result in results) == len(plans)
            clock.advance(seconds=60)
        for schedule in made:
            found = await slots(store, schedule)
            assert len(found) == len(set(found)) == (await again(store, schedule)).fired


@pytest.mark.parametrize("overlap", [OverlapPolicy.ALLOW, OverlapPolicy.BUFFER_ALL])
async def test_no_slot_is_lost_or_doubled_under_concurrent_operations(
    home: Home, clock: VirtualClock, overlap: OverlapPolicy
) -> None:
    """Concurrent plans, changes, settlements, expiries and purges of the same schedules, without a
    deadlock."""
    async with two_without_deadlocks(home, clock) as (store, other):
        await make_queue(store)
        made = [
            await create(
                store,
                clock,
                overlap=overlap,
                interval_seconds=15,
                on_dead=OnDead.PAUSE if number % 2 else OnDead.CONTINUE,
                expires_after_seconds=50 if number % 3 == 0 else None,
            )
            for number in range(SCHEDULES)
        ]
        leader = await lead(store)

        async def plan_some() -> None:
            for _ in range(3):
                await write(store, leader, await planned(store, clock, leader))

        async def change_some(opened_store: Store) -> None:
            for schedule in made:
                paused = await pause(opened_store, schedule)
                if paused.definition.rule == schedule.definition.rule:
                    await update(opened_store, paused)
                await resume(opened_store, paused)

        async def end_some(opened_store: Store) -> None:
            outcomes = (None, Failed("no"), Permanent("never"))
            for _ in range(3):
                claimed = await pull(opened_store, limit=SCHEDULES // 2)
                for number, message in enumerate(claimed):
                    await end(opened_store, message, outcomes[number % 3])

        for number in range(ROUNDS):
            clock.advance(seconds=20)
            await asyncio.gather(
                plan_some(),
                change_some(store),
                change_some(other),
                end_some(store),
                end_some(other),
                other.reaper.reap(SYSTEM, ALL),
                *([other.queues.purge(DEFAULT, WORK)] if number == ROUNDS - 2 else []),
            )
        for schedule in made:
            await pause(store, schedule)
            ended = {firing.slot for firing in await firings(store, schedule) if firing.attempt > 0}
            assert ended.isdisjoint(await fresh(store, schedule))
        clock.advance(seconds=3_600)
        while await ack_all(store):
            pass
        await store.reaper.reap(SYSTEM, ALL)
        assert await keys_left(home.url) == 0


async def fresh(store: Store, schedule: Schedule) -> list[datetime]:
    """The slots of messages that were never claimed."""
    return [
        message.slot
        for message in await messages(store, schedule)
        if message.claim == 0 and message.slot
    ]


async def test_a_dead_firing_that_pauses_withdraws_planned_slots(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    assert home.kind == "postgres"
    await make_queue(store)
    made = await created_due(
        store, clock, on_dead=OnDead.PAUSE, overlap=OverlapPolicy.BUFFER_ALL, interval_seconds=20
    )
    there = await slots(store, made)
    await end_next(store, Permanent("never"))
    paused = await again(store, made)
    assert (paused.status, paused.next_slot) == (ScheduleStatus.PAUSED, there[1])
    assert (paused.fired, paused.last_slot, paused.look_at) == (1, there[0], None)
    assert (await messages(store, made), await keys_left(home.url)) == ([], 0)
    await resume(store, paused)
    leader = await lead(store)
    await plan_all(store, clock, leader)


async def test_a_trigger_during_a_plan_counts_both(home: Home, clock: VirtualClock) -> None:
    async with two_without_deadlocks(home, clock) as (store, other):
        await make_queue(store)
        made = await create(store, clock)
        leader = await lead(store)
        clock.advance(seconds=60)
        await asyncio.gather(*(trigger(opened_store, made) for opened_store in (store, other) * 5))
        await plan_all(store, clock, leader)
        found = await messages(store, made)
        assert sorted(message.run for message in found if message.run) == list(range(1, 11))
        assert (await again(store, made)).runs == 10


async def test_a_stale_plan_leaves_no_key_blocked(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made, leader, decided = await one_plan(store, clock, overlap=OverlapPolicy.BUFFER_ALL)
    async with rival(home.url) as other:
        await other.does("UPDATE tickwork_schedules SET version = version + 1")
        planning = asyncio.create_task(write(store, leader, [decided]))
        await eventually(other.is_waited_for, what="the plan waits for the change")
        await other.commits()
        assert (await planning).stale == (0,)
    assert (await messages(store, made), await keys_left(home.url)) == ([], 0)


async def test_due_schedules_are_soonest_first_even_if_one_shard_has_most_of_them(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """One query reads a part of each shard, and a second one is needed if that was too little."""
    assert home.kind == "postgres"
    await make_queue(store)
    limit = 50
    crowd = [
        await create(store, clock, schedule_id=in_shard(3), interval_seconds=60 + number)
        for number in range(limit + 5)
    ]
    for shard in range(8, 40):
        await create(store, clock, schedule_id=in_shard(shard), interval_seconds=300)
    leader = await lead(store)
    clock.advance(seconds=600)
    found = await look(store, leader, limit=limit)
    assert [schedule.id for schedule in found] == [schedule.id for schedule in crowd[:limit]]
    assert len(await look(store, leader)) == len(crowd) + 32
