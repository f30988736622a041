"""Schedules: stored completely or not at all, visible to their tenant, within its limits."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from tests.conformance.acts import ALL, make_queue, make_tenants, pull
from tests.conformance.schedule_acts import (
    MINUTE,
    again,
    create,
    created_due,
    delete,
    end,
    lead,
    look,
    new_schedule,
    pause,
    plan_now,
    slots,
    update,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.backoff import Fixed
from tickwork.core.model import DEFAULT, SYSTEM, ContentType, Scope, Tenant
from tickwork.core.schedule.model import (
    SCHEDULES_AT_ONCE_MAX,
    OnDead,
    OverlapPolicy,
    Retry,
    Schedule,
    ScheduleOrder,
    ScheduleSelection,
    ScheduleStatus,
)
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.errors import Conflict, InvalidInput, NotFound, TooMany
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

EVERYTHING: dict[str, Any] = {
    "cron_expr": "0 9 * * MON-FRI",
    "timezone": "Europe/Berlin",
    "missed": {"policy": "fire_most_recent", "grace_seconds": 5},
    "max_firings": 7,
    "jitter_seconds": 30,
    "exclude": ["2026-12-25"],
    "body": "grüß dich".encode(),
    "type": "report.wanted",
    "content_type": ContentType.TEXT,
    "priority": 9,
    "overlap": OverlapPolicy.BUFFER_ALL,
    "on_dead": OnDead.PAUSE,
    "retry": Retry(max_attempts=2, backoff=Fixed(5)),
    "expires_after_seconds": 90.5,
    "metadata": b'{"team":"a"}',
    "name": "morning",
    "idempotency_key": "key",
    "fingerprint": b"\x00\x01",
}


async def ids_of(store: Store, scope: Scope = DEFAULT, **selection: Any) -> list[str]:
    found = await store.schedules.list(scope, ScheduleSelection(**selection), ALL)
    return [str(schedule.id) for schedule in found]


async def test_a_schedule_is_stored_as_created(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    new = new_schedule(clock, **EVERYTHING)
    (made,) = await store.schedules.create(DEFAULT, [new])
    assert made == Schedule(
        tenant="default",
        id=new.id,
        name="morning",
        status=ScheduleStatus.ACTIVE,
        version=made.version,
        definition=new.definition,
        next_slot=new.next_slot,
        due_at=new.due_at,
        look_at=new.look_at,
        last_slot=None,
        fired=0,
        runs=0,
        last_status=None,
        last_error=None,
        error_count=0,
        idempotency_key="key",
        fingerprint=b"\x00\x01",
        created_at=clock.now(),
        updated_at=clock.now(),
        changed_at=clock.now(),
    )
    assert await again(store, made) == made
    assert await store.schedules.find(DEFAULT, "morning") == made
    assert await store.schedules.find(DEFAULT, "evening") is None


async def test_a_create_call_stores_all_schedules_or_none(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    good, bad = new_schedule(clock), new_schedule(clock, queue="elsewhere")
    with pytest.raises(NotFound):
        await store.schedules.create(DEFAULT, [good, bad])
    assert await ids_of(store) == []
    others = [new_schedule(clock) for _ in range(3)]
    made = await store.schedules.create(DEFAULT, others)
    assert [schedule.id for schedule in made] == [other.id for other in others]
    assert len(await ids_of(store)) == 3


async def test_one_create_call_stores_at_most_a_thousand_schedules(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    new = [new_schedule(clock) for _ in range(SCHEDULES_AT_ONCE_MAX + 1)]
    with pytest.raises(InvalidInput):
        await store.schedules.create(DEFAULT, new)
    assert await ids_of(store) == []
    assert len(await store.schedules.create(DEFAULT, new[1:])) == SCHEDULES_AT_ONCE_MAX


async def test_a_repeat_with_the_same_idempotency_key_returns_the_first_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    first = await create(store, clock, idempotency_key="key", fingerprint=b"a")
    clock.advance(seconds=1)
    repeat = await create(store, clock, idempotency_key="key", fingerprint=b"a")
    assert repeat == first
    with pytest.raises(Conflict):
        await create(store, clock, idempotency_key="key", fingerprint=b"b")
    assert await ids_of(store) == [str(first.id)]
    one, _ = await make_tenants(store, "one", "two")
    await make_queue(store, scope=one)
    other = await create(store, clock, scope=one, idempotency_key="key", fingerprint=b"b")
    assert other.tenant == "one"


async def test_repeating_a_deleted_schedule_is_a_conflict(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    first = await create(store, clock, idempotency_key="key", fingerprint=b"a")
    await delete(store, first)
    repeat = new_schedule(clock, idempotency_key="key", fingerprint=b"a")
    for new in ([repeat], [new_schedule(clock), repeat]):
        with pytest.raises(Conflict, match=r"idempotency_key key was used by .* deleted"):
            await store.schedules.create(DEFAULT, new)
    assert await ids_of(store) == []


async def test_equal_schedules_with_one_key_in_one_call_are_one_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    same = [new_schedule(clock, idempotency_key="key", fingerprint=b"a") for _ in range(2)]
    other = new_schedule(clock, idempotency_key="key", fingerprint=b"b")
    with pytest.raises(Conflict, match="different contents"):
        await store.schedules.create(DEFAULT, [same[0], other])
    assert await ids_of(store) == []
    first, second = await store.schedules.create(DEFAULT, same)
    assert first == second


async def test_a_repeat_beside_new_schedules_returns_the_first_one(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    first = await create(store, clock, idempotency_key="key", fingerprint=b"a")
    repeat = new_schedule(clock, idempotency_key="key", fingerprint=b"a")
    new = new_schedule(clock)
    made = await store.schedules.create(DEFAULT, [repeat, new])
    assert [schedule.id for schedule in made] == [first.id, new.id]
    bad = new_schedule(clock, idempotency_key="key", fingerprint=b"b")
    with pytest.raises(Conflict):
        await store.schedules.create(DEFAULT, [new_schedule(clock), bad])
    assert len(await ids_of(store)) == 2


async def test_a_name_belongs_to_one_schedule_until_it_is_deleted(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    first = await create(store, clock, name="report")
    with pytest.raises(Conflict):
        await create(store, clock, name="report")
    await pause(store, first)
    with pytest.raises(Conflict):
        await create(store, clock, name="report")
    await delete(store, first)
    second = await create(store, clock, name="report")
    found = await store.schedules.find(DEFAULT, "report")
    assert found is not None
    assert found.id == second.id
    (one,) = await make_tenants(store, "one")
    await make_queue(store, scope=one)
    assert (await create(store, clock, scope=one, name="report")).tenant == "one"


async def test_a_deleted_schedule_is_found_only_by_its_id(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await create(store, clock, name="report")
    await delete(store, made)
    gone = await again(store, made)
    assert (gone.status, gone.next_slot, gone.look_at) == (ScheduleStatus.DELETED, None, None)
    assert await store.schedules.find(DEFAULT, "report") is None
    assert await ids_of(store) == []
    assert await ids_of(store, status=ScheduleStatus.DELETED) in ([], [str(made.id)])


async def test_a_tenant_sees_only_its_own_schedules(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    made = await create(store, clock, scope=one, name="report")
    with pytest.raises(NotFound):
        await store.schedules.get(two, made.id)
    assert await store.schedules.find(two, "report") is None
    assert await ids_of(store, two) == []
    assert await ids_of(store, one) == [str(made.id)]
    with pytest.raises(NotFound):
        await store.schedules.change(two, made.id, WithdrawScope.NOTHING, lambda *_: None)
    with pytest.raises(NotFound):
        await store.schedules.get(DEFAULT, new_id())


async def test_schedules_that_are_read_together_are_each_within_their_own_scope(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    (two,) = await make_tenants(store, "two")
    own, foreign = await create(store, clock), await create(store, clock, scope=two)
    found = await asyncio.gather(
        *(
            store.schedules.get(scope, schedule_id)
            for scope in (DEFAULT, two, SYSTEM)
            for schedule_id in (own.id, foreign.id, new_id())
        ),
        return_exceptions=True,
    )
    told = [answer if isinstance(answer, Schedule) else type(answer) for answer in found]
    assert told[:3] == [own, NotFound, NotFound]
    assert told[3:6] == [NotFound, foreign, NotFound]
    assert told[6:] == [own, foreign, NotFound]


async def test_a_schedules_own_queue_takes_precedence_over_a_shared_one(
    store: Store, clock: VirtualClock
) -> None:
    shared = await make_queue(store, scope=SYSTEM)
    (one,) = await make_tenants(store, "one")
    in_shared = await create(store, clock, scope=one)
    own = await make_queue(store, scope=one)
    in_own = await create(store, clock, scope=one)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    for schedule, queue_id in ((in_shared, shared), (in_own, own)):
        for message in await store.schedules.messages(one, schedule.id, ALL):
            assert (message.queue_id, message.tenant) == (queue_id, "one")
        assert len(await slots(store, schedule)) == 1


async def test_a_tenant_cannot_exceed_its_schedule_limit(store: Store, clock: VirtualClock) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="one", schedules_max=3))
    one = Scope("one")
    await make_queue(store, scope=one)
    await create(store, clock, scope=one)
    with pytest.raises(TooMany):
        await store.schedules.create(one, [new_schedule(clock) for _ in range(3)])
    assert len(await ids_of(store, one)) == 1
    last = await store.schedules.create(one, [new_schedule(clock) for _ in range(2)])
    with pytest.raises(TooMany):
        await create(store, clock, scope=one)
    await delete(store, last[0])
    await create(store, clock, scope=one)


async def test_a_completed_schedule_that_is_resumed_counts_again(
    store: Store, clock: VirtualClock
) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="one", schedules_max=1))
    one = Scope("one")
    await make_queue(store, scope=one)
    due = await created_due(store, clock, scope=one, max_firings=1)
    (last,) = await pull(store, scope=one)
    await end(store, last)
    over = await again(store, due)
    assert over.status is ScheduleStatus.COMPLETED
    other = await create(store, clock, scope=one)
    endless = new_schedule(clock).definition.rule
    with pytest.raises(TooMany, match="may have 1 schedules"):
        await update(store, over, endless)
    assert await again(store, over) == over
    await delete(store, other)
    assert (await update(store, over, endless)).status is ScheduleStatus.ACTIVE


async def test_a_tenant_cannot_exceed_its_schedule_creation_rate(
    store: Store, clock: VirtualClock
) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="one", schedules_per_second=2))
    one = Scope("one")
    await make_queue(store, scope=one)
    for _ in range(2):
        await create(store, clock, scope=one)
    with pytest.raises(TooMany):
        await create(store, clock, scope=one)
    assert len(await ids_of(store, one)) == 2
    clock.advance(seconds=0.5)
    await create(store, clock, scope=one)
    with pytest.raises(TooMany):
        await create(store, clock, scope=one)


async def test_a_bulk_create_cannot_exceed_one_second_of_the_creation_rate(
    store: Store, clock: VirtualClock
) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="one", schedules_per_second=1_200))
    one = Scope("one")
    await make_queue(store, scope=one)
    new = [new_schedule(clock) for _ in range(1_201)]
    with pytest.raises(TooMany, match="create 1200 at a time"):
        await store.schedules.create_bulk(one, iter(new))
    assert await ids_of(store, one) == []
    assert await store.schedules.create_bulk(one, iter(new[:1_200])) == 1_200
    with pytest.raises(TooMany):
        await store.schedules.create_bulk(one, iter(new[1_200:]))
    clock.advance(seconds=1)
    assert await store.schedules.create_bulk(one, iter(new[1_200:])) == 1


async def test_a_tenant_keeps_its_limits(store: Store) -> None:
    tenant = Tenant(id="one", min_interval_seconds=5, schedules_max=1_000, schedules_per_second=2.5)
    await store.tenants.put(SYSTEM, tenant)
    assert await store.tenants.get(SYSTEM, "one") == tenant


async def test_a_bulk_create_stores_each_schedule_once(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    new = [new_schedule(clock) for _ in range(2_500)]
    assert await store.schedules.create_bulk(DEFAULT, iter(new[:1_500])) == 1_500
    assert await store.schedules.create_bulk(DEFAULT, iter(new)) == 1_000
    assert await store.schedules.create_bulk(DEFAULT, iter(())) == 0
    clock.advance(seconds=30)
    assert len(await look(store, await lead(store), limit=ALL * 3)) == 2_500
    got = await store.schedules.get(DEFAULT, new[-1].id)
    assert (got.definition, got.next_slot) == (new[-1].definition, new[-1].next_slot)


async def test_a_bulk_create_into_an_unknown_queue_is_refused(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    new = [new_schedule(clock), new_schedule(clock, queue="elsewhere")]
    with pytest.raises(NotFound):
        await store.schedules.create_bulk(DEFAULT, iter(new))
    assert await ids_of(store) == []


async def test_lists_are_ordered_and_continue_after_a_schedule(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = []
    for name, seconds in (("c", 300), ("a", 200), ("b", 400), (None, 100)):
        made.append(await create(store, clock, name=name, interval_seconds=seconds))
        clock.advance(seconds=1)
    by_id = [str(schedule.id) for schedule in made]
    c, a, b, nameless = by_id
    for order, expected in (
        (ScheduleOrder.CREATED, [c, a, b, nameless]),
        (ScheduleOrder.NEXT_DUE, [nameless, a, c, b]),
    ):
        assert await ids_of(store, order=order) == expected
        for place, schedule in enumerate(made_in(expected, made)):
            assert await ids_of(store, order=order, after=schedule.id) == expected[place + 1 :]
    by_name = await ids_of(store, order=ScheduleOrder.NAME)
    assert [schedule_id for schedule_id in by_name if schedule_id != nameless] == [a, b, c]
    assert sorted(by_name) == sorted(by_id)
    seen: list[str] = []
    for _ in made:
        (schedule,) = await store.schedules.list(
            DEFAULT,
            ScheduleSelection(order=ScheduleOrder.NAME, after=made_in(seen[-1:], made)[0].id)
            if seen
            else ScheduleSelection(order=ScheduleOrder.NAME),
            1,
        )
        seen.append(str(schedule.id))
    assert seen == by_name


def made_in(ids: list[str], made: list[Schedule]) -> list[Schedule]:
    found = {str(schedule.id): schedule for schedule in made}
    return [found[id_] for id_ in ids]


async def test_lists_can_be_filtered_by_status_name_calendar_and_time(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await store.calendars.put(DEFAULT, "feasts", [])
    first = await create(store, clock, name="first")
    second = await create(store, clock, calendar="feasts", interval_seconds=300)
    paused = await pause(store, await create(store, clock))
    assert await ids_of(store) == [str(first.id), str(second.id), str(paused.id)]
    assert await ids_of(store, status=ScheduleStatus.PAUSED) == [str(paused.id)]
    assert await ids_of(store, name="first") == [str(first.id)]
    assert await ids_of(store, calendar="feasts") == [str(second.id)]
    coming = ScheduleOrder.NEXT_DUE
    assert await ids_of(store, order=coming) == [str(first.id), str(second.id)]
    assert await ids_of(store, order=coming, before=clock.now() + 2 * MINUTE) == [str(first.id)]


async def test_a_schedule_can_be_created_paused(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    new = structs.replace(new_schedule(clock), status=ScheduleStatus.PAUSED, look_at=None)
    (made,) = await store.schedules.create(DEFAULT, [new])
    assert made.status is ScheduleStatus.PAUSED
    clock.advance(seconds=timedelta(days=1).total_seconds())
    assert await look(store, await lead(store)) == []


async def test_a_schedule_with_an_unknown_queue_is_refused(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    with pytest.raises(NotFound, match="elsewhere"):
        await create(store, clock, queue="elsewhere")
