"""The history: records of messages that have ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from msgspec import structs

from tickwork.core.limits import check_limit, check_system, is_name
from tickwork.core.message.history import (
    CHUNKS_LOOKED_AT_MAX,
    FINAL,
    EndedRecord,
    HistoryDefault,
    HistoryPage,
    HistoryPosition,
    HistorySelection,
    likely_drop_at,
    mark_of_id,
)
from tickwork.core.message.message_list import END_OF_TIME, NO_ID, START_OF_TIME
from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.ids import own_tenant
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import Noun, Row, Statement, Steps, changes, reads, searches

_GET = Statement("history_of_id", EndedRecord)
_LIST = Statement("list_history", EndedRecord)
_MARKED = Statement("marked_history", EndedRecord)
_WINDOW_END = Statement("history_window_end", ended_at=Kind.TIME)
_WAS_HANDLED = Statement("was_handled", was_handled=Kind.FLAG)
_DEFAULT = Statement("history_default")
_SET_DEFAULT = Statement("set_history_default")


_TICK = timedelta(microseconds=1)


class History(Noun):
    """Records of messages that have ended."""

    @searches
    def get(self, scope: Scope, message_id: UUID) -> Steps[EndedRecord]:
        """The newest record of a message.

        Most messages end soon after their id was made, and are kept as long as by default. So a few
        partitions are looked at first; all would cost a new connection ten times as much.
        """
        tenant = own_tenant(scope)
        if is_name(tenant):
            values = (tenant, mark_of_id(message_id), message_id)
            default = yield from _read_default()
            if likely := likely_drop_at(message_id, default.history_seconds):
                row = yield from _GET.fetch_row(*values, *likely)
                if row is not None and row["outcome"] in FINAL:
                    return read_ended(row)
            row = yield from _GET.fetch_row(*values, START_OF_TIME, END_OF_TIME)
            if row is not None:
                return read_ended(row)
        raise NotFound("message", message_id)

    @searches
    def page(
        self,
        scope: Scope,
        selection: HistorySelection,
        limit: int,
        *,
        after: HistoryPosition | None = None,
    ) -> Steps[HistoryPage]:
        """The newest records after a position. With a filter that few records match, a page may be
        short, or empty, and have a next one."""
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return HistoryPage((), None)
        after = after or HistoryPosition(selection.until or END_OF_TIME, NO_ID)
        # Before every id of a time means before that time.
        until = after.ended_at - (_TICK if after.id == NO_ID else timedelta(0))
        since = selection.since or START_OF_TIME
        filters = (selection.type, selection.outcome, selection.batch_id, limit + 1)
        end: datetime | None = None
        if selection.marks:
            own = (selection.key, selection.event_id, selection.correlation_id)
            values = (tenant, after.ended_at, after.id, since, selection.queue, *filters)
            rows = yield from _MARKED.fetch(*values, selection.marks[0], *own)
        else:
            chunks = CHUNKS_LOOKED_AT_MAX if selection.is_filtered else limit
            end = yield from _WINDOW_END.fetch_value(tenant, until, since, chunks)
            values = (tenant, after.ended_at, after.id, end or since, selection.queue, *filters)
            rows = yield from _LIST.fetch(*values)
        return _page(rows, limit, end)

    @reads
    def was_handled(self, scope: Scope, event_id: str, queue: str | None) -> Steps[bool]:
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return False
        return bool((yield from _WAS_HANDLED.fetch_value(tenant, event_id, queue)))

    @reads
    def default(self) -> Steps[HistoryDefault]:
        return (yield from _read_default())

    @changes
    def set_default(self, scope: Scope, default: HistoryDefault) -> Steps[None]:
        check_system(scope)
        yield from _SET_DEFAULT.execute(default.history, default.history_seconds)


def _read_default() -> Steps[HistoryDefault]:
    row = yield from _DEFAULT.fetch_row()
    assert row is not None
    return HistoryDefault(**row)


def read_ended(row: Row) -> EndedRecord:
    """A stored record. In JSON, the bytes of a body are hexadecimal."""
    record = EndedRecord(**row)
    body: object = record.body
    return structs.replace(record, body=bytes.fromhex(body)) if isinstance(body, str) else record


def _page(rows: list[Row], limit: int, end: datetime | None) -> HistoryPage:
    """A page of the rows; `end` is the time up to which all was looked at."""
    records = tuple(map(read_ended, rows[:limit]))
    if len(rows) > limit:
        return HistoryPage(records, HistoryPosition(records[-1].ended_at, records[-1].id))
    return HistoryPage(records, None if end is None else HistoryPosition(end, NO_ID))
