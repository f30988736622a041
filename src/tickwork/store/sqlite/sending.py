"""Sending on SQLite: messages as rows, many in a statement.

Rows are made before the writer's thread is asked, so that it does nothing but write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.limits import check_message
from tickwork.core.model import ContentType, NewMessage, Scope
from tickwork.store.sqlite.database import Database
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.queues import find_queue
from tickwork.store.sqlite.statements import SQL, for_rows, portions
from tickwork.store.sqlite.times import duration, to_microseconds

BULK_MESSAGES = 1_000

DEFAULT_TENANT = "default"
"""Whose messages the system's own sends into a shared queue are."""


class _Portion(NamedTuple):
    """Some rows as one statement takes them."""

    statement: str
    values: tuple[Any, ...]


class Parcel:
    """Messages for one queue that are stored together or not at all."""

    def __init__(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        self._scope, self._queue = scope, queue
        self._portions = [_portion(each) for each in portions(messages)]

    def find(self, transaction: Transaction) -> bytes:
        """The queue's id; `NotFound` if there is no such queue."""
        return find_queue(transaction, self._scope, self._queue).id

    def store(self, transaction: Transaction) -> None:
        """Stores what is not there yet; `NotFound` if there is no such queue."""
        queue_id = self.find(transaction)
        shared = (self._scope.tenant or DEFAULT_TENANT, queue_id, transaction.now)
        for portion in self._portions:
            transaction.execute(portion.statement, shared + portion.values)
        transaction.woken.add(UUID(bytes=queue_id))


class Sender:
    """Stores messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def send(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        """Stores messages, all or none."""
        if messages:
            await self._database.write(Parcel(scope, queue, messages).store, rows=len(messages))

    async def bulk(self, scope: Scope, queue: str, messages: Iterable[NewMessage]) -> int:
        """Stores any number, piece by piece."""
        await self._database.read(lambda transaction: find_queue(transaction, scope, queue))
        source, stored = iter(messages), 0
        while piece := tuple(islice(source, BULK_MESSAGES)):
            for message in piece:
                check_message(message)
            await self._database.write(Parcel(scope, queue, piece).store, rows=len(piece))
            stored += len(piece)
        return stored


def _portion(messages: Sequence[NewMessage]) -> _Portion:
    if all(map(_is_plain, messages)):
        statement, values = SQL.send_plain, [(each.id.bytes, each.body) for each in messages]
    else:
        statement, values = SQL.send, [_values(each) for each in messages]
    return _Portion(for_rows(statement, len(messages)), tuple(chain.from_iterable(values)))


def _is_plain(m: NewMessage) -> bool:
    """Everything but id and body is as the table has it by itself."""
    return (
        m.key is m.event_id is m.type is m.source is m.correlation_id is m.causation_id is None
        and m.batch_id is m.schedule_id is None
        and m.slot is None
        and m.expires_after_seconds is None
        and m.content_type is ContentType.JSON
        and m.priority == 4
        and m.delay_seconds == m.hops == m.run == m.catch_up == 0
    )


def _values(m: NewMessage) -> tuple[Any, ...]:
    delay, expiry = duration(m.delay_seconds), m.expires_after_seconds
    return (
        m.id.bytes, m.priority, delay, None if expiry is None else delay + duration(expiry), m.key,
        m.event_id, m.type, m.source, m.correlation_id, m.causation_id, m.hops,
        m.batch_id and m.batch_id.bytes, m.schedule_id and m.schedule_id.bytes,
        m.slot and to_microseconds(m.slot), m.run, m.catch_up, str(m.content_type), m.body,
    )  # fmt: skip
