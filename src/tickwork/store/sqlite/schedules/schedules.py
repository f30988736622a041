"""Schedules on SQLite: the contract's methods, and lists of schedules.

A tenant's list reads an index in the requested order. The system's lists are merged from those.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.core.schedule.forecast import AlikeSchedules
from tickwork.core.schedule.model import (
    Schedule,
    ScheduleOrder,
    ScheduleSelection,
    ScheduleStatus,
    in_scope,
    selects_nothing,
    the_named,
)
from tickwork.errors import NotFound
from tickwork.store.ids import FIRST_TENANT, LAST_TENANT, own_tenant
from tickwork.store.nouns.schedules import Schedules
from tickwork.store.shared.group_commit import Grouped
from tickwork.store.shared.shard_layout import ShardLayout
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.queue_rows import is_storable, tenants_of
from tickwork.store.sqlite.schedules.change import Changer, find, find_if_any
from tickwork.store.sqlite.schedules.create import Creator
from tickwork.store.sqlite.schedules.plan import Planner
from tickwork.store.sqlite.schedules.rows import StoredSchedule, read_alike, read_schedule
from tickwork.store.steps import Port

_FIRST_ID = b""
_NEVER = 2**62


def _coming(
    transaction: Transaction,
    tenants: Sequence[str],
    selection: ScheduleSelection,
    after: Schedule | None,
    limit: int,
) -> list[Schedule]:
    """Schedules of all tenants together, soonest due first."""
    found = [
        schedule
        for tenant in tenants
        for schedule in _of_tenant(transaction, tenant, selection, after, limit)
    ]
    return sorted(
        found, key=lambda schedule: (schedule.due_at, schedule.id.bytes, schedule.tenant)
    )[:limit]


def _by_tenant(
    transaction: Transaction,
    tenants: Sequence[str],
    selection: ScheduleSelection,
    after: Schedule | None,
    limit: int,
) -> list[Schedule]:
    """Tenant by tenant, starting after the given schedule."""
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
    """A tenant's schedules after the given one, up to the limit."""
    behind = _FIRST_ID if after is None else after.id.bytes
    wanted = (
        selection.status and str(selection.status), selection.calendar, selection.name, limit,
    )  # fmt: skip
    more = (selection.owner, selection.name_prefix, selection.metadata)
    found: list[Any] = []
    if selection.order is ScheduleOrder.NEXT_DUE:
        start = selection.due_from if after is None else after.due_at
        since = -_NEVER if start is None else to_microseconds(start)
        until = _NEVER if selection.before is None else to_microseconds(selection.before)
        values = (tenant, since, *wanted, behind, until, *more)
        is_of_owner = selection.owner is not None
        statement = SQL.schedules_of_owner_by_due if is_of_owner else SQL.schedules_by_due
        found = transaction.execute(statement, values).fetchall()
    elif selection.order is ScheduleOrder.NAME:
        last = "" if after is None else _name(after)
        if last is not None:
            last_owner = "" if after is None else after.owner or ""
            found = transaction.execute(
                SQL.schedules_by_name, (tenant, last, *wanted, last_owner, None, *more)
            ).fetchall()
            behind = _FIRST_ID
        if len(found) < limit:
            rest = (*wanted[:-1], limit - len(found))
            found += transaction.execute(
                SQL.schedules_without_name, (tenant, behind, *rest, None, None, *more)
            ).fetchall()
    else:
        found = transaction.execute(
            _by_id(selection), (tenant, behind, *wanted, None, None, *more)
        ).fetchall()
    return [read_schedule(row).schedule for row in found]


def _name(schedule: Schedule) -> str | None:
    """The name of a schedule; a deleted one has none."""
    return None if schedule.status is ScheduleStatus.DELETED else schedule.name


def _by_id(selection: ScheduleSelection) -> str:
    """The list statement that reads the fewest rows."""
    statement: str = SQL.schedules_by_id
    if selection.calendar is not None:
        statement = SQL.schedules_of_calendar
    elif selection.owner is not None:
        statement = SQL.schedules_of_owner
    elif selection.status is not None:
        statement = SQL.schedules_of_status
    return statement


class SqliteSchedules(Schedules):
    """Reads schedules."""

    def __init__(self, port: Port, database: Database, layout: ShardLayout) -> None:
        super().__init__(port, Creator(database), Changer(database), Planner(database, layout))
        self._database = database
        self._gets: Grouped[tuple[Scope, UUID], StoredSchedule | None] = database.grouped(self._get)

    async def get(self, scope: Scope, schedule_id: UUID) -> Schedule:
        found = await self._gets.submit((scope, schedule_id))
        if found is None:
            raise NotFound("schedule", schedule_id)
        return found.schedule

    def _get(self, asked: Sequence[tuple[Scope, UUID]]) -> Awaitable[list[StoredSchedule | None]]:
        """The schedules that are asked for at the same time, in one turn of a reader."""
        return self._database.read(
            lambda transaction: [find_if_any(transaction, *pair) for pair in asked]
        )

    async def find(self, scope: Scope, name: str) -> Schedule | None:
        values = (own_tenant(scope), name)
        if not all(map(is_name, values)):
            return None
        found = await self._database.read(
            lambda transaction: transaction.execute(
                SQL.find_schedule, (*values, scope.owner)
            ).fetchall()
        )
        return the_named([read_schedule(row).schedule for row in found])

    async def of_keys(self, scope: Scope, keys: Sequence[str]) -> tuple[Schedule, ...]:
        tenant = own_tenant(scope)
        asked = [key for key in dict.fromkeys(keys) if is_name(tenant) and is_name(key)]

        def work(transaction: Transaction) -> list[Any]:
            named = [(tenant, key, scope.owner) for key in asked]
            found = (transaction.execute(SQL.schedules_of_keys, values) for values in named)
            return [row for rows in found for row in rows.fetchall()]

        return tuple(read_schedule(row).schedule for row in await self._database.read(work))

    async def list(
        self, scope: Scope, selection: ScheduleSelection, limit: int
    ) -> tuple[Schedule, ...]:
        check_limit(limit)
        said = (
            scope.tenant,
            selection.name,
            selection.calendar,
            selection.owner,
            selection.name_prefix,
        )
        if selects_nothing(selection, scope) or not all(
            is_storable(text) for text in said if text is not None
        ):
            return ()

        own = in_scope(selection, scope)

        def work(transaction: Transaction) -> list[Schedule]:
            after = None
            if own.after is not None:
                after = find(transaction, scope, own.after).schedule
            tenants = sorted(tenants_of(transaction, scope))
            if own.order is ScheduleOrder.NEXT_DUE:
                return _coming(transaction, tenants, own, after, limit)
            return _by_tenant(transaction, tenants, own, after, limit)

        return tuple(await self._database.read(work))

    async def alike(
        self,
        scope: Scope,
        limit: int,
        *,
        since: datetime,
        until: datetime,
        after: tuple[str, UUID] | None = None,
    ) -> tuple[AlikeSchedules, ...]:
        check_limit(limit)
        bounds = (scope.tenant or FIRST_TENANT, scope.tenant or LAST_TENANT)
        if scope.tenant is not None and not is_storable(scope.tenant):
            return ()
        behind = (bounds[0], _FIRST_ID) if after is None else (after[0], after[1].bytes)
        values = (*bounds, *behind, to_microseconds(until), to_microseconds(since), limit)
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.alike_schedules, values).fetchall()
        )
        return tuple(map(read_alike, found))
