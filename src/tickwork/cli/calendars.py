"""`tickwork calendars`: creates calendars from dates or ICS files, lists and deletes them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Argument
from tickwork.cli.output import Report, Shown, columns, fail

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.schedule import CalendarAnswer

LISTED = 1_000

calendars = Group("Calendars: days off that schedules share.")


def _text_of(file: str, name: str) -> str:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{name}: {file!r} cannot be read: {error}")
    return text.removeprefix("\ufeff")  # Some programs write a byte order mark.


Name = Annotated[str, Argument("Name of the calendar.", "NAME")]
Text = Annotated[
    str,
    Argument('ICS file, or file with one date per line; "-" reads stdin.', "FILE", read=_text_of),
]


@calendars.client_command("put", create=True)
async def put_calendar(client: Client, name: Name, text: Text) -> Report:
    """Create a calendar or replace its days; schedules that use it are recomputed."""
    from tickwork.ops.schedules.calendars import read_days

    if _is_ics(text):
        made = await client.calendars.put_ics(name, text)
    else:
        made = await client.calendars.put(name, read_days(text.splitlines()))
    moves = (
        f"{move.name or move.id} moved from {move.before} to {move.after}" for move in made.moved
    )
    return Report(made, f"{made.name} has {len(made.days)} days", *moves)


def _is_ics(text: str) -> bool:
    return text.lstrip().upper().startswith("BEGIN:VCALENDAR")


def _days(calendar: CalendarAnswer) -> int:
    return len(calendar.days)


def _first(calendar: CalendarAnswer) -> object:
    return min(calendar.days, default="")


def _last(calendar: CalendarAnswer) -> object:
    return max(calendar.days, default="")


def _all_days(calendar: CalendarAnswer) -> Shown:
    return [str(day) for day in calendar.days] or ["no days"]


@calendars.client_command(
    "list",
    show=columns(
        ("calendar", "name"),
        ("days", _days),
        ("first", _first),
        ("last", _last),
        none="there are no calendars",
    ),
)
async def list_calendars(client: Client) -> tuple[CalendarAnswer, ...]:
    """List the calendars of a tenant."""
    return await client.calendars.list(limit=LISTED)


@calendars.client_command("show", show=_all_days)
async def show_calendar(client: Client, name: Name) -> CalendarAnswer:
    """Show the days of a calendar."""
    return await client.calendars.get(name)


@calendars.client_command("delete")
async def delete_calendar(client: Client, name: Name) -> Report:
    """Remove a calendar that no schedule uses."""
    await client.calendars.delete(name)
    return Report({"calendar": name, "deleted": True}, f"{name} is deleted")
