"""`why` answers for every instant, also before the first fire, on both stores."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conformance.acts import WORK, make_queue, pull
from tests.conformance.schedule_acts import end, end_next, plan_now
from tests.kit.contexts import acting
from tests.stores.clock import VirtualClock
from tickwork.core.answers.schedule import Why
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.message.outcome import Permanent
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.model import Schedule
from tickwork.core.when import Limits, iso
from tickwork.errors import InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.schedules import change, create
from tickwork.ops.schedules.why import why
from tickwork.store.contract import Store

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
TO_WORK: dict[str, Any] = {"target": {"type": "queue", "queue": WORK}}


@pytest.fixture(autouse=True)
async def start(store: Store, clock: VirtualClock) -> None:
    """Ten past nine."""
    await make_queue(store)
    now = clock.now()
    nine = now.replace(hour=9, minute=10, second=0, microsecond=0)
    clock.advance(seconds=((nine if nine >= now else nine + DAY) - now).total_seconds())


async def make(store: Store, **fields: Any) -> Schedule:
    body = {"cron_expr": "0 * * * *", **TO_WORK, **fields}
    if "cron_expr" not in fields and len({*fields} & {"once_at", "interval_seconds"}):
        del body["cron_expr"]
    return await create.create(acting(store, DEFAULT, limits=Limits()), body)


async def ask(store: Store, schedule: Schedule, at: datetime | None = None) -> Why:
    """Returns the answer after checking that it is one sentence and matches its facts."""
    found = await why(Context(store, DEFAULT), schedule.id, at)
    assert re.fullmatch(r"[A-Z].*[^.:; ]\.", found.answer), found.answer
    return found


def hour(clock: VirtualClock, hours: int) -> datetime:
    """A full hour, counted from nine o'clock."""
    return clock.now().replace(hour=9, minute=0) + hours * HOUR


async def test_before_any_fire_it_explains_the_first_slot(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store)
    found = await ask(store, made)
    assert (found.code, found.fired, found.at) == ("to_come", None, hour(clock, 1))
    assert found.answer == (
        "It is due in 50 min; its message is created at "
        f"{iso(hour(clock, 1) - timedelta(seconds=30))}."
    )
    assert (found.previous_slot, found.next_slot) == (None, hour(clock, 2))


async def test_before_its_creation_there_were_no_slots(store: Store, clock: VirtualClock) -> None:
    made = await make(store)
    for at in (hour(clock, 0), hour(clock, -5) + timedelta(minutes=7)):
        found = await ask(store, made, at)
        assert (found.code, found.fired) == ("before_creation", False)
        assert found.answer.endswith(f"its first slot is {iso(hour(clock, 1))}.")
        assert (found.previous_slot, found.next_slot) == (None, hour(clock, 1))


async def test_before_its_start_it_names_the_start(store: Store, clock: VirtualClock) -> None:
    begin = hour(clock, 0) + 3 * DAY
    made = await make(store, start_at=begin.isoformat())
    assert (await ask(store, made)).at == begin
    for at in (hour(clock, 3), hour(clock, 3) + timedelta(minutes=7)):
        found = await ask(store, made, at)
        assert (found.code, found.next_slot) == ("before_start", begin)
        assert found.answer == (
            f"It will not fire: the schedule starts at {iso(begin)}, "
            f"and its first slot is {iso(begin)}."
        )


async def test_an_instant_that_is_not_a_slot_names_the_nearest_slots(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store)
    found = await ask(store, made, hour(clock, 5) + timedelta(minutes=7))
    assert (found.code, found.is_slot) == ("no_slot", False)
    assert found.answer == (
        f"This is not one of its slots: the previous one is {iso(hour(clock, 5))} "
        f"and the next one is {iso(hour(clock, 6))}."
    )
    single = await make(store, once_at=hour(clock, 3).isoformat())
    found = await ask(store, single, hour(clock, 2))
    assert found.answer == (f"This is not one of its slots: the next one is {iso(hour(clock, 3))}.")


async def test_a_future_slot_names_when_its_message_is_created(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store, jitter_seconds=600)
    found = await ask(store, made, hour(clock, 30))
    assert (found.code, found.fired) == ("to_come", None)
    # The spread is up to ten minutes, and its schedule's own.
    assert re.search("It is due in 1 day [56] h, at", found.answer)
    clock.advance(seconds=49 * 60 + 45)
    await plan_now(store, clock)
    found = await ask(store, made)
    assert (found.code, found.fired) == ("planned", None)
    assert "(no node with the role worker is alive)." in found.answer


@pytest.mark.parametrize("is_fired", [False, True])
async def test_a_pause_explains_past_and_future_slots(
    store: Store, clock: VirtualClock, is_fired: bool
) -> None:
    made = await make(store)
    if is_fired:
        clock.advance(seconds=3_000)
        await plan_now(store, clock)
        await end_next(store)
    await change.pause(Context(store, DEFAULT), made.id)
    since = iso(clock.now())
    still = f"the schedule has been paused since {since}; resume it to let it fire again."
    coming = await ask(store, made, hour(clock, 7))
    assert (coming.code, coming.answer) == ("paused", f"It will not fire: {still}")
    clock.advance(seconds=3 * 3_600)
    latest = await ask(store, made)
    assert latest.at == clock.now().replace(minute=0)
    assert (latest.code, latest.answer) == ("paused", f"It did not fire: {still}")
    between = await ask(store, made, clock.now() + timedelta(minutes=3))
    assert between.code == "no_slot"
    assert between.answer.endswith(f"; also, {still}")


async def test_an_unplanned_slot_of_a_paused_schedule_is_explained_by_the_pause(
    store: Store, clock: VirtualClock
) -> None:
    """It was not planned; it is recorded when the schedule is resumed."""
    made = await make(store)
    clock.advance(seconds=3_600)
    await change.pause(Context(store, DEFAULT), made.id)
    slot = clock.now().replace(minute=0)
    found = await ask(store, made, slot)
    assert (found.code, found.fired) == ("paused", False)
    await change.resume(Context(store, DEFAULT), made.id)
    found = await ask(store, made, slot)
    assert (found.code, len(found.firings)) == ("paused", 1)


async def test_a_parked_schedule_names_the_error_and_the_remedy(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store, once_at=hour(clock, 1).isoformat(), retry={"max_attempts": 1})
    clock.advance(seconds=50 * 60)
    await plan_now(store, clock)
    await end_next(store, Permanent("it is broken"))
    dead = await ask(store, made)
    assert (dead.code, dead.fired) == ("dead", True)
    assert "died after 1 attempt (permanent): it is broken" in dead.answer
    later = await ask(store, made, hour(clock, 4))
    assert later.code == "no_slot"
    assert "parked since" in later.answer
    assert "(its last error: it is broken); fix the error and resume it." in later.answer


async def test_a_deleted_schedule_is_explained_and_its_records_remain(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store)
    clock.advance(seconds=50 * 60)
    await plan_now(store, clock)
    await end_next(store)
    slot = clock.now()
    clock.advance(seconds=60)
    fresh = await make(store, name="fresh")
    for schedule in (made, fresh):
        await change.delete(Context(store, DEFAULT), schedule.id)
    assert (await ask(store, made)).code == (await ask(store, made, slot)).code == "succeeded"
    gone = await ask(store, made, hour(clock, 5))
    since = f"It does not fire: the schedule was deleted at {iso(clock.now())}; until then it"
    assert (gone.code, gone.answer) == ("deleted", f"{since} fired once.")
    assert (gone.previous_slot, gone.next_slot) == (slot, None)
    never = await ask(store, fresh)
    assert (never.code, never.at) == ("deleted", clock.now())
    assert never.answer == f"{since} never fired."
    with pytest.raises(NotFound, match=r"no schedule fresh; find a deleted one by its id"):
        await why(Context(store, DEFAULT), "fresh")


async def test_a_day_off_explains_past_and_future_slots(store: Store, clock: VirtualClock) -> None:
    tomorrow = hour(clock, 0) + DAY
    day = tomorrow.date()
    made = await make(store, cron_expr="0 9 * * *", exclude=[day.isoformat()])
    by = f"{day} is excluded by its own list; the next slot is {iso(tomorrow + DAY)}."
    found = await ask(store, made, tomorrow)
    assert (found.code, found.answer) == ("excluded", f"It will not fire: {by}")
    assert (await ask(store, made)).at == tomorrow + DAY
    clock.advance(seconds=86_400)
    found = await ask(store, made)
    assert (found.at, found.code, found.answer) == (
        tomorrow,
        "excluded",
        f"It did not fire: {by}",
    )
    await plan_now(store, clock)
    found = await ask(store, made)
    assert (found.code, len(found.firings)) == ("excluded", 1)


async def test_used_up_firings_explain_future_slots(store: Store, clock: VirtualClock) -> None:
    made = await make(store, max_firings=2)
    assert (await ask(store, made, hour(clock, 2))).code == "to_come"
    found = await ask(store, made, hour(clock, 3))
    assert (found.code, found.fired) == ("max_firings", False)
    assert found.answer == "It will not fire: its 2 firings are used up by earlier slots."


async def test_a_fixed_delay_knows_its_next_slot_and_no_other(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store, interval_seconds=3_600, interval_mode="fixed_delay")
    slot = clock.now() + HOUR
    found = await ask(store, made)
    assert (found.code, found.at, found.is_slot) == ("to_come", slot, True)
    found = await ask(store, made, slot + HOUR)
    assert (found.code, found.previous_slot, found.next_slot) == ("no_slot", slot, None)
    assert "each slot is set when the run before it finishes" in found.answer


async def test_a_time_without_a_zone_is_refused_by_field(store: Store) -> None:
    made = await make(store)
    naive = datetime.fromisoformat("2026-01-05T09:00:00")
    with pytest.raises(InvalidInput) as refused:
        await why(Context(store, DEFAULT), made.id, naive)
    assert [error.field for error in refused.value.errors] == ["at"]


async def test_a_one_shot_in_the_past_waits_for_a_scheduler_and_a_worker(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store, once_at=hour(clock, -2).isoformat())
    for at in (None, hour(clock, -2)):
        found = await ask(store, made, at)
        assert (found.code, found.fired, found.is_slot) == ("not_planned", None, True)
        assert "was over, so it fires at once, but no scheduler has planned it" in found.answer
        assert found.answer.endswith("(no node with the role scheduler is alive).")
    await plan_now(store, clock)
    planned = await ask(store, made)
    assert planned.code == "waiting"
    assert "no node with the role worker is alive" in planned.answer
    assert (await ask(store, made, hour(clock, -3))).code == "before_creation"


async def test_the_latest_triggered_run_is_explained(store: Store, clock: VirtualClock) -> None:
    made = await make(store)
    assert (await ask(store, made)).triggered is None
    await change.trigger(Context(store, DEFAULT), made.id)
    first, ten = clock.now(), hour(clock, 1)
    clock.advance(seconds=5)
    found = await ask(store, made)
    assert (found.code, found.at) == ("to_come", ten)
    run = found.triggered
    assert run is not None
    assert (run.at, run.fired, run.code) == (first, None, "waiting")
    waits = "It has waited in its queue for 5 s (no node with the role worker is alive)."
    assert run.answer == waits
    await end_next(store)
    run = (await ask(store, made)).triggered
    assert run is not None
    assert (run.at, run.fired, run.code) == (first, True, "succeeded")
    clock.advance(seconds=60)
    await change.trigger(Context(store, DEFAULT), made.id)
    await end_next(store, Permanent("no such team"))
    run = (await ask(store, made)).triggered
    assert run is not None
    assert (run.at, run.code) == (clock.now(), "dead")
    assert "no such team" in run.answer
    assert (await ask(store, made, ten)).triggered is None


async def test_a_backfill_and_a_replay_are_no_triggered_runs(
    store: Store, clock: VirtualClock
) -> None:
    made = await make(store)
    clock.advance(seconds=2 * 3_600)
    await plan_now(store, clock)
    for message in await pull(store):
        await end(store, message, Permanent("no such team"))
    await store.dead_letters.replay(DEFAULT, WORK, Selection(limit=1), Pace())
    assert (await ask(store, made)).triggered is None
    await end_next(store)
    since, until = hour(clock, -1), clock.now()
    slots = await change.backfill(
        Context(store, DEFAULT), made.id, since=since, until=until, force=True
    )
    assert slots
    assert (await store.schedules.get(DEFAULT, made.id)).runs > 1
    assert (await ask(store, made)).triggered is None
