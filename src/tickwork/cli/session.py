"""Runs a command on a database or on a server, and returns what it asked for.

`ask` gives the command a client. With --server it is the HTTP client; otherwise it is an app on the
database of --database or --app, with the same verbs and answers (`local.py`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tickwork.cli.options import CHOSEN_APP, CHOSEN_SERVER, OPTION_OF_FIELD, IdKindName
from tickwork.cli.output import EXIT_BAD_USAGE, fail
from tickwork.cli.store_session import (
    chosen_engine,
    id_text,
    identity,
    load_settings,
    opened_store,
    report_errors,
    required,
    schedule_reference,
    scope_of,
)

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


def ask(
    database: str | None,
    tenant: str | None,
    work: Callable[[Client], Awaitable[T]],
    *,
    shared: bool = False,
    create: bool = False,
    names: Mapping[str, str] = OPTION_OF_FIELD,
) -> T:
    """Runs the work with a client and returns its result; exits if that fails. `create` as for
    `with_store`."""
    import asyncio

    async def run() -> T:
        async with client_of(database, tenant, shared=shared, create=create) as client:
            return await work(client)

    return report_errors(lambda: asyncio.run(run()), names=names)


@asynccontextmanager
async def client_of(
    database: str | None, tenant: str | None, *, shared: bool = False, create: bool = False
) -> AsyncIterator[Client]:
    """A client of the server, or an app on the database with the verbs of one."""
    url = server_url(database)
    if url is None:
        scope = scope_of(tenant, shared=shared)
        async with _app_on(database, scope, create=create) as client:
            yield client
        return
    if shared:
        fail("--shared needs --database: a server acts for one tenant", code=EXIT_BAD_USAGE)
    from tickwork.client.client import Client

    async with Client(url, key=api_key(), tenant=tenant, retry_seconds=RETRY_SECONDS) as remote:
        yield remote


@asynccontextmanager
async def _app_on(database: str | None, scope: Scope, *, create: bool) -> AsyncIterator[Client]:
    from tickwork.cli.local import as_client
    from tickwork.facade.app import Tickwork, engine_of
    from tickwork.ops.context import Context

    settings = load_settings(database)
    app = Tickwork(
        settings.database,
        database_direct=settings.database_direct,
        min_interval_seconds=settings.min_interval_seconds,
    )
    engine = engine_of(app)
    engine.own_scope = scope
    engine.registry.types_of_others = chosen_types(scope)
    async with opened_store(settings, scope, create=create) as store:
        _LOCAL.set(Context(store, scope))
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
    return engine.registry.payload_sent if engine and engine.own_scope == scope else no_types


def server_url(database: str | None) -> str | None:
    """The server to ask; None to use a database. --database and --app win over the environment."""
    given = CHOSEN_SERVER.get().url
    is_local = database is not None or CHOSEN_APP.get() is not None
    if given is not None and is_local:
        fail("give --server or a database (--database, --app), not both", code=EXIT_BAD_USAGE)
    if is_local:
        return None
    return given or os.environ.get("TICKWORK_URL") or None


def is_remote(database: str | None) -> bool:
    """Whether the command works on a server."""
    return server_url(database) is not None


def api_key() -> str | None:
    """The key of --api-key or TICKWORK_KEY: its text, `@FILE`, or `-` to ask for it."""
    given = CHOSEN_SERVER.get().key or os.environ.get("TICKWORK_KEY")
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


def reference_of(
    value: str | None,
    name: str,
    kind: IdKindName,
    database: str | None,
    tenant: str | None,
    *,
    shared: bool = False,
) -> str:
    """An id that must be given. On a database its last digits are enough."""
    if server_url(database) is not None:
        return id_text(value, name)
    from tickwork.core.answers.ids import public_id
    from tickwork.core.model import IdKind
    from tickwork.ops.ids import PREFIX_OF_KIND

    found = identity(value, name, kind, database, scope_of(tenant, shared=shared))
    return public_id(PREFIX_OF_KIND[IdKind(kind)], found)


def named_schedule(value: str | None, database: str | None, tenant: str | None) -> str:
    """The name or id of a schedule that must be given. On a database the last digits of an id are
    enough."""
    if server_url(database) is not None:
        return required(value, "SCHEDULE")
    return schedule_reference(value, database, scope_of(tenant))


def after_of(
    after: str | None,
    kind: IdKindName,
    database: str | None,
    tenant: str | None,
    *,
    shared: bool = False,
) -> dict[str, Any]:
    """The argument `after` of a list, if --after is given. A server has cursors instead, which the
    client follows up to --limit."""
    if after is None:
        return {}
    if server_url(database) is not None:
        fail("--after needs --database; with --server give a larger --limit", code=EXIT_BAD_USAGE)
    return {"after": reference_of(after, "--after", kind, database, tenant, shared=shared)}
