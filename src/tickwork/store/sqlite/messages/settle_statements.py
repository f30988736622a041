"""Statements of a settlement on SQLite: endings in bulk, each checked against its fence.

First the rows that are still claimed are deleted or made ready again; then their effects happen,
and only theirs. Batches are completed last: their events are exempt from a cap and must not use up
the bytes of what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from uuid import UUID

from tickwork.core.limits import is_possible_claim
from tickwork.core.model import Ending, Fate, Scope, SettleResult
from tickwork.core.queue.stats import CounterName, skip_reason
from tickwork.core.schedule.firing import FiringResult
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import (
    SQL,
    for_rows,
    in_chunks,
    microseconds,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.entities.write import write_entities
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.batch_fill import PreparedBatch
from tickwork.store.sqlite.messages.batch_progress import BatchName
from tickwork.store.sqlite.messages.dead_letters import NewDeadLetter, add_dead_letters
from tickwork.store.sqlite.messages.removal import (
    EVENT_ID,
    FENCE,
    QUEUE_ID,
    TENANT,
    Gone,
    as_never_started,
    complete_all,
    finish_removal,
    unblock,
)
from tickwork.store.sqlite.messages.send import Parcel, Sent, send_copies
from tickwork.store.sqlite.schedules.slot_outcome import SLOT_COLUMNS, EndedSlot, end_slots
from tickwork.store.sqlite.workflows.checkpoints import Fenced, finish_runs, record

Fence = tuple[str, bytes, int, bytes]
"""A claim as statements compare it: tenant, id, claim number, holder."""


class Endings:
    """The endings of a settlement, prepared for writing.

    Of several endings of one claim the first counts, and the others are refused. An ending of
    another tenant's claim is refused, too.
    """

    def __init__(self, scope: Scope, endings: Sequence[Ending]) -> None:
        self._endings = endings
        self._indexes: dict[Fence, int] = {}
        self._firings: dict[Fence, FiringResult] = {}
        self._effects: list[tuple[int, Parcel | PreparedBatch]] = []
        batches: list[tuple[int, PreparedBatch]] = []
        self.rows = len(endings)
        for index, ending in enumerate(endings):
            claim = ending.claim
            if (scope.is_system or claim.tenant == scope.tenant) and is_possible_claim(claim):
                fence = (claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes)
                is_first = self._indexes.setdefault(fence, index) == index
                if ending.firing is not None and is_first:
                    self._firings[fence] = ending.firing
                for send in ending.sends:
                    parcel = Parcel(Scope(claim.tenant), send.queue, [send.message])
                    self._effects.append((index, parcel))
                for batch in ending.batches:
                    batches.append((index, PreparedBatch(Scope(claim.tenant), batch)))
                    self.rows += len(batch.items)
        self._effects += batches

    def carry_out(self, transaction: Transaction) -> SettleResult:
        batches: set[BatchName] = set()
        result = self._carry_out(transaction, batches)
        complete_all(transaction, batches)
        return result

    def _carry_out(self, transaction: Transaction, batches: set[BatchName]) -> SettleResult:
        """All but the completion of batches; adds those that may be complete."""
        for _, effect in self._effects:
            effect.find(transaction)
        slots = _slots(transaction, [*self._firings])
        done, duplicates = set[Fence](), set[Fence]()
        by_fate = self._by_fate()
        if acks := by_fate.get(Fate.ACK):
            done, duplicates = _ack(transaction, acks, batches)
            finish_runs(transaction, [acks[fence] for fence in done])
        if back := by_fate.get(Fate.RETRY):
            done |= _put_back(transaction, back)
        if dead := by_fate.get(Fate.DEAD):
            done |= _make_dead(transaction, dead, batches)
        if kept := by_fate.get(Fate.KEEP):
            recorded, repeated = _record_checkpoints(transaction, kept)
            done |= recorded
            duplicates |= repeated
        if slots:
            end_slots(
                transaction,
                [
                    EndedSlot(slot, self._firings[fence], fence[1])
                    for fence, slot in slots.items()
                    if fence not in duplicates
                ],
            )
        has_effects = self._effects or any(ending.entity is not None for ending in self._endings)
        if len(done) == len(self._endings) and not duplicates and not has_effects:
            return SettleResult()
        ended = {self._indexes[fence] for fence in done}
        doubled = {self._indexes[fence] for fence in duplicates}
        changed = (self._endings[index] for index in ended - doubled)
        write_entities(
            transaction,
            [
                (ending.claim.tenant, ending.entity)
                for ending in changed
                if ending.entity is not None
            ],
        )
        sent: list[Sent] = []
        for index, effect in self._effects:
            if index in ended and index not in doubled:
                sent.append(effect.store_own(transaction))
                if isinstance(effect, PreparedBatch):
                    batches.add(effect.name)
        # Last, so that copies take no room from the settlement's own messages.
        for stored in sent:
            send_copies(transaction, *stored)
        return SettleResult(
            tuple(ending.claim for index, ending in enumerate(self._endings) if index not in ended),
            tuple(self._endings[index].claim for index in sorted(doubled)),
        )

    def _by_fate(self) -> dict[Fate, dict[Fence, Ending]]:
        """The endings that count. Those that are released count as retries here."""
        found: dict[Fate, dict[Fence, Ending]] = {}
        for fence, index in self._indexes.items():
            ending = self._endings[index]
            fate = Fate.RETRY if ending.fate is Fate.RELEASE else ending.fate
            found.setdefault(fate, {})[fence] = ending
        return found


def _slots(transaction: Transaction, fences: Sequence[Fence]) -> dict[Fence, rows.Row]:
    """The slots of messages that are still claimed."""
    found: dict[Fence, rows.Row] = {}
    for some in in_chunks(fences):
        statement = for_rows(SQL.claimed_slots, len(some))
        for row in transaction.execute(statement, tuple(chain.from_iterable(some))):
            slot, rest = row[:SLOT_COLUMNS], row[SLOT_COLUMNS:]
            found[slot[0], *rest] = slot
    return found


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
    reasons = {row[FENCE]: skip_reason(endings[row[FENCE]]) for row in removed}
    for reason in set(reasons.values()):
        alike = [row for row in removed if reasons[row[FENCE]] == reason]
        finish_removal(transaction, alike, CounterName.DONE, reason, later=batches)
    return done, duplicates


def _is_new_event(transaction: Transaction, row: Gone) -> bool:
    values = (row[TENANT], row[QUEUE_ID], row[EVENT_ID], transaction.now)
    return transaction.execute(SQL.record_event, values).rowcount == 1


def _put_back(transaction: Transaction, endings: Mapping[Fence, Ending]) -> set[Fence]:
    """Makes messages that are still claimed ready again."""
    done: set[Fence] = set()
    for fence, ending in endings.items():
        if ending.wake_at is None:
            visible_at = transaction.now + microseconds(ending.delay_seconds)
        else:
            visible_at = to_microseconds(ending.wake_at)
        if ending.signals_seen is not None:
            (signals,) = transaction.execute(SQL.run_signals, (fence[1],)).fetchone() or (None,)
            visible_at = visible_at if signals == ending.signals_seen else transaction.now
        values = (*fence, int(ending.counts_attempt), visible_at, ending.error)
        row = transaction.execute(SQL.retry, values).fetchone()
        if row is not None:
            done.add(fence)
            if ending.signals_seen is not None:
                transaction.execute(SQL.clear_lost_claims, fence[:2])
            queue_id, type_, source, key = row
            if ending.endpoint_id is not None:
                asked = (*fence[:2], transaction.now, ending.endpoint_id.bytes)
                if transaction.execute(SQL.wake_enabled, asked).fetchone() is not None:
                    visible_at = transaction.now
            if visible_at <= transaction.now:
                transaction.queues_to_wake.add(UUID(bytes=queue_id))
            elif key is not None:  # Direct calls of an entity do not wait for a retry.
                unblock(transaction, [(queue_id, fence[0], key)])
            if ending.fate is Fate.RETRY:
                passed = CountedMessages(queue_id, fence[0], CounterName.RETRIED, type_, source, 1)
                transaction.counted.append(passed)
    return done


def _record_checkpoints(
    transaction: Transaction, endings: Mapping[Fence, Ending]
) -> tuple[set[Fence], set[Fence]]:
    """Records steps of runs that are still claimed: those, and the duplicates among them, which
    were done already."""
    done, duplicates = set[Fence](), set[Fence]()
    for fence, ending in endings.items():
        if ending.checkpoint is None:
            continue
        if (recorded := record(transaction, Fenced(ending.claim, ending.checkpoint))) is not None:
            done.add(fence)
            if not recorded.is_fresh:
                duplicates.add(fence)
    return done, duplicates


def _make_dead(
    transaction: Transaction, endings: Mapping[Fence, Ending], batches: set[BatchName]
) -> set[Fence]:
    """Makes dead letters of messages that are still claimed."""
    dead_letters: dict[Fence, NewDeadLetter] = {}
    for fence, ending in endings.items():
        row = transaction.execute(SQL.claimed_rowid, fence).fetchone()
        if row is not None:
            reason, counted = ending.reason or "failed", int(ending.counts_attempt)
            dead_letters[fence] = NewDeadLetter(row[0], reason, ending.error, counted)
    # Before the dead letters, which fail the runs that have not ended.
    finish_runs(transaction, [endings[fence] for fence in dead_letters])
    add_dead_letters(transaction, [*dead_letters.values()], later=batches)
    return set(dead_letters)
