"""Schedules whose next slot is another one now: because of a calendar, or of new zone data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from tickwork.core.model import Scope
from tickwork.core.schedule.change import Decide
from tickwork.core.schedule.model import Schedule
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.tzdata_change import Anew, Waiting, depends_on_zone, is_moved
from tickwork.core.schedule.withdraw import Withdraw
from tickwork.errors import NotFound
from tickwork.ops.schedule_facts import Holidays, holidays_among, rule_with
from tickwork.ops.schedule_views import fires_next
from tickwork.store.contract import Store


class Moved(Struct, frozen=True):
    """A schedule whose next slot is another one now."""

    id: UUID
    name: str | None
    before: datetime | None
    after: datetime | None


async def change_times(
    store: Store,
    schedule: Schedule | Waiting,
    decide: Decide,
    *,
    withdraw: Withdraw = Withdraw.COMING,
    under: Grant | None = None,
) -> Moved | None:
    """Lets a schedule go on as is decided, with what was planned and is not due yet taken back."""
    own, before = Scope(schedule.tenant), _fires_next(schedule)
    try:
        changed = await store.schedules.change(own, schedule.id, withdraw, decide, under=under)
    except NotFound:
        return None  # It was deleted meanwhile.
    after = fires_next(changed) if isinstance(schedule, Schedule) else changed.next_slot
    if after == before:
        return None
    return Moved(schedule.id, schedule.name, before, after)


def _fires_next(schedule: Schedule | Waiting) -> datetime | None:
    """Its next slot; of a whole schedule the next one that is not on a day off."""
    return fires_next(schedule) if isinstance(schedule, Schedule) else schedule.next_slot


async def rezone(
    store: Store, grant: Grant, found: Sequence[Waiting], now: datetime
) -> tuple[Moved, ...]:
    """Computes schedules of a shard anew under the zone data of this process, while that shard is
    granted; says which ones moved. Those that stay as they are cost nothing but the look. If one of
    them cannot be computed none of them is touched."""
    known: dict[tuple[str, str | None], Holidays] = {}
    touched: list[Waiting] = []
    for each in found:
        if not depends_on_zone(each.rule):
            continue
        calendar = each.tenant, each.rule.calendar
        if calendar not in known:
            known[calendar] = await _holidays(store, *calendar)
        if is_moved(each, rule_with(each.rule, known[calendar]), now):
            touched.append(each)
    changes = [
        await _rezone(store, grant, each, known[each.tenant, each.rule.calendar])
        for each in touched
    ]
    return tuple(each for each in changes if each is not None)


async def _rezone(store: Store, grant: Grant, found: Waiting, days: Holidays) -> Moved | None:
    decide = Anew(lambda schedule: rule_with(schedule.definition.rule, days))
    moved = await change_times(store, found, decide, under=grant)
    if decide.keeps:
        return await change_times(store, found, decide, withdraw=Withdraw.NOTHING, under=grant)
    return moved


async def _holidays(store: Store, tenant: str, calendar: str | None) -> Holidays:
    if calendar is None:
        return {}
    return await holidays_among(store, Scope(tenant), [{"calendar": calendar}])
