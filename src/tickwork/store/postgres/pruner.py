"""Taking away on PostgreSQL what was kept long enough: a short transaction for each kind."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tickwork.core.limits import check_limit, check_system
from tickwork.core.message.batch import BATCH_SECONDS
from tickwork.core.message.dead_letter import DEAD_LETTER_SECONDS
from tickwork.core.model import EVENT_SECONDS, Pruned, Scope
from tickwork.core.queue.stats import TALLY_SECONDS, Passing
from tickwork.core.schedule.firing import FIRING_SECONDS
from tickwork.core.schedule.model import DELETED_SECONDS
from tickwork.store.moment import Moment
from tickwork.store.postgres.backlog import recount_backlog
from tickwork.store.postgres.database import SQL, Connection, Database
from tickwork.store.postgres.partitions import Partitions
from tickwork.store.tallying import Tallied, Tallies

QUEUES_PER_PASS = 10
"""As many queues with a cap are counted anew in a pass."""

RECEIPT_SECONDS = 86_400
"""So long the receipts of sends are kept; they serve repeats, which come within seconds."""


class PostgresPruner:
    """Takes away what was kept long enough."""

    def __init__(self, database: Database, moment: Moment, tallies: Tallies) -> None:
        self._database, self._moment, self._tallies = database, moment, tallies
        self._partitions = Partitions(database)
        self._last_capped: UUID | None = None

    async def prune(self, scope: Scope, limit: int) -> Pruned:
        check_system(scope)
        check_limit(limit)
        now = self._moment()
        if now is None:
            now = await self._database.run(lambda each: each.fetchval(SQL.read_clock))
            assert now is not None
        letters = await self._take(SQL.prune_letters, now, DEAD_LETTER_SECONDS, limit)
        self._tallies.add_all(
            Tallied(
                row["queue_id"],
                row["tenant"],
                Passing.PRUNED,
                row["type"] or "",
                row["source"] or "",
            )
            for row in letters
        )
        await self._recount()
        return Pruned(
            dead_letters=len(letters),
            events=len(await self._take(SQL.prune_events, now, EVENT_SECONDS, limit)),
            receipts=len(await self._take(SQL.prune_receipts, now, RECEIPT_SECONDS, limit)),
            batches=await self._take_batches(now, limit),
            firings=await self._take_firings(now, limit),
            schedules=len(await self._take(SQL.prune_schedules, now, DELETED_SECONDS, limit)),
            tallies=len(await self._take(SQL.prune_tallies, now, TALLY_SECONDS, limit)),
        )

    async def _recount(self) -> None:
        """Counts anew what waits in some queues that have a cap, in turn: a cap that was given
        while messages were being settled has counted those."""
        queues = await self._database.run(
            lambda connection: connection.fetch(
                SQL.capped_queues, self._last_capped, QUEUES_PER_PASS
            )
        )
        self._last_capped = queues[-1]["id"] if len(queues) == QUEUES_PER_PASS else None
        for queue in queues:
            await self._database.transact(
                lambda connection, queue_id=queue["id"]: recount_backlog(  # type: ignore[misc]
                    connection, queue_id
                )
            )

    async def _take(self, statement: str, now: datetime, seconds: int, limit: int) -> list[Any]:
        until = now - timedelta(seconds=seconds)
        return await self._database.run(
            lambda connection: connection.fetch(statement, until, limit), repeatable=False
        )

    async def _take_firings(self, now: datetime, limit: int) -> int:
        """A day that is old as a whole, and some records that lie in none."""
        records = await self._partitions.turn(now)
        return records + len(await self._take(SQL.prune_firings, now, FIRING_SECONDS, limit))

    async def _take_batches(self, now: datetime, limit: int) -> int:
        """Items first, some at a time; a batch goes when it has none left."""
        until = now - timedelta(seconds=BATCH_SECONDS)

        async def work(connection: Connection) -> int:
            await connection.execute(SQL.prune_items, until, limit)
            return len(await connection.fetch(SQL.prune_batches, until, limit))

        return await self._database.transact(work, repeatable=False)
