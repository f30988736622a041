"""Deleting what nobody holds, with everything that follows, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from tickwork.core.message.batch import REASON_DELETED, REASON_PURGED
from tickwork.core.model import Scope
from tickwork.core.queue.stats import Passing
from tickwork.store.moment import Moment
from tickwork.store.postgres.backlog import Room
from tickwork.store.postgres.database import PLAN_ANEW, SQL, Connection, Database
from tickwork.store.postgres.leaving import Aftermath, Leaving, Left

PURGED_AT_ONCE = 5_000


class Purger:
    """Deletes messages."""

    def __init__(self, database: Database, moment: Moment, leaving: Leaving) -> None:
        self._database, self._moment, self._leaving = database, moment, leaving

    async def purge(self, scope: Scope, queue_id: UUID) -> int:
        """Deletes what waits in a queue now, piece by piece; what comes meanwhile stays."""
        until = self._moment()
        if until is None:
            until = await self._database.run(lambda connection: connection.fetchval(SQL.read_clock))
        asked = (queue_id, scope.tenant, until, PURGED_AT_ONCE)

        async def find(connection: Connection) -> Sequence[Any]:
            await connection.execute(PLAN_ANEW)
            return await connection.fetch(SQL.waiting_messages, *asked)

        purged = 0
        while True:
            found, gone = await self._delete(find, REASON_PURGED)
            purged += gone
            if found < PURGED_AT_ONCE:
                return purged

    async def delete(self, scope: Scope, queue_id: UUID, message_id: UUID) -> bool:
        """Deletes one message, if nobody holds it."""
        _, gone = await self._delete(
            lambda connection: connection.fetch(
                SQL.waiting_message, queue_id, message_id, scope.tenant
            ),
            REASON_DELETED,
        )
        return gone > 0

    async def _delete(
        self, find: Callable[[Connection], Awaitable[Sequence[Any]]], reason: str
    ) -> tuple[int, int]:
        """Deletes what is found, if it still waits then: how many were found, and deleted."""

        async def work(connection: Connection) -> tuple[int, Aftermath]:
            found = await find(connection)
            await self._leaving.take_keys(connection, found)
            rows = await connection.fetch(
                SQL.delete_waiting, [row["tenant"] for row in found], [row["id"] for row in found]
            )
            left = Left()
            left.add(rows, Passing.PURGED, reason)
            return len(found), await self._leaving.follow(connection, left, Room())

        found, aftermath = await self._database.transact(work, repeatable=False)
        await self._leaving.finish(aftermath)
        return found, aftermath.passed.total()
