"""Lists the messages of a queue: one statement for each part of the list, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

from tickwork.core.message.message_list import (
    ClaimedPart,
    CorrelatedPart,
    KeyPart,
    KeysPart,
    Lane,
    ListOrder,
    MessagePosition,
    MessageSelection,
    Part,
    cut,
    has_window,
    state_filter,
)
from tickwork.core.model import Message
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import Row, Statement, Steps

_CLAIMED = Statement("list_claimed", Message)
_READY = Statement("list_ready", Message)
_OF_KEY = Statement("list_of_key", Message)
_OF_KEYS = Statement("list_of_keys", Message)
_CORRELATED = Statement("list_correlated", Message)
_READY_END = Statement("ready_window_end", visible_at=Kind.TIME, id=Kind.ID)
_KEY_END = Statement("key_window_end")
_KEYS_END = Statement("keys_window_end")
_CORRELATED_END = Statement("correlated_window_end", id=Kind.ID)


class MessageReader:
    """Reads parts of a list in one transaction."""

    def __init__(
        self, queue_id: UUID, tenant: str, selection: MessageSelection, now: datetime
    ) -> None:
        self._queue_id, self._tenant = queue_id, tenant
        self._selection, self._now = selection, now

    def read(
        self, parts: Sequence[Part], limit: int, rest: int
    ) -> Steps[tuple[list[Row], MessagePosition | None]]:
        """The first rows of the parts, and where it ends if it has looked at `rest` rows before the
        end of the list. All priorities are read at once."""
        rows: list[Row] = []
        for _, group in groupby(parts, type):
            if len(rows) == limit:
                break
            kept: list[Part] = []
            end: MessagePosition | None = None
            for part in group:
                if has_window(part, self._selection):
                    row = yield from self._window_end(part, rest)
                    if row is None:
                        continue
                    rest -= row["number"]
                    if not rest:
                        end = _position(part, row)
                        kept += cut(part, end)
                        break
                kept.append(part)
            rows += yield from self._read_all(kept, limit - len(rows))
            if end is not None:
                return rows, end
        return rows, None

    def _window_end(self, part: Part, rest: int) -> Steps[Row | None]:
        own = (self._queue_id, self._tenant, rest)
        match part:
            case Lane(priority=priority, after=start, until=end):
                return (yield from _READY_END.fetch_row(*own, priority, *start, *end))
            case KeyPart(key=key, after=first, until=last):
                return (yield from _KEY_END.fetch_row(*own, key, first, last))
            case KeysPart(after=after, before=before):
                return (yield from _KEYS_END.fetch_row(*own, after, before))
            case _:
                assert isinstance(part, CorrelatedPart)
                named = (self._tenant, self._selection.correlation_id, rest)
                return (yield from _CORRELATED_END.fetch_row(*named, part.after, part.until))

    def _read_all(self, parts: Sequence[Part], limit: int) -> Steps[list[Row]]:
        lanes = [
            (part.priority, *part.after, *part.until) for part in parts if isinstance(part, Lane)
        ]
        if lanes:
            return (yield from _READY.fetch_each(lanes, *self._filters(limit)))[:limit]
        rows: list[Row] = []
        for part in parts:
            if len(rows) < limit:
                rows += yield from self._read(part, limit - len(rows))
        return rows

    def _read(self, part: Part, limit: int) -> Steps[list[Row]]:
        filters, selection = self._filters(limit), self._selection
        wanted = state_filter(selection, self._now)
        states = (wanted.state, wanted.visible_after, wanted.visible_until)
        match part:
            case ClaimedPart(after=after):
                return (yield from _CLAIMED.fetch(*filters, after))
            case KeyPart(key=key, after=low, until=high):
                return (yield from _OF_KEY.fetch(*filters, *states, key, low, high))
            case KeysPart(after=key, before=before):
                return (yield from _OF_KEYS.fetch(*filters, *states, key, before))
            case _:
                assert isinstance(part, CorrelatedPart)
                own = (selection.correlation_id, selection.key)
                bounds = (part.after, part.until)
                return (yield from _CORRELATED.fetch(*filters, *states, *own, *bounds))

    def _filters(self, limit: int) -> tuple[object, ...]:
        selection = self._selection
        return self._queue_id, self._tenant, selection.type, selection.sent_until, limit


def _position(part: Part, row: Row) -> MessagePosition:
    """The position of the last row of a window."""
    match part:
        case Lane(priority=priority):
            return MessagePosition(ListOrder.READY, priority, row["visible_at"], row["id"])
        case KeyPart(key=key):
            return MessagePosition(ListOrder.KEYED, key=key, rank=row["place"])
        case KeysPart():
            return MessagePosition(ListOrder.KEYED, key=row["key"], rank=row["place"])
        case _:
            return MessagePosition(ListOrder.CORRELATED, id=row["id"])
