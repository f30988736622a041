"""How commands reach the store: opened, asked, closed, and what goes wrong told in a sentence."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from tickwork.cli.options import NAMES
from tickwork.cli.output import EXIT_BAD_USAGE, fail, harmless, refuse
from tickwork.errors import InvalidInput, TickworkError

if TYPE_CHECKING:
    from uuid import UUID

    from tickwork.core.model import Scope
    from tickwork.ops.stores import Store
    from tickwork.wiring import Settings

T = TypeVar("T")


def load_settings(database: str | None) -> Settings:
    """The settings, with the database that was asked for."""
    from tickwork import wiring

    try:
        return wiring.load_settings({"database": database}, environ=os.environ, folder=Path.cwd())
    except InvalidInput as error:
        refuse(error, {})


def ask(
    database: str | None,
    scope: Scope,
    work: Callable[[Store], Awaitable[T]],
    *,
    create: bool = False,
    names: Mapping[str, str] = NAMES,
) -> T:
    """What the work answers, given the store; a failure ends the command. `names` are those by
    which the user gave the fields.

    A tenant must be there, and so must the database: who mistyped either would be told that
    there is nothing. With `create` a SQLite file is made.
    """
    import asyncio

    from tickwork.ops.tenants import get_tenant
    from tickwork.wiring import open_store

    settings = load_settings(database)

    async def run() -> T:
        store = await open_store(settings, create=create)
        try:
            if scope.tenant is not None:
                await get_tenant(store, scope, scope.tenant)
            return await work(store)
        finally:
            await store.close()

    return told(lambda: asyncio.run(run()), names=names)


def told(work: Callable[[], T], *, names: Mapping[str, str] = NAMES) -> T:
    """What the work answers; one of our own errors is told, and ends the command."""
    try:
        return work()
    except InvalidInput as error:
        refuse(error, names)
    except TickworkError as error:
        fail(str(error))


def scope_of(tenant: str | None, *, shared: bool = False) -> Scope:
    """On whose behalf a command acts."""
    from tickwork.core.model import DEFAULT, SYSTEM, Scope

    if shared and tenant is not None:
        fail("give --tenant or --shared, not both", code=EXIT_BAD_USAGE)
    if shared:
        return SYSTEM
    return DEFAULT if tenant is None else Scope(tenant)


def required(value: str | None, name: str) -> str:
    """What must be given."""
    if value is None:
        fail(f"{name} is missing; see --help", code=EXIT_BAD_USAGE)
    return value


def identity(value: str | None, name: str) -> UUID:
    """An id that must be given."""
    from uuid import UUID

    try:
        return UUID(required(value, name))
    except ValueError:
        fail(f"{name}: {value!r} is not an id", code=EXIT_BAD_USAGE)


def whole_number(value: str | None, name: str, default: int) -> int:
    """A number as it was given, or the default; its range is looked at elsewhere."""
    if value is None:
        return default
    if re.fullmatch(r"[+-]?[0-9]{1,9}", value) is None:
        fail(f"{name}: must be a whole number, not {value!r}", code=EXIT_BAD_USAGE)
    return int(value)


def number(value: str, name: str) -> float:
    """A number as it was given; its range is looked at elsewhere."""
    try:
        return float(value)
    except ValueError:
        fail(f"{name}: must be a number, not {value!r}", code=EXIT_BAD_USAGE)


def confirm(question: str, *, yes: bool) -> None:
    """Ends the command unless somebody says yes. The question goes to stderr, all of it: what
    is on stdout is the answer."""
    if yes:
        return
    typer.echo(f"{harmless(question)} [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        typer.echo(err=True)
        fail("nothing was done; where nobody can answer say --yes")
    if answer.strip().lower() not in ("y", "yes"):
        fail("nothing was done")
