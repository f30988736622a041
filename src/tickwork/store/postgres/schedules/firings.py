"""The history of slots on PostgreSQL. Settlements and plans write it; this module reads it.

Records are partitioned by day. Each partition has the same index, so that a distant page costs as
much as the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from tickwork.core.limits import LIST_LIMIT_MAX, check_limit, is_name
from tickwork.core.model import Scope
from tickwork.core.schedule.firing import (
    SPREAD_MAX,
    ChannelOutcome,
    FiringRecord,
    FiringStatus,
    PlannedSlot,
)
from tickwork.core.schedule.model import Schedule, read_rule
from tickwork.core.schedule.plan import Skip
from tickwork.store.ids import new_id
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.schedules.slot_messages import ScheduleKey

_FIELDS = FiringRecord.__struct_fields__
_STATUS, _CHANNELS = _FIELDS.index("status"), _FIELDS.index("channels")
_OUTCOMES = msgspec.json.Decoder(tuple[ChannelOutcome, ...])
_AFTER_ALL = datetime(9999, 1, 1, tzinfo=UTC), UUID(int=2**128 - 1)


class PostgresFirings:
    """The recorded attempts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self,
        scope: Scope,
        schedule_id: UUID,
        limit: int,
        *,
        status: FiringStatus | None = None,
        before: tuple[datetime, UUID] | None = None,
    ) -> tuple[FiringRecord, ...]:
        check_limit(limit)
        values = (limit, status, *(before or _AFTER_ALL))
        found = await self._read(SQL.list_firings, scope, schedule_id, *values)
        return tuple(read_firing(row) for row in found)

    async def of_slot(
        self, scope: Scope, schedule_id: UUID, at: datetime
    ) -> tuple[FiringRecord, ...]:
        found = await self._read(SQL.firings_of_slot, scope, schedule_id, at, LIST_LIMIT_MAX)
        return tuple(read_firing(row) for row in found)

    async def succeeded(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> frozenset[datetime]:
        found = await self._read(SQL.succeeded_slots, scope, schedule_id, since, until)
        return frozenset(row["slot"] for row in found)

    async def unfinished(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> frozenset[datetime]:
        found = await self._read(SQL.unfinished_slots, scope, schedule_id, since, until)
        return frozenset(row["slot"] for row in found)

    async def last_due(
        self, scope: Scope, schedules: Sequence[Schedule], until: datetime
    ) -> dict[UUID, datetime]:
        own = [schedule for schedule in schedules if scope.tenant in (None, schedule.tenant)]
        keys = [schedule.tenant for schedule in own], [schedule.id for schedule in own]
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.last_due_slots, *keys, until)
        )
        return {row["id"]: row["slot"] for row in found}

    async def planned(
        self, scope: Scope, now: datetime, limit: int, *, owner: str | None = None
    ) -> tuple[PlannedSlot, ...]:
        check_limit(limit)
        values = (scope.tenant, now, owner or scope.owner, limit)
        if not all(text is None or is_name(text) for text in (scope.tenant, owner)):
            return ()
        found = await self._database.fetch_with_custom_plan(SQL.planned_slots, *values)
        return tuple(map(_read_planned, found))

    async def planned_of(
        self, scope: Scope, schedules: Sequence[Schedule], now: datetime
    ) -> tuple[PlannedSlot, ...]:
        own = [schedule for schedule in schedules if scope.tenant in (None, schedule.tenant)]
        keys = [schedule.tenant for schedule in own], [schedule.id for schedule in own]
        values = (*keys, now, now - SPREAD_MAX)
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.planned_slots_of, *values)
        )
        return tuple(map(_read_planned, found))

    async def _read(
        self, statement: str, scope: Scope, schedule_id: UUID, *values: object
    ) -> Sequence[Any]:
        if scope.tenant is not None and not is_name(scope.tenant):
            return []

        async def work(connection: Connection) -> Sequence[Any]:
            if scope.owner is not None:
                schedule = await connection.fetchrow(
                    SQL.get_schedule, [scope.tenant], [schedule_id]
                )
                if schedule is None or schedule["owner"] != scope.owner:
                    return []
            found: Sequence[Any] = await connection.fetch(
                statement, scope.tenant, schedule_id, *values
            )
            return found

        return await self._database.run(work)


def _read_planned(row: Any) -> PlannedSlot:
    tenant, schedule_id, name, rule, slot, due_at = row
    zone = read_rule(rule, schedule_id).timezone
    return PlannedSlot(tenant, schedule_id, name, zone, slot, due_at)


def read_firing(row: Any) -> FiringRecord:
    values = list(row)
    values[_STATUS] = FiringStatus(values[_STATUS])
    values[_CHANNELS] = _OUTCOMES.decode(values[_CHANNELS])
    return FiringRecord(*values)


def skip_columns(skips: Sequence[Skip]) -> list[list[Any]]:
    """Skipped runs as columns, each with a new id."""
    return [
        [new_id() for _ in skips],
        [skip.first for skip in skips],
        [skip.last for skip in skips],
        [skip.count for skip in skips],
        [skip.reason for skip in skips],
    ]


async def record_skips(
    connection: Connection, schedule: ScheduleKey, skips: Sequence[Skip], now: datetime
) -> None:
    """Records runs of slots of a schedule that do not fire."""
    if skips:
        columns = [*skip_columns(skips), [skip.run for skip in skips]]
        await connection.execute(SQL.record_skips, now, *schedule, *columns)
