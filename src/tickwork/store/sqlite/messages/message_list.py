"""Lists the messages of a queue on SQLite: one read transaction for a page."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tickwork.core.limits import check_limit
from tickwork.core.message.message_list import (
    ClaimedPart,
    CorrelatedPart,
    KeyPart,
    KeysPart,
    Lane,
    ListOrder,
    MessagePage,
    MessagePosition,
    MessageSelection,
    Part,
    cut,
    has_window,
    parts_after,
    position_of,
    state_filter,
)
from tickwork.core.model import Scope
from tickwork.store.ids import own_tenant
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.queue_rows import find_queue


async def list_messages(
    database: Database,
    scope: Scope,
    queue: str,
    selection: MessageSelection,
    limit: int,
    *,
    after: MessagePosition | None,
    looked_at_max: int,
) -> MessagePage:
    """The selected messages of a tenant after a position."""
    check_limit(limit)

    def work(transaction: Transaction) -> tuple[list[rows.Row], MessagePosition | None]:
        queue_id = find_queue(transaction, scope, queue).id
        reader = _Reader(transaction, queue_id, own_tenant(scope), selection)
        parts = parts_after(selection, after, from_microseconds(transaction.now))
        return reader.read(parts, limit + 1, looked_at_max)

    found, end = await database.read(work)
    messages = rows.known_messages(found[:limit])
    if len(found) > limit:
        end = position_of(messages[-1], found[limit - 1][0], selection)
    return MessagePage(messages, end)


class _Reader:
    """Reads parts of a list in one transaction."""

    def __init__(
        self, transaction: Transaction, queue_id: bytes, tenant: str, selection: MessageSelection
    ) -> None:
        self._transaction, self._selection = transaction, selection
        self._queue_id, self._tenant = queue_id, tenant

    def read(
        self, parts: Sequence[Part], limit: int, rest: int
    ) -> tuple[list[rows.Row], MessagePosition | None]:
        """The first rows of the parts, and where it ends if it has looked at `rest` rows before the
        end of the list."""
        found: list[rows.Row] = []
        for part in parts:
            if len(found) == limit:
                break
            kept: tuple[Part, ...] = (part,)
            end: MessagePosition | None = None
            if has_window(part, self._selection):
                row = self._window_end(part, rest)
                if row is None:
                    continue
                rest -= row[-1]
                if not rest:
                    end = _position(part, row)
                    kept = cut(part, end)
            for kept_part in kept:
                if len(found) < limit:
                    found += self._read(kept_part, limit - len(found))
            if end is not None:
                return found, end
        return found, None

    def _window_end(self, part: Part, rest: int) -> rows.Row | None:
        own: tuple[object, ...] = (self._queue_id, self._tenant, rest)
        match part:
            case KeyPart():
                statement = SQL.key_window_end
            case KeysPart():
                statement = SQL.keys_window_end
            case CorrelatedPart():
                statement = SQL.correlated_window_end
                own = self._tenant, self._selection.correlation_id, rest
            case _:
                statement = SQL.ready_window_end
        execute = self._transaction.execute
        row: rows.Row | None = execute(statement, (*own, *_bounds(part))).fetchone()
        return row

    def _read(self, part: Part, limit: int) -> list[rows.Row]:
        selection, until = self._selection, self._selection.sent_until
        sent_until = None if until is None else to_microseconds(until)
        filters = (self._queue_id, self._tenant, selection.type, sent_until, limit)
        wanted = state_filter(selection, from_microseconds(self._transaction.now))
        states = (
            None if wanted.state is None else str(wanted.state),
            to_microseconds(wanted.visible_after),
            to_microseconds(wanted.visible_until),
        )
        others: tuple[object, ...] = ()
        match part:
            case ClaimedPart():
                statement = SQL.list_claimed
            case Lane():
                statement = SQL.list_ready
            case KeyPart():
                statement, others = SQL.list_of_key, states
            case KeysPart():
                statement, others = SQL.list_of_keys, states
            case _:
                statement = SQL.list_correlated
                others = (*states, selection.correlation_id, selection.key)
        execute = self._transaction.execute
        return execute(statement, (*filters, *others, *_bounds(part))).fetchall()


def _bounds(part: Part) -> tuple[object, ...]:
    match part:
        case ClaimedPart(after=after):
            return (after.bytes,)
        case Lane(priority=priority, after=(visible_at, id_), until=(until, last_id)):
            start, end = to_microseconds(visible_at), to_microseconds(until)
            return priority, start, id_.bytes, end, last_id.bytes
        case KeyPart(key=key, after=low, until=high):
            return key, low, high
        case KeysPart(after=first_key, before=before):
            return first_key, before
        case CorrelatedPart(after=after, until=until):
            return after.bytes, until.bytes


def _position(part: Part, row: rows.Row) -> MessagePosition:
    """The position of the last row of a window."""
    match part:
        case Lane(priority=priority):
            at, id_ = from_microseconds(row[0]), UUID(bytes=row[1])
            return MessagePosition(ListOrder.READY, priority, at, id_)
        case KeyPart(key=key):
            return MessagePosition(ListOrder.KEYED, key=key, rank=row[0])
        case KeysPart():
            return MessagePosition(ListOrder.KEYED, key=row[0], rank=row[1])
        case _:
            return MessagePosition(ListOrder.CORRELATED, id=UUID(bytes=row[0]))
