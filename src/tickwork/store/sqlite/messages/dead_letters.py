"""Makes dead letters of messages on SQLite.

A message whose queue has a dead-letter queue also becomes a message there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from tickwork.core.message.error_summary import fingerprint
from tickwork.core.model import Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import NotFound
from tickwork.store.ids import new_id
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import (
    SQL,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.batch_progress import BatchName
from tickwork.store.sqlite.messages.prepared_messages import take_backlog
from tickwork.store.sqlite.messages.queue_rows import QueueRow, find_queue
from tickwork.store.sqlite.messages.removal import (
    BYTES,
    FENCE,
    QUEUE_ID,
    ROWID,
    SOURCE,
    TENANT,
    TYPE,
    Gone,
    LastAttempt,
    finish_removal,
)
from tickwork.store.sqlite.messages.system_events import dead_message, publish_dead_letters
from tickwork.store.sqlite.schedules.slot_outcome import (
    DyingMessage,
    end_slots,
    is_expired_unseen,
    slots_of_dead_messages,
)


class NewDeadLetter(NamedTuple):
    """A message that becomes a dead letter, why, and how long its last handler ran."""

    rowid: int
    reason: str
    error: str | None = None
    counted: int = 0
    took_seconds: float | None = None


class DeadLetterCounts(NamedTuple):
    """Number of new dead letters, and how many of them were slots that expired before their first
    attempt."""

    dead: int
    expired_slots: int


def add_dead_letters(
    transaction: Transaction,
    new_letters: Sequence[NewDeadLetter],
    *,
    later: set[BatchName] | None = None,
) -> int:
    """Moves messages to the dead letters and into the dead-letter queue of their queue if it has
    one; returns how many. `later` as in `finish_removal`."""
    if not new_letters:
        return 0
    dead_letter_ids = {letter.rowid: new_id().bytes for letter in new_letters}
    transaction.connection.executemany(
        SQL.record_dead_letters,
        [
            (letter.rowid, dead_letter_ids[letter.rowid], letter.reason, letter.error,
             fingerprint(letter.error), letter.counted, transaction.now)
            for letter in new_letters
        ],
    )  # fmt: skip
    removed = transaction.execute(SQL.delete_messages, (rows.as_json(dead_letter_ids),)).fetchall()
    reasons = {letter.rowid: letter.reason for letter in new_letters}
    errors = {letter.rowid: letter.error for letter in new_letters}
    transaction.connection.executemany(
        SQL.fail_dead_run,
        [
            (row[FENCE][1], transaction.now, reasons[row[ROWID]], errors[row[ROWID]])
            for row in removed
        ],
    )
    attempts = {
        letter.rowid: LastAttempt(letter.took_seconds, letter.counted) for letter in new_letters
    }
    for reason in set(reasons.values()):
        alike = [row for row in removed if reasons[row[ROWID]] == reason]
        finish_removal(
            transaction, alike, CounterName.DEAD, reason, last_attempts=attempts, later=later
        )
    _send_to_dead_letter_queue(transaction, {row[ROWID]: row for row in removed}, dead_letter_ids)
    publish_dead_letters(transaction, {dead_letter_ids[row[ROWID]]: row[TENANT] for row in removed})
    return len(removed)


def add_dead_letters_and_end_slots(
    transaction: Transaction, new_letters: Sequence[NewDeadLetter]
) -> DeadLetterCounts:
    """Makes dead letters of unclaimed messages, and records the outcome of slots among them."""
    ended = slots_of_dead_messages(
        transaction,
        [DyingMessage(letter.rowid, letter.reason, letter.error) for letter in new_letters],
    )
    count = add_dead_letters(transaction, new_letters)
    end_slots(transaction, ended)
    return DeadLetterCounts(count, sum(map(is_expired_unseen, ended)))


def _send_to_dead_letter_queue(
    transaction: Transaction, removed: dict[int, Gone], dead_letter_ids: dict[int, bytes]
) -> None:
    """Sends dead messages to the dead-letter queue of their queue, exempt from its cap."""
    targets: dict[tuple[str, bytes], QueueRow | None] = {}
    for rowid, dead_letter_id in dead_letter_ids.items():
        row = removed[rowid]
        died_in = (row[TENANT], row[QUEUE_ID])
        if died_in not in targets:
            targets[died_in] = _dead_letter_queue(transaction, *died_in)
        queue = targets[died_in]
        if queue is not None:
            dead = dead_message(transaction, dead_letter_id)
            values = (
                dead_letter_id, queue.id, transaction.now, dead.death.text, dead.idempotency_key
            )  # fmt: skip
            transaction.execute(SQL.forward_dead_letter, values)
            counted = CountedMessages(
                queue.id, row[TENANT], CounterName.SENT, row[TYPE], row[SOURCE], 1
            )
            transaction.counted.append(counted)
            transaction.queues_to_wake.add(UUID(bytes=queue.id))
            if queue.settings.backlog_bytes_max is not None:
                take_backlog(transaction, queue, row[BYTES], is_exempt=True)


def _dead_letter_queue(transaction: Transaction, tenant: str, queue_id: bytes) -> QueueRow | None:
    row = transaction.execute(SQL.queue_settings, (queue_id,)).fetchone()
    name = rows.settings(row[0]).dead_letter_queue if row else None
    if name is not None:
        with suppress(NotFound):
            return find_queue(transaction, Scope(tenant), name)
    return None
