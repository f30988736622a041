"""Invalid input is refused by field wherever it is given, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.conformance import schedule_acts
from tests.conformance.acts import WORK, make_queue
from tests.kit.contexts import acting
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.model import ScheduleSelection
from tickwork.core.when import Limits, iso
from tickwork.errors import Conflict, InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.ops.schedules import create
from tickwork.store.contract import Store

HOURLY: dict[str, Any] = {"cron_expr": "0 * * * *", "target": {"queue": WORK}}
LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture
async def facade(store: Store) -> AsyncIterator[Tickwork]:
    await make_queue(store)
    app = Tickwork()
    async with app._engine.using(store):
        yield app


@pytest.fixture
def app(facade: Tickwork) -> Any:
    """The schedules without types, as these tests pass values of wrong types."""
    return facade.schedules


@pytest.fixture
def days(facade: Tickwork) -> Any:
    return facade.calendars


async def faults(asked: Awaitable[object]) -> list[str]:
    with pytest.raises(InvalidInput) as refused:
        await asked
    return [error.field for error in refused.value.errors]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"end_at": LONG_AGO}, "end_at"),
        (
            {
                "cron_expr": None,
                "rrule": "FREQ=DAILY;COUNT=2",
                "start_at": LONG_AGO,
            },
            "rrule",
        ),
        ({"name": "01981f1c-7a3c-7d11-9c1e-5a1f9c5d0a11"}, "name"),
        ({"target": {"queue": WORK, "message_type": "a\0"}}, "target.message_type"),
        ({"target": {"queue": WORK, "message_type": "x" * 513}}, "target.message_type"),
        ({"overlap": object()}, "overlap"),
        ({"name": "01981F1C7A3C7D119C1E5A1F9C5D0A11"}, "name"),
        ({"payload": {"n": [1, float("nan")]}}, "payload"),
        ({"metadata": {"n": float("-inf")}}, "metadata"),
        ({"cron_expr": None, "interval_minutes": 1}, "interval_minutes"),
        ({"cron_expr": None, "interval_seconds": 60}, "interval_seconds"),
    ],
)
async def test_an_invalid_schedule_is_refused_by_every_way_to_create_one(
    app: Any, store: Store, fields: dict[str, Any], field: str
) -> None:
    body, limits = {**HOURLY, **fields}, Limits(min_interval_seconds=90)
    single = create.create(acting(store, DEFAULT, limits=limits), body)
    assert await faults(single) == [field]
    many = create.create_many(acting(store, DEFAULT, limits=limits), [HOURLY, body])
    assert await faults(many) == [f"[1].{field}"]
    bulk = create.create_bulk(acting(store, DEFAULT, limits=limits), [body])
    assert await faults(bulk) == [f"[0].{field}"]
    assert await app.list() == ()


@pytest.mark.parametrize("wrong", ["x", 5, None, ["cron_expr"]])
async def test_a_body_that_is_not_an_object_is_refused_by_index(app: Any, wrong: Any) -> None:
    assert await faults(app.create_many([HOURLY, wrong])) == ["[1]"]
    assert await faults(app.create_bulk([HOURLY, wrong])) == ["[1]"]
    assert await app.list() == ()


async def test_a_value_that_is_not_a_list_of_bodies_is_refused(app: Any) -> None:
    for wrong in ("x", 5, None, object(), HOURLY):
        given: Any = wrong
        assert await faults(app.create_many(given)) == ["schedules"]
        assert await faults(app.create_bulk(given)) == ["schedules"]


async def test_a_reference_must_be_an_id_or_a_name(app: Any) -> None:
    wrong: Any = 5
    assert await faults(app.get(wrong)) == ["schedule"]


async def test_a_backfill_of_years_that_no_schedule_has_is_refused(app: Any, store: Store) -> None:
    made = await app.create(**HOURLY)
    first, now = datetime.min.replace(tzinfo=UTC), await store.now()
    assert await faults(app.backfill(made.id, since=first, until=now)) == ["since"]
    text: Any = "yesterday"
    assert await faults(app.backfill(made.id, since=text, until=now)) == ["since"]
    last = datetime.max.replace(tzinfo=UTC)
    assert await faults(app.backfill(made.id, since=now, until=last)) == ["until"]


async def test_a_backfill_of_a_fixed_delay_is_refused_with_what_to_do(
    app: Any, store: Store
) -> None:
    delay: dict[str, Any] = {"interval_seconds": 600, "interval_mode": "fixed_delay"}
    made, now = await app.create(**delay, target={"queue": WORK}), await store.now()
    with pytest.raises(InvalidInput, match=r"interval_mode: .*trigger it instead"):
        await app.backfill(made.id, since=now - timedelta(hours=1), until=now, force=True)
    assert await store.schedules.messages(DEFAULT, made.id.uuid, 10) == ()


async def test_an_end_before_the_next_slot_is_refused_and_a_later_one_is_not(
    app: Any, store: Store
) -> None:
    now = (await store.now()).replace(minute=0, second=0, microsecond=0)
    daily = {"cron_expr": f"0 {now.hour} * * *", "end_at": iso(now + timedelta(hours=23))}
    assert await faults(app.create(**{**HOURLY, **daily})) == ["end_at"]
    await app.create(**{**HOURLY, **daily, "end_at": iso(now + timedelta(hours=25))})


async def test_an_update_may_end_a_schedule(app: Any) -> None:
    await app.create(**HOURLY, name="report")
    assert (await app.update("report", end_at=LONG_AGO)).next_fire_at is None


async def test_an_update_may_repeat_the_schedules_own_name(
    app: Any, store: Store, clock: VirtualClock
) -> None:
    made = await schedule_acts.create(store, clock, name=str(uuid4()))
    assert await faults(app.update(made.id, name=str(uuid4()))) == ["name"]
    assert (await app.update(made.id, priority=7)).name == made.name
    assert (await app.update(made.id, name="other")).name == "other"


async def test_the_key_of_a_deleted_schedule_is_a_conflict(app: Any, store: Store) -> None:
    made = await app.create(**HOURLY, idempotency_key="k")
    assert (await app.create(**HOURLY, idempotency_key="k")).id == made.id
    await app.delete(made.id)
    with pytest.raises(Conflict, match="which is deleted; use another one"):
        await app.create(**HOURLY, idempotency_key="k")
    with pytest.raises(Conflict, match="which is deleted"):
        await app.create_many([HOURLY, {**HOURLY, "idempotency_key": "k"}])
    assert await store.schedules.list(DEFAULT, ScheduleSelection(), 10) == ()


async def test_a_repeat_returns_the_first_schedule_even_if_completed(
    app: Any, store: Store, clock: VirtualClock
) -> None:
    now = await store.now()
    ended = {**HOURLY, "end_at": iso(now + timedelta(hours=2)), "idempotency_key": "ended"}
    rule = {"rrule": "FREQ=DAILY;COUNT=1", "start_at": iso(now + timedelta(hours=1))}
    single = {**rule, "target": {"queue": WORK}, "idempotency_key": "single"}
    first, second = await app.create_many([ended, single])
    clock.advance(seconds=2 * 86_400)
    assert (await app.create(**ended)).id == first.id
    again = await app.create_many([single, HOURLY, ended])
    assert (again[0].id, again[2].id) == (second.id, first.id)
    assert await faults(app.create(**{**ended, "priority": 7})) == ["end_at"]
    assert await faults(app.create(**{**ended, "overlap": object()})) == ["overlap"]
    assert await faults(app.create_many([single, {**HOURLY, "overlap": "no"}])) == ["[1].overlap"]
    assert len(await app.list()) == 3


async def test_an_unknown_choice_is_refused_by_field(app: Any) -> None:
    made = await app.create(**HOURLY)
    wrong: Any = "bogus"
    assert await faults(app.list(status=wrong)) == ["status"]
    assert await faults(app.list(order=wrong)) == ["order"]
    assert await faults(app.firings(made.id, status=wrong)) == ["status"]
    assert await app.list(status="active", order="name") == (made,)
    assert await app.firings(made.id, status="dead") == ()


@pytest.mark.parametrize("year", [1, 1969, 9999])
async def test_why_refuses_years_that_no_schedule_has(app: Any, year: int) -> None:
    made = await app.create(**HOURLY)
    assert await faults(app.why(made.id, datetime(year, 1, 1, tzinfo=UTC))) == ["at"]


async def test_a_calendar_takes_dates_and_their_texts_and_nothing_else(days: Any) -> None:
    made = await days.put("closed", {date(2027, 1, 2), "2027-01-01"})
    assert made.days == ("2027-01-01", "2027-01-02")
    put: Callable[..., Awaitable[object]] = days.put
    assert await faults(put("closed", ["2027-13-01", 5, datetime(2027, 1, 1, tzinfo=UTC)])) == [
        "days[0]",
        "days[1]",
        "days[2]",
    ]
    assert await faults(put("closed", "2027-01-01")) == ["days"]
    assert await faults(put("closed", 5)) == ["days"]
    for wrong in (" ", 5, None, b"x"):
        assert await faults(put(wrong, [])) == ["name"]
    (listed,) = await days.list()
    assert (listed.name, listed.days, listed.updated_at) == (
        made.name,
        made.days,
        made.updated_at,
    )


async def test_a_preview_uses_the_stored_calendars(app: Any, days: Any) -> None:
    await days.put("closed", ["2027-03-02"])
    asked: dict[str, Any] = {"cron_expr": "0 9 * * *", "since": "2027-03-01T00:00:00Z", "limit": 2}
    shown = await app.preview(**asked, calendar="closed")
    assert [fire.fire_at.day for fire in shown.fires] == [1, 3]
    assert await faults(app.preview(**asked, calendar="nowhere")) == ["calendar"]
