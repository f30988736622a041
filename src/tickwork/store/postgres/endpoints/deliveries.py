"""What settlements do for deliveries, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from tickwork.core.model import Ending
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL


async def wake_enabled(
    connection: Connection, moment: Moment, released: Sequence[Ending]
) -> set[UUID]:
    """Makes messages visible that were released to wait for endpoints that are not disabled any
    more: enabling them did not find the messages while they were claimed. Returns their queues."""
    waiting = [ending for ending in released if ending.endpoint_id is not None]
    if not waiting:
        return set()
    woken = await connection.fetch(
        SQL.wake_enabled,
        moment(),
        [ending.claim.tenant for ending in waiting],
        [ending.claim.id for ending in waiting],
        [ending.endpoint_id for ending in waiting],
    )
    return {row["queue_id"] for row in woken}
