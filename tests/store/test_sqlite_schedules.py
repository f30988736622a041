"""Schedules on SQLite: one writer at a time, with several processes on one file."""

import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from tests.conformance.acts import ALL, counts, make_queue, pull
from tests.conformance.schedule_acts import (
    MINUTE,
    again,
    create,
    created_due,
    delete,
    end,
    firings,
    lead,
    messages,
    new_schedule,
    one_plan,
    pause,
    plan_now,
    planned,
    resume,
    rule_of,
    slots,
    update,
    write,
)
from tests.kit.process import Arm, Children
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.decide import settle
from tickwork.core.message.outcome import Failed, Outcome, Succeeded
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Message, QueueSettings, Settlement
from tickwork.core.schedule import change as changing
from tickwork.core.schedule.change import Change
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.plan import PlanResult
from tickwork.core.schedule.shards import make_token
from tickwork.core.schedule.withdraw import Withdrawn, WithdrawScope
from tickwork.errors import Conflict
from tickwork.store.contract import Store
from tickwork.store.ids import SCHEDULES_TOPIC
from tickwork.store.sqlite.schedules.create import BULK_SCHEDULES

PLANNING = "tests.store.programs.plan"
PROCESSES = 3
SCHEDULES = 150
START_SECONDS_MAX = 60.0
WAKE_SECONDS_MAX = 30.0

pytestmark = pytest.mark.parametrize("home", ["sqlite"], indirect=True)


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    opened = await home.open(clock)
    await make_queue(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def other(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """The same file, opened by another process."""
    opened = await home.open(clock)
    yield opened
    await opened.close()


def execute(home: Home, statement: str) -> list[tuple[object, ...]]:
    path = home.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


async def test_a_plan_is_refused_once_another_process_has_the_shard(
    store: Store, other: Store, clock: VirtualClock
) -> None:
    made, leader, decided = await one_plan(store, clock)
    await other.nodes.leave(SYSTEM, leader.node)
    successor = await lead(other)
    assert await write(store, leader, [decided]) == PlanResult(lost=(0,))
    assert await messages(store, made) == []
    assert await write(other, successor, [decided]) == PlanResult(done=(0,))


async def test_a_shard_given_up_is_no_longer_led(store: Store, clock: VirtualClock) -> None:
    made, leader, decided = await one_plan(store, clock)
    await store.shards.give_up(SYSTEM, leader.node)
    assert await write(store, leader, [decided]) == PlanResult(lost=(0,))
    assert await messages(store, made) == []


async def test_a_plan_is_refused_once_another_process_has_changed_the_schedule(
    store: Store, other: Store, clock: VirtualClock
) -> None:
    made, leader, decided = await one_plan(store, clock)
    await update(other, made, priority=7)
    assert await write(store, leader, [decided]) == PlanResult(stale=(0,))
    assert await messages(store, made) == []


async def test_of_two_plans_for_one_schedule_in_a_call_one_counts(
    store: Store, clock: VirtualClock
) -> None:
    made, leader, decided = await one_plan(store, clock)
    later = structs.replace(decided, fires=(), then_slot=decided.next_slot)
    assert await write(store, leader, [decided, later]) == PlanResult(done=(0,), stale=(1,))
    assert (await again(store, made)).fired == 1


async def test_tokens_of_a_new_epoch_are_higher(home: Home, store: Store) -> None:
    before = await lead(store)
    await store.nodes.leave(SYSTEM, before.node)
    execute(home, "UPDATE tickwork_meta SET epoch = 3")
    after = await lead(store)
    assert {grant.token for grant in after.grants} == {make_token(3, 1)}
    await store.nodes.leave(SYSTEM, after.node)
    execute(home, "UPDATE tickwork_meta SET epoch = 0")
    assert {grant.token for grant in (await lead(store)).grants} == {make_token(3, 2)}


async def test_decide_is_called_on_the_writer_thread_inside_the_transaction(
    store: Store, clock: VirtualClock
) -> None:
    made = await created_due(store, clock)
    asked: list[str] = []

    def decide(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
        asked.append(threading.current_thread().name)
        return changing.pause(schedule, withdrawn, now)

    await store.schedules.change(DEFAULT, made.id, WithdrawScope.UNCLAIMED, decide)
    assert asked == ["tickwork-writer"]


async def test_withdrawn_slots_stay_if_nothing_is_decided(
    store: Store, clock: VirtualClock
) -> None:
    made = await created_due(store, clock)

    def fail(*_: object) -> Change:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        await store.schedules.change(DEFAULT, made.id, WithdrawScope.UNCLAIMED, fail)
    assert await again(store, made) == made
    await store.schedules.change(DEFAULT, made.id, WithdrawScope.UNCLAIMED, lambda *_: None)
    assert await again(store, made) == made
    assert len(await messages(store, made)) == 1


async def test_a_failing_change_is_rolled_back(store: Store, clock: VirtualClock) -> None:
    await create(store, clock, name="taken")
    made = await created_due(store, clock)

    def rename(schedule: Schedule, withdrawn: Sequence[Withdrawn], now: datetime) -> Change:
        return structs.replace(changing.pause(schedule, withdrawn, now), name="taken")

    before = await messages(store, made)
    with pytest.raises(Conflict, match="taken"):
        await store.schedules.change(DEFAULT, made.id, WithdrawScope.UNCLAIMED, rename)
    assert await again(store, made) == made
    assert await messages(store, made) == before


async def test_a_slot_that_is_a_message_already_stays_one_and_is_counted_once(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, "capped", backlog_bytes_max=1_000_000)
    made = [await create(store, clock, queue="capped", body=b"x" * 100) for _ in range(30)]
    clock.advance(seconds=30)
    leader = await lead(store)
    plans = await planned(store, clock, leader)
    await write(store, leader, plans)
    # As if a slot occurred again, which planning never does.
    for plan in plans[:10]:
        microseconds = round(plan.next_slot.timestamp() * 1_000_000)
        execute(
            home,
            f"UPDATE tickwork_schedules SET next_slot = {microseconds} WHERE id = x'{plan.id.hex}'",
        )
    result = await write(store, leader, plans)
    assert result.done == tuple(range(10))
    assert [len(await messages(store, schedule)) for schedule in made] == [1] * 30
    assert execute(home, "SELECT backlog_bytes FROM tickwork_queues WHERE name = 'capped'") == [
        (3_000,)
    ]


async def test_a_success_that_changes_nothing_does_not_write_the_schedule(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    made = await created_due(store, clock)
    (first,) = await pull(store)
    await end(store, first)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    execute(home, "CREATE TABLE written (id)")
    execute(
        home,
        "CREATE TRIGGER noted AFTER UPDATE ON tickwork_schedules "
        "BEGIN INSERT INTO written VALUES (new.id); END",
    )
    (second,) = await pull(store)
    await end(store, second)
    assert execute(home, "SELECT * FROM written") == []
    assert len(await firings(store, made)) == 2
    clock.advance(seconds=60)
    await plan_now(store, clock)
    execute(home, "DELETE FROM written")
    (third,) = await pull(store)
    await end(store, third, Failed("no"))
    assert execute(home, "SELECT * FROM written") == [(made.id.bytes,)]


async def test_outcomes_of_one_schedule_in_one_settlement_count_in_slot_order(
    store: Store, clock: VirtualClock
) -> None:
    made = await created_due(store, clock, interval_seconds=10, after_seconds=40)
    first, second, third, fourth = await pull(store)
    outcomes: dict[Message, Outcome] = {
        fourth: Failed("d"),
        second: Succeeded(),
        first: Failed("a"),
        third: Failed("c"),
    }
    endings = (settle(*pair, QueueSettings()) for pair in outcomes.items())
    await store.messages.settle(DEFAULT, Settlement(tuple(endings)))
    stands = await again(store, made)
    assert (stands.last_status, stands.last_error, stands.error_count) == ("failed", "d", 2)
    assert len(await firings(store, made)) == 4


async def test_the_last_slot_of_a_replaced_rule_does_not_complete_the_schedule(
    store: Store, clock: VirtualClock
) -> None:
    for outcome, retries in ((Succeeded(), 3), (Failed("no"), 0)):
        made = await created_due(store, clock, once_at=(clock.now() + MINUTE).isoformat())
        assert made.next_slot is None
        (claimed,) = await pull(store)
        anew = await update(store, made, rule_of(clock, made.id, interval_seconds=3_600))
        assert anew.next_slot is not None
        await end(store, claimed, outcome, max_retries=retries)
        stands = await again(store, made)
        assert (stands.status, stands.next_slot) == (ScheduleStatus.ACTIVE, anew.next_slot)
        await delete(store, made)


async def test_leaders_are_woken_by_schedules_that_are_due_soon(
    store: Store, clock: VirtualClock
) -> None:
    async with store.wakeups.watch([SCHEDULES_TOPIC]) as watch:
        await create(store, clock, interval_seconds=3_600)
        assert not await watch.wait(0)
        made = await create(store, clock, once_at=clock.now().isoformat())
        assert await watch.wait(WAKE_SECONDS_MAX)
        await pause(store, made)
        assert not await watch.wait(0)
        await update(store, await again(store, made), priority=1)
        assert not await watch.wait(0)
        await resume(store, made)
        leader = await lead(store)
        await store.shards.give_up(SYSTEM, leader.node)
        assert await watch.wait(WAKE_SECONDS_MAX)


async def test_a_message_marked_as_late_stays_late(store: Store, clock: VirtualClock) -> None:
    made = await created_due(store, clock, missed={"grace_seconds": 5})
    clock.advance(seconds=6)
    (claimed,) = await pull(store)
    found = await messages(store, made)
    assert [(message.id, message.catch_up) for message in found if message.claim] == [
        (claimed.id, True)
    ]
    await end(store, claimed)
    assert [firing.catch_up for firing in await firings(store, made)] == [True]


async def test_a_sweep_is_bounded_and_reaches_all_schedules(
    store: Store, clock: VirtualClock
) -> None:
    once = (clock.now() + MINUTE).isoformat()
    made = [await create(store, clock, once_at=once) for _ in range(7)]
    clock.advance(seconds=60)
    await plan_now(store, clock)
    last = made[-1]
    (message,) = await messages(store, last)
    await store.messages.delete(DEFAULT, "work", message.id)
    swept = [await store.schedules.sweep(SYSTEM, 2) for _ in range(4)]
    assert swept == [0, 0, 0, 1]
    stands = [(await again(store, schedule)).status for schedule in made]
    assert stands == [ScheduleStatus.ACTIVE] * 6 + [ScheduleStatus.COMPLETED]
    assert [await store.schedules.sweep(SYSTEM, 2) for _ in range(4)] == [0] * 4


async def test_a_pause_withdraws_more_slots_than_one_statement_takes(
    store: Store, clock: VirtualClock
) -> None:
    made = await created_due(store, clock, interval_seconds=1, after_seconds=30)
    assert len(await slots(store, made)) == 60
    stands = await pause(store, made)
    assert await messages(store, made) == []
    assert (stands.fired, stands.last_slot) == (0, None)
    assert stands.next_slot == clock.now() - timedelta(seconds=29)
    assert await counts(store) == Counts()


async def test_a_chunk_of_a_bulk_create_is_stored_completely_or_not_at_all(
    store: Store, clock: VirtualClock
) -> None:
    await create(store, clock, name="taken")
    pieces = [new_schedule(clock) for _ in range(BULK_SCHEDULES + 500)]
    pieces[-300] = structs.replace(pieces[-300], name="taken")
    with pytest.raises(Conflict):
        await store.schedules.create_bulk(DEFAULT, pieces)
    clock.advance(seconds=60)
    leader = await lead(store)
    assert len(await store.schedules.due(SYSTEM, leader.shards, 10 * ALL)) == BULK_SCHEDULES + 1


async def test_several_processes_plan_each_slot_once(
    home: Home, children: Children, clock: VirtualClock
) -> None:
    real = await home.open()
    await make_queue(real)
    new = [new_schedule(clock, once_at=clock.now().isoformat()) for _ in range(SCHEDULES)]
    await real.schedules.create_bulk(DEFAULT, new)
    path = Path(home.url.removeprefix("sqlite:///"))
    planning = [
        children.spawn(PLANNING, path, str(SCHEDULES), arms=[Arm("ready", "pause")])
        for _ in range(PROCESSES)
    ]
    for child in planning:
        await child.reached("ready", START_SECONDS_MAX)
    for child in planning:
        child.release("ready")
    for child in planning:
        await child.succeeded(START_SECONDS_MAX)
    lines = [line.split() for child in planning for line in child.lines()]
    assert sum(int(number) for what, number in lines if what == "planned") == SCHEDULES
    assert await counts(real) == Counts(ready=SCHEDULES)
    assert max(shard.token for shard in await real.shards.list(SYSTEM)) > 1, "nothing moved"
    await real.close()
