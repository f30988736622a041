"""Lists of schedules on SQLite: each tenant's by an index in the order asked for; the system's are
put together from those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwork.core.limits import check_limit
from tickwork.core.model import Scope
from tickwork.core.schedule.model import (
    Order,
    Schedule,
    ScheduleSelection,
    ScheduleStatus,
    is_of_nobody,
)
from tickwork.store.sqlite.changing import find
from tickwork.store.sqlite.database import Database
from tickwork.store.sqlite.finding import is_storable, tenants_of
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.schedule_rows import stored
from tickwork.store.sqlite.statements import SQL
from tickwork.store.sqlite.times import to_microseconds

_FIRST_ID = b""
_NEVER = 2**62


class Lister:
    """Finds schedules by what is said of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self, scope: Scope, selection: ScheduleSelection, limit: int
    ) -> tuple[Schedule, ...]:
        check_limit(limit)
        said = (scope.tenant, selection.name, selection.calendar)
        if is_of_nobody(selection) or not all(
            is_storable(text) for text in said if text is not None
        ):
            return ()

        def work(transaction: Transaction) -> list[Schedule]:
            after = None
            if selection.after is not None:
                after = find(transaction, scope, selection.after).schedule
            tenants = sorted(tenants_of(transaction, scope))
            if selection.order is Order.NEXT_DUE:
                return _coming(transaction, tenants, selection, after, limit)
            return _by_tenant(transaction, tenants, selection, after, limit)

        return tuple(await self._database.read(work))


def _coming(
    transaction: Transaction,
    tenants: Sequence[str],
    selection: ScheduleSelection,
    after: Schedule | None,
    limit: int,
) -> list[Schedule]:
    """Of all tenants together, soonest due first."""
    found = [
        each
        for tenant in tenants
        for each in _of_tenant(transaction, tenant, selection, after, limit)
    ]
    return sorted(found, key=lambda each: (each.due_at, each.id.bytes, each.tenant))[:limit]


def _by_tenant(
    transaction: Transaction,
    tenants: Sequence[str],
    selection: ScheduleSelection,
    after: Schedule | None,
    limit: int,
) -> list[Schedule]:
    """Tenant by tenant, from that of the schedule they are behind on."""
    found: list[Schedule] = []
    for tenant in tenants:
        if len(found) == limit:
            break
        if after is None or tenant > after.tenant:
            found += _of_tenant(transaction, tenant, selection, None, limit - len(found))
        elif tenant == after.tenant:
            found += _of_tenant(transaction, tenant, selection, after, limit - len(found))
    return found


def _of_tenant(
    transaction: Transaction,
    tenant: str,
    selection: ScheduleSelection,
    after: Schedule | None,
    limit: int,
) -> list[Schedule]:
    """A tenant's schedules behind one, as many as wanted."""
    behind = _FIRST_ID if after is None else after.id.bytes
    wanted = (
        selection.status and str(selection.status), selection.calendar, selection.name, limit,
    )  # fmt: skip
    found: list[Any] = []
    if selection.order is Order.NEXT_DUE:
        since = -_NEVER if after is None or after.due_at is None else to_microseconds(after.due_at)
        until = _NEVER if selection.before is None else to_microseconds(selection.before)
        values = (tenant, since, *wanted, behind, until)
        found = transaction.execute(SQL.list_coming, values).fetchall()
    elif selection.order is Order.NAME:
        last = "" if after is None else _name(after)
        if last is not None:
            found = transaction.execute(SQL.list_named, (tenant, last, *wanted)).fetchall()
            behind = _FIRST_ID
        if len(found) < limit:
            more = (*wanted[:-1], limit - len(found))
            found += transaction.execute(SQL.list_nameless, (tenant, behind, *more)).fetchall()
    else:
        found = transaction.execute(_by_id(selection), (tenant, behind, *wanted)).fetchall()
    return [stored(row).schedule for row in found]


def _name(schedule: Schedule) -> str | None:
    """The name of a schedule; a deleted one has none any more."""
    return None if schedule.status is ScheduleStatus.DELETED else schedule.name


def _by_id(selection: ScheduleSelection) -> str:
    """The statement that reads least."""
    statement: str = SQL.list_schedules
    if selection.calendar is not None:
        statement = SQL.list_of_calendar
    elif selection.status is not None:
        statement = SQL.list_of_status
    return statement
