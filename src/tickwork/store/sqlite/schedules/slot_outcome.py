"""What the end of slots' messages means on SQLite: their records, and how their schedules stand.

All in the transaction that ends the messages. What an end means is decided in `core.slot_end`, and
what several of one schedule mean together in `core.standing`. A schedule that stands as it did is
not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from tickwork.core.schedule.change import pause
from tickwork.core.schedule.firing import FiringResult, FiringStatus, FollowUp
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.core.schedule.next_slot import AHEAD_SECONDS
from tickwork.core.schedule.slot_outcome import (
    LastOutcome,
    ScheduleEffect,
    dead_result,
    effect_of,
    lease_expired_result,
)
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.store.ids import SCHEDULES_TOPIC
from tickwork.store.sqlite.engine.sql import (
    SQL,
    for_rows,
    from_microseconds,
    in_chunks,
    microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.system_events import publish_pause
from tickwork.store.sqlite.schedules.firings import record, record_skips, skip_values
from tickwork.store.sqlite.schedules.rows import optional_microseconds, stored
from tickwork.store.sqlite.schedules.slot_messages import last_slot_fired, take_back, withdrawable

NEAR_SECONDS = 5.0
"""Leaders look by themselves at least so often; what they have to look at earlier wakes them."""

SLOT_COLUMNS = 7
"""A slot as it is recorded: tenant, schedule, slot, run, attempt, when it was due, catch-up."""

_ENDED_BY = {FollowUp.COMPLETE: ScheduleStatus.COMPLETED, FollowUp.PARK: ScheduleStatus.PARKED}

Key = tuple[str, bytes]
"""The tenant of a schedule and its id."""


class EndedSlot(NamedTuple):
    """A slot's message that ended: the slot in `SLOT_COLUMNS`, and its record."""

    slot: rows.Row
    record: FiringResult


class DyingMessage(NamedTuple):
    """A message that dies by itself, by where it lies, and what of."""

    place: int
    reason: str
    error: str | None


class _ScheduleState(NamedTuple):
    """How a schedule stands, as `shown_outcomes` has it."""

    tenant: str
    id: bytes
    place: int
    error_count: int
    last_error: str | None
    last_status: str | None

    @property
    def shown(self) -> LastOutcome:
        return LastOutcome(self.error_count, self.last_error, self.last_status)


def end_slots(transaction: Transaction, ended: Sequence[EndedSlot]) -> None:
    """Records what became of slots, and changes their schedules as that demands."""
    if not ended:
        return
    record(transaction, ended)
    by_schedule: dict[Key, list[EndedSlot]] = {}
    for each in ended:
        by_schedule.setdefault((each.slot[0], each.slot[1]), []).append(each)
    noted: dict[LastOutcome, list[int]] = {}
    for standing in _standing(transaction, [*by_schedule]):
        own = by_schedule[standing.tenant, standing.id]
        if len(own) > 1:
            own.sort(key=lambda each: each.slot[2:4])
        effect = effect_of(each.record for each in own)
        if (shown := effect.applied_to(standing.shown)) != standing.shown:
            noted.setdefault(shown, []).append(standing.place)
        slot = max((each.slot[2] for each in own if each.record.has_follow_up), default=None)
        if slot is not None and _follow(transaction, standing, effect, slot):
            slot = max(each.slot[2] for each in own if each.record.follow_up is FollowUp.PAUSE)
            publish_pause(transaction, standing.tenant, standing.id, slot, effect.error)
    for shown, places in noted.items():
        transaction.execute(SQL.show_outcomes, (rows.as_json(places), *shown))


def slots_of_dead_messages(
    transaction: Transaction, dead: Sequence[DyingMessage]
) -> list[EndedSlot]:
    """The ends of those among some messages that are slots; to be read before they are buried."""
    by_place = {each.place: each for each in dead}
    found = transaction.execute(SQL.slots_of_messages, (rows.as_json(by_place),)).fetchall()
    ended: list[EndedSlot] = []
    for row in found:
        slot, (place, terms) = row[:SLOT_COLUMNS], row[SLOT_COLUMNS:]
        _, reason, error = by_place[place]
        ended.append(EndedSlot(slot, dead_result(terms, slot[3], reason, error)))
    return ended


def is_expired_unseen(ended: EndedSlot) -> bool:
    """Whether a slot, and no extra run, expired before anybody had begun with it."""
    run, next_attempt = ended.slot[3:5]
    return ended.record.status is FiringStatus.EXPIRED and not run and next_attempt == 1


def slots_of_expired_leases(
    transaction: Transaction, used_up: Mapping[int, bool]
) -> list[EndedSlot]:
    """The ends of those among some messages that are slots and whose pull lease ran out, by where
    they lie, and whether that was the last attempt; to be read before they are ended."""
    found = transaction.execute(SQL.slots_of_messages, (rows.as_json(used_up),)).fetchall()
    ended: list[EndedSlot] = []
    for row in found:
        slot, (place, terms) = row[:SLOT_COLUMNS], row[SLOT_COLUMNS:]
        ended.append(
            EndedSlot(slot, lease_expired_result(terms, slot[3], is_used_up=used_up[place]))
        )
    return ended


def _standing(transaction: Transaction, keys: Sequence[Key]) -> Iterable[_ScheduleState]:
    for some in in_chunks(keys):
        values = tuple(chain.from_iterable(some))
        statement = for_rows(SQL.shown_outcomes, len(some))
        yield from map(_ScheduleState._make, transaction.execute(statement, values).fetchall())


def _follow(
    transaction: Transaction, standing: _ScheduleState, effect: ScheduleEffect, slot: int
) -> bool:
    """What the ends of slots, the last of which is given, make of their schedule; one that moves
    and is paused has one new version. Whether it is paused. How it goes on is said by the last of
    its runs: by none that another is behind already."""
    place, is_moved = standing.place, False
    key = (standing.tenant, standing.id, slot)
    is_last = transaction.execute(SQL.has_later_run, key).fetchone() is None
    if is_last and effect.delay_seconds is not None:
        is_moved = begin_next_run(transaction, place, effect.delay_seconds)
    if effect.follow_up is FollowUp.PAUSE:
        return _pause(transaction, standing, versions=0 if is_moved else 1)
    if is_last and effect.follow_up in _ENDED_BY:
        end_schedule(transaction, place, _ENDED_BY[effect.follow_up])
    return False


def begin_next_run(transaction: Transaction, place: int, after_seconds: float) -> bool:
    """Sets the next slot of a schedule that has none, after its own delay; whether it did."""
    values = (place, transaction.now, microseconds(after_seconds), microseconds(AHEAD_SECONDS))
    moved = transaction.execute(SQL.start_next_run, values).fetchone()
    if moved is not None:
        wake_leaders(transaction, moved[0])
    return moved is not None


def end_schedule(transaction: Transaction, place: int, status: ScheduleStatus) -> None:
    """Ends a schedule that has no slot left."""
    transaction.execute(SQL.end_schedule, (place, str(status), transaction.now))


def wake_leaders(transaction: Transaction, look_at: int | None) -> None:
    """Tells those who plan that there is something to look at, if it is near."""
    if look_at is not None and look_at <= transaction.now + microseconds(NEAR_SECONDS):
        transaction.queues_to_wake.add(SCHEDULES_TOPIC)


def _pause(transaction: Transaction, standing: _ScheduleState, *, versions: int) -> bool:
    """It waits for somebody who has a look, and what nobody has claimed is taken back; False if it
    was not active."""
    values = (standing.place, transaction.now, versions)
    if not transaction.execute(SQL.pause_schedule, values).rowcount:
        return False
    taken = withdrawable(transaction, standing.tenant, standing.id, WithdrawScope.UNCLAIMED)
    if taken:
        take_back(transaction, [place for place, _ in taken])
        key = (standing.tenant, standing.id)
        found = stored(transaction.execute(SQL.get_tenant_schedule, key).fetchone()).schedule
        now = from_microseconds(transaction.now)
        change = pause(found, [each for _, each in taken], now)
        record_skips(transaction, [(key, skip_values(skip)) for skip in change.skips])
        at = map(optional_microseconds, (change.next_slot, change.due_at))
        rewound = (standing.place, *at, last_slot_fired(transaction, found), change.fired)
        transaction.execute(SQL.rewind_schedules, rewound)
    return True
