"""What has to be done when messages are removed: acked, dead, purged or deleted.

All of it happens in the transaction that removes them: the next message of their key is unblocked,
their batch counts them, and their bytes are freed. The delivery of a message that was not acked is
dead. Counters are noted, and added after the commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.message.batch import ItemStatus, completed_attempts
from tickwork.core.message.history import REASON_DUPLICATE, Outcome
from tickwork.core.model import REASON_EXPIRED
from tickwork.core.queue.stats import CounterName, was_handled
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import SQL, for_rows, in_chunks
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.batch_progress import BatchName, EndedItem, complete, end_items
from tickwork.store.sqlite.messages.history import EndedMessage, record_history, started_at

Gone = tuple[Any, ...]
"""A removed message with the columns of `REMOVED_COLUMNS`. A plain tuple, because there are many.
"""

REMOVAL_CHUNK_MESSAGES = 1_000
"""Maximum number of messages that one statement removes from an unbounded set."""

(
    TENANT, ID, _CLAIM, HOLDER, QUEUE_ID, EVENT_ID, KEY, BATCH_ID, TYPE, SOURCE, BYTES, ROWID,
    CLAIMED_AT, ATTEMPTS, SENT_AT, CORRELATION_ID, CAUSATION_ID, SCHEDULE_ID, SLOT, RUN,
    CONTENT_TYPE, BODY, VISIBLE_AT,
) = range(23)  # fmt: skip
FENCE = slice(TENANT, QUEUE_ID)

_kind = itemgetter(QUEUE_ID, TENANT, TYPE, SOURCE)
_queue_id = itemgetter(QUEUE_ID)


def as_never_started(row: Gone) -> Gone:
    """A removed message whose claim does not count, because its event was done before."""
    return (*row[:CLAIMED_AT], None, *row[CLAIMED_AT + 1 :])


class LastAttempt(NamedTuple):
    """The last attempt at a message: how long its handler ran, if that is known, and whether it
    counts."""

    took_seconds: float | None = None
    counted: int = 0


_NONE_KNOWN: Mapping[int, LastAttempt] = {}


def finish_removal(
    transaction: Transaction,
    removed: Sequence[Gone],
    counter: CounterName | None,
    reason: str | None = None,
    *,
    last_attempts: Mapping[int, LastAttempt] = _NONE_KNOWN,
    later: set[BatchName] | None = None,
) -> None:
    """Does what has to follow a removal. `reason` says why unfinished messages were removed.
    Nothing is counted or recorded (counter None) if the messages were not visible yet.
    `last_attempts` are by rowid. Batches that may be complete are
    completed, or added to `later` for the caller to complete: their events come after the sends of
    the last settlement."""
    ended = _finish_except_batches(transaction, removed, counter, reason, last_attempts)
    if later is None:
        complete_all(transaction, ended)
    else:
        later |= ended


def remove_some(
    transaction: Transaction, statements: Sequence[str], values: tuple[Any, ...], reason: str
) -> tuple[int, set[BatchName]]:
    """Removes a chunk of what the statements delete; returns how many, and the batches that may be
    complete.

    The caller completes those after the last chunk, so that their events are not removed, too.
    """
    for statement in statements:
        if removed := transaction.execute(statement, (*values, REMOVAL_CHUNK_MESSAGES)).fetchall():
            return len(removed), _finish_except_batches(
                transaction, removed, CounterName.PURGED, reason
            )
    return 0, set()


def complete_all(transaction: Transaction, batches: Iterable[BatchName]) -> None:
    """Completes those of the batches whose items have all ended."""
    for batch in batches:
        complete(transaction, *batch)


def _finish_except_batches(
    transaction: Transaction,
    removed: Sequence[Gone],
    counter: CounterName | None,
    reason: str | None,
    last_attempts: Mapping[int, LastAttempt] = _NONE_KNOWN,
) -> set[BatchName]:
    """All but the completion of batches; returns the batches that may be complete."""
    if removed and counter is not None:
        record_history(
            transaction,
            [
                _ended(transaction.now, row, counter, reason, last_attempts.get(row[ROWID]))
                for row in removed
            ],
        )
    if removed and counter not in (None, CounterName.DONE):
        queue_ids = {queue_id for (queue_id,) in transaction.execute(SQL.delivery_queues)}
        gone = [(row[TENANT], row[ID]) for row in removed if row[QUEUE_ID] in queue_ids]
        bury_deliveries(transaction, gone)
    for kind, messages in Counter(map(_kind, removed)).items():
        if counter is None:
            break
        queue_id, tenant, type_, source = kind
        transaction.counted.append(
            CountedMessages(queue_id, tenant, counter, type_, source, messages)
        )
    for queue_id in set(map(_queue_id, removed)):
        freed = sum(row[BYTES] for row in removed if row[QUEUE_ID] == queue_id)
        transaction.execute(SQL.change_backlog, (queue_id, -freed))
    keys = {(row[QUEUE_ID], row[TENANT], row[KEY]) for row in removed if row[KEY] is not None}
    unblock(transaction, [*keys], has_run=was_handled(counter, reason))
    status = ItemStatus.COMPLETED if counter is CounterName.DONE else ItemStatus.FAILED
    ended = [
        EndedItem(
            *(row[TENANT], row[BATCH_ID], row[ID], status, reason, row[CLAIMED_AT]),
            completed_attempts(status, row[ATTEMPTS], is_started=row[CLAIMED_AT] is not None),
        )
        for row in removed
        if row[BATCH_ID] is not None
    ]
    return end_items(transaction, ended) if ended else set()


def _ended(
    now: int, row: Gone, counter: CounterName, reason: str | None, last: LastAttempt | None
) -> EndedMessage:
    """A removed message for the history."""
    outcome, counted = Outcome.DISCARDED, 0
    took_seconds = None if last is None else last.took_seconds
    if counter is CounterName.DEAD:
        outcome = Outcome.EXPIRED if reason == REASON_EXPIRED else Outcome.DEAD
        counted = 0 if last is None else last.counted
    elif counter is CounterName.DONE and reason is None:
        if row[CLAIMED_AT] is None:
            reason = REASON_DUPLICATE
        else:
            outcome, counted = Outcome.DONE, 1
    return EndedMessage(
        tenant=row[TENANT],
        queue_id=row[QUEUE_ID],
        holder=row[HOLDER],
        id=row[ID],
        outcome=outcome,
        reason=reason,
        attempts=row[ATTEMPTS] + counted,
        sent_at=row[SENT_AT],
        started_at=started_at(now, took_seconds, row[CLAIMED_AT]) if counted else None,
        type=row[TYPE],
        source=row[SOURCE],
        key=row[KEY],
        event_id=row[EVENT_ID],
        correlation_id=row[CORRELATION_ID],
        causation_id=row[CAUSATION_ID],
        batch_id=row[BATCH_ID],
        schedule_id=row[SCHEDULE_ID],
        slot=row[SLOT],
        run=row[RUN],
        content_type=row[CONTENT_TYPE],
        body=row[BODY],
        visible_at=row[VISIBLE_AT],
    )


def bury_deliveries(transaction: Transaction, gone: Sequence[tuple[str, bytes]]) -> None:
    """Marks the deliveries of messages (tenant and id) as dead, unless they are delivered."""
    if gone:
        values = [(*name, transaction.now) for name in gone]
        transaction.connection.executemany(SQL.bury_deliveries, values)
        transaction.connection.executemany(SQL.bury_resent_deliveries, values)


def unblock(
    transaction: Transaction, keys: Sequence[tuple[bytes, str, str]], *, has_run: bool = False
) -> None:
    """Unblocks the first message of each key (queue, tenant, key). If that is a send which waits
    for its time, a direct call moves before it."""
    for some in in_chunks(keys):
        passing = for_rows(SQL.passing_calls, len(some))
        asked = (*chain.from_iterable(some), transaction.now)
        for waiting, call in transaction.execute(passing, asked).fetchall():
            transaction.execute(SQL.block_message, (waiting,))
            transaction.execute(SQL.move_call_ahead, (call,))
        statement = for_rows(SQL.unblock_keys, len(some))
        values = (transaction.now, has_run, *chain.from_iterable(some))
        for (topic,) in transaction.execute(statement, values).fetchall():
            transaction.queues_to_wake.add(UUID(bytes=topic))
