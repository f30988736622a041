"""Statements of a settlement on SQLite: endings in bulk, each behind its fence.

First the rows that are really still held are taken away or put back, then what hangs on them
happens, and only on them. Batches are completed last: their events are taken whatever a cap says,
and must not take the room of what is sent.
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
from tickwork.store.sqlite.engine.sql import SQL, for_rows, in_chunks, microseconds
from tickwork.store.sqlite.engine.work import Transaction
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
    complete_all,
    finish_removal,
)
from tickwork.store.sqlite.messages.send import Parcel
from tickwork.store.sqlite.schedules.slot_outcome import SLOT_COLUMNS, EndedSlot, end_slots

Fence = tuple[str, bytes, int, bytes]
"""A handing-out, as statements compare it: tenant, id, claim, holder."""


class Endings:
    """The endings of a settlement, made ready to be written.

    Of several ends of one handing-out the first counts, the others come too late; and so does
    the end of what is not the scope's own.
    """

    def __init__(self, scope: Scope, endings: Sequence[Ending]) -> None:
        self._endings = endings
        self._places: dict[Fence, int] = {}
        self._firings: dict[Fence, FiringResult] = {}
        self._caused: list[tuple[int, Parcel | PreparedBatch]] = []
        batches: list[tuple[int, PreparedBatch]] = []
        self.rows = len(endings)
        for place, ending in enumerate(endings):
            held = ending.claim
            if (scope.is_system or held.tenant == scope.tenant) and is_possible_claim(held):
                fence = (held.tenant, held.id.bytes, held.number, held.holder.bytes)
                is_first = self._places.setdefault(fence, place) == place
                if ending.firing is not None and is_first:
                    self._firings[fence] = ending.firing
                for send in ending.sends:
                    parcel = Parcel(Scope(held.tenant), send.queue, [send.message])
                    self._caused.append((place, parcel))
                for batch in ending.batches:
                    batches.append((place, PreparedBatch(Scope(held.tenant), batch)))
                    self.rows += len(batch.items)
        self._caused += batches

    def carry_out(self, transaction: Transaction) -> SettleResult:
        batches: set[BatchName] = set()
        result = self._carry_out(transaction, batches)
        complete_all(transaction, batches)
        return result

    def _carry_out(self, transaction: Transaction, batches: set[BatchName]) -> SettleResult:
        """All but the completion of batches: notes those that may have ended."""
        for _, caused in self._caused:
            caused.find(transaction)
        slots = _slots(transaction, [*self._firings])
        done, duplicates = _ack(transaction, self._with(Fate.ACK), batches)
        done |= _put_back(transaction, self._with(Fate.RETRY, Fate.RELEASE))
        done |= _bury_held(transaction, self._with(Fate.DEAD), batches)
        end_slots(
            transaction,
            [
                EndedSlot(slot, self._firings[fence])
                for fence, slot in slots.items()
                if fence not in duplicates
            ],
        )
        if len(done) == len(self._endings) and not duplicates and not self._caused:
            return SettleResult()
        ended = {self._places[fence] for fence in done}
        doubled = {self._places[fence] for fence in duplicates}
        for place, caused in self._caused:
            if place in ended and place not in doubled:
                caused.store(transaction)
                if isinstance(caused, PreparedBatch):
                    batches.add(caused.name)
        return SettleResult(
            tuple(each.claim for place, each in enumerate(self._endings) if place not in ended),
            tuple(self._endings[place].claim for place in sorted(doubled)),
        )

    def _with(self, *fates: Fate) -> dict[Fence, Ending]:
        """The endings that count and have one of these fates."""
        endings = self._endings
        return {
            fence: endings[place]
            for fence, place in self._places.items()
            if endings[place].fate in fates
        }


def _slots(transaction: Transaction, fences: Sequence[Fence]) -> dict[Fence, rows.Row]:
    """The slots that messages stand for which are still held."""
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
    """Deletes what is still held: what that was, and what of it was done before."""
    gone: list[Gone] = []
    for some in in_chunks([*endings]):
        statement = for_rows(SQL.ack, len(some))
        gone += transaction.execute(statement, tuple(chain.from_iterable(some))).fetchall()
    if not gone:
        return set(), set()
    done = {row[FENCE] for row in gone}
    order = {fence: number for number, fence in enumerate(endings)}
    events = [row for row in gone if row[EVENT_ID] is not None]
    events.sort(key=lambda row: order[row[FENCE]])  # Of two with one event the first is fresh.
    duplicates = {row[FENCE] for row in events if not _is_new_event(transaction, row)}
    reasons = {row[FENCE]: skip_reason(endings[row[FENCE]]) for row in gone}
    for reason in set(reasons.values()):
        alike = [row for row in gone if reasons[row[FENCE]] == reason]
        finish_removal(transaction, alike, CounterName.DONE, reason, later=batches)
    return done, duplicates


def _is_new_event(transaction: Transaction, row: Gone) -> bool:
    values = (row[TENANT], row[QUEUE_ID], row[EVENT_ID], transaction.now)
    return transaction.execute(SQL.record_event, values).rowcount == 1


def _put_back(transaction: Transaction, endings: Mapping[Fence, Ending]) -> set[Fence]:
    """Makes what is still held ready again."""
    done: set[Fence] = set()
    for fence, ending in endings.items():
        visible_at = transaction.now + microseconds(ending.delay_seconds)
        values = (*fence, int(ending.counts_attempt), visible_at, ending.error)
        row = transaction.execute(SQL.retry, values).fetchone()
        if row is not None:
            done.add(fence)
            queue_id, type_, source = row
            if visible_at <= transaction.now:
                transaction.queues_to_wake.add(UUID(bytes=queue_id))
            if ending.fate is Fate.RETRY:
                passed = CountedMessages(queue_id, fence[0], CounterName.RETRIED, type_, source, 1)
                transaction.counted.append(passed)
    return done


def _bury_held(
    transaction: Transaction, endings: Mapping[Fence, Ending], batches: set[BatchName]
) -> set[Fence]:
    """Moves what is still held to the dead letters."""
    burials: dict[Fence, NewDeadLetter] = {}
    for fence, ending in endings.items():
        row = transaction.execute(SQL.claimed_rowid, fence).fetchone()
        if row is not None:
            reason, counted = ending.reason or "failed", int(ending.counts_attempt)
            burials[fence] = NewDeadLetter(row[0], reason, ending.error, counted)
    add_dead_letters(transaction, [*burials.values()], later=batches)
    return set(burials)
