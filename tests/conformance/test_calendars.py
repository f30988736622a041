"""Calendars: named lists of days off, with a version that changes with the days."""

from datetime import date

import pytest

from tests.conformance.acts import make_queue, make_tenants
from tests.conformance.schedule_acts import create, delete, lead, look
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.schedule.model import Calendar
from tickwork.errors import Conflict, NotFound
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

NEW_YEAR, MAY_DAY, CHRISTMAS = date(2026, 1, 1), date(2026, 5, 1), date(2026, 12, 25)


async def test_a_calendar_stores_its_days_sorted_and_unique(
    store: Store, clock: VirtualClock
) -> None:
    made = await store.calendars.put(DEFAULT, "feasts", [CHRISTMAS, NEW_YEAR, CHRISTMAS])
    assert made == Calendar(
        tenant="default",
        name="feasts",
        days=("2026-01-01", "2026-12-25"),
        version=made.version,
        updated_at=clock.now(),
    )
    assert await store.calendars.get(DEFAULT, "feasts") == made
    with pytest.raises(NotFound):
        await store.calendars.get(DEFAULT, "others")


async def test_only_different_days_make_a_new_version(store: Store, clock: VirtualClock) -> None:
    first = await store.calendars.put(DEFAULT, "feasts", [NEW_YEAR])
    clock.advance(seconds=1)
    assert await store.calendars.put(DEFAULT, "feasts", [NEW_YEAR]) == first
    second = await store.calendars.put(DEFAULT, "feasts", [NEW_YEAR, MAY_DAY])
    assert second.version > first.version
    assert (second.days, second.updated_at) == (("2026-01-01", "2026-05-01"), clock.now())
    third = await store.calendars.put(DEFAULT, "feasts", [])
    assert (third.days, third.version > second.version) == ((), True)


async def test_a_tenant_sees_only_its_own_calendars(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    await store.calendars.put(one, "feasts", [NEW_YEAR])
    with pytest.raises(NotFound):
        await store.calendars.get(two, "feasts")
    assert await store.calendars.list(two) == ()
    mine = await store.calendars.put(SYSTEM, "feasts", [MAY_DAY])
    assert mine.tenant == "default"
    assert await store.calendars.get(DEFAULT, "feasts") == mine
    assert (await store.calendars.get(one, "feasts")).days == ("2026-01-01",)


async def test_calendars_are_listed_by_name(store: Store) -> None:
    for name in ("c", "a", "b"):
        await store.calendars.put(DEFAULT, name, [NEW_YEAR])
    assert [calendar.name for calendar in await store.calendars.list(DEFAULT)] == ["a", "b", "c"]


async def test_a_calendar_in_use_is_not_deleted(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await store.calendars.put(DEFAULT, "feasts", [NEW_YEAR])
    made = await create(store, clock, calendar="feasts")
    with pytest.raises(Conflict):
        await store.calendars.delete(DEFAULT, "feasts")
    await delete(store, made)
    await store.calendars.delete(DEFAULT, "feasts")
    with pytest.raises(NotFound):
        await store.calendars.get(DEFAULT, "feasts")
    with pytest.raises(NotFound):
        await store.calendars.delete(DEFAULT, "feasts")


async def test_a_due_schedule_carries_the_version_of_its_calendar(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    calendar = await store.calendars.put(DEFAULT, "feasts", [MAY_DAY])
    await create(store, clock, calendar="feasts")
    plain = await create(store, clock)
    clock.advance(seconds=30)
    leader = await lead(store)
    seen = {
        schedule.id == plain.id: schedule.calendar_version for schedule in await look(store, leader)
    }
    assert seen == {True: None, False: calendar.version}
    changed = await store.calendars.put(DEFAULT, "feasts", [NEW_YEAR])
    seen = {
        schedule.id == plain.id: schedule.calendar_version for schedule in await look(store, leader)
    }
    assert seen == {True: None, False: changed.version}
    assert all(not schedule.rule.holidays for schedule in await look(store, leader))


async def test_a_recreated_calendar_has_a_new_version(store: Store, clock: VirtualClock) -> None:
    first = await store.calendars.put(DEFAULT, "closed", [date(2026, 1, 6)])
    await store.calendars.delete(DEFAULT, "closed")
    clock.advance(seconds=1)
    second = await store.calendars.put(DEFAULT, "closed", [date(2026, 1, 7)])
    assert second.version != first.version
