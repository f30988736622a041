"""Databases on a PostgreSQL server that runs already, ours or somebody else's.

Contract: `create_database` returns the URL of a new, empty database (or of a copy of another one,
which nobody may be connected to); `drop_database` removes it, whoever is still connected.
"""

import contextlib
import itertools
import os
import secrets
from abc import ABC, abstractmethod
from urllib.parse import urlsplit

import asyncpg

CONNECT_SECONDS_MAX = 60
STATEMENT_SECONDS_MAX = 30

DROPS_MAX = 3
"""A process that starts in the very moment of a drop may miss the request to close its files, and
the server (15 to 18) waits for it without an end. The next drop asks again."""

_numbers = itertools.count(1)


class PostgresHost(ABC):
    """A running server, known by the URL of a database from which others can be created."""

    @property
    @abstractmethod
    def url(self) -> str: ...

    async def create_database(self, *, template_url: str | None = None) -> str:
        name = f"tickwork_{os.getpid()}_{next(_numbers)}_{secrets.token_hex(4)}"
        template = "template0" if template_url is None else _name_of(template_url)
        await self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    async def drop_database(self, url: str) -> None:
        statement = f'DROP DATABASE IF EXISTS "{_name_of(url)}" WITH (FORCE)'
        for _ in range(DROPS_MAX - 1):
            with contextlib.suppress(TimeoutError):
                await self._execute(statement)
                return
        await self._execute(statement)

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url, timeout=CONNECT_SECONDS_MAX)
        try:
            await connection.execute(statement, timeout=STATEMENT_SECONDS_MAX)
        finally:
            await connection.close()


class ExternalPostgres(PostgresHost):
    """A server that was started outside the tests."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def url(self) -> str:
        return self._url

    async def check(self) -> None:
        """Raises unless databases can be created here, so that a wrong URL fails clearly."""
        try:
            await self.drop_database(await self.create_database())
        except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise RuntimeError(f"no database can be created at {self.url}: {error!r}") from error


def _name_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")
