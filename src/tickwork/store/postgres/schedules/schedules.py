"""Schedules on PostgreSQL: reads them, and delegates to creator, changer and planner."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tickwork.core.fields import NAME_LENGTH_MAX
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
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.schedules import rows as schedule_rows
from tickwork.store.postgres.schedules.change import Changer
from tickwork.store.postgres.schedules.create import Creator
from tickwork.store.postgres.schedules.plan import Planner
from tickwork.store.shared.group_commit import Grouped
from tickwork.store.steps import Port

_FIRST_ID = UUID(int=0)
_AFTER_ALL_NAMES = "\U0010ffff" * (NAME_LENGTH_MAX + 1)


class PostgresSchedules(Schedules):
    """Reads schedules."""

    def __init__(
        self, port: Port, database: Database, creator: Creator, changer: Changer, planner: Planner
    ) -> None:
        super().__init__(port, creator, changer, planner)
        self._database = database
        self._gets: Grouped[tuple[str | None, UUID], Schedule | None] = database.grouped(self._get)

    async def get(self, scope: Scope, schedule_id: UUID) -> Schedule:
        found = None
        if scope.tenant is None or is_name(scope.tenant):
            found = await self._gets.submit((scope.tenant, schedule_id))
        if found is None or not scope.reaches(found.owner):
            raise NotFound("schedule", schedule_id)
        return found

    async def _get(self, asked: Sequence[tuple[str | None, UUID]]) -> list[Schedule | None]:
        """The schedules that are asked for at the same time, in one statement."""
        columns = [list(column) for column in zip(*asked, strict=True)]
        rows = await self._database.run(
            lambda connection: connection.fetch(SQL.get_schedule, *columns)
        )
        found = {row["number"]: schedule_rows.schedule(row) for row in rows}
        return [found.get(number) for number in range(1, len(asked) + 1)]

    async def find(self, scope: Scope, name: str) -> Schedule | None:
        named = (own_tenant(scope), name)
        if not all(map(is_name, named)):
            return None
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.find_schedule, *named, scope.owner)
        )
        return the_named(schedule_rows.schedules(found))

    async def of_keys(self, scope: Scope, keys: Sequence[str]) -> tuple[Schedule, ...]:
        tenant = own_tenant(scope)
        asked = [key for key in keys if is_name(tenant) and is_name(key)]
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.schedules_of_keys, tenant, [], asked)
        )
        return tuple(
            schedule for schedule in schedule_rows.schedules(found) if scope.reaches(schedule.owner)
        )

    async def list(
        self, scope: Scope, selection: ScheduleSelection, limit: int
    ) -> tuple[Schedule, ...]:
        check_limit(limit)
        texts = (
            scope.tenant,
            selection.name,
            selection.calendar,
            selection.owner,
            selection.name_prefix,
        )
        if selects_nothing(selection, scope) or not all(
            is_name(text) for text in texts if text is not None
        ):
            return ()
        selection, after = in_scope(selection, scope), None
        if selection.after is not None:
            after = await self.get(scope, selection.after)
        statement, values = _listing(scope, selection, after, limit)
        found = await self._database.fetch_with_custom_plan(statement, *values)
        return schedule_rows.schedules(found)

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
        if scope.tenant is not None and not is_name(scope.tenant):
            return ()
        values = (*bounds, *(after or (bounds[0], _FIRST_ID)), until, since, limit)
        found = await self._database.fetch_with_custom_plan(SQL.alike_schedules, *values)
        return tuple(map(schedule_rows.alike, found))


def _listing(
    scope: Scope, selection: ScheduleSelection, after: Schedule | None, limit: int
) -> tuple[str, tuple[Any, ...]]:
    """The cheapest statement for a selection, and its parameters."""
    bounds = (scope.tenant or FIRST_TENANT, scope.tenant or LAST_TENANT)
    behind = (bounds[0], _FIRST_ID) if after is None else (after.tenant, after.id)
    named = (selection.name, selection.calendar)
    more = (selection.owner, selection.name_prefix, selection.metadata)
    if selection.order is ScheduleOrder.NEXT_DUE:
        since = (selection.due_from, _FIRST_ID) if after is None else (after.due_at, after.id)
        values = (*bounds, *since, selection.before, selection.status, *named, limit, *more)
        is_all = scope.tenant is None
        return SQL.all_schedules_by_due if is_all else SQL.schedules_by_due, values
    if selection.order is ScheduleOrder.NAME:
        last = "" if after is None else after.name
        last_owner = "" if after is None else after.owner or ""
        if last is None or (after is not None and after.status is ScheduleStatus.DELETED):
            last = _AFTER_ALL_NAMES
        else:
            behind = (behind[0], _FIRST_ID)
        return SQL.schedules_by_name, (
            *bounds,
            *behind,
            selection.status,
            *named,
            limit,
            last,
            *more,
            last_owner,
        )
    if selection.calendar is not None:
        return SQL.schedules_of_calendar, (*bounds, *behind, selection.status, *named, limit, *more)
    return SQL.schedules_by_id, (*bounds, *behind, selection.status, *named, limit, *more)
