"""Routes for calendars: named lists of days off."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath
from msgspec import Meta, Struct

from tickwork.api.operation import Routes
from tickwork.api.pages import PAGE_LIMIT, Cursor, Limit, Page, page_of, read_cursor
from tickwork.api.query import body_reader, finished
from tickwork.core.access import Permission
from tickwork.core.answers.schedule import CalendarAnswer, ChangedCalendar
from tickwork.ops.context import Context
from tickwork.ops.schedules import calendars

routes = Routes("calendars")

_PUT = [Example(summary="Two days off", value={"days": ["2027-12-25", "2027-12-26"]})]


class CalendarRequest(Struct, frozen=True, kw_only=True):
    """The days off, or an iCalendar file that has them."""

    days: list[date] | None = None
    ics: Annotated[str | None, Meta(description="The text of an .ics file.")] = None


@routes.get("/v1/calendars", "List calendars", needs=Permission.READ)
async def list_calendars(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[CalendarAnswer]:
    """Returns the calendars by name."""
    after: str | None = read_cursor(cursor, str)
    every = await calendars.list_calendars(context)
    found = sorted(
        (calendar for calendar in every if after is None or calendar.name > after),
        key=lambda calendar: calendar.name,
    )
    return page_of(found, limit, lambda calendar: calendar.name)


@routes.get("/v1/calendars/{calendar:str}", "Get a calendar", needs=Permission.READ)
async def get_calendar(
    calendar: FromPath[str], context: NamedDependency[Context]
) -> CalendarAnswer:
    """Returns one calendar."""
    return await calendars.get_calendar(context, calendar)


@routes.put(
    "/v1/calendars/{calendar:str}",
    "Create or change a calendar",
    needs=Permission.MANAGE,
    body=CalendarRequest,
)
async def put_calendar(
    calendar: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_PUT)],
    context: NamedDependency[Context],
) -> ChangedCalendar:
    """Creates a calendar or replaces its days. Schedules that use it follow."""
    reader = body_reader(data, "days", "ics")
    if reader.has("days") == reader.has("ics"):
        reader.fault("days", "give either days or ics")
    ics = reader.text("ics") if reader.has("ics") else None
    finished(reader)
    if ics is None:
        return await calendars.put_calendar(context, calendar, data["days"])
    return await calendars.put_ics_calendar(context, calendar, ics)


@routes.delete(
    "/v1/calendars/{calendar:str}",
    "Delete a calendar",
    needs=Permission.MANAGE,
    status=204,
    problems=(409,),
)
async def delete_calendar(calendar: FromPath[str], context: NamedDependency[Context]) -> None:
    """Deletes a calendar that no schedule uses."""
    await calendars.delete_calendar(context, calendar)
