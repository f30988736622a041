"""What is done with a database as a whole: open it, migrate it, examine it, copy it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tickwork.errors import FieldError, InvalidInput
from tickwork.extras import postgres_extra
from tickwork.settings import Settings
from tickwork.store.ids import Moment, database_time
from tickwork.wiring.backend import PostgresBackend, SqliteBackend, backend_of

if TYPE_CHECKING:
    from tickwork.ops.copy import CopiedRows, Progress
    from tickwork.store.contract import Store
    from tickwork.store.shared.doctor import Finding
    from tickwork.store.shared.sql_files import Migration


async def open_store(
    settings: Settings,
    *,
    moment: Moment = database_time,
    create: bool = True,
    is_temporary: bool = False,
    for_caller: bool = False,
) -> Store:
    """Opens the store of these settings, as `Backend.open` says."""
    backend = backend_of(settings)
    return await backend.open(
        moment=moment, create=create, is_temporary=is_temporary, for_caller=for_caller
    )


async def migrate(settings: Settings) -> tuple[Migration, ...]:
    """Migrates the schema; returns the migrations that were applied."""
    return await backend_of(settings).migrate()


def database_identity(settings: Settings, *, environ: Mapping[str, str]) -> object:
    """Identifies the database of these settings: equal for all spellings of its URL."""
    return backend_of(settings).identity(environ)


def shown_database(settings: Settings) -> str:
    """The database of these settings for people."""
    return backend_of(settings).shown()


def has_one_writer(settings: Settings) -> bool:
    """Whether several processes on this database are no faster than one."""
    return backend_of(settings).has_one_writer


async def examine(settings: Settings) -> tuple[Finding, ...]:
    """Checks the database's configuration, and which processes run on it."""
    from tickwork.ops.cluster import examine_processes
    from tickwork.store.shared.doctor import Level

    found = await backend_of(settings).examine()
    if any(finding.level is Level.BAD for finding in found):
        return found
    store = await open_store(settings)
    try:
        return (*found, *await examine_processes(store))
    finally:
        await store.close()


async def copy(
    source: str, target: str, *, on_progress: Progress | None = None
) -> tuple[CopiedRows, ...]:
    """Copies a SQLite file to an empty PostgreSQL database, or continues a copy."""
    from tickwork.ops.copy import copy_database
    from tickwork.store.sqlite.engine.tables import SqliteTables

    file, server = backend_of(Settings(database=source)), backend_of(Settings(database=target))
    if not (isinstance(file, SqliteBackend) and isinstance(server, PostgresBackend)):
        fault = "copies a SQLite file to a PostgreSQL database, not the other way"
        raise InvalidInput([FieldError("copy", fault)])
    with postgres_extra():
        from tickwork.store.postgres.engine.tables import open_tables

    source_file = file.path.resolve()
    await server.migrate()
    async with open_tables(target) as tables:
        return await copy_database(
            SqliteTables(source),
            tables,
            source_name=str(source_file),
            note=f"it was copied to {server.shown()}, or a copy is running; use that database, or "
            f"run tickwork copy --thaw sqlite:///{source_file}",
            on_progress=on_progress,
        )


async def thaw_database(source: str) -> bool:
    """Lets processes write to a file again that a copy froze. False if it was not frozen."""
    from tickwork.store.sqlite.engine.tables import SqliteTables

    return await SqliteTables(source).thaw()
