"""The two kinds of databases. Nothing else asks which of them a URL is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tickwork.extras import postgres_extra
from tickwork.settings import POSTGRES_SCHEMES, Settings
from tickwork.store.ids import Moment, database_time
from tickwork.store.shared.database_url import without_password

if TYPE_CHECKING:
    from tickwork.store.contract import Store
    from tickwork.store.shared.doctor import Finding
    from tickwork.store.shared.sql_files import Migration


class Backend(Protocol):
    """A database that is not open."""

    can_be_away: bool
    """Whether it is a server, which may start after its clients."""

    has_one_writer: bool
    """Whether several processes are no faster than one."""

    def shown(self) -> str:
        """The database for people: a URL without a password; of a file with its absolute path."""

    def identity(self, environ: Mapping[str, str]) -> object:
        """Equal for all spellings of the URL."""

    def key_file(self) -> Path | None:
        """Where a key for secrets is made if the settings have none. None: several machines use
        this database, and need the same key."""

    async def migrate(self) -> tuple[Migration, ...]:
        """Migrates the schema; returns the migrations that were applied."""

    async def open(
        self,
        *,
        moment: Moment = database_time,
        create: bool = True,
        is_temporary: bool = False,
        for_caller: bool = False,
    ) -> Store:
        """Opens the store. Migrates a SQLite file, but not a server, because other nodes may still
        use the old schema. `moment` may be a virtual clock. Without `create`, a missing file is
        refused. With `is_temporary`, commits are not synced to disk. `for_caller`: a caller's
        transaction is open, which may have the lock of the file."""

    async def examine(self) -> tuple[Finding, ...]:
        """Checks the configuration of the database."""


class SqliteBackend:
    """A file."""

    can_be_away = False
    has_one_writer = True

    def __init__(self, url: str) -> None:
        from tickwork.store.sqlite.engine.file import locate

        self.url, self.path = url, locate(url)

    def shown(self) -> str:
        return f"sqlite:///{self.path.absolute()}"

    def identity(self, environ: Mapping[str, str]) -> object:  # noqa: ARG002
        return self.path.resolve()

    def key_file(self) -> Path | None:
        return self.path.with_name(f"{self.path.name}.key")

    async def migrate(self) -> tuple[Migration, ...]:
        from tickwork.store.sqlite.engine.migrate import migrate

        return await migrate(self.url)

    async def open(
        self,
        *,
        moment: Moment = database_time,
        create: bool = True,
        is_temporary: bool = False,
        for_caller: bool = False,
    ) -> Store:
        from tickwork.store.sqlite import SqliteStore
        from tickwork.store.sqlite.engine.migrate import migrate_for_caller

        if for_caller:
            await migrate_for_caller(self.url)
        elif create or self.path.exists():
            await self.migrate()
        return await SqliteStore.open(self.url, moment=moment, is_temporary=is_temporary)

    async def examine(self) -> tuple[Finding, ...]:
        from tickwork.store.sqlite.engine.doctor import examine

        return await examine(self.url)


class PostgresBackend:
    """A database of a server. Its driver is optional."""

    can_be_away = True
    has_one_writer = False

    def __init__(self, url: str, direct_url: str | None) -> None:
        self.url, self.direct_url = url, direct_url

    def shown(self) -> str:
        return without_password(self.url)

    def identity(self, environ: Mapping[str, str]) -> object:
        with postgres_extra():
            from tickwork.store.postgres.engine.identity import identity_of

        try:
            return identity_of(self.url, environ)
        except ValueError:  # Opening it reports the error.
            return self.url

    def key_file(self) -> Path | None:
        return None

    async def migrate(self) -> tuple[Migration, ...]:
        with postgres_extra():
            from tickwork.store.postgres.engine.migrate import migrate

        return await migrate(self.direct_url or self.url)

    async def open(
        self,
        *,
        moment: Moment = database_time,
        create: bool = True,  # noqa: ARG002
        is_temporary: bool = False,  # noqa: ARG002
        for_caller: bool = False,  # noqa: ARG002
    ) -> Store:
        with postgres_extra():
            from tickwork.store.postgres import PostgresStore

        return await PostgresStore.open(self.url, moment=moment, direct_url=self.direct_url)

    async def examine(self) -> tuple[Finding, ...]:
        with postgres_extra():
            from tickwork.store.postgres.engine.doctor import examine

        return await examine(self.url)


def backend_of(settings: Settings) -> SqliteBackend | PostgresBackend:
    """The database of these settings."""
    if settings.database.startswith(POSTGRES_SCHEMES):
        return PostgresBackend(settings.database, settings.database_direct)
    return SqliteBackend(settings.database)
