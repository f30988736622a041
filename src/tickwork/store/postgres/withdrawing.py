"""Taking back planned slots on PostgreSQL.

Only what nobody ever claimed, and nobody is claiming at the moment: its row is passed over, not
waited for. Whoever ends a message holds its row and may want the schedule, which we have.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tickwork.core.schedule.withdraw import Withdraw, Withdrawn
from tickwork.store.postgres.database import SQL, Connection
from tickwork.store.postgres.keys import Key
from tickwork.store.postgres.leaving import Left

ScheduleKey = tuple[str, UUID]
"""A schedule's tenant and id."""


class Planned(NamedTuple):
    """A planned slot that is taken, and may be taken back."""

    schedule: ScheduleKey
    message_id: UUID
    withdrawn: Withdrawn


async def keys_of_planned(connection: Connection, schedules: Collection[ScheduleKey]) -> set[Key]:
    """The keys under which planned slots wait: to be taken before the schedules are."""
    found = await connection.fetch(SQL.schedule_keys, *_columns(schedules))
    return {Key(row["tenant"], row["queue_id"], row["key"]) for row in found}


async def take_planned(
    connection: Connection,
    schedules: Collection[ScheduleKey],
    now: datetime,
    *,
    keys: Collection[Key],
    withdraw: Withdraw = Withdraw.UNCLAIMED,
) -> list[Planned]:
    """Takes the planned slots of schedules that are taken already, by slot. What stands in line
    under a key that we do not have was planned since we looked, and stays."""
    chosen = (withdraw is Withdraw.COMING, withdraw is Withdraw.ALL)
    found = await connection.fetch(SQL.planned_slots, now, *_columns(sorted(schedules)), *chosen)
    return [
        Planned(
            (row["tenant"], row["schedule_id"]),
            row["id"],
            Withdrawn(row["slot"], row["due_at"], row["is_passed"], row["run"], row["is_again"]),
        )
        for row in found
        if row["key"] is None or Key(row["tenant"], row["queue_id"], row["key"]) in keys
    ]


async def take_back(connection: Connection, planned: Sequence[Planned], left: Left) -> None:
    """Deletes planned slots that are taken, and notes what left."""
    if planned:
        rows = await connection.fetch(
            SQL.delete_planned,
            [each.schedule[0] for each in planned],
            [each.message_id for each in planned],
        )
        assert len(rows) == len(planned), "what is taken stays as it is"
        left.take_back(rows)


def _columns(schedules: Collection[ScheduleKey]) -> tuple[list[str], list[UUID]]:
    return [tenant for tenant, _ in schedules], [schedule_id for _, schedule_id in schedules]
