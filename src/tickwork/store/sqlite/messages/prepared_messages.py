"""Stores messages on SQLite, many rows in one statement.

Rows are prepared before the writer thread gets them, so that it only writes. A message with a key
has a statement of its own, because it must see the message before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import chain, groupby
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.message.subscription import copy_for, matches
from tickwork.core.model import NewMessage
from tickwork.core.queue.stats import CounterName
from tickwork.errors import BacklogFull, Conflict
from tickwork.store.shared.columns import SENT, Column, compiled
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import (
    CONVERSIONS,
    SQL,
    for_rows,
    id_bytes,
    in_chunks,
    microseconds,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.queue_rows import QueueRow


def _stored_value(column: Column) -> str:
    """An expression: the value of a new message `m` as the file stores it."""
    value = f"m.{column.name}"
    if isinstance(column.default, StrEnum):
        return f"str({value})"
    return (
        f"{value} and {CONVERSIONS[column.kind].__name__}({value})"
        if column.kind in CONVERSIONS
        else value
    )


def _has_default(column: Column) -> str:
    """An expression: a new message `m` has the default of the column."""
    if column.default is None:
        return f"m.{column.name} is None"
    default = str(column.default) if isinstance(column.default, str) else column.default
    return f"m.{column.name} == {default!r}"


_row = compiled(
    "delay, expires_after, m",
    f"(delay, expires_after, {', '.join(map(_stored_value, SENT))})",
    id_bytes=id_bytes,
    to_microseconds=to_microseconds,
)
_is_plain = compiled(
    "m",
    " and ".join(
        (
            "m.delay_seconds == 0 and m.expires_after_seconds is None",
            *(_has_default(column) for column in SENT if column.name not in ("id", "body")),
        )
    ),
)
"""Whether a message has nothing but an id and a body: all else is the default of the table."""

_Kind = tuple[str | None, str | None]


class _Chunk(NamedTuple):
    """Some messages, with the statement and the values that store them."""

    messages: Sequence[NewMessage]
    statement: str
    values: tuple[Any, ...]


class PreparedMessages:
    """Messages for one queue, prepared for storing."""

    def __init__(self, messages: Sequence[NewMessage]) -> None:
        self.messages = messages
        self._chunks = [*_chunks(messages)]
        self._kinds = _kinds(messages)

    def store(
        self,
        transaction: Transaction,
        tenant: str,
        queue: QueueRow,
        *,
        batch_id: bytes | None = None,
        is_exempt: bool = False,
    ) -> Sequence[NewMessage]:
        """Stores the messages that are not stored yet, and returns them.

        Items of a batch must all be new: otherwise `Conflict`. `BacklogFull` if they exceed the
        queue's cap, unless they are exempt.
        """
        shared = (tenant, queue.id, transaction.now, batch_id)
        stored = self.messages
        kinds = self._kinds
        short: dict[int, list[NewMessage]] = {}
        for number, chunk in enumerate(self._chunks):
            cursor = transaction.execute(chunk.statement, shared + chunk.values)
            if cursor.rowcount < len(chunk.messages):
                short[number] = _stored(transaction, chunk, cursor)
        if short and batch_id is not None:
            raise Conflict("an item has the id of a stored message")
        if short:
            stored = [
                message
                for number, chunk in enumerate(self._chunks)
                for message in short.get(number, chunk.messages)
            ]
            kinds = _kinds(stored)
        for (type_, source), messages in kinds.items():
            counted = CountedMessages(queue.id, tenant, CounterName.SENT, type_, source, messages)
            transaction.counted.append(counted)
        if stored:
            transaction.queues_to_wake.add(UUID(bytes=queue.id))
            if queue.settings.backlog_bytes_max is not None:
                size = sum(len(message.body) for message in stored)
                take_backlog(transaction, queue, size, is_exempt=is_exempt)
        return stored


def copies_by_queue(
    transaction: Transaction,
    tenant: str,
    messages: Sequence[NewMessage],
    *,
    except_queue_id: bytes | None = None,
) -> Iterator[tuple[QueueRow, list[NewMessage]]]:
    """The copies of messages for the queues that subscribe to them, except the one they are in."""
    typed = [message for message in messages if message.type is not None]
    if not typed:
        return
    patterns: dict[QueueRow, list[str]] = {}
    for types, *queue in transaction.execute(SQL.subscriptions_of, (tenant,)).fetchall():
        patterns.setdefault(QueueRow(*queue), []).append(types)
    for queue, own_patterns in patterns.items():
        queue_id = UUID(bytes=queue.id)
        copies = [
            copy_for(message, queue_id)
            for message in typed
            if any(matches(types, message.type) for types in own_patterns)
        ]
        if copies and queue.id != except_queue_id:
            yield queue, copies


def send_exempt_copies(
    transaction: Transaction,
    tenant: str,
    messages: Sequence[NewMessage],
    *,
    except_queue_id: bytes | None = None,
) -> int:
    """Copies messages to the queues that subscribe to them, beyond their caps; returns the number
    of queues."""
    queues = 0
    for queue, copies in copies_by_queue(
        transaction, tenant, messages, except_queue_id=except_queue_id
    ):
        PreparedMessages(copies).store(transaction, tenant, queue, is_exempt=True)
        queues += 1
    return queues


def take_backlog(
    transaction: Transaction, queue: QueueRow, size: int, *, is_exempt: bool = False
) -> None:
    """Adds bytes to the backlog of a queue with a cap; `BacklogFull` if they exceed it."""
    (waiting,) = transaction.execute(SQL.change_backlog, (queue.id, size)).fetchone()
    bytes_max = queue.settings.backlog_bytes_max
    assert bytes_max is not None
    if waiting > bytes_max and not is_exempt:
        raise BacklogFull(queue.name, bytes_max)


def _stored(transaction: Transaction, chunk: _Chunk, cursor: Any) -> list[NewMessage]:
    """The messages of a chunk that were stored now: they have the highest rowids."""
    if not cursor.rowcount:
        return []
    rowid_range = (cursor.lastrowid - cursor.rowcount, cursor.lastrowid)
    found = {id_: rest for id_, *rest in transaction.execute(SQL.stored_rows, rowid_range)}
    stored: list[NewMessage] = []
    for message in chunk.messages:
        # Of two messages with one id at most one is stored.
        if found.get(message.id.bytes) == [message.type, message.source, len(message.body)]:
            del found[message.id.bytes]
            stored.append(message)
    return stored


def _chunks(messages: Sequence[NewMessage]) -> Iterator[_Chunk]:
    """In order: of two messages with one id the first one is stored."""
    for is_keyed, run in groupby(messages, key=lambda message: message.key is not None):
        if is_keyed:
            for message in run:
                yield _Chunk([message], SQL.send_keyed, (message.key, *_values(message)))
        else:
            for some in in_chunks([*run]):
                yield _chunk(some)


def _chunk(messages: Sequence[NewMessage]) -> _Chunk:
    if all(map(_is_plain, messages)):
        statement, values = (
            SQL.send_plain,
            [(message.id.bytes, message.body) for message in messages],
        )
    else:
        statement, values = SQL.send, [_values(message) for message in messages]
    return _Chunk(messages, for_rows(statement, len(messages)), tuple(chain.from_iterable(values)))


def _values(m: NewMessage) -> tuple[Any, ...]:
    delay, expiry = microseconds(m.delay_seconds), m.expires_after_seconds
    values: tuple[Any, ...] = _row(
        delay, None if expiry is None else delay + microseconds(expiry), m
    )
    return values


def _kinds(messages: Sequence[NewMessage]) -> Counter[_Kind]:
    return Counter((message.type, message.source) for message in messages)
