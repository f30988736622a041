"""Reads whole tables of a SQLite file for a copy, and freezes the file meanwhile.

A frozen file has triggers that refuse every change of its tables, so processes of any version stop
writing at once. Reading goes on.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tickwork.store.shared.database_url import FROZEN
from tickwork.store.shared.table_copy import PREFIX, CopiedTable, convert, fitted
from tickwork.store.sqlite.engine.connection import Connection
from tickwork.store.sqlite.engine.file import DatabaseFile, locate
from tickwork.store.sqlite.engine.migrate import check_version
from tickwork.store.sqlite.engine.sql import SQL

T = TypeVar("T")

_TRIGGER = "tickwork_frozen_"


class SqliteTables:
    """The tables of one file. Each call has a connection of its own."""

    def __init__(self, path_or_url: str | Path) -> None:
        self._file = DatabaseFile(locate(path_or_url))

    async def columns(self) -> Mapping[str, Sequence[str]]:
        return await self._run(
            lambda connection: {name: _columns(connection, name) for name in _tables(connection)}
        )

    async def freeze(self, note: str) -> None:
        def work(connection: Connection) -> None:
            self._file.begin(connection)
            _drop_triggers(connection)
            text = _frozen_text(note)
            for table in _tables(connection):
                for act in ("insert", "update", "delete"):
                    trigger = f"{_TRIGGER}{act}_{table}"
                    parts = {"trigger": trigger, "act": act, "table": table, "note": text}
                    connection.execute(fitted(SQL.freeze_table, **parts))
            connection.commit()

        await self._run(work)

    async def is_frozen(self, note: str) -> bool:
        text = _frozen_text(note)
        return await self._run(
            lambda connection: any(
                text in sql for sql in _objects(connection, "trigger", _TRIGGER).values()
            )
        )

    async def thaw(self) -> bool:
        def work(connection: Connection) -> bool:
            self._file.begin(connection)
            dropped = _drop_triggers(connection)
            connection.commit()
            return dropped > 0

        return await self._run(work)

    async def page(
        self, table: CopiedTable, after: Sequence[Any] | None, limit: int
    ) -> tuple[list[tuple[Any, ...]], list[Any] | None]:
        def work(connection: Connection) -> tuple[list[tuple[Any, ...]], list[Any] | None]:
            key = _key(connection, table.source)
            position = ", ".join(key)
            condition = f"({table.condition})"
            if after is not None:
                condition += f" AND ({position}) > ({', '.join('?' * len(key))})"
            expressions = ", ".join(expression for _, _, expression in table.columns)
            statement = fitted(
                SQL.page_of_table,
                position=position,
                fields=expressions,
                table=table.source,
                condition=condition,
            )
            found = connection.execute(statement, (*(after or ()), limit)).fetchall()
            rows = [convert(table, row[len(key) :]) for row in found]
            return rows, [*found[-1][: len(key)]] if found else None

        return await self._run(work)

    async def count(self, table: CopiedTable) -> int:
        statement = fitted(SQL.count_rows, table=table.source, condition=table.condition)
        return await self._run(lambda connection: int(connection.execute(statement).fetchone()[0]))

    async def tzdata(self) -> str | None:
        (found,) = await self._run(
            lambda connection: connection.execute(SQL.oldest_tzdata).fetchone()
        )
        return None if found is None else str(found)

    async def _run(self, work: Callable[[Connection], T]) -> T:
        def run() -> T:
            try:
                connection = self._file.connect()
                try:
                    check_version(connection, self._file)
                    return work(connection)
                finally:
                    connection.close()
            except sqlite3.Error as error:
                raise self._file.as_store_error(error) from error

        return await asyncio.to_thread(run)


def _frozen_text(note: str) -> str:
    """The error that writers get, as a literal of SQL."""
    return "'" + f"{FROZEN}{note}".replace("'", "''") + "'"


def _objects(connection: Connection, kind: str, prefix: str) -> dict[str, str]:
    """The statements of our tables or triggers by name."""
    found = connection.execute(SQL.list_objects, (kind,)).fetchall()
    return {name: sql for name, sql in found if name.startswith(prefix)}


def _tables(connection: Connection) -> dict[str, str]:
    return _objects(connection, "table", PREFIX)


def _columns(connection: Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _key(connection: Connection, table: str) -> list[str]:
    """The columns by which rows are read: the primary key of a table without rowid."""
    if "WITHOUT ROWID" not in _tables(connection)[table].upper():
        return ["rowid"]
    rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return [f'"{row[1]}"' for row in sorted(rows, key=lambda row: int(row[5])) if row[5]]


def _drop_triggers(connection: Connection) -> int:
    names = [*_objects(connection, "trigger", _TRIGGER)]
    for name in names:
        connection.execute(fitted(SQL.drop_trigger, trigger=name))
    return len(names)
