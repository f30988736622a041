"""Reads the history: what became of messages that have ended."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.core.answers.history import HistoryRecord
from tickwork.core.answers.ids import spellings
from tickwork.core.fields import TEXT_LENGTH_MAX, text_faults
from tickwork.core.message.body import body_in_json, decode_body
from tickwork.core.message.history import (
    EndedRecord,
    HistoryDefault,
    HistoryPosition,
    HistorySelection,
)
from tickwork.core.model import ContentType
from tickwork.errors import InvalidInput, NotFound
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context

PAGE_RECORDS_MAX = 1_000
"""Number of records that are read at a time."""


class ListedHistory(NamedTuple):
    """A page of a list, and the position behind which the next one starts; None on the last."""

    records: tuple[HistoryRecord, ...]
    next: HistoryPosition | None


async def list_history(
    context: Context,
    selection: HistorySelection,
    *,
    limit: int,
    after: HistoryPosition | None = None,
    as_json: bool = False,
) -> ListedHistory:
    """Returns the newest records after a position. With `as_json` their bodies are to be sent as a
    part of JSON. Where few records match, a page may be short, or empty, and have a next one."""
    selection = await _spelled(context, selection)
    page = await context.store.history.page(context.scope, selection, limit, after=after)
    shown = tuple(_shown(record, as_json=as_json) for record in page.records)
    return ListedHistory(shown, page.next)


async def first_history(
    context: Context, selection: HistorySelection, *, limit: int
) -> tuple[HistoryRecord, ...]:
    """Returns the newest records, however many it has to look at."""
    found: tuple[HistoryRecord, ...] = ()
    after: HistoryPosition | None = None
    while True:
        rest = min(limit - len(found), PAGE_RECORDS_MAX)
        page = await list_history(context, selection, limit=rest, after=after)
        found += page.records
        after = page.next
        if after is None or len(found) == limit:
            return found


async def get_record(context: Context, message_id: UUID, *, as_json: bool = False) -> HistoryRecord:
    """Returns what became of a message; raises `NotFound` if there is no record of it."""
    try:
        record = await context.store.history.get(context.scope, message_id)
    except NotFound:
        hint = "it has not ended, its queue keeps no history, or its record is too old"
        raise NotFound("record of message", message_id, hint) from None
    return _shown(record, as_json=as_json)


async def was_handled(context: Context, event_id: str, *, queue: str | None = None) -> bool:
    """Whether a message with this event was handled in the last 15 days, in a queue or in any."""
    faults = text_faults("event_id", event_id, TEXT_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)
    return await context.store.history.was_handled(context.scope, event_id, queue)


async def get_default(context: Context) -> HistoryDefault:
    """Returns what queues keep that have no setting of their own."""
    return await context.store.history.default()


async def set_default(context: Context, default: HistoryDefault) -> HistoryDefault:
    """Sets what queues keep that have no setting of their own, for the whole database."""
    before = await context.store.history.default()
    async with recorded(context, "history.default", "history", before=before, after=default):
        await context.store.history.set_default(context.scope, default)
    return default


async def _spelled(context: Context, selection: HistorySelection) -> HistorySelection:
    """The selection with its correlation id in the spelling that the records have."""
    for spelling in spellings(selection.correlation_id or ""):
        spelled = structs.replace(selection, correlation_id=spelling)
        if (await context.store.history.page(context.scope, spelled, 1)).records:
            return spelled
    return selection


def _shown(record: EndedRecord, *, as_json: bool) -> HistoryRecord:
    body: Any = None
    if record.body is not None and record.content_type is not None:
        read = body_in_json if as_json else decode_body
        body = read(record.body, ContentType(record.content_type))
    return HistoryRecord.of(record, body)
