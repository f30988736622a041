"""Statements of a settlement on SQLite: endings in bulk, each checked against its fence.

First the rows that are still claimed are deleted or made ready again. Then the effects of these
endings are written, and only theirs, by the writers of their features (`core.effects`), and
messages are sent. Batches are completed last: their events are exempt from a cap and must not use
up the bytes of what is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias
from uuid import UUID

from tickwork.core.limits import is_possible_claim
from tickwork.core.model import Ending, Fate, Scope, Send, SettleResult
from tickwork.core.queue.stats import CounterName
from tickwork.store.shared.effects import by_writer
from tickwork.store.sqlite.endpoints.publish import NewEvent
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import (
    SQL,
    for_rows,
    in_chunks,
    microseconds,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.batch_fill import PreparedBatch
from tickwork.store.sqlite.messages.batch_progress import BatchName
from tickwork.store.sqlite.messages.dead_letters import NewDeadLetter, add_dead_letters
from tickwork.store.sqlite.messages.effects import EffectWriter, EffectWriters
from tickwork.store.sqlite.messages.removal import (
    EVENT_ID,
    FENCE,
    QUEUE_ID,
    ROWID,
    TENANT,
    Gone,
    LastAttempt,
    as_never_started,
    complete_all,
    finish_removal,
    unblock,
)
from tickwork.store.sqlite.messages.send import Parcel, Sent, send_copies

Fence = tuple[str, bytes, int, bytes]
"""A claim as statements compare it: tenant, id, claim number, holder."""

Writer: TypeAlias = EffectWriter[Any]


class Endings:
    """The endings of a settlement, prepared for writing.

    Of several endings of one claim the first counts, and the others are refused. An ending of
    another tenant's claim is refused, too.
    """

    def __init__(self, scope: Scope, endings: Sequence[Ending], writers: EffectWriters) -> None:
        self._endings = endings
        self._indexes: dict[Fence, int] = {}
        self._sends: list[tuple[int, Parcel | NewEvent | PreparedBatch]] = []
        batches: list[tuple[int, PreparedBatch]] = []
        self.rows = len(endings)
        for index, ending in enumerate(endings):
            claim = ending.claim
            if (scope.is_system or claim.tenant == scope.tenant) and is_possible_claim(claim):
                fence = (claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes)
                self._indexes.setdefault(fence, index)
                self._sends += [(index, _sent(claim.tenant, send)) for send in ending.sends]
                for batch in ending.batches:
                    batches.append((index, PreparedBatch(Scope(claim.tenant), batch)))
                    self.rows += len(batch.items)
        self._sends += batches
        self._effects = by_writer(writers, endings, self._indexes.values())

    def carry_out(self, transaction: Transaction) -> SettleResult:
        batches: set[BatchName] = set()
        result = self._carry_out(transaction, batches)
        complete_all(transaction, batches)
        return result

    def _carry_out(self, transaction: Transaction, batches: set[BatchName]) -> SettleResult:
        """All but the completion of batches; adds those that may be complete."""
        for _, sent in self._sends:
            sent.find(transaction)
        writers = [writer(effects) for writer, effects in self._effects]
        for writer in writers:
            writer.record(transaction)
        done, duplicates = self._end(transaction, writers, batches)
        counted = done - duplicates
        for writer in writers:
            writer.write(transaction, sorted(counted))
        if self._sends:
            self._store_sent(transaction, counted, batches)
        return self._result(done, duplicates)

    def _result(self, done: set[int], duplicates: set[int]) -> SettleResult:
        if len(done) == len(self._endings) and not duplicates:
            return SettleResult()
        return SettleResult(
            tuple(ending.claim for index, ending in enumerate(self._endings) if index not in done),
            tuple(self._endings[index].claim for index in sorted(duplicates)),
        )

    def _end(
        self, transaction: Transaction, writers: Sequence[Writer], batches: set[BatchName]
    ) -> tuple[set[int], set[int]]:
        """Ends messages that are still claimed: the indexes of those endings, and of the duplicates
        among them."""
        done, duplicates = set[int](), set[int]()
        by_fate = self._by_fate()
        if acks := by_fate.get(Fate.ACK):
            acked, doubled = _ack(transaction, acks, batches)
            done.update(self._indexes_of(acked))
            duplicates.update(self._indexes_of(doubled))
        if back := by_fate.get(Fate.RETRY):
            released = self._indexes_of(_put_back(transaction, back))
            done.update(released)
            for writer in writers:
                writer.released(transaction, released)
        if dead := by_fate.get(Fate.DEAD):
            dead_letters = _dead_letters(transaction, dead)
            dying = self._indexes_of(dead_letters)
            done.update(dying)
            for writer in writers:
                writer.before_death(transaction, dying)
            add_dead_letters(transaction, [*dead_letters.values()], later=batches)
        if kept := by_fate.get(Fate.KEEP):
            for writer in writers:
                recorded = writer.keep(transaction, self._indexes_of(kept))
                done.update(recorded)
                duplicates.update(index for index in recorded if not recorded[index])
        return done, duplicates

    def _indexes_of(self, fences: Iterable[Fence]) -> list[int]:
        return [self._indexes[fence] for fence in fences]

    def _by_fate(self) -> dict[Fate, dict[Fence, Ending]]:
        """The endings that count. Those that are released count as retries here."""
        found: dict[Fate, dict[Fence, Ending]] = {}
        for fence, index in self._indexes.items():
            ending = self._endings[index]
            fate = Fate.RETRY if ending.fate is Fate.RELEASE else ending.fate
            found.setdefault(fate, {})[fence] = ending
        return found

    def _store_sent(
        self, transaction: Transaction, counted: set[int], batches: set[BatchName]
    ) -> None:
        """Stores the sends and batches of endings that count."""
        stored: list[Sent] = []
        for index, sent in self._sends:
            if index in counted:
                stored.append(sent.store_own(transaction))
                if isinstance(sent, PreparedBatch):
                    batches.add(sent.name)
        # Last, so that copies take no room from the settlement's own messages.
        for own in stored:
            send_copies(transaction, *own)


def _sent(tenant: str, send: Send) -> Parcel | NewEvent:
    if send.queue is None:
        return NewEvent(tenant, send.message, send.owner)
    return Parcel(Scope(tenant), send.queue, [send.message])


def _ack(
    transaction: Transaction, endings: Mapping[Fence, Ending], batches: set[BatchName]
) -> tuple[set[Fence], set[Fence]]:
    """Deletes messages that are still claimed; returns their fences, and those of them whose event
    was done before."""
    removed: list[Gone] = []
    for some in in_chunks([*endings]):
        statement = for_rows(SQL.ack, len(some))
        removed += transaction.execute(statement, tuple(chain.from_iterable(some))).fetchall()
    if not removed:
        return set(), set()
    done = {row[FENCE] for row in removed}
    order = {fence: number for number, fence in enumerate(endings)}
    events = [row for row in removed if row[EVENT_ID] is not None]
    # Of two messages with one event the first one is not a duplicate.
    events.sort(key=lambda row: order[row[FENCE]])
    duplicates = {row[FENCE] for row in events if not _is_new_event(transaction, row)}
    if duplicates:
        removed = [as_never_started(row) if row[FENCE] in duplicates else row for row in removed]
    reasons = {row[FENCE]: endings[row[FENCE]].skip_reason for row in removed}
    for reason in set(reasons.values()):
        alike = [row for row in removed if reasons[row[FENCE]] == reason]
        finish_removal(
            transaction,
            alike,
            CounterName.DONE,
            reason,
            last_attempts={
                row[ROWID]: LastAttempt(endings[row[FENCE]].took_seconds) for row in alike
            },
            later=batches,
        )
    return done, duplicates


def _is_new_event(transaction: Transaction, row: Gone) -> bool:
    values = (row[TENANT], row[QUEUE_ID], row[EVENT_ID], transaction.now)
    return transaction.execute(SQL.record_event, values).rowcount == 1


def _put_back(transaction: Transaction, endings: Mapping[Fence, Ending]) -> list[Fence]:
    """Makes messages that are still claimed ready again; returns which."""
    released: list[Fence] = []
    for fence, ending in endings.items():
        if ending.visible_at is None:
            visible_at = transaction.now + microseconds(ending.delay_seconds)
        else:
            visible_at = to_microseconds(ending.visible_at)
        values = (*fence, int(ending.counts_attempt), visible_at, ending.error)
        row = transaction.execute(SQL.retry, values).fetchone()
        if row is not None:
            released.append(fence)
            queue_id, type_, source, key = row
            if visible_at <= transaction.now:
                transaction.queues_to_wake.add(UUID(bytes=queue_id))
            elif key is not None:  # Direct calls of an entity do not wait for a retry.
                unblock(transaction, [(queue_id, fence[0], key)])
            if ending.fate is Fate.RETRY:
                passed = CountedMessages(queue_id, fence[0], CounterName.RETRIED, type_, source, 1)
                transaction.counted.append(passed)
    return released


def _dead_letters(
    transaction: Transaction, endings: Mapping[Fence, Ending]
) -> dict[Fence, NewDeadLetter]:
    """The dead letters of messages that are still claimed."""
    dead_letters: dict[Fence, NewDeadLetter] = {}
    for fence, ending in endings.items():
        row = transaction.execute(SQL.claimed_rowid, fence).fetchone()
        if row is not None:
            reason, counted = ending.reason or "failed", int(ending.counts_attempt)
            dead_letters[fence] = NewDeadLetter(
                row[0], reason, ending.error, counted, ending.took_seconds
            )
    return dead_letters
