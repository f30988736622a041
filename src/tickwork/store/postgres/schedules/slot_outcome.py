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
from tickwork.core.model import Claim, Ending, NewMessage
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
from tickwork.store.ids import Moment, new_id
from tickwork.store.nouns.endpoint_rows import read_settings
from tickwork.store.postgres.endpoints.publish import record_deliveries
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, once
from tickwork.store.postgres.messages.keys import Key
from tickwork.store.postgres.messages.removal import RemovedMessages
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

_BECOMES = {
    FollowUp.COMPLETE: "completed",
    FollowUp.PARK: "parked",
    FollowUp.PAUSE: "paused",
    FollowUp.COMPLETE_PARKED: "completed if parked",
}


class RecordedSlot(Struct, frozen=True):
    """A recorded attempt, and the last outcome of its schedule; None if it has no schedule."""

    firing_id: UUID
    record: FiringResult
    schedule: ScheduleKey
    slot: datetime
    run: int
    attempt: int
    finished_at: datetime
    shown: LastOutcome | None


class EffectAndSlot(NamedTuple):
    """The effect of outcomes on a schedule, and the last slot that decides how it continues,
    unless a later one has a message."""

    effect: ScheduleEffect = NO_EFFECT
    slot: datetime | None = None

    def after(self, ended: RecordedSlot) -> EffectAndSlot:
        slot = ended.slot if ended.record.has_follow_up else self.slot
        return EffectAndSlot(self.effect.with_result(ended.record), slot)


Effects = dict[ScheduleKey, EffectAndSlot]


class Paused(NamedTuple):
    """A schedule that a dead firing paused, with the slot and its error."""

    schedule: ScheduleKey
    slot: datetime
    error: str | None


class SlotOutcomes:
    """Records outcomes. All methods run in the caller's transaction."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    async def record(
        self, connection: Connection, endings: Iterable[Ending]
    ) -> dict[Claim, RecordedSlot]:
        """Records attempts at slots. Valid claims stay valid until the commit."""
        chosen = [(ending.claim, ending.firing) for ending in endings if ending.firing is not None]
        if not chosen:
            return {}
        ids = [new_id() for _ in chosen]
        firings = [firing for _, firing in chosen]
        rows = await connection.fetch(
            SQL.record_firings,
            self._moment(),
            once([claim.tenant for claim, _ in chosen]),
            [claim.id for claim, _ in chosen],
            once([claim.number for claim, _ in chosen]),
            once([claim.holder for claim, _ in chosen]),
            ids,
            once([firing.status for firing in firings]),
            once([firing.reason for firing in firings]),
            [firing.took_seconds for firing in firings],
            once([firing.result_code for firing in firings]),
            once([firing.excerpt for firing in firings]),
            once([_channels(firing) for firing in firings]),
            once([firing.is_attempt for firing in firings]),
        )
        recorded: dict[Claim, RecordedSlot] = {}
        for number, schedule_id, slot, run, finished_at, count, error, status, attempt in rows:
            claim, firing = chosen[number - 1]
            recorded[claim] = RecordedSlot(
                ids[number - 1],
                firing,
                (claim.tenant, schedule_id),
                slot,
                run,
                attempt,
                finished_at,
                None if count is None else LastOutcome(count, error, status),
            )
        return recorded

    async def forget(
        self,
        connection: Connection,
        doubles: Iterable[Claim],
        recorded: Mapping[Claim, RecordedSlot],
    ) -> None:
        """Deletes the records of duplicate events."""
        known = [claim for claim in doubles if claim in recorded]
        if known:
            await connection.execute(
                SQL.delete_duplicate_firings,
                [claim.tenant for claim in known],
                [recorded[claim].firing_id for claim in known],
                [recorded[claim].finished_at for claim in known],
            )

    async def keys_to_take(self, connection: Connection, effects: Effects) -> set[Key]:
        """The keys of slots that may be withdrawn from schedules that will be paused."""
        pausing = _pausing(effects)
        return await keys_of_planned(connection, pausing) if pausing else set()

    async def carry_out(
        self, connection: Connection, effects: Effects, keys: Collection[Key], left: RemovedMessages
    ) -> tuple[bool, list[ScheduleKey]]:
        """Updates the schedules; returns whether leaders must look again, and which schedules
        are paused now."""
        named = sorted(effects)
        chosen = [effects[schedule].effect for schedule in named]
        tenants = [tenant for tenant, _ in named]
        ids = [schedule_id for _, schedule_id in named]
        await connection.execute(SQL.lock_schedules, tenants, ids)
        found = await connection.fetch(
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
        stopped = [
            (row["tenant"], row["id"])
            for row in found
            if row["status"] == "paused" and row["old_status"] == "active"
        ]
        if stopped:
            now = self._moment() or await connection.fetchval(SQL.read_clock)
            planned = await take_planned(connection, stopped, now, keys=keys)
            await take_back(connection, planned, left)
            await _rewind(connection, planned, now)
        await _count_ended(connection, found)
        return any(row["is_moved"] and row["status"] == "active" for row in found), stopped


async def _count_ended(connection: Connection, changed: Iterable[asyncpg.Record]) -> None:
    """Takes schedules that have ended off the counts of their tenants."""
    ended = Counter(row["tenant"] for row in changed if _has_ended(row))
    if ended:
        fewer = [-schedules for schedules in ended.values()]
        await connection.execute(SQL.add_schedule_counts, list(ended), fewer)


def _has_ended(row: asyncpg.Record) -> bool:
    return is_active(ScheduleStatus(row["old_status"])) > is_active(ScheduleStatus(row["status"]))


def effects_of(recorded: Mapping[Claim, RecordedSlot], counted: Iterable[Claim]) -> Effects:
    """The effects of counted outcomes on their schedules, in the order of slots; schedules that
    do not change are left out."""
    ended = [recorded[claim] for claim in counted if claim in recorded]
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


async def result_groups(
    connection: Connection, recorded: Mapping[Claim, RecordedSlot], counted: Iterable[Claim]
) -> list[Group]:
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

    for claim in counted:
        ended = recorded.get(claim)
        if ended is None or (target := ended.record.result_target) is None:
            continue
        tenant, schedule_id = ended.schedule
        message = result_message(
            ended.record,
            claim.id,
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


def paused_by(
    recorded: Mapping[Claim, RecordedSlot], effects: Effects, paused: Iterable[ScheduleKey]
) -> list[Paused]:
    """What paused each schedule: of several slots the last one."""
    return [
        Paused(
            named,
            max(
                outcome.slot
                for outcome in recorded.values()
                if outcome.schedule == named and outcome.record.follow_up is FollowUp.PAUSE
            ),
            effects[named].effect.error,
        )
        for named in paused
    ]


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


def successes(
    firings: Sequence[FiringResult | None],
) -> tuple[list[UUID | None], list[float | None], list[bool]]:
    """Ids for the records of successful slots, their durations, and whether they complete their
    schedules; None for other messages."""
    if not any(firings):
        return [], [], []
    return (
        [new_id() if firing else None for firing in firings],
        [firing.took_seconds if firing else None for firing in firings],
        [firing is not None and firing.completes for firing in firings],
    )


def _pausing(effects: Effects) -> list[ScheduleKey]:
    return [named for named, effect in effects.items() if effect.effect.follow_up is FollowUp.PAUSE]


def _channels(firing: FiringResult) -> str:
    return msgspec.json.encode(firing.channels).decode() if firing.channels else "[]"
