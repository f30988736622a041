"""A schedule's slots are copied to subscribers when they are planned, and withdrawn with them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import ALL, WORK, counts, make_queue, make_tenants, pull
from tests.conformance.schedule_acts import (
    change,
    create,
    created_due,
    delete,
    end,
    messages,
    one_plan,
    pause,
    plan_now,
    rule_of,
    trigger,
    update,
    write,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.outcome import Permanent
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Scope
from tickwork.core.schedule import change as changing
from tickwork.core.schedule.model import OnDead, OverlapPolicy, Schedule
from tickwork.core.schedule.plan import PlanResult
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

AUDIT = "audit"
TYPE = "report.wanted"


async def subscribe(
    store: Store, types: str = "report.*", *, scope: Scope = DEFAULT, **settings: Any
) -> None:
    """Makes both queues and subscribes `audit`."""
    await make_queue(store)
    await make_queue(store, AUDIT, scope=scope, **settings)
    await store.subscriptions.put(scope, types, AUDIT)


async def waiting(store: Store) -> int:
    """The number of copies that no worker has claimed."""
    found = await counts(store, AUDIT)
    return found.ready + found.delayed


async def test_a_slot_is_copied_and_its_copy_becomes_visible_when_it_is_due(
    store: Store, clock: VirtualClock
) -> None:
    await subscribe(store)
    _, leader, decided = await one_plan(
        store, clock, type=TYPE, priority=7, body=b'"hello"', idempotency_key="k"
    )
    await write(store, leader, [decided])
    assert await pull(store, queue=AUDIT) == ()
    clock.advance(seconds=30)
    (message,) = await pull(store)
    (copy,) = await pull(store, queue=AUDIT)
    for name in ("tenant", "body", "type", "source", "priority", "visible_at", "sent_at"):
        assert getattr(copy, name) == getattr(message, name), name
    assert copy.idempotency_key == message.idempotency_key is not None
    assert (copy.schedule_id, copy.slot, copy.due_at, copy.terms) == (None, None, None, None)


@pytest.mark.parametrize("overlap", OverlapPolicy)
async def test_every_slot_is_copied_once_whatever_its_overlap_policy(
    store: Store, clock: VirtualClock, overlap: OverlapPolicy
) -> None:
    await subscribe(store)
    made = await created_due(store, clock, after_seconds=60, type=TYPE, overlap=overlap)
    await plan_now(store, clock)
    assert len(await messages(store, made)) == 1
    (copy,) = await pull(store, queue=AUDIT)
    assert copy.key is None


async def test_a_plan_that_is_stale_copies_nothing(store: Store, clock: VirtualClock) -> None:
    await subscribe(store)
    _, leader, decided = await one_plan(store, clock, type=TYPE)
    for expected in (PlanResult(done=(0,)), PlanResult(stale=(0,))):
        assert await write(store, leader, [decided]) == expected
        assert await waiting(store) == 1


async def test_extra_runs_are_copied_as_well(store: Store, clock: VirtualClock) -> None:
    await subscribe(store)
    made = await create(store, clock, type=TYPE)
    await trigger(store, made)
    await trigger(store, made)
    keys = {copy.idempotency_key for copy in await pull(store, queue=AUDIT)}
    assert keys == {message.idempotency_key for message in await messages(store, made)}
    assert len(keys) == 2


async def test_slots_are_copied_only_to_subscribers_of_their_type_and_tenant(
    store: Store, clock: VirtualClock
) -> None:
    (other,) = await make_tenants(store, "other")
    await subscribe(store, "invoice.*")
    await make_queue(store, "own")
    await store.subscriptions.put(DEFAULT, "report.*", "own")
    await store.subscriptions.put(DEFAULT, "report.*", WORK)
    await make_queue(store, "strange", scope=other)
    await store.subscriptions.put(other, "report.*", "strange")
    await make_queue(store, "shared", scope=SYSTEM)
    await store.subscriptions.put(SYSTEM, "*", "shared")
    made = await created_due(store, clock, type=TYPE)
    assert len(await messages(store, made)) == 1
    assert await counts(store, WORK) == Counts(ready=1)
    assert await counts(store, AUDIT) == Counts()
    assert await counts(store, "own") == Counts(ready=1)
    assert await counts(store, "strange", scope=other) == Counts()
    assert await counts(store, "shared", scope=SYSTEM) == Counts(ready=1)


async def test_schedules_of_many_tenants_planned_together_are_copied_to_their_own_subscribers(
    store: Store, clock: VirtualClock
) -> None:
    tenants = await make_tenants(store, *(f"tenant-{number}" for number in range(4)))
    for number, scope in enumerate(tenants):
        await make_queue(store, scope=scope)
        await make_queue(store, AUDIT, scope=scope)
        if number % 2:
            await store.subscriptions.put(scope, TYPE, AUDIT)
        for _ in range(3):
            await create(store, clock, scope=scope, type=TYPE)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    for number, scope in enumerate(tenants):
        assert await counts(store, scope=scope) == Counts(ready=3)
        assert await counts(store, AUDIT, scope=scope) == Counts(ready=3 * (number % 2))


async def change_rule(store: Store, clock: VirtualClock, schedule: Schedule) -> Schedule:
    return await update(store, schedule, rule_of(clock, schedule.id, interval_seconds=3_600))


WAYS: dict[str, Callable[[Store, VirtualClock, Schedule], Awaitable[Schedule]]] = {
    "update": change_rule,
    "pause": lambda store, _, schedule: pause(store, schedule),
    "delete": lambda store, _, schedule: delete(store, schedule),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("overlap", [OverlapPolicy.ALLOW, OverlapPolicy.BUFFER_ALL])
async def test_a_slot_that_is_withdrawn_takes_its_copies_along(
    store: Store, clock: VirtualClock, way: str, overlap: OverlapPolicy
) -> None:
    await subscribe(store, backlog_bytes_max=1_000_000)
    made = await created_due(store, clock, after_seconds=30, type=TYPE, overlap=overlap)
    assert (len(await messages(store, made)), await waiting(store)) == (1, 1)
    await WAYS[way](store, clock, made)
    assert (len(await messages(store, made)), await waiting(store)) == (0, 0)
    clock.advance(seconds=120)
    await plan_now(store, clock)
    assert await pull(store, queue=AUDIT) == ()


async def test_an_updated_slot_is_copied_with_its_new_fields_only(
    store: Store, clock: VirtualClock
) -> None:
    await subscribe(store)
    made = await created_due(store, clock, after_seconds=30, type=TYPE, body=b'"old"')
    await update(store, made, body=b'"new"')
    await plan_now(store, clock)
    clock.advance(seconds=30)
    assert [copy.body for copy in await pull(store, queue=AUDIT)] == [b'"new"']


async def test_a_due_slot_keeps_its_copy_after_an_update(store: Store, clock: VirtualClock) -> None:
    await subscribe(store)
    made = await created_due(store, clock, type=TYPE)
    await change_rule(store, clock, made)
    assert (len(await messages(store, made)), await waiting(store)) == (1, 1)


async def test_a_copy_that_a_worker_has_claimed_stays(store: Store, clock: VirtualClock) -> None:
    await subscribe(store)
    made = await created_due(store, clock, type=TYPE)
    (copy,) = await pull(store, queue=AUDIT)
    await pause(store, made)
    assert await messages(store, made) == []
    assert (await end(store, copy)).refused == ()


async def test_a_dead_firing_that_pauses_its_schedule_withdraws_copies_of_later_slots(
    store: Store, clock: VirtualClock
) -> None:
    await subscribe(store)
    made = await created_due(store, clock, after_seconds=90, type=TYPE, on_dead=OnDead.PAUSE)
    assert (len(await messages(store, made)), await waiting(store)) == (2, 2)
    (first,) = await pull(store)
    await end(store, first, Permanent("x"))
    assert (len(await messages(store, made)), await waiting(store)) == (0, 1)
    (copy,) = await pull(store, queue=AUDIT)
    assert copy.idempotency_key == first.idempotency_key


async def test_a_full_or_deleted_subscriber_never_stops_a_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await subscribe(store, backlog_bytes_max=128_000)
    await make_queue(store, "gone")
    await store.subscriptions.put(DEFAULT, TYPE, "gone")
    made = await create(store, clock, type=TYPE, body=b'"' + b"x" * 100_000 + b'"')
    for number in (1, 2, 3):
        clock.advance(seconds=60)
        await plan_now(store, clock)
        assert len(await messages(store, made)) == number
        assert await waiting(store) == number
        if number == 1:
            await store.queues.purge(DEFAULT, "gone")
            await store.queues.delete(DEFAULT, "gone")


async def test_a_copy_expires_as_its_slot_does(store: Store, clock: VirtualClock) -> None:
    await subscribe(store)
    made = await created_due(store, clock, after_seconds=30, type=TYPE, expires_after_seconds=45)
    await pause_planning(store, made)
    clock.advance(seconds=30 + 44)
    assert len(await store.messages.peek(DEFAULT, AUDIT, ALL)) == 1
    clock.advance(seconds=2)
    await store.reaper.reap(SYSTEM, ALL)
    assert await counts(store, AUDIT) == Counts(dead=1)


async def pause_planning(store: Store, schedule: Schedule) -> Schedule:
    """Pauses a schedule whose slots stay."""
    return await change(store, schedule, WithdrawScope.NOTHING, changing.pause)
