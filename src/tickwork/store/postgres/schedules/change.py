"""Changes of schedules on PostgreSQL: one transaction around a pure decision.

It locks, in this order: the tenant's limits, if the schedule may count again; the keys of its
slots; the schedule's row; the messages that may be withdrawn. Then it calls the decision and
carries it out: withdrawn messages are deleted, fired slots become messages, skipped slots are
recorded, and the schedule is updated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
from msgspec import structs

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import is_name
from tickwork.core.message.subscription import FiredSlots
from tickwork.core.model import Scope
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule.change import Change, Decision
from tickwork.core.schedule.model import OverlapPolicy, Schedule, ScheduleStatus, ordering_key
from tickwork.core.schedule.plan import UNFINISHED_MAX, Fire
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.core.tenant_limits import check_change, is_active
from tickwork.errors import Conflict, NotFound, StoreUnavailable
from tickwork.store.ids import SCHEDULES_TOPIC, Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.postgres.messages.backlog import BacklogChange
from tickwork.store.postgres.messages.keys import Key, Keys
from tickwork.store.postgres.messages.removal import AfterCommit, Removal, RemovedMessages
from tickwork.store.postgres.messages.send import Group
from tickwork.store.postgres.schedules import rows as schedule_rows
from tickwork.store.postgres.schedules.create import check_number
from tickwork.store.postgres.schedules.firings import record_skips
from tickwork.store.postgres.schedules.slot_copies import SlotCopies
from tickwork.store.postgres.schedules.slot_messages import (
    Planned,
    fire_columns,
    keys_of_planned,
    take_back,
    take_planned,
)
from tickwork.store.shared.columns import definition_values
from tickwork.store.shared.counters import CounterKey, Counters

TRIES_MAX = 40
"""Maximum number of attempts when a claim or another change interferes."""

PAUSE_SECONDS = 0.05
"""Seconds between two attempts."""

NEAR = timedelta(seconds=5)
"""Time ahead within which a sleeping leader is woken."""


class _ChangedSchedule(NamedTuple):
    """A change that was carried out, and the work after the commit."""

    schedule: Schedule
    after_commit: AfterCommit
    queue_id: UUID
    fires: tuple[Fire, ...]
    type: str
    now: datetime
    copies: list[Group]


class _Interfered(Exception):
    """Another transaction interfered: try again."""


class Changer:
    """Changes schedules."""

    def __init__(
        self,
        database: Database,
        moment: Moment,
        removal: Removal,
        wakeups: PostgresWakeups,
        counters: Counters,
        copies: SlotCopies,
    ) -> None:
        self._database = database
        self._moment = moment
        self._keys = Keys(moment)
        self._removal = removal
        self._wakeups = wakeups
        self._counters = counters
        self._copies = copies

    async def change(
        self,
        scope: Scope,
        schedule_id: UUID,
        withdraw: WithdrawScope,
        decide: Decision,
        *,
        under: Grant | None = None,
    ) -> Schedule:
        for _ in range(TRIES_MAX):
            try:
                changed = await self._database.change(
                    lambda connection: self._change(
                        connection, scope, schedule_id, withdraw, decide, under
                    ),
                    repeatable=False,
                )
            except _Interfered:
                await asyncio.sleep(PAUSE_SECONDS)
            except asyncpg.UniqueViolationError:
                shown = public_id(Prefix.SCHEDULE, schedule_id)
                raise Conflict(
                    f"the name wanted for schedule {shown} is in use; take another one"
                ) from None
            else:
                await self._finish(changed)
                return changed.schedule
        shown = public_id(Prefix.SCHEDULE, schedule_id)
        raise StoreUnavailable(f"schedule {shown} is too busy to be changed; try again")

    async def _change(
        self,
        connection: Connection,
        scope: Scope,
        schedule_id: UUID,
        withdraw: WithdrawScope,
        decide: Decision,
        under: Grant | None,
    ) -> _ChangedSchedule:
        seen = None
        if scope.tenant is None or is_name(scope.tenant):
            seen = await connection.fetchrow(SQL.get_schedule, [scope.tenant], [schedule_id])
        if seen is None or not scope.reaches(seen["owner"]):
            raise NotFound("schedule", schedule_id)
        tenant: str = seen["tenant"]
        # Locked before anything else, in the same order as when schedules are created.
        is_completed, limits = seen["status"] == ScheduleStatus.COMPLETED, None
        if is_completed:
            limits = await connection.fetchrow(SQL.schedule_limits, tenant, self._moment())
        keys = await self._take_keys(connection, tenant, schedule_id)
        is_granted = under is None or await _lock_grant(connection, under)
        row = await connection.fetchrow(SQL.lock_schedule, tenant, schedule_id)
        if row is None:
            raise NotFound("schedule", schedule_id)
        key = _key(row)
        if key is not None and key not in keys:
            raise _Interfered
        if is_completed is not (row["status"] == ScheduleStatus.COMPLETED):
            raise _Interfered
        schedule = schedule_rows.schedule(row)
        now = self._moment() or await connection.fetchval(SQL.read_clock)
        change, planned = None, list[Planned]()
        if is_granted:
            planned = await self._take_planned(connection, schedule, withdraw, now, keys)
            withdrawn = [slot.withdrawn for slot in planned]
            unfinished = await _unfinished(connection, schedule, len(planned), now)
            change = decide(structs.replace(schedule, unfinished=unfinished), withdrawn, now)
        left = RemovedMessages()
        room = BacklogChange()
        fires = tuple[Fire, ...]()
        copies: list[Group] = []
        if change is not None:
            check_change(change.name, change.definition)
            await take_back(connection, planned, left)
            queue_id = await self._queue_id(connection, row, change)
            copies = await self._fire(connection, row, change, now, room)
            await record_skips(connection, (schedule.tenant, schedule.id), change.skips, now)
            schedule = await self._write(connection, schedule, change, queue_id, planned, now)
            fires = change.fires
            more = is_active(change.status) - is_active(ScheduleStatus(row["status"]))
            if more:
                await connection.execute(SQL.add_schedule_counts, [tenant], [more])
            if more > 0 and limits is not None:
                await check_number(connection, limits, [seen["owner"]])
        left.free_bytes(room)
        after_commit = await self._removal.apply_effects(connection, left, room, keys)
        return _ChangedSchedule(
            schedule, after_commit, row["queue_id"], fires, row["type"], now, copies
        )

    async def _take_keys(self, connection: Connection, tenant: str, schedule_id: UUID) -> set[Key]:
        """Locks the keys of waiting slots, and the key that new slots would have."""
        keys = await keys_of_planned(connection, [(tenant, schedule_id)])
        row = await connection.fetchrow(SQL.schedule_key, tenant, schedule_id)
        own = None if row is None else _key(row)
        if own is not None:
            keys.add(own)
        if keys:
            await self._keys.lock_or_create(connection, keys)
        return keys

    async def _take_planned(
        self,
        connection: Connection,
        schedule: Schedule,
        withdraw: WithdrawScope,
        now: datetime,
        keys: Collection[Key],
    ) -> list[Planned]:
        """Locks all slots that may be withdrawn, or raises `_Interfered` if others have locked
        some."""
        if withdraw is WithdrawScope.NOTHING:
            return []
        named = (schedule.tenant, schedule.id)
        planned = await take_planned(connection, [named], now, keys=keys, withdraw=withdraw)
        chosen = (withdraw is WithdrawScope.NOT_DUE, withdraw is WithdrawScope.ALL)
        (counts,) = await connection.fetch(SQL.count_withdrawable_slots, now, *named, *chosen)
        if tuple(counts) != (len(planned), sum(slot.withdrawn.is_superseded for slot in planned)):
            raise _Interfered
        return planned

    async def _queue_id(self, connection: Connection, row: Any, change: Change) -> UUID:
        """The target queue: unchanged while it exists and has the same name."""
        name = change.definition.queue
        queue_id: UUID = row["queue_id"]
        if name == row["queue"] and await connection.fetch(SQL.lock_queues, [queue_id]):
            return queue_id
        found = await connection.fetchrow(SQL.find_queue, row["tenant"], name)
        if found is None:
            if name != row["queue"]:
                raise NotFound("queue", name)
            return queue_id  # The planner reports a missing queue.
        if not await connection.fetch(SQL.lock_queues, [found["id"]]):
            raise _Interfered
        named: UUID = found["id"]
        return named

    async def _fire(
        self, connection: Connection, row: Any, change: Change, now: datetime, room: BacklogChange
    ) -> list[Group]:
        """Stores the messages of fired slots, under the old definition, and returns their copies
        for subscribers."""
        fires = change.fires
        if not fires:
            return []
        key = _key(row)
        positions = await self._keys.reserve(connection, [key] * len(fires))
        new_slots = fire_columns(fires)
        target = await connection.fetchrow(
            SQL.fire_slots,
            now,
            row["tenant"],
            row["id"],
            *new_slots,
            [position.state for position in positions],
            [position.position for position in positions],
        )
        if target is None:
            raise NotFound("queue", row["queue"])
        if target["is_capped"]:
            room.take(row["queue_id"], row["queue"], target["bytes"], is_exempt=True)
        fired = FiredSlots(row["tenant"], row["queue_id"], row["type"], new_slots[0])
        return await self._copies.store(connection, [fired], now, room)

    async def _write(
        self,
        connection: Connection,
        schedule: Schedule,
        change: Change,
        queue_id: UUID,
        planned: list[Planned],
        now: datetime,
    ) -> Schedule:
        row = await connection.fetchrow(
            SQL.change_schedule,
            now,
            schedule.tenant,
            schedule.id,
            change.status,
            change.next_slot,
            change.due_at,
            change.look_at,
            change.fired,
            change.runs,
            change.error_count,
            change.last_error,
            change.name,
            queue_id,
            *definition_values(change.definition),
            bool(planned),
            max((fire.slot for fire in change.fires if fire.run == 0), default=None),
        )
        return schedule_rows.schedule(row)

    async def _finish(self, changed: _ChangedSchedule) -> None:
        """Counts messages and wakes consumers after the commit."""
        schedule = changed.schedule
        if changed.fires:
            source = public_id(Prefix.SCHEDULE, schedule.id)
            key = CounterKey(
                changed.queue_id, schedule.tenant, CounterName.SENT, changed.type, source
            )
            self._counters.add(key, len(changed.fires))
            if any(fire.visible_at <= changed.now for fire in changed.fires):
                self._wakeups.notify([changed.queue_id])
        if changed.copies:
            self._copies.after_commit(changed.copies)
        if schedule.look_at is not None and schedule.look_at <= changed.now + NEAR:
            self._wakeups.notify([SCHEDULES_TOPIC])
        await self._removal.finish(changed.after_commit)


async def _unfinished(
    connection: Connection, schedule: Schedule, withdrawn: int, now: datetime
) -> int:
    """The number of messages that stay, if a slot is due whose policy depends on it."""
    is_due = schedule.next_slot is not None and schedule.next_slot <= now
    if not is_due or not schedule.definition.overlap.is_decided_when_due:
        return 0
    messages: int = await connection.fetchval(
        SQL.count_unfinished, schedule.tenant, schedule.id, withdrawn + UNFINISHED_MAX
    )
    return messages - withdrawn


async def _lock_grant(connection: Connection, grant: Grant) -> bool:
    """Whether a shard is still granted. If so, it is locked until the commit."""
    return await connection.fetchval(SQL.lock_grant, grant.shard, grant.token) is not None


def _key(row: Any) -> Key | None:
    """The key of a schedule's slots, if they are ordered."""
    if not OverlapPolicy(row["overlap"]).is_ordered:
        return None
    return Key(row["tenant"], row["queue_id"], ordering_key(row["id"]))
