"""Opens the store for a command, reports errors in one line, and parses ids and numbers."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tickwork.cli.options import CONNECTION, OPTION_OF_FIELD, NamedKind
from tickwork.cli.output import EXIT_BAD_USAGE, escape_controls, fail, print_error, refuse
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.errors import InvalidInput, TickworkError

if TYPE_CHECKING:
    from tickwork.core.model import Scope
    from tickwork.engine.app_engine import AppEngine
    from tickwork.ops.context import Context
    from tickwork.ops.stores import Store
    from tickwork.wiring import Settings

T = TypeVar("T")


_WHOLE_ID_DIGITS = 32
_SETTINGS_OF_AN_APP = ("database", "database_direct", "min_interval_seconds")


def load_settings(usual_log_level: str = "info", /, **flags: str | None) -> Settings:
    """Returns the settings, with the database of the --database or the --app option."""
    from tickwork import wiring

    engine, url = chosen_engine(), CONNECTION.get().database
    if CONNECTION.get().server is not None:
        fail(
            "this command works on a database, not on a server: give --database",
            code=EXIT_BAD_USAGE,
        )
    if engine is not None and url is not None:
        fail("give --database or --app, not both", code=EXIT_BAD_USAGE)
    given: dict[str, object] = {"database": url, **flags}
    try:
        if engine is not None:
            own = engine.settings()
            given |= {name: getattr(own, name) for name in _SETTINGS_OF_AN_APP}
        return wiring.load_settings(
            given, environ=os.environ, folder=Path.cwd(), log_level=usual_log_level
        )
    except InvalidInput as error:
        refuse(error, {})


def warn_of_variables() -> None:
    """Prints a warning for each environment variable that is almost a setting."""
    from tickwork.settings import misspelled_variables

    for sentence in misspelled_variables(os.environ):
        print_error(sentence, is_warning=True)


def with_context(
    work: Callable[[Context], Awaitable[T]],
    *,
    scope: Scope | None = None,
    create: bool = False,
) -> T:
    """Opens the store, runs the work and returns its result.

    `scope` is that of the command unless it is given. The database and the tenant must exist,
    because a mistyped one would look empty. With `create` a missing SQLite file is created: for
    commands that make something which needs nothing else, before the first start or after it.
    """
    import asyncio

    from tickwork.wiring import context_of

    at = CONNECTION.get()
    if at.database is None and at.app is None and os.environ.get("TICKWORK_URL"):
        fault = "this command works on a database, and TICKWORK_URL names a server"
        fail(f"{fault}: give --database", code=EXIT_BAD_USAGE)
    settings, chosen = load_settings(), scope or scope_of()

    async def run() -> T:
        async with opened_store(settings, chosen, create=create) as store:
            return await work(context_of(settings, store, chosen))

    return asyncio.run(run())


@asynccontextmanager
async def opened_store(
    settings: Settings, scope: Scope, *, create: bool = False
) -> AsyncIterator[Store]:
    """The store of these settings, while the block runs. Changes are recorded as those of the
    user of this machine."""
    from tickwork.ops.audit import ACTOR
    from tickwork.ops.context import Context
    from tickwork.ops.tenants import get_tenant
    from tickwork.wiring import open_store

    store = await open_store(settings, create=create)
    ACTOR.set(f"command line, {_user()}")
    try:
        if scope.tenant is not None:
            await get_tenant(Context(store, scope), scope.tenant)
        yield store
    finally:
        await store.close()


def _user() -> str:
    """The user of this machine, for the audit log."""
    from getpass import getuser

    try:
        return getuser()
    except (OSError, KeyError, ImportError):
        return "unknown user"


def report_errors(work: Callable[[], T], *, names: Mapping[str, str] = OPTION_OF_FIELD) -> T:
    """Runs the work and returns its result; prints a `TickworkError` and exits."""
    try:
        return work()
    except InvalidInput as error:
        refuse(error, names)
    except TickworkError as error:
        fail(str(error))


def scope_of() -> Scope:
    """Returns the scope that the command acts in."""
    from tickwork.core.model import DEFAULT, SYSTEM, Scope

    at = CONNECTION.get()
    tenant, shared = at.tenant, at.shared
    if shared and tenant is not None:
        fail("give --tenant or --shared, not both", code=EXIT_BAD_USAGE)
    if shared:
        return SYSTEM
    if tenant is not None:
        return Scope(tenant)
    engine = chosen_engine()
    return DEFAULT if engine is None else engine.scope


def chosen_engine() -> AppEngine | None:
    """Returns the engine of the app that --app names, or None without that option."""
    target = CONNECTION.get().app
    if target is None:
        return None
    from tickwork.cli.run import load_app
    from tickwork.facade.app import engine_of

    return engine_of(load_app(target))


def id_text(text: str, name: str) -> str:
    """Returns an id, or its last digits; exits if it is malformed."""
    from tickwork.ops.ids import parse_short_id

    if parse_short_id(text) is None:
        fail(f"{name}: {text!r} is not an id", code=EXIT_BAD_USAGE)
    return text


async def whole_id(context: Context | None, kind: NamedKind, text: str, name: str) -> str:
    """The id that a text names, as users write ids. On a database its last digits are enough, and
    fit one thing; a server gets the text. Exits if the text is no id."""
    from tickwork.core.model import IdKind
    from tickwork.ops.ids import PREFIX_OF_KIND, find_id, find_schedule_id, parse_short_id

    if kind == "schedule name":
        digits = parse_short_id(text)
        if context is None or digits is None or len(digits) == _WHOLE_ID_DIGITS:
            return text
        return public_id(Prefix.SCHEDULE, await find_schedule_id(context, text))
    if context is None:
        digits = parse_short_id(id_text(text, name))
        if digits is not None and len(digits) < _WHOLE_ID_DIGITS:
            fail(f"{name}: {text!r} is not a whole id, which a server needs", code=EXIT_BAD_USAGE)
        return text
    found = await find_id(context, IdKind(kind), id_text(text, name))
    return public_id(PREFIX_OF_KIND[IdKind(kind)], found)


def confirm(question: str, *, yes: bool) -> None:
    """Asks on stderr for confirmation and exits unless the answer is yes."""
    if yes:
        return
    click.echo(f"{escape_controls(question)} [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        click.echo(err=True)
        fail("nothing was done; pass --yes to skip the question")
    if answer.strip().lower() not in ("y", "yes"):
        fail("nothing was done")
