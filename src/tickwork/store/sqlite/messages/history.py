"""Records what became of messages on SQLite, in the transaction that removes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tickwork.core.message.history import (
    HistoryKept,
    HistorySelection,
    Outcome,
    drop_at,
    mark_of_id,
)
from tickwork.store.sqlite.engine.sql import (
    SQL,
    from_microseconds,
    joined_durations,
    microseconds,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction


class EndedMessage(NamedTuple):
    """A message that has ended. `holder` is the node that had it, if one had."""

    tenant: str
    queue_id: bytes
    holder: bytes | None
    id: bytes
    outcome: Outcome
    reason: str | None
    attempts: int
    sent_at: int
    started_at: int | None
    type: str | None
    source: str | None
    key: str | None
    event_id: str | None
    correlation_id: str | None
    causation_id: str | None
    batch_id: bytes | None
    schedule_id: bytes | None
    slot: int | None
    run: int
    content_type: str
    body: str | None
    visible_at: int


class KeptHistory(NamedTuple):
    """What a queue keeps of its messages, and from when on it may be dropped."""

    queue: str
    history: HistoryKept
    drop_at: int
    has_bodies: bool


def record_history(transaction: Transaction, ended: Iterable[EndedMessage]) -> None:
    """Stores the records that the queues of the messages keep, in chunks, and notes how the
    messages fared."""
    chunks: dict[tuple[str, bytes, bytes | None], list[EndedMessage]] = {}
    for message in ended:
        name = (message.tenant, message.queue_id, message.holder)
        chunks.setdefault(name, []).append(message)
    kept = {
        queue_id: kept_history(transaction, queue_id) for queue_id in {name[1] for name in chunks}
    }
    for (tenant, queue_id, holder), messages in chunks.items():
        queue = kept[queue_id]
        if queue is None:
            continue
        _count_ended(transaction, queue.queue, messages)
        recorded = [
            message
            for message in messages
            if queue.history == "all"
            or (queue.history == "failures" and message.outcome is not Outcome.DONE)
        ]
        if recorded:
            records = msgspec.json.encode([_record(message) for message in recorded]).decode()
            values = (transaction.now, queue.drop_at, tenant, queue.queue, holder, records)
            (rowid,) = transaction.execute(SQL.record_history, values).fetchone()
            mark_chunk(transaction, queue.drop_at, rowid, _marks(recorded))


def _count_ended(transaction: Transaction, queue: str, messages: Iterable[EndedMessage]) -> None:
    """Notes how messages of a tenant and queue fared, for each type."""
    types: dict[str | None, list[EndedMessage]] = {}
    for message in messages:
        types.setdefault(message.type, []).append(message)
    for type_, ended in types.items():
        outcomes = Counter(message.outcome for message in ended)
        ran = [
            (message.started_at, message.visible_at)
            for message in ended
            if message.started_at is not None
        ]
        values = (
            transaction.now, ended[0].tenant, queue, type_, outcomes[Outcome.DONE],
            outcomes[Outcome.DEAD] + outcomes[Outcome.EXPIRED], outcomes[Outcome.DISCARDED],
            _durations(started - visible for started, visible in ran),
            _durations(transaction.now - started for started, _ in ran),
        )  # fmt: skip
        transaction.execute(SQL.count_ended, values)


def _durations(microseconds: Iterable[int]) -> str:
    """Durations as JSON; a clock that was set back makes none negative."""
    return msgspec.json.encode([max(duration, 0) for duration in microseconds]).decode()


def kept_history(transaction: Transaction, queue_id: bytes) -> KeptHistory | None:
    """What a queue keeps; None if there is no such queue."""
    row = transaction.execute(SQL.kept_history, (queue_id,)).fetchone()
    if row is None:
        return None
    name, history, seconds, has_bodies = row
    dropped = to_microseconds(drop_at(from_microseconds(transaction.now), seconds))
    return KeptHistory(name, history, dropped, bool(has_bodies))


class PlainHistory(NamedTuple):
    """Messages of one tenant and holder that are acked by their rowids, given as JSON, and the
    seconds that their handlers ran, as far as these are known."""

    rowids: str
    ids: Sequence[UUID]
    tenant: str
    holder: bytes
    took: Sequence[float | None]

    def record(self, transaction: Transaction, queue_id: bytes, *, is_correlated: bool) -> None:
        """Stores the records of the messages of a queue, and notes how they fared. They are not
        deleted yet."""
        queue = kept_history(transaction, queue_id)
        if queue is None:
            return
        long = b""
        if None not in self.took:
            long = joined_durations(took or 0 for took in self.took)
        values = (
            transaction.now, queue.drop_at, self.tenant, queue.queue, self.holder, self.rowids,
            long, queue.has_bodies, queue_id,
        )  # fmt: skip
        transaction.execute(SQL.count_plain_ended, values)
        if queue.history != "all":
            return
        (rowid,) = transaction.execute(SQL.record_plain_history, values).fetchone()
        mark_chunk(transaction, queue.drop_at, rowid, map(mark_of_id, self.ids))
        if is_correlated:
            transaction.execute(SQL.mark_correlations, (queue.drop_at, rowid, self.rowids))


def mark_chunk(transaction: Transaction, dropped: int, rowid: int, marks: Iterable[str]) -> None:
    """Stores the marks by which a chunk is found."""
    for mark in {*marks}:
        transaction.execute(SQL.mark_history, (dropped, mark, rowid))


def _marks(recorded: Sequence[EndedMessage]) -> Iterable[str]:
    for message in recorded:
        yield mark_of_id(UUID(bytes=message.id))
        yield from HistorySelection(
            correlation_id=message.correlation_id, event_id=message.event_id, key=message.key
        ).marks


def _record(message: EndedMessage) -> list[Any]:
    """A record in the order of `ENDED`, without the last fields that have no value."""
    has_body = message.body is not None
    record = [
        _hex(message.id), message.outcome, message.reason, message.attempts, message.sent_at,
        message.started_at, message.type, message.source, message.key, message.event_id,
        message.correlation_id, message.causation_id, _hex(message.batch_id),
        _hex(message.schedule_id), message.slot, None if message.slot is None else message.run,
        message.content_type if has_body else None, message.body,
    ]  # fmt: skip
    while record[-1] is None:
        record.pop()
    return record


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex().upper()


def started_at(now: int, took_seconds: float | None, claimed_at: int | None) -> int | None:
    """When a handler started: by how long it ran, if that is known."""
    return claimed_at if took_seconds is None else now - microseconds(took_seconds)
