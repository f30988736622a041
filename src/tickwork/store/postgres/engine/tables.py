"""Writes the tables of a copy, chunk by chunk, each with its position in one transaction.

Until the copy is complete, triggers refuse every other change, so no process works on half of it.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from tickwork.errors import Conflict
from tickwork.store.postgres.engine.database import CONNECT_ERRORS, as_store_error
from tickwork.store.postgres.engine.migrate import connected
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.table_copy import DERIVED, CopiedTable, checksum, fitted

CHECKED_AT_ONCE = 5_000
"""Number of rows that are read at once for a checksum."""

_SOURCE = "source"
_SEEDS = {"tickwork_tenants": "id <> 'default'"}
_DERIVE = (
    "derive_keys",
    "derive_backlogs",
    "derive_schedule_counts",
    "derive_history_marks",
)


class PostgresTables:
    """The tables of one database, over one connection."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], url: str) -> None:
        self._connection, self._url = connection, url

    async def columns(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for row in await self._connection.fetch(SQL.copy_columns):
            found.setdefault(row["name"], {})[row["field"]] = row["kind"]
        return found

    async def begin(self, tables: Sequence[CopiedTable], source: str) -> bool:
        if await self._connection.fetchval(SQL.has_copy):
            known = await self._connection.fetchval(SQL.get_copied, _SOURCE)
            if known != source:
                raise Conflict(f"the target has an incomplete copy of {known}; use an empty one")
            return True
        async with self._connection.transaction():
            for name in [*(table.name for table in tables), *DERIVED]:
                others = _SEEDS.get(name, "true")
                statement = fitted(SQL.table_has_rows, table=name, condition=others)
                if await self._connection.fetchval(statement):
                    raise Conflict(f"the target is not empty: {name} has rows; use a new database")
            await self._connection.execute(SQL.create_copy)
            await self._connection.execute(SQL.create_copy_guard)
            for name in await self.columns():
                await self._connection.execute(fitted(SQL.guard_table, table=name))
            await self._connection.execute(SQL.note_copied, _SOURCE, source, 0, False)
            for name in _SEEDS:
                await self._connection.execute(fitted(SQL.delete_seeds, table=name))
        return False

    async def position(self, table: CopiedTable) -> tuple[list[Any] | None, int, bool]:
        row = await self._connection.fetchrow(SQL.get_copied, table.name)
        if row is None:
            return None, 0, False
        position = None if row["position"] is None else literal_eval(row["position"])
        return position, row["copied"], row["is_done"]

    async def write(
        self,
        table: CopiedTable,
        rows: Sequence[tuple[Any, ...]],
        position: Sequence[Any] | None,
    ) -> None:
        async with self._connection.transaction():
            if rows:
                empty = [list[Any]() for _ in table.filled]
                await self._connection.copy_records_to_table(
                    table.name,
                    records=[(*row, *empty) for row in rows] if empty else rows,
                    columns=[*table.names, *table.filled],
                )
            text = None if position is None else repr([*position])
            await self._connection.execute(
                SQL.note_copied, table.name, text, len(rows), position is None
            )

    async def checksum(self, table: CopiedTable) -> tuple[int, int]:
        number, total = 0, 0
        columns = ", ".join(f'"{name}"' for name in table.names)
        async with self._connection.transaction():
            cursor = await self._connection.cursor(
                fitted(SQL.copied_rows, table=table.name, fields=columns)
            )
            while rows := await cursor.fetch(CHECKED_AT_ONCE // table.weight):
                number += len(rows)
                total += checksum(table, [tuple(row) for row in rows])
        return number, total % 2**64

    async def finish(self, tzdata: str | None) -> None:
        async with self._connection.transaction():
            for name in _DERIVE:
                await self._connection.execute(getattr(SQL, name))
            await self._connection.execute(SQL.set_zones, tzdata)
            for name in await self.columns():
                await self._connection.execute(fitted(SQL.open_table, table=name))
            await self._connection.execute(SQL.drop_copy_guard)
            await self._connection.execute(SQL.drop_copy)
        await self._connection.execute("ANALYZE")


@asynccontextmanager
async def open_tables(url: str) -> AsyncIterator[PostgresTables]:
    """The tables of a database, over a connection that its guard lets write."""
    try:
        async with connected(url) as connection:
            await connection.execute("SET tickwork.is_copy = 'yes'")
            yield PostgresTables(connection, url)
    except (asyncpg.PostgresError, *CONNECT_ERRORS) as error:
        raise as_store_error(error, url) from error
