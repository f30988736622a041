"""Messages of slots on PostgreSQL: the columns they are stored from, and their withdrawal.

Only messages that no worker has claimed and no other transaction has locked can be withdrawn.
Locked rows are skipped, not waited for: a transaction that settles a message holds its row and may
wait for the schedule, which we hold.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.schedule.plan import Fire
from tickwork.core.schedule.withdraw import Withdrawn, WithdrawScope
from tickwork.store.ids import new_id
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.keys import Key
from tickwork.store.postgres.messages.removal import RemovedMessages
from tickwork.store.postgres.schedules.slot_copies import copies_of

ScheduleKey = tuple[str, UUID]
"""A schedule's tenant and id."""


class Planned(NamedTuple):
    """A planned slot that is locked and may be withdrawn."""

    schedule: ScheduleKey
    message_id: UUID
    withdrawn: Withdrawn


async def keys_of_planned(connection: Connection, schedules: Collection[ScheduleKey]) -> set[Key]:
    """The keys of planned slots. Lock them before the schedules."""
    found = await connection.fetch(SQL.withdrawable_keys, *_columns(schedules))
    return {Key(row["tenant"], row["queue_id"], row["key"]) for row in found}


async def take_planned(
    connection: Connection,
    schedules: Collection[ScheduleKey],
    now: datetime,
    *,
    keys: Collection[Key],
    withdraw: WithdrawScope = WithdrawScope.UNCLAIMED,
) -> list[Planned]:
    """Locks the planned slots of locked schedules, by slot. A slot under a key that is not
    locked was planned since, and stays."""
    chosen = (withdraw is WithdrawScope.NOT_DUE, withdraw is WithdrawScope.ALL)
    found = await connection.fetch(
        SQL.withdrawable_slots, now, *_columns(sorted(schedules)), *chosen
    )
    return [
        Planned(
            (row["tenant"], row["schedule_id"]),
            row["id"],
            Withdrawn(
                row["slot"],
                row["due_at"],
                row["is_superseded"],
                row["run"],
                row["has_future_record"],
            ),
        )
        for row in found
        if row["key"] is None or Key(row["tenant"], row["queue_id"], row["key"]) in keys
    ]


async def take_back(
    connection: Connection, planned: Sequence[Planned], removed: RemovedMessages
) -> None:
    """Deletes locked slots and their copies, and notes the removed messages. Copies that a worker
    has claimed stay."""
    if planned:
        rows = await connection.fetch(
            SQL.delete_withdrawn,
            [slot.schedule[0] for slot in planned],
            [slot.message_id for slot in planned],
        )
        assert len(rows) == len(planned), "locked rows do not change"
        removed.add_withdrawn(rows)
        slots = [(slot.schedule[0], slot.message_id) for slot in planned]
        if copies := await copies_of(connection, slots):
            tenants, ids = zip(*copies, strict=True)
            removed.add_withdrawn(await connection.fetch(SQL.delete_withdrawn, tenants, ids))


def _columns(schedules: Collection[ScheduleKey]) -> tuple[list[str], list[UUID]]:
    return [tenant for tenant, _ in schedules], [schedule_id for _, schedule_id in schedules]


def fire_columns(fires: Sequence[Fire]) -> list[list[Any]]:
    """Fired slots as columns, each with a new id. A due time equal to the slot, or a visible
    time equal to the due time, is NULL."""
    return [
        [new_id() for _ in fires],
        [fire.slot for fire in fires],
        [unless_usual(fire.due_at, fire.slot) for fire in fires],
        [unless_usual(fire.visible_at, fire.due_at) for fire in fires],
        [fire.catch_up for fire in fires],
        [fire.run for fire in fires],
        [fire.is_last for fire in fires],
    ]


def unless_usual(at: datetime | None, usual: datetime | None) -> datetime | None:
    """None if both are equal: encoding a time costs more than comparing it."""
    return None if at == usual else at
