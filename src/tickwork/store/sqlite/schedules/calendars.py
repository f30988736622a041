"""Calendars on SQLite: named lists of days off."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import msgspec

from tickwork.core.limits import NAME_LENGTH_MAX, is_name, text_faults
from tickwork.core.model import Scope
from tickwork.core.schedule.model import Calendar
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.store.ids import own_tenant
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows

_DAYS = msgspec.json.Decoder(tuple[str, ...])


class SqliteCalendars:
    """Calendars by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, scope: Scope, name: str, days: Sequence[date]) -> Calendar:
        if faults := text_faults("name", name, NAME_LENGTH_MAX):
            raise InvalidInput(faults)
        tenant = own_tenant(scope)
        text = msgspec.json.encode(sorted({day.isoformat() for day in days})).decode()

        def work(transaction: Transaction) -> rows.Row:
            execute = transaction.execute
            if not is_name(tenant) or not execute(SQL.get_tenant, (tenant,)).fetchone():
                raise NotFound("tenant", tenant)
            execute(SQL.put_calendar, (tenant, name, text, transaction.now))
            row: rows.Row = execute(SQL.get_calendar, (tenant, name)).fetchone()
            return row

        return _calendar(await self._database.change(work))

    async def get(self, scope: Scope, name: str) -> Calendar:
        values = (own_tenant(scope), name)
        row = None
        if all(map(is_name, values)):
            row = await self._database.read(
                lambda transaction: transaction.execute(SQL.get_calendar, values).fetchone()
            )
        if row is None:
            raise NotFound("calendar", name)
        return _calendar(row)

    async def list(self, scope: Scope) -> tuple[Calendar, ...]:
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.list_calendars, (tenant,)).fetchall()
        )
        return tuple(map(_calendar, found))

    async def delete(self, scope: Scope, name: str) -> None:
        values = (own_tenant(scope), name)

        def work(transaction: Transaction) -> None:
            execute = transaction.execute
            if not all(map(is_name, values)) or not execute(SQL.get_calendar, values).fetchone():
                raise NotFound("calendar", name)
            if execute(SQL.delete_calendar, values).rowcount == 0:
                raise Conflict(f"calendar {name} is used by schedules; change or delete them first")

        await self._database.change(work)


def _calendar(row: rows.Row) -> Calendar:
    tenant, name, days, version, updated_at = row
    return Calendar(
        tenant=tenant,
        name=name,
        days=_DAYS.decode(days),
        version=version,
        updated_at=from_microseconds(updated_at),
    )
