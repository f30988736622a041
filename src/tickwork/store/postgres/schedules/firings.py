"""Records slots that do not fire, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tickwork.core.schedule.plan import Skip
from tickwork.store.ids import new_id
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.schedules.slot_messages import ScheduleKey


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
