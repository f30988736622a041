"""Schedules are created and changed, on both stores."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from msgspec import structs

from tests.conformance.acts import WORK, make_queue, pull
from tests.conformance.schedule_acts import end, end_next, plan_now
from tests.kit.contexts import acting
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, SYSTEM, Tenant
from tickwork.core.schedule.model import ScheduleSelection, ScheduleStatus
from tickwork.core.when import Limits
from tickwork.errors import Conflict, InvalidInput, NotFound, TooMany
from tickwork.ops.context import Context
from tickwork.ops.schedules import calendars, change, create
from tickwork.ops.schedules.lookup import get_schedule
from tickwork.ops.schedules.public import show_schedule
from tickwork.ops.schedules.views import next_fire_in_row
from tickwork.ops.schedules.why import why
from tickwork.store.contract import Store

LIMITS = Limits()
TO_WORK: dict[str, Any] = {"target": {"type": "queue", "queue": WORK}}
HOURLY: dict[str, Any] = {"cron_expr": "0 * * * *", **TO_WORK}


@pytest.fixture(autouse=True)
async def queue(store: Store) -> None:
    await make_queue(store)


async def make(store: Store, **fields: Any) -> Any:
    return await create.create(acting(store, DEFAULT, limits=LIMITS), {**HOURLY, **fields})


async def test_a_schedule_is_found_by_id_and_by_name(store: Store) -> None:
    made = await make(store, name="report", payload={"team": "ops"})
    assert await get_schedule(Context(store, DEFAULT), str(made.id)) == made
    assert await get_schedule(Context(store, DEFAULT), "report") == made
    shown = show_schedule(made, await store.now())
    assert shown.payload == {"team": "ops"}
    assert (shown.status, shown.kind, shown.target["queue"]) == ("active", "cron", WORK)
    assert shown.next_fire_at == made.next_slot


async def test_the_same_key_and_fields_are_one_schedule_and_other_fields_a_conflict(
    store: Store,
) -> None:
    first = await make(store, idempotency_key="k")
    assert (await make(store, idempotency_key="k")).id == first.id
    with pytest.raises(Conflict):
        await make(store, idempotency_key="k", priority=9)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target": {"queue": "nowhere"}}, "target.queue"),
        ({"calendar": "nowhere"}, "calendar"),
        ({"cron_expr": None, "interval_seconds": 5}, "interval_seconds"),
        ({"start_at": "2031-01-01T00:00:00Z", "end_at": "2030-01-01T00:00:00Z"}, "end_at"),
        ({"payload": "x" * 128_001}, "payload"),
        ({"missed": {"grace_seconds": -1}}, "missed.grace_seconds"),
        ({"name": "x" * 121}, "name"),
    ],
)
async def test_bad_input_is_refused_by_field(
    store: Store, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await make(store, **change)
    assert field in [error.field for error in refused.value.errors]
    assert await store.schedules.list(DEFAULT, ScheduleSelection(), 10) == ()


async def test_an_update_does_not_check_a_rule_that_it_keeps(store: Store) -> None:
    fast = {"cron_expr": None, "interval_seconds": 5, **TO_WORK, "name": "fast"}
    few = Limits(min_interval_seconds=1)
    made = await create.create(acting(store, DEFAULT, limits=few), fast)
    changed = await change.update(acting(store, DEFAULT, limits=LIMITS), made.id, {"priority": 7})
    assert changed.definition == structs.replace(made.definition, priority=7)
    assert changed.next_slot == made.next_slot
    await calendars.put_calendar(Context(store, DEFAULT), "off", [])
    day = {"once_at": "2031-05-01T09:00:00Z", "calendar": "off", **TO_WORK}
    single = await create.create(acting(store, DEFAULT, limits=LIMITS), day)
    await calendars.put_calendar(Context(store, DEFAULT), "off", ["2031-05-01"])
    await change.update(acting(store, DEFAULT, limits=LIMITS), single.id, {"name": "may"})
    for patch in ({"jitter_seconds": 1}, {"interval_seconds": 6}):
        with pytest.raises(InvalidInput, match=r"interval_seconds: fires . s apart"):
            await change.update(acting(store, DEFAULT, limits=LIMITS), made.id, patch)


async def test_all_faults_are_reported_at_once(store: Store) -> None:
    bad = {"cron_expr": "0 0 30 2 *", "overlap": "no", "target": {"queue": "nowhere"}}
    with pytest.raises(InvalidInput) as refused:
        await make(store, **bad)
    wanted = {"cron_expr", "overlap", "target.queue"}
    assert sorted(error.field for error in refused.value.errors) == sorted(wanted)
    with pytest.raises(InvalidInput) as refused:
        await create.create_many(acting(store, DEFAULT, limits=LIMITS), [HOURLY, bad])
    assert {error.field for error in refused.value.errors} == {f"[1].{field}" for field in wanted}
    with pytest.raises(InvalidInput) as refused:
        await make(store, target={"queue": "no/where\x00"})
    assert [error.field for error in refused.value.errors] == ["target.queue"]


async def test_a_missing_queue_is_reported_by_field_in_bulk(store: Store) -> None:
    bodies = [HOURLY, {**HOURLY, "target": {"queue": "nowhere"}}]
    with pytest.raises(InvalidInput) as refused:
        await create.create_bulk(acting(store, DEFAULT, limits=LIMITS), bodies)
    (fault,) = refused.value.errors
    assert fault.field == "target.queue"
    assert "nowhere" in fault.message
    assert await store.schedules.list(DEFAULT, ScheduleSelection(), 10) == ()


async def test_a_list_is_created_all_or_none(store: Store) -> None:
    bodies = [HOURLY, {**HOURLY, "priority": 99}]
    with pytest.raises(InvalidInput) as refused:
        await create.create_many(acting(store, DEFAULT, limits=LIMITS), bodies)
    assert [error.field for error in refused.value.errors] == ["[1].priority"]
    assert await store.schedules.list(DEFAULT, ScheduleSelection(), 10) == ()


async def test_many_schedules_are_created_in_bulk(store: Store) -> None:
    bodies = (
        {**HOURLY, "cron_expr": f"{n % 60} * * * *", "payload": {"user": n}} for n in range(2_500)
    )
    told: list[int] = []
    made = await create.create_bulk(
        acting(store, DEFAULT, limits=LIMITS), bodies, on_progress=told.append
    )
    assert (made, told) == (2_500, [1_000, 2_000, 2_500])
    found = await store.schedules.list(DEFAULT, ScheduleSelection(), 10_000)
    assert len({schedule.id for schedule in found}) == 2_500
    assert {schedule.definition.body for schedule in found} == {
        b'{"user":%d}' % n for n in range(2_500)
    }


async def test_each_schedule_created_in_bulk_has_its_own_jitter(store: Store) -> None:
    bodies = [{**HOURLY, "jitter_seconds": 600}] * 20
    await create.create_bulk(acting(store, DEFAULT, limits=LIMITS), bodies)
    found = await store.schedules.list(DEFAULT, ScheduleSelection(), 100)
    assert len({schedule.due_at for schedule in found}) > 10


async def test_a_tenant_may_have_its_own_minimum_interval(store: Store) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="default", min_interval_seconds=1))
    made = await make(store, cron_expr=None, interval_seconds=1)
    assert made.status is ScheduleStatus.ACTIVE


async def test_a_tenant_cannot_exceed_its_number_of_schedules(store: Store) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="default", schedules_max=2))
    await make(store)
    doomed = await make(store)
    with pytest.raises(TooMany):
        await make(store)
    await change.delete(Context(store, DEFAULT), doomed.id)
    await make(store)


async def test_a_tenant_cannot_exceed_its_creation_rate(store: Store, clock: VirtualClock) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="default", schedules_per_second=1.0))
    await make(store)
    with pytest.raises(TooMany):
        await make(store)
    clock.advance(seconds=1)
    await make(store)


async def test_an_update_is_a_merge_patch(store: Store) -> None:
    made = await make(store, name="a", missed={"policy": "skip", "cap": 3}, priority=7)
    daily = {"hour": 1, "minute": 2}
    patch = {"name": "b", "missed": {"cap": 5}, "priority": None, "daily_time": daily}
    changed = await change.update(acting(store, DEFAULT, limits=LIMITS), made.id, patch)
    shown = show_schedule(changed, await store.now())
    assert shown.name == "b"
    assert (shown.missed["policy"], shown.missed["cap"]) == ("skip", 5)
    assert shown.daily_time == {"hour": 1, "minute": 2}
    assert shown.cron_expr is None
    assert shown.priority == 4
    assert changed.version > made.version


async def test_a_bad_patch_changes_nothing(store: Store) -> None:
    made = await make(store)
    with pytest.raises(InvalidInput):
        await change.update(acting(store, DEFAULT, limits=LIMITS), made.id, {"overlap": "no"})
    assert await get_schedule(Context(store, DEFAULT), made.id) == made


async def test_pause_and_resume_are_idempotent(store: Store, clock: VirtualClock) -> None:
    made = await make(store, name="report")
    paused = await change.pause(Context(store, DEFAULT), "report")
    assert paused.status is ScheduleStatus.PAUSED
    assert (await change.pause(Context(store, DEFAULT), "report")).version == paused.version
    clock.advance(seconds=3 * 3600)
    resumed = await change.resume(Context(store, DEFAULT), "report")
    assert resumed.status is ScheduleStatus.ACTIVE
    assert resumed.next_slot is not None
    assert resumed.next_slot > await store.now()
    (record,) = await store.firings.list(DEFAULT, made.id, 10)
    assert (record.reason, record.count) == ("paused", 3)


async def test_a_deleted_schedule_keeps_its_firings(store: Store) -> None:
    made = await make(store, name="report")
    await change.delete(Context(store, DEFAULT), "report")
    with pytest.raises(NotFound):
        await get_schedule(Context(store, DEFAULT), "report")
    with pytest.raises(NotFound):
        await change.trigger(Context(store, DEFAULT), made.id)
    assert (await store.schedules.get(DEFAULT, made.id)).status is ScheduleStatus.DELETED
    await make(store, name="report")


async def test_a_trigger_fires_at_once_even_when_paused(store: Store) -> None:
    made = await make(store)
    await change.pause(Context(store, DEFAULT), made.id)
    await change.trigger(Context(store, DEFAULT), made.id)
    (message,) = await store.schedules.messages(DEFAULT, made.id, 10)
    assert (message.run, message.schedule_id) == (1, made.id)


async def test_a_backfill_leaves_out_slots_that_succeeded(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store, missed={"policy": "skip"})
    first = made.next_slot
    assert first is not None
    clock.advance(seconds=3600)
    await plan_now(store, clock)
    await end_next(store)
    clock.advance(seconds=2 * 3600 + 120)
    await plan_now(store, clock)
    now = await store.now()
    filled = await change.backfill(Context(store, DEFAULT), made.id, since=first, until=now)
    assert filled == (first + timedelta(hours=1), first + timedelta(hours=2))
    for message in await pull(store):
        await end(store, message)
    forced = await change.backfill(
        Context(store, DEFAULT), made.id, since=first, until=now, force=True
    )
    assert len(forced) == 3
    start = first
    with pytest.raises(InvalidInput) as refused:
        await change.backfill(Context(store, DEFAULT), made.id, since=now, until=start)
    assert [error.field for error in refused.value.errors] == ["to"]


async def test_a_backfill_leaves_out_planned_and_running_slots(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store)
    first = made.next_slot
    assert first is not None
    clock.advance(seconds=2 * 3600)
    span = {"since": first, "until": await store.now()}
    for force in (False, True):
        # Nobody has planned them yet; then they are there; and then they are under way.
        assert await change.backfill(Context(store, DEFAULT), made.id, **span, force=force) == ()
    await plan_now(store, clock)
    for waiting in (2, 0):
        assert await change.backfill(Context(store, DEFAULT), made.id, **span, force=True) == ()
        assert len(await pull(store)) == waiting
    assert [message.run for message in await store.schedules.messages(DEFAULT, made.id, 10)] == [
        0,
        0,
    ]


async def test_a_backfill_during_a_pause_fires_the_missed_slots(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store)
    first = made.next_slot
    assert first is not None
    await change.pause(Context(store, DEFAULT), made.id)
    clock.advance(seconds=3600)
    filled = await change.backfill(
        Context(store, DEFAULT), made.id, since=first, until=await store.now()
    )
    assert filled == (first,)


async def test_a_changed_calendar_moves_the_schedules_that_use_it(store: Store) -> None:
    now = await store.now()
    tomorrow = (now + timedelta(days=1)).date()
    await calendars.put_calendar(Context(store, DEFAULT), "closed", [date(2000, 1, 1)])
    made = await make(store, cron_expr="0 9 * * *", calendar="closed", name="report")
    days = [now.date(), tomorrow, tomorrow + timedelta(days=1)]
    moved = (await calendars.put_calendar(Context(store, DEFAULT), "closed", days)).moved
    assert [schedule.id.uuid for schedule in moved] == [made.id]
    changed = await get_schedule(Context(store, DEFAULT), "report")
    fires = next_fire_in_row(changed)
    assert fires is not None
    assert fires.date() == tomorrow + timedelta(days=2)
    assert [schedule.after for schedule in moved] == [fires]
    assert show_schedule(changed, now).next_fire_at == fires
    with pytest.raises(Conflict):
        await store.calendars.delete(DEFAULT, "closed")


async def test_why_answers_from_the_record_and_from_the_rule(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store, name="report", missed={"policy": "skip"})
    assert made.next_slot is not None
    coming = await why(Context(store, DEFAULT), "report", made.next_slot)
    assert (coming.code, coming.fired) == ("to_come", None)
    between = await why(Context(store, DEFAULT), "report", made.next_slot + timedelta(minutes=1))
    assert (between.code, between.is_slot) == ("no_slot", False)
    early = await why(Context(store, DEFAULT), "report", made.next_slot - timedelta(days=1))
    assert early.code == "before_creation"
    clock.advance(seconds=4 * 3600)
    waiting = await why(Context(store, DEFAULT), "report", made.next_slot)
    assert waiting.code == "not_planned"
    assert "no node with the role scheduler" in waiting.answer
    await plan_now(store, clock)
    skipped = await why(Context(store, DEFAULT), "report", made.next_slot)
    assert (skipped.code, skipped.fired) == ("skipped_missed", False)
    assert skipped.firings[0].reason == "skipped_missed"
    await change.delete(Context(store, DEFAULT), "report")
    gone = await why(Context(store, DEFAULT), made.id, made.next_slot + timedelta(days=1))
    assert gone.code == "deleted"
    assert (await why(Context(store, DEFAULT), made.id, made.next_slot)).code == "skipped_missed"
