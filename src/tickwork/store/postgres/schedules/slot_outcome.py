"""Outcomes of slots on PostgreSQL: a record of each attempt, and the new state of the schedule.

Most outcomes do not change the schedule, and its row is only read. If it must be written, it is
locked after the ended messages, which no other transaction wants, and before the slots that are
withdrawn when it is paused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from msgspec import Struct

from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE
from tickwork.core.delivery.publish import direct_delivery
from tickwork.core.delivery.target import DELIVERIES_QUEUE
from tickwork.core.message.system_events import schedule_paused_event
from tickwork.core.model import Claim, NewMessage
from tickwork.core.schedule.change import pause
from tickwork.core.schedule.firing import FiringResult, FollowUp
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.core.schedule.result_message import lost_result, queue_for, result_message
from tickwork.core.schedule.slot_outcome import (
    AFTER_SUCCESS,
    NO_EFFECT,
    LastOutcome,
    ScheduleEffect,
)
from tickwork.core.schedule.withdraw import Withdrawn
from tickwork.core.tenant_limits import is_active
from tickwork.store.ids import SCHEDULES_TOPIC, Moment, new_id
from tickwork.store.nouns.endpoint_rows import read_settings
from tickwork.store.postgres.endpoints.publish import record_deliveries
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, once
from tickwork.store.postgres.messages.effects import EffectWriter, EndedMessages
from tickwork.store.postgres.messages.keys import Key
from tickwork.store.postgres.messages.send import Group
from tickwork.store.postgres.schedules import rows
from tickwork.store.postgres.schedules.firings import record_skips
from tickwork.store.postgres.schedules.slot_messages import (
    Planned,
    ScheduleKey,
    keys_of_planned,
    take_back,
    take_planned,
)
from tickwork.store.shared.effects import Fenced

_BECOMES = {
    FollowUp.COMPLETE: "completed",
    FollowUp.PARK: "parked",
    FollowUp.PAUSE: "paused",
    FollowUp.COMPLETE_PARKED: "completed if parked",
}


class RecordedSlot(Struct, frozen=True):
    """A recorded attempt, and the last outcome of its schedule; None if it has no schedule."""

    firing_id: UUID
    claim: Claim
    record: FiringResult
    schedule_id: UUID
    slot: datetime
    run: int
    attempt: int
    finished_at: datetime
    shown: LastOutcome | None

    @property
    def schedule(self) -> ScheduleKey:
        return self.claim.tenant, self.schedule_id


class EffectAndSlot(NamedTuple):
    """The effect of outcomes on a schedule, and the last slot that decides how it continues,
    unless a later one has a message."""

    effect: ScheduleEffect = NO_EFFECT
    slot: datetime | None = None

    def after(self, ended: RecordedSlot) -> EffectAndSlot:
        slot = ended.slot if ended.record.has_follow_up else self.slot
        return EffectAndSlot(self.effect.with_result(ended.record), slot)


Effects = dict[ScheduleKey, EffectAndSlot]


class FiringWriter(EffectWriter[FiringResult]):
    """Records attempts at slots, and changes their schedules."""

    def __init__(self, moment: Moment, effects: Mapping[int, Fenced[FiringResult]]) -> None:
        super().__init__(moment, effects)
        self._recorded: dict[int, RecordedSlot] = {}
        self._changes: Effects = {}
        self._withdrawable: set[Key] = set()

    @classmethod
    def is_plain(cls, effect: FiringResult) -> bool:
        return effect.is_bare_success

    @classmethod
    def plain_columns(
        cls, effects: Mapping[int, Fenced[FiringResult]], endings: int
    ) -> Sequence[Sequence[object]]:
        """Ids for the records of successful slots, their durations, and whether they complete their
        schedules; None for other messages."""
        if not effects:
            return [], [], []
        firings = [
            None if fenced is None else fenced.effect for fenced in map(effects.get, range(endings))
        ]
        return (
            [new_id() if firing else None for firing in firings],
            [firing.took_seconds if firing else None for firing in firings],
            [firing is not None and firing.completes for firing in firings],
        )

    async def record(self, connection: Connection) -> None:
        """Records attempts at slots. Valid claims stay valid until the commit."""
        indexes, chosen = [*self._effects], [*self._effects.values()]
        ids = [new_id() for _ in chosen]
        firings = [fenced.effect for fenced in chosen]
        rows = await connection.fetch(
            SQL.record_firings,
            self._moment(),
            once([fenced.claim.tenant for fenced in chosen]),
            [fenced.claim.id for fenced in chosen],
            once([fenced.claim.number for fenced in chosen]),
            once([fenced.claim.holder for fenced in chosen]),
            ids,
            once([firing.status for firing in firings]),
            once([firing.reason for firing in firings]),
            [firing.took_seconds for firing in firings],
            once([firing.result_code for firing in firings]),
            once([firing.excerpt for firing in firings]),
            once([_channels(firing) for firing in firings]),
            once([firing.is_attempt for firing in firings]),
        )
        for number, schedule_id, slot, run, finished_at, count, error, status, attempt in rows:
            self._recorded[indexes[number - 1]] = RecordedSlot(
                ids[number - 1],
                chosen[number - 1].claim,
                firings[number - 1],
                schedule_id,
                slot,
                run,
                attempt,
                finished_at,
                None if count is None else LastOutcome(count, error, status),
            )

    async def forget(self, connection: Connection, doubles: Collection[int]) -> None:
        known = [self._recorded[index] for index in doubles if index in self._recorded]
        if known:
            await connection.execute(
                SQL.delete_duplicate_firings,
                [recorded.claim.tenant for recorded in known],
                [recorded.firing_id for recorded in known],
                [recorded.finished_at for recorded in known],
            )

    async def prepare(
        self, connection: Connection, counted: Sequence[int], ended: EndedMessages
    ) -> bool:
        """Adds the results that schedules send, and the keys of slots that may be withdrawn from
        schedules that will be paused."""
        recorded = [self._recorded[index] for index in counted if index in self._recorded]
        self._changes = effects_of(recorded)
        ended.automatic_sends.extend(await result_groups(connection, recorded))
        if pausing := _pausing(self._changes):
            self._withdrawable = await keys_of_planned(connection, pausing)
            ended.keys.update(self._withdrawable)
        return bool(self._changes)

    async def write(
        self,
        connection: Connection,
        counted: Sequence[int],  # noqa: ARG002
        ended: EndedMessages,
    ) -> None:
        """Updates the schedules. Wakes leaders if they must look again."""
        found = await self._apply_outcomes(connection)
        paused = [
            (row["tenant"], row["id"])
            for row in found
            if row["status"] == "paused" and row["old_status"] == "active"
        ]
        if paused:
            await self._pause(connection, paused, ended)
        await _count_ended(connection, found)
        if any(row["is_moved"] and row["status"] == "active" for row in found):
            ended.queues_to_wake.add(SCHEDULES_TOPIC)

    async def _apply_outcomes(self, connection: Connection) -> Sequence[asyncpg.Record]:
        effects = self._changes
        named = sorted(effects)
        chosen = [effects[schedule].effect for schedule in named]
        tenants = [tenant for tenant, _ in named]
        ids = [schedule_id for _, schedule_id in named]
        await connection.execute(SQL.lock_schedules, tenants, ids)
        return await connection.fetch(
            SQL.apply_slot_outcomes,
            self._moment(),
            once(tenants),
            ids,
            once([effect.is_reset for effect in chosen]),
            once([effect.failures for effect in chosen]),
            once([effect.is_shown for effect in chosen]),
            once([effect.error for effect in chosen]),
            once([effect.status and str(effect.status) for effect in chosen]),
            once([_BECOMES.get(effect.follow_up) for effect in chosen]),
            once([effect.delay_seconds for effect in chosen]),
            once([effects[schedule].slot for schedule in named]),
        )

    async def _pause(
        self, connection: Connection, paused: Sequence[ScheduleKey], ended: EndedMessages
    ) -> None:
        """Withdraws the slots of paused schedules, and adds events about them."""
        now = self._moment() or await connection.fetchval(SQL.read_clock)
        planned = await take_planned(connection, paused, now, keys=self._withdrawable)
        await take_back(connection, planned, ended.removed)
        await _rewind(connection, planned, now)
        for schedule in paused:
            error = self._changes[schedule].effect.error
            event = schedule_paused_event(*schedule, self._paused_by(schedule), error)
            ended.events.setdefault(schedule[0], []).append(event)

    def _paused_by(self, schedule: ScheduleKey) -> datetime:
        """The slot that paused a schedule: of several the last one."""
        return max(
            recorded.slot
            for recorded in self._recorded.values()
            if recorded.schedule == schedule and recorded.record.follow_up is FollowUp.PAUSE
        )


async def _count_ended(connection: Connection, changed: Iterable[asyncpg.Record]) -> None:
    """Takes schedules that have ended off the counts of their tenants."""
    ended = Counter(row["tenant"] for row in changed if _has_ended(row))
    if ended:
        fewer = [-schedules for schedules in ended.values()]
        await connection.execute(SQL.add_schedule_counts, list(ended), fewer)


def _has_ended(row: asyncpg.Record) -> bool:
    return is_active(ScheduleStatus(row["old_status"])) > is_active(ScheduleStatus(row["status"]))


def effects_of(ended: Sequence[RecordedSlot]) -> Effects:
    """The effects of counted outcomes on their schedules, in the order of slots; schedules that
    do not change are left out."""
    touched = {
        outcome.schedule
        for outcome in ended
        if outcome.shown is not None and not _is_usual(outcome)
    }
    if not touched:
        return {}
    effects: Effects = {}
    shown: dict[ScheduleKey, LastOutcome] = {}
    for outcome in sorted(ended, key=lambda outcome: (outcome.slot, outcome.run)):
        if outcome.shown is not None and outcome.schedule in touched:
            shown[outcome.schedule] = outcome.shown
            effects[outcome.schedule] = effects.get(outcome.schedule, EffectAndSlot()).after(
                outcome
            )
    return {
        named: effect for named, effect in effects.items() if effect.effect.changes(shown[named])
    }


async def result_groups(connection: Connection, recorded: Sequence[RecordedSlot]) -> list[Group]:
    """Returns the results of counted outcomes as messages for those that their schedules name, and
    stores the deliveries among them. Store the messages in the same
    transaction. A queue at its limit takes them, too. If the receiver was deleted, the message is
    for the queue of deliveries, where it becomes a dead letter."""
    groups: list[Group] = []
    queues: dict[tuple[str | None, str], UUID | None] = {}

    async def add(tenant: str, owner: str | None, name: str, message: NewMessage) -> bool:
        if (owner, name) not in queues:
            row = await connection.fetchrow(SQL.find_queue, owner, name)
            queues[owner, name] = None if row is None else row["id"]
        if (queue_id := queues[owner, name]) is not None:
            groups.append(Group(tenant, queue_id, name, (message,), is_exempt=True))
        return queue_id is not None

    for ended in recorded:
        if (target := ended.record.result_target) is None:
            continue
        tenant, schedule_id = ended.schedule
        message = result_message(
            ended.record,
            ended.claim.id,
            schedule_id=schedule_id,
            slot=ended.slot,
            run=ended.run,
            attempts=ended.attempt,
        )
        now, is_lost = ended.finished_at, False
        if (name := queue_for(target)) is not None:
            is_lost = not await add(tenant, tenant, name, message)
        elif row := await connection.fetchrow(SQL.find_endpoint, tenant, target.endpoint):
            settings = read_settings(row["settings"])
            delivery = direct_delivery(message, row["id"], settings, now)
            for record_delivery in await record_deliveries(connection, tenant, now, [delivery]):
                await add(tenant, None, ENDPOINTS_QUEUE, record_delivery)
        else:
            is_lost = True
        if is_lost:
            await add(tenant, None, DELIVERIES_QUEUE, lost_result(message, target, now))
    return groups


def _is_usual(ended: RecordedSlot) -> bool:
    """Whether it is a success of a schedule whose last outcome was one."""
    return ended.record.is_plain_success and ended.shown == AFTER_SUCCESS


async def _rewind(connection: Connection, planned: Sequence[Planned], now: datetime) -> None:
    """Moves paused schedules back to their first withdrawn slot, and records those that are
    dropped, as `pause` decides."""
    by_schedule: dict[ScheduleKey, list[Withdrawn]] = {}
    for slot in planned:
        by_schedule.setdefault(slot.schedule, []).append(slot.withdrawn)
    for named, withdrawn in by_schedule.items():
        tenant, schedule_id = named
        row = await connection.fetchrow(SQL.get_schedule, [tenant], [schedule_id])
        schedule = rows.schedule(row)
        change = pause(schedule, withdrawn, now)
        await record_skips(connection, named, change.skips, now)
        await connection.execute(
            SQL.rewind_schedules, *named, change.next_slot, change.due_at, change.fired
        )


def _pausing(effects: Effects) -> list[ScheduleKey]:
    return [named for named, effect in effects.items() if effect.effect.follow_up is FollowUp.PAUSE]


def _channels(firing: FiringResult) -> str:
    return msgspec.json.encode(firing.channels).decode() if firing.channels else "[]"
