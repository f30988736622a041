"""Runs a command on a database or on a server, and returns what it asked for.

`ask` gives the command a client. With --server it is the HTTP client; otherwise it is an app on the
database of --database or --app, with the same verbs and answers (`local.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tickwork.cli.options import CONNECTION
from tickwork.cli.output import EXIT_BAD_USAGE, fail
from tickwork.cli.store_session import (
    chosen_engine,
    load_settings,
    opened_store,
    scope_of,
)
from tickwork.errors import TickworkError

if TYPE_CHECKING:
    from tickwork.app.payloads import PayloadOf
    from tickwork.client.client import Client
    from tickwork.core.model import Scope
    from tickwork.ops.context import Context

T = TypeVar("T")

_LOCAL: ContextVar[Context | None] = ContextVar("local", default=None)

RETRY_SECONDS = 5.0
"""Seconds for which a command tries to reach its server."""

KEY_PROMPT = "-"
"""The value of --api-key that asks for it, or reads a line of stdin."""


def ask(work: Callable[[Client], Awaitable[T]], *, create: bool = False) -> T:
    """Runs the work with a client and returns its result. `create` as for `with_context`."""
    import asyncio

    async def run() -> T:
        async with client_of(create=create) as client:
            return await work(client)

    return asyncio.run(run())


@asynccontextmanager
async def client_of(*, create: bool = False) -> AsyncIterator[Client]:
    """A client of the server, or an app on the database with the verbs of one."""
    url, at = server_url(), CONNECTION.get()
    if url is None:
        async with _app_on(scope_of(), create=create) as client:
            yield client
        return
    if at.shared:
        fail("--shared needs --database: a server acts for one tenant", code=EXIT_BAD_USAGE)
    from tickwork.client.client import Client

    key = api_key()
    try:
        async with Client(url, key=key, tenant=at.tenant, retry_seconds=RETRY_SECONDS) as remote:
            yield remote
    except TickworkError as error:
        if key is None and error.code == "unauthorized":
            fail(f"{url} needs a key: give --api-key, or set TICKWORK_KEY")
        raise


@asynccontextmanager
async def _app_on(scope: Scope, *, create: bool) -> AsyncIterator[Client]:
    from tickwork.cli.local import as_client
    from tickwork.facade.app import Tickwork, engine_of
    from tickwork.wiring import context_of

    settings = load_settings()
    app = Tickwork(
        settings.database,
        database_direct=settings.database_direct,
        min_interval_seconds=settings.min_interval_seconds,
    )
    engine = engine_of(app)
    engine.own_scope = scope
    engine.registry.types_of_others = chosen_types(scope)
    async with opened_store(settings, scope, create=create) as store:
        _LOCAL.set(context_of(settings, store, scope))
        with engine.stores.using(store):
            yield as_client(app)


def local_context() -> Context | None:
    """The context of the database that the client of `ask` works on; None on a server."""
    return _LOCAL.get()


def chosen_types(scope: Scope) -> PayloadOf:
    """The types that the app of --app declares for the queues of its tenant, as HTTP on a node that
    runs the app knows them. Without --app, and for other tenants, there are none."""
    from tickwork.app.payloads import no_types

    engine = chosen_engine()
    return engine.payload_sent if engine and engine.own_scope == scope else no_types


def server_url() -> str | None:
    """The server to ask; None to use a database. --database and --app win over the environment."""
    at = CONNECTION.get()
    given = at.server
    is_local = at.database is not None or at.app is not None
    if given is not None and is_local:
        fail("give --server or a database (--database, --app), not both", code=EXIT_BAD_USAGE)
    if is_local:
        return None
    return given or os.environ.get("TICKWORK_URL") or None


def api_key() -> str | None:
    """The key of --api-key or TICKWORK_KEY: its text, `@FILE`, or `-` to ask for it."""
    given = CONNECTION.get().api_key or os.environ.get("TICKWORK_KEY")
    if given == KEY_PROMPT:
        if sys.stdin.isatty():
            text: str = click.prompt("API key", hide_input=True, err=True)
            return text.strip()
        return sys.stdin.readline().strip()
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text().strip()
    except OSError as error:
        fail(f"--api-key: {given[1:]} cannot be read: {error.strerror}", code=EXIT_BAD_USAGE)
