"""What follows when messages leave the table, whichever way: acked, dead, purged, deleted.

All of it in the transaction in which they left: their keys go on to the next, their batches
count them, their bytes are free again; what passed is noted, to be counted after the commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any
from uuid import UUID

from tickwork.core.message.batch import ItemStatus
from tickwork.core.queue.stats import CounterName, was_handled
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.batch_progress import BatchName, EndedItem, complete, end_items

Gone = tuple[Any, ...]
"""A message that left, as `REMOVED_COLUMNS` has it. A plain row: there are many of them."""

REMOVAL_CHUNK_MESSAGES = 1_000
"""As many as leave by one statement where there may be any number."""

(
    TENANT, ID, _CLAIM, _HOLDER, QUEUE_ID, EVENT_ID, KEY, BATCH_ID, TYPE, SOURCE, BYTES, PLACE,
) = range(12)  # fmt: skip
FENCE = slice(TENANT, QUEUE_ID)

_kind = itemgetter(QUEUE_ID, TENANT, TYPE, SOURCE)
_queue_id = itemgetter(QUEUE_ID)


def finish_removal(
    transaction: Transaction,
    gone: Sequence[Gone],
    passing: CounterName | None,
    reason: str | None = None,
    *,
    later: set[BatchName] | None = None,
) -> None:
    """Carries out what follows; `reason` says why, of messages that nobody finished. Nothing passed
    (None) if nobody was to see them yet. Batches that may have ended are completed, or noted as the
    caller's to complete `later`: their events come after what is sent with the last end."""
    ended = _follow(transaction, gone, passing, reason)
    if later is None:
        complete_all(transaction, ended)
    else:
        later |= ended


def remove_some(
    transaction: Transaction, statements: Sequence[str], values: tuple[Any, ...], reason: str
) -> tuple[int, set[BatchName]]:
    """Takes away some of what statements delete: how many, and the batches that may have ended.

    Those are the caller's to complete when all is taken away: their events are not among it.
    """
    for statement in statements:
        if gone := transaction.execute(statement, (*values, REMOVAL_CHUNK_MESSAGES)).fetchall():
            return len(gone), _follow(transaction, gone, CounterName.PURGED, reason)
    return 0, set()


def complete_all(transaction: Transaction, batches: Iterable[BatchName]) -> None:
    """Completes those of some batches that have ended."""
    for batch in batches:
        complete(transaction, *batch)


def _follow(
    transaction: Transaction, gone: Sequence[Gone], passing: CounterName | None, reason: str | None
) -> set[BatchName]:
    """All but the completion of batches: those that may have come to their end."""
    for kind, messages in Counter(map(_kind, gone)).items():
        if passing is None:
            break
        queue_id, tenant, type_, source = kind
        transaction.counted.append(
            CountedMessages(queue_id, tenant, passing, type_, source, messages)
        )
    for queue_id in set(map(_queue_id, gone)):
        freed = sum(row[BYTES] for row in gone if row[QUEUE_ID] == queue_id)
        transaction.execute(SQL.change_backlog, (queue_id, -freed))
    for key in {(row[QUEUE_ID], row[TENANT], row[KEY]) for row in gone if row[KEY] is not None}:
        _free(transaction, key, has_run=was_handled(passing, reason))
    status = ItemStatus.COMPLETED if passing is CounterName.DONE else ItemStatus.FAILED
    ended = [
        EndedItem(row[TENANT], row[BATCH_ID], row[ID], status, reason)
        for row in gone
        if row[BATCH_ID] is not None
    ]
    return end_items(transaction, ended) if ended else set()


def _free(transaction: Transaction, key: tuple[bytes, str, str], *, has_run: bool) -> None:
    """Lets the next message of a key take its turn, if the earliest one is gone."""
    if transaction.execute(SQL.unblock_keys, (*key, transaction.now, has_run)).rowcount:
        transaction.queues_to_wake.add(UUID(bytes=key[0]))
