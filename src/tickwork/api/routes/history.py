"""Routes for the history: messages that have ended."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar.di import NamedDependency
from litestar.params import Body, FromPath, FromQuery, QueryParameter

from tickwork.api.operation import Routes
from tickwork.api.pages import PAGE_LIMIT, Cursor, Limit, Listed, Page, read_cursor, read_filtered
from tickwork.core.access import Permission
from tickwork.core.answers.history import EventHandled, HistoryRecord
from tickwork.core.answers.ids import Prefix, read_path_id
from tickwork.core.fields import read_id
from tickwork.core.message.history import (
    HistoryDefault,
    HistoryPosition,
    HistorySelection,
    Outcome,
)
from tickwork.core.model import SYSTEM
from tickwork.core.options.history import HistoryOptions, read_history_default
from tickwork.ops import history
from tickwork.ops.context import Context

routes = Routes("history")


@routes.get("/v1/history", "List ended messages", needs=Permission.READ)
async def list_history(
    context: NamedDependency[Context],
    queue: FromQuery[str | None] = None,
    of_type: Annotated[str | None, QueryParameter(name="type")] = None,
    outcome: Annotated[Outcome | None, QueryParameter(description="How they ended.")] = None,
    key: FromQuery[str | None] = None,
    event_id: FromQuery[str | None] = None,
    correlation_id: FromQuery[str | None] = None,
    batch_id: FromQuery[str | None] = None,
    since: Annotated[
        datetime | None, QueryParameter(description="Only what ended then or later.")
    ] = None,
    until: Annotated[
        datetime | None, QueryParameter(description="Only what ended before that.")
    ] = None,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[HistoryRecord]:
    """Returns the newest records of messages that were handled, died, expired or were discarded.

    Where few match, a page is short or empty, and its `next_cursor` goes on behind them: the last
    page is the one without a `next_cursor`.
    """
    selection = HistorySelection(
        queue=queue,
        type=of_type,
        outcome=outcome,
        key=key,
        event_id=event_id,
        correlation_id=correlation_id,
        batch_id=None if batch_id is None else read_id("batch_id", batch_id),
        since=since,
        until=until,
    )
    after: HistoryPosition | None = read_cursor(cursor, HistoryPosition)

    async def read(
        count: int, after: HistoryPosition | None
    ) -> Listed[HistoryRecord, HistoryPosition]:
        found = await history.list_history(
            context, selection, limit=count, after=after, as_json=True
        )
        return Listed(found.records, found.next)

    return await read_filtered(read, limit, after)


@routes.get("/v1/history/{message_id:str}", "Get an ended message", needs=Permission.READ)
async def get_record(message_id: FromPath[str], context: NamedDependency[Context]) -> HistoryRecord:
    """Returns what became of a message; 404 if it has not ended, or there is no record of it."""
    wanted = read_path_id(Prefix.MESSAGE, message_id, "message")
    return await history.get_record(context, wanted, as_json=True)


@routes.get("/v1/history/handled", "Ask whether an event was handled", needs=Permission.READ)
async def was_handled(
    event_id: FromQuery[str],
    context: NamedDependency[Context],
    queue: FromQuery[str | None] = None,
) -> EventHandled:
    """Answers whether a message with this event id was handled in the last 15 days, in any queue or
    in this one, also if the queue keeps no history."""
    return EventHandled(event_id, await history.was_handled(context, event_id, queue=queue))


@routes.get("/v1/history/default", "Get what queues keep", needs=Permission.READ)
async def get_default(context: NamedDependency[Context]) -> HistoryDefault:
    """Returns what queues keep that have no setting of their own."""
    return await history.get_default(context)


@routes.put(
    "/v1/history/default", "Set what queues keep", needs=Permission.ADMIN, body=HistoryOptions
)
async def set_default(
    data: Annotated[dict[str, Any], Body()], context: NamedDependency[Context]
) -> HistoryDefault:
    """Sets what queues keep that have no setting of their own, in the whole database."""
    return await history.set_default(context.within(SYSTEM), read_history_default(data))
