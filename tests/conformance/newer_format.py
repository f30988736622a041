"""Rows in a newer format, as a newer version of Tickwork would write them."""

import sqlite3
from contextlib import closing
from uuid import UUID

import asyncpg

from tests.stores.home import Home
from tests.stores.open_homes import ModelHome
from tests.stores.postgres_home import PostgresHome
from tests.stores.sqlite_home import SqliteHome
from tickwork.core.model import FORMAT_VERSION

NEWER = FORMAT_VERSION + 1


async def make_newer(home: Home, message_id: UUID) -> None:
    """Rewrites the message in the newer format."""
    if isinstance(home, PostgresHome):
        connection = await asyncpg.connect(home.url)
        await connection.execute(
            "UPDATE tickwork_messages SET format = $1 WHERE id = $2", NEWER, message_id
        )
        await connection.close()
    elif isinstance(home, SqliteHome):
        with closing(sqlite3.connect(home.path)) as file, file:
            file.execute(
                "UPDATE tickwork_messages SET format = ? WHERE id = ?", (NEWER, message_id.bytes)
            )
    else:
        assert isinstance(home, ModelHome)
        for row in [*home.tables.messages.values()]:
            if row.message.id == message_id:
                home.tables.put(row.changed(format=NEWER))
