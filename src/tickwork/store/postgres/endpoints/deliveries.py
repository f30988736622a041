"""What settlements do for deliveries, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection

from tickwork.core.delivery.endpoint import EndpointWait
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.effects import EffectWriter, EndedMessages


class EndpointWaitWriter(EffectWriter[EndpointWait]):
    """Makes messages visible that were released to wait for endpoints that are not disabled any
    more: enabling them did not find the messages while they were claimed."""

    async def released(
        self, connection: Connection, released: Collection[int], ended: EndedMessages
    ) -> None:
        if waiting := self._of(released):
            woken = await connection.fetch(
                SQL.wake_enabled,
                self._moment(),
                [wait.claim.tenant for wait in waiting],
                [wait.claim.id for wait in waiting],
                [wait.effect.endpoint_id for wait in waiting],
            )
            ended.queues_to_wake.update(row["queue_id"] for row in woken)
