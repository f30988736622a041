"""Calendars on PostgreSQL: days off under a name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from tickwork.core.limits import NAME_LENGTH_MAX, is_name, text_faults
from tickwork.core.model import Scope
from tickwork.core.schedule.model import Calendar
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL


class PostgresCalendars:
    """Days off by name."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment

    async def put(self, scope: Scope, name: str, days: Sequence[date]) -> Calendar:
        if faults := text_faults("name", name, NAME_LENGTH_MAX):
            raise InvalidInput(faults)
        tenant, text = own_tenant(scope), sorted({day.isoformat() for day in days})

        async def work(connection: Connection) -> Calendar:
            row = None
            if is_name(tenant):
                row = await connection.fetchrow(
                    SQL.put_calendar, self._moment(), tenant, name, text
                )
            if row is None:
                raise NotFound("tenant", tenant)
            return _calendar(row)

        return await self._database.change(work)

    async def get(self, scope: Scope, name: str) -> Calendar:
        named, row = (own_tenant(scope), name), None
        if all(map(is_name, named)):
            row = await self._database.run(
                lambda connection: connection.fetchrow(SQL.get_calendar, *named)
            )
        if row is None:
            raise NotFound("calendar", name)
        return _calendar(row)

    async def list(self, scope: Scope) -> tuple[Calendar, ...]:
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_calendars, tenant)
        )
        return tuple(map(_calendar, found))

    async def delete(self, scope: Scope, name: str) -> None:
        named = (own_tenant(scope), name)

        async def work(connection: Connection) -> None:
            row = None
            if all(map(is_name, named)):
                row = await connection.fetchrow(SQL.lock_calendar, *named)
            if row is None:
                raise NotFound("calendar", name)
            if row["is_used"]:
                raise Conflict(f"calendar {name} is used by schedules; change or delete them first")
            await connection.execute(SQL.delete_calendar, *named)

        await self._database.change(work)


def _calendar(row: Any) -> Calendar:
    return Calendar(
        tenant=row["tenant"],
        name=row["name"],
        days=tuple(row["days"]),
        version=row["version"],
        updated_at=row["updated_at"],
    )
