"""Records the outcome of slots on SQLite and updates their schedules.

All of it happens in the transaction that ends the messages. `core.schedule.slot_outcome` decides
what an outcome means. A schedule that does not change is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, compress
from typing import NamedTuple
from uuid import UUID

from tickwork.core.delivery.publish import direct_delivery
from tickwork.core.delivery.target import DELIVERIES_QUEUE
from tickwork.core.model import SYSTEM, Claim, NewMessage, Scope
from tickwork.core.schedule.change import pause
from tickwork.core.schedule.firing import FiringResult, FiringStatus, FollowUp, ResultTarget
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.core.schedule.next_slot import AHEAD_SECONDS
from tickwork.core.schedule.result_message import lost_result, queue_for, result_message
from tickwork.core.schedule.slot_outcome import (
    AFTER_SUCCESS,
    LastOutcome,
    ScheduleEffect,
    dead_result,
    effect_of,
    lease_expired_result,
)
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.errors import NotFound
from tickwork.store.ids import SCHEDULES_TOPIC, new_id
from tickwork.store.nouns.endpoints import find_endpoint
from tickwork.store.ports.sqlite import carry_out
from tickwork.store.shared.effects import Fenced
from tickwork.store.sqlite.endpoints.deliveries import store_deliveries
from tickwork.store.sqlite.engine.sql import (
    SQL,
    TOOK_DIGITS,
    for_rows,
    from_microseconds,
    in_chunks,
    joined_durations,
    microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.effects import EffectWriter
from tickwork.store.sqlite.messages.prepared_messages import PreparedMessages
from tickwork.store.sqlite.messages.queue_rows import find_queue
from tickwork.store.sqlite.messages.system_events import publish_pause
from tickwork.store.sqlite.schedules.firings import record, record_skips, skip_values
from tickwork.store.sqlite.schedules.rows import optional_microseconds, read_schedule
from tickwork.store.sqlite.schedules.slot_messages import last_slot_fired, take_back, withdrawable

NEAR_SECONDS = 5.0
"""Seconds between two looks of a leader at its schedules. Anything due earlier wakes the leaders.
"""

SLOT_COLUMNS = 7
"""Number of columns of a recorded slot: tenant, schedule, slot, run, attempt, due time, catch-up.
"""

_ENDED_BY = {FollowUp.COMPLETE: ScheduleStatus.COMPLETED, FollowUp.PARK: ScheduleStatus.PARKED}

Key = tuple[str, bytes]
"""The tenant and the id of a schedule."""


class EndedSlot(NamedTuple):
    """A slot whose message ended: its row in `SLOT_COLUMNS`, its record, and the message's id."""

    slot: rows.Row
    record: FiringResult
    message_id: bytes


class DyingMessage(NamedTuple):
    """A message that becomes a dead letter without a claim, by rowid, and why."""

    rowid: int
    reason: str
    error: str | None


class _ScheduleState(NamedTuple):
    """What a schedule shows of its outcomes, as `shown_outcomes` returns it."""

    tenant: str
    id: bytes
    rowid: int
    error_count: int
    last_error: str | None
    last_status: str | None

    @property
    def shown(self) -> LastOutcome:
        return LastOutcome(self.error_count, self.last_error, self.last_status)


class FiringWriter(EffectWriter[FiringResult]):
    """Records attempts at slots, and changes their schedules."""

    def __init__(self, effects: Mapping[int, Fenced[FiringResult]]) -> None:
        super().__init__(effects)
        self._slots: dict[int, rows.Row] = {}

    @classmethod
    def is_plain(cls, effect: FiringResult) -> bool:
        return effect.is_bare_success

    @classmethod
    def write_plain(
        cls, transaction: Transaction, rowids: Sequence[int], effects: Sequence[FiringResult]
    ) -> None:
        """Records successes, and shows them on their schedules or completes these."""
        listed = rows.as_json(rowids)
        ids = b"".join([new_id().bytes for _ in effects])
        long = joined_durations(end.took_seconds for end in effects)
        values = (listed, ids, long, TOOK_DIGITS, transaction.now)
        transaction.execute(SQL.record_successes, values)
        transaction.execute(SQL.show_successes, (listed, *AFTER_SUCCESS))
        if completing := [*compress(rowids, [end.completes for end in effects])]:
            listed = rows.as_json(completing)
            transaction.execute(SQL.complete_schedules, (listed, transaction.now))

    def record(self, transaction: Transaction) -> None:
        """Reads the slots of messages that are still claimed."""
        indexes = {_fence(fenced.claim): index for index, fenced in self._effects.items()}
        for some in in_chunks([*indexes]):
            statement = for_rows(SQL.claimed_slots, len(some))
            for row in transaction.execute(statement, tuple(chain.from_iterable(some))):
                slot, fence = row[:SLOT_COLUMNS], row[SLOT_COLUMNS:]
                self._slots[indexes[slot[0], *fence]] = slot

    def write(self, transaction: Transaction, counted: Sequence[int]) -> None:
        ended = [
            EndedSlot(slot, self._effects[index].effect, self._effects[index].claim.id.bytes)
            for index in counted
            if (slot := self._slots.get(index)) is not None
        ]
        end_slots(transaction, ended)


def _fence(claim: Claim) -> tuple[str, bytes, int, bytes]:
    return claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes


def end_slots(transaction: Transaction, ended: Sequence[EndedSlot]) -> None:
    """Records the outcomes of slots and changes their schedules accordingly."""
    if not ended:
        return
    record(transaction, [(ending.slot, ending.record) for ending in ended])
    _send_results(transaction, ended)
    by_schedule: dict[Key, list[EndedSlot]] = {}
    for ending in ended:
        by_schedule.setdefault((ending.slot[0], ending.slot[1]), []).append(ending)
    to_show: dict[LastOutcome, list[int]] = {}
    for state in _schedule_states(transaction, [*by_schedule]):
        own = by_schedule[state.tenant, state.id]
        if len(own) > 1:
            own.sort(key=lambda ending: ending.slot[2:4])
        effect = effect_of(ending.record for ending in own)
        if (shown := effect.applied_to(state.shown)) != state.shown:
            to_show.setdefault(shown, []).append(state.rowid)
        slot = max((ending.slot[2] for ending in own if ending.record.has_follow_up), default=None)
        if slot is not None and _apply(transaction, state, effect, slot):
            slot = max(
                ending.slot[2] for ending in own if ending.record.follow_up is FollowUp.PAUSE
            )
            publish_pause(transaction, state.tenant, state.id, slot, effect.error)
    for shown, rowids in to_show.items():
        transaction.execute(SQL.show_outcomes, (rows.as_json(rowids), *shown))


def _send_results(transaction: Transaction, ended: Sequence[EndedSlot]) -> None:
    """Sends the results of slots to those that their schedules name."""
    for ending in ended:
        if (target := ending.record.result_target) is not None:
            tenant, schedule_id, slot, run, attempt, *_ = ending.slot
            message = result_message(
                ending.record,
                UUID(bytes=ending.message_id),
                schedule_id=UUID(bytes=schedule_id),
                slot=from_microseconds(slot),
                run=run,
                attempts=attempt if ending.record.is_attempt else attempt - 1,
            )
            _send_result(transaction, tenant, target, message)


def _send_result(
    transaction: Transaction, tenant: str, target: ResultTarget, message: NewMessage
) -> None:
    """Sends a result, also to a queue at its limit. If its receiver was deleted, it goes to the
    queue of deliveries, where it becomes a dead letter."""
    now = from_microseconds(transaction.now)
    if (name := queue_for(target)) is not None:
        with suppress(NotFound):
            queue = find_queue(transaction, Scope(tenant), name)
            PreparedMessages([message]).store(transaction, tenant, queue, is_exempt=True)
            return
    else:
        endpoint = carry_out(transaction, find_endpoint(tenant, target.endpoint))
        if endpoint is not None:
            delivery = direct_delivery(message, endpoint.id, endpoint.settings, now)
            store_deliveries(transaction, tenant, [delivery], is_exempt=True)
            return
    with suppress(NotFound):  # It exists wherever a schedule names a receiver.
        queue = find_queue(transaction, SYSTEM, DELIVERIES_QUEUE)
        lost = lost_result(message, target, now)
        PreparedMessages([lost]).store(transaction, tenant, queue, is_exempt=True)


def slots_of_dead_messages(
    transaction: Transaction, dead: Sequence[DyingMessage]
) -> list[EndedSlot]:
    """The outcomes of those messages that are slots; to be read before they are removed."""
    by_rowid = {message.rowid: message for message in dead}
    found = transaction.execute(SQL.slots_of_messages, (rows.as_json(by_rowid),)).fetchall()
    ended: list[EndedSlot] = []
    for row in found:
        slot, (rowid, terms, id_) = row[:SLOT_COLUMNS], row[SLOT_COLUMNS:]
        _, reason, error = by_rowid[rowid]
        ended.append(EndedSlot(slot, dead_result(terms, slot[3], reason, error), id_))
    return ended


def is_expired_unseen(ended: EndedSlot) -> bool:
    """Whether a slot (not an extra run) expired before its first attempt."""
    run, next_attempt = ended.slot[3:5]
    return ended.record.status is FiringStatus.EXPIRED and not run and next_attempt == 1


def slots_of_expired_leases(
    transaction: Transaction, used_up: Mapping[int, bool]
) -> list[EndedSlot]:
    """The outcomes of those messages that are slots and whose pull lease expired, by rowid with
    whether that was the last attempt. Must be read before the leases are ended."""
    found = transaction.execute(SQL.slots_of_messages, (rows.as_json(used_up),)).fetchall()
    ended: list[EndedSlot] = []
    for row in found:
        slot, (rowid, terms, id_) = row[:SLOT_COLUMNS], row[SLOT_COLUMNS:]
        result = lease_expired_result(terms, slot[3], is_used_up=used_up[rowid])
        ended.append(EndedSlot(slot, result, id_))
    return ended


def _schedule_states(transaction: Transaction, keys: Sequence[Key]) -> Iterable[_ScheduleState]:
    for some in in_chunks(keys):
        values = tuple(chain.from_iterable(some))
        statement = for_rows(SQL.shown_outcomes, len(some))
        yield from map(_ScheduleState._make, transaction.execute(statement, values).fetchall())


def _apply(
    transaction: Transaction, state: _ScheduleState, effect: ScheduleEffect, slot: int
) -> bool:
    """Applies the outcomes of slots, up to the given one, to their schedule; returns whether it was
    paused. A schedule that is moved and paused gets one new version. Only the last run decides how
    the schedule continues, and only if no later one exists."""
    rowid, is_moved = state.rowid, False
    key = (state.tenant, state.id, slot)
    is_last = transaction.execute(SQL.has_later_run, key).fetchone() is None
    if is_last and effect.delay_seconds is not None:
        is_moved = set_next_run(transaction, rowid, effect.delay_seconds)
    if effect.follow_up is FollowUp.COMPLETE_PARKED:
        transaction.execute(SQL.complete_parked_schedule, (rowid, slot, transaction.now))
    if effect.follow_up is FollowUp.PAUSE:
        return _pause(transaction, state, versions=0 if is_moved else 1)
    if is_last and effect.follow_up in _ENDED_BY:
        end_schedule(transaction, rowid, _ENDED_BY[effect.follow_up])
    return False


def set_next_run(transaction: Transaction, rowid: int, after_seconds: float) -> bool:
    """Sets the next slot of a fixed-delay schedule after its delay; returns whether it did."""
    values = (rowid, transaction.now, microseconds(after_seconds), microseconds(AHEAD_SECONDS))
    moved = transaction.execute(SQL.start_next_run, values).fetchone()
    if moved is not None:
        wake_leaders(transaction, moved[0])
    return moved is not None


def end_schedule(transaction: Transaction, rowid: int, status: ScheduleStatus) -> None:
    """Ends a schedule that has no slots left."""
    transaction.execute(SQL.end_schedule, (rowid, str(status), transaction.now))


def wake_leaders(transaction: Transaction, look_at: int | None) -> None:
    """Wakes the leaders if they have to look at a schedule soon."""
    if look_at is not None and look_at <= transaction.now + microseconds(NEAR_SECONDS):
        transaction.queues_to_wake.add(SCHEDULES_TOPIC)


def _pause(transaction: Transaction, state: _ScheduleState, *, versions: int) -> bool:
    """Pauses the schedule until it is resumed and withdraws unclaimed slots; False if it was not
    active."""
    values = (state.rowid, transaction.now, versions)
    if not transaction.execute(SQL.pause_schedule, values).rowcount:
        return False
    taken = withdrawable(transaction, state.tenant, state.id, WithdrawScope.UNCLAIMED)
    if taken:
        take_back(transaction, [rowid for rowid, _ in taken])
        key = (state.tenant, state.id)
        found = read_schedule(transaction.execute(SQL.get_tenant_schedule, key).fetchone()).schedule
        now = from_microseconds(transaction.now)
        change = pause(found, [slot for _, slot in taken], now)
        record_skips(transaction, [(key, skip_values(skip)) for skip in change.skips])
        at = map(optional_microseconds, (change.next_slot, change.due_at))
        rewound = (state.rowid, *at, last_slot_fired(transaction, found), change.fired)
        transaction.execute(SQL.rewind_schedules, rewound)
    return True
