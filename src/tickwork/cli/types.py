"""`tickwork types`: what apps declare about messages, and what a deploy would change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import CONNECTION, Argument
from tickwork.cli.output import EXIT_BAD_USAGE, EXIT_FAILED, Report, Shown, Table, fail
from tickwork.cli.store_session import scope_of, with_context

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.message_type import DeclaredType, MessageType
    from tickwork.ops.type_list import TypeCheck

types = Group("Types of messages: list, show, check.")

TypeName = Annotated[str, Argument("The type; * is what queues take of any other.", "TYPE")]

_DECLARED = ("type", "queue", "app", "version", "handlers", "last_seen_at")


def _row(declared: DeclaredType) -> tuple[object, ...]:
    values = {name: getattr(declared, name) for name in _DECLARED}
    return tuple({**values, "handlers": ", ".join(declared.handlers) or "sends only"}.values())


def _listed(found: Sequence[MessageType]) -> Shown:
    rows = [_row(declared) for type_ in found for declared in type_.declared]
    return [Table(_DECLARED, rows)] if rows else ["no app declares a type"]


@types.client_command("list", show=_listed)
async def list_types(client: Client) -> tuple[MessageType, ...]:
    """List the types that apps declare for queues, with who handles them."""
    return await client.types.list()


def _shown(found: MessageType) -> Shown:
    for declared in found.declared:
        handlers = ", ".join(declared.handlers) or "nothing: it only sends"
        yield f"{declared.queue}: {declared.app}, version {declared.version}, handled by {handlers}"
        yield from json.dumps(declared.schema, indent=2).splitlines()
    if not found.declared:
        yield f"no app declares {found.type}"


@types.client_command("show", show=_shown)
async def show_type(client: Client, name: TypeName) -> MessageType:
    """Show the JSON Schemas of a type."""
    return await client.types.get(name)


def _checked(found: Sequence[TypeCheck]) -> Iterator[str]:
    for check in found:
        whose = f"what {check.app} declares"
        if check.app is None:
            says = "new"
        elif check.version == check.stored_version:
            says = f"as {whose}"
        else:
            says = f"{'BREAKS' if check.breaking else 'fits'} {whose}"
        yield f"{check.queue} {check.type}: {says}"
        for change in check.changes:
            yield f"  {'breaking' if change.breaking else 'fine':8}  {change.path} {change.says}"
    if not found:
        yield "the app declares no types"


@types.plain_command("check", on_database=True)
def check_own_types() -> Report:
    """Check what an app (--app) would change for those who send, before a deploy.

    Compares its types with those in the database and changes nothing. Exits with 1 if a message
    that fits now would be refused: a field is newly required, or a type takes less. With --database
    the types are those of that database, not of the app's own.
    """
    from tickwork.cli.run import load_app
    from tickwork.facade.app import engine_of
    from tickwork.ops.type_list import check_types

    at = CONNECTION.get()
    if at.app is None:
        fail("--app is missing; give the app whose types are checked", code=EXIT_BAD_USAGE)
    registry = engine_of(load_app(at.app)).registry
    scope = scope_of()
    if at.database is not None:
        CONNECTION.set(at._replace(app=None))  # It has given its code and its tenant.
    found = with_context(lambda context: check_types(context, registry), scope=scope)
    code = EXIT_FAILED if any(check.breaking for check in found) else 0
    return Report(found, *_checked(found), exit_code=code)
