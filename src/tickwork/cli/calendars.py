"""`tickwork calendars`: creates calendars from dates or ICS files, lists and deletes them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Database, Json, Tenant
from tickwork.cli.output import fail, print_json, print_lines, print_table
from tickwork.cli.session import ask, server_url
from tickwork.cli.store_session import required, scope_of, with_context
from tickwork.ops.context import Context

if TYPE_CHECKING:
    from tickwork.client.answers import CalendarAnswer
    from tickwork.client.client import Client
    from tickwork.core.schedule.model import Calendar
    from tickwork.ops.schedules.change import Moved

LISTED = 1_000

app = Group(help="Calendars: days off that schedules share.")

Name = Annotated[str | None, Argument(metavar="NAME", help="Name of the calendar.")]
File = Annotated[
    str | None,
    Argument(metavar="FILE", help='ICS file, or file with one date per line; "-" reads stdin.'),
]


@app.plain_command("put")
def put_command(
    name: Name = None,
    file: File = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create a calendar or replace its days; schedules that use it are recomputed."""
    from tickwork.ops.schedules.calendars import put_calendar, put_ics_calendar, read_days

    calendar, text = required(name, "NAME"), _read(required(file, "FILE"))
    if server_url(database) is not None:
        _put_on_server(database, tenant, calendar, text, as_json=as_json)
        return
    scope = scope_of(tenant)

    async def put(context: Context) -> tuple[Calendar, tuple[Moved, ...]]:
        if text.lstrip().upper().startswith("BEGIN:VCALENDAR"):
            return await put_ics_calendar(context, calendar, text)
        return await put_calendar(context, calendar, read_days(text.splitlines()))

    made, moved = with_context(database, scope, put, create=True)
    if as_json:
        print_json({"calendar": made, "moved": moved})
        return
    moves = [f"{move.name or move.id} moved from {move.before} to {move.after}" for move in moved]
    print_lines([f"{made.name} has {len(made.days)} days", *moves])


def _put_on_server(
    database: str | None, tenant: str | None, calendar: str, text: str, *, as_json: bool
) -> None:
    from tickwork.ops.schedules.calendars import read_days

    async def put(client: Client) -> CalendarAnswer:
        if text.lstrip().upper().startswith("BEGIN:VCALENDAR"):
            return await client.calendars.put_ics(calendar, text)
        return await client.calendars.put(calendar, read_days(text.splitlines()))

    made = ask(database, tenant, put)
    if as_json:
        print_json({"calendar": made})
    else:
        print_lines([f"{made.name} has {len(made.days)} days"])


@app.plain_command("list")
def list_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """List the calendars of a tenant."""
    found = ask(database, tenant, lambda client: client.calendars.list(limit=LISTED))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            calendar.name,
            len(calendar.days),
            min(calendar.days, default=""),
            max(calendar.days, default=""),
        )
        for calendar in found
    ]
    print_table(("calendar", "days", "first", "last"), rows, none="there are no calendars")


@app.plain_command("show")
def show_command(
    name: Name = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Show the days of a calendar."""
    calendar = required(name, "NAME")
    found = ask(database, tenant, lambda client: client.calendars.get(calendar))
    if as_json:
        print_json(found)
    else:
        print_lines(found.days or ["no days"])


@app.plain_command("delete")
def delete_command(
    name: Name = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Remove a calendar that no schedule uses."""
    calendar = required(name, "NAME")
    ask(database, tenant, lambda client: client.calendars.delete(calendar))
    if as_json:
        print_json({"calendar": calendar, "deleted": True})
    else:
        print_lines([f"{calendar} is deleted"])


def _read(file: str) -> str:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"FILE: {file!r} cannot be read: {error}")
    return text.removeprefix("\ufeff")  # Some programs write a byte order mark.
