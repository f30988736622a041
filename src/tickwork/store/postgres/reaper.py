"""The reaper on PostgreSQL: one short transaction for each kind of row whose time has come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tickwork.core.delivery.push import expiry_reason
from tickwork.core.effects import Effect
from tickwork.core.limits import check_limit, check_system
from tickwork.core.model import (
    LOST_CLAIMS_MAX,
    REASON_BACKLOG_FULL,
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    REASON_WORKER_LOST,
    Claim,
    Ending,
    Fate,
    Reaped,
    Scope,
)
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule import slot_outcome as slot_end
from tickwork.core.workflow.control import RUN_LOST
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.endpoints.endpoints import PostgresEndpoints
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.entities.entities import PostgresEntities
from tickwork.store.postgres.messages.batch_progress import BatchProgress
from tickwork.store.postgres.messages.removal import Removal
from tickwork.store.postgres.messages.settle_statements import (
    NOTHING,
    EndingWriter,
    Settled,
    counter_key,
)
from tickwork.store.shared.fair_shares import LANES_MAX

NODES_PER_PASS = 10
"""Number of dead nodes that are ended in one pass."""

QUEUES_PER_PASS = 100
"""Number of queues whose old messages are expired in one pass."""

BATCHES_PER_PASS = 1_000
"""Number of batches that are examined in one pass."""

_Work = Callable[[Connection], Awaitable[tuple[Reaped, Settled | None]]]


class PostgresReaper:
    """Ends expired leases and expires messages."""

    def __init__(
        self,
        database: Database,
        moment: Moment,
        ender: EndingWriter,
        removal: Removal,
        batches: BatchProgress,
        entities: PostgresEntities,
        endpoints: PostgresEndpoints,
    ) -> None:
        self._database, self._moment = database, moment
        self._ender = ender
        self._removal = removal
        self._batches = batches
        self._entities, self._endpoints = entities, endpoints
        self._last_queue_id: UUID | None = None

    async def reap(self, scope: Scope, limit: int) -> Reaped:
        check_system(scope)
        check_limit(limit)
        nodes = await self._pass(self._end_nodes)
        await self._entities.delete_calls_of_dead_nodes(limit)
        leases = await self._pass(lambda connection: self._end_leases(connection, limit))
        # A retired message is the first of its key, so it is removed before messages that expire
        # behind it.
        retired = await self._retire(limit)
        expired = await self._pass(lambda connection: self._bury_expired(connection, limit))
        batches = await self._batches.sweep(BATCHES_PER_PASS)
        await self._endpoints.pull_probes()
        return Reaped(
            nodes.nodes,
            nodes.released + leases.released,
            nodes.dead + leases.dead + expired.dead + sum(reaped.dead for reaped in retired),
            batches,
            expired.expired_slots + sum(reaped.expired_slots for reaped in retired),
        )

    async def next_expiry(self, scope: Scope) -> datetime | None:
        check_system(scope)
        at: datetime | None = await self._database.run(
            lambda connection: connection.fetchval(SQL.next_expiry, self._moment())
        )
        return at

    async def _pass(self, work: _Work) -> Reaped:
        reaped, settled = await self._database.transact(work)
        if settled is not None:
            await self._ender.finish(settled)
        return reaped

    async def _end_nodes(self, connection: Connection) -> tuple[Reaped, Settled | None]:
        expired = await connection.fetch(SQL.expired_nodes, self._moment(), NODES_PER_PASS)
        node_ids = [row["id"] for row in expired]
        if not node_ids:
            return Reaped(), None
        await connection.execute(SQL.fail_lost_runs, node_ids, LOST_CLAIMS_MAX, RUN_LOST)
        lost = await connection.fetch(SQL.lost_too_often, node_ids, LOST_CLAIMS_MAX)
        settled = await self._end(connection, _dead(lost, REASON_WORKER_LOST))
        back = await connection.fetch(SQL.give_back, node_ids, 1)
        await connection.execute(SQL.end_nodes, node_ids, self._moment())
        settled.ended.queues_to_wake.update(row["queue_id"] for row in back)
        settled.ended.returned.extend(counter_key(row, CounterName.LOST) for row in back)
        return Reaped(tuple(node_ids), len(back), len(settled.ended.done)), settled

    async def _end_leases(
        self, connection: Connection, limit: int
    ) -> tuple[Reaped, Settled | None]:
        found = await connection.fetch(SQL.expired_pull_leases, self._moment(), limit)
        if not found:
            return Reaped(), None
        endings = [_lease_end(row) for row in found]
        settled = await self._end(connection, endings)
        ended = [endings[index].fate for index in settled.ended.done]
        return Reaped((), ended.count(Fate.RETRY), ended.count(Fate.DEAD)), settled

    async def _bury_expired(
        self, connection: Connection, limit: int
    ) -> tuple[Reaped, Settled | None]:
        found = await connection.fetch(SQL.expired_messages, self._moment(), limit)
        return await self._bury(connection, found, REASON_EXPIRED)

    async def _retire(self, limit: int) -> list[Reaped]:
        """Expires messages by the retention of their queue, some queues in each pass."""
        queues = await self._database.run(
            lambda connection: connection.fetch(
                SQL.next_queues, self._last_queue_id, QUEUES_PER_PASS
            )
        )
        self._last_queue_id = queues[-1]["id"] if len(queues) == QUEUES_PER_PASS else None
        return [
            await self._pass(
                lambda connection, queue=queue: self._retire_from(  # type: ignore[misc]
                    connection, queue["id"], limit, expiry_reason(is_disabled=queue["is_disabled"])
                )
            )
            for queue in queues
        ]

    async def _retire_from(
        self, connection: Connection, queue_id: UUID, limit: int, reason: str
    ) -> tuple[Reaped, Settled | None]:
        lanes = await connection.fetch(
            SQL.ready_tenants, self._moment(), queue_id, None, "", LANES_MAX, True
        )
        if not lanes:
            return Reaped(), None
        found = await connection.fetch(
            SQL.retired_messages,
            self._moment(),
            queue_id,
            [lane["tenant"] for lane in lanes],
            [lane["priority"] for lane in lanes],
            limit,
        )
        return await self._bury(connection, found, reason)

    async def _bury(
        self, connection: Connection, found: Sequence[Any], reason: str
    ) -> tuple[Reaped, Settled | None]:
        """Records dead letters for messages that have expired, if they still wait."""
        if not found:
            return Reaped(), None
        await self._removal.lock_keys(connection, found)
        claimed = await connection.fetch(
            SQL.claim_expired,
            self._moment(),
            new_id(),
            [row["tenant"] for row in found],
            [row["id"] for row in found],
        )
        # By position in the key: a dead-letter queue gets them in this order.
        in_order = sorted(claimed, key=lambda row: row["place"] or 0)
        endings = [
            _buried(row, reason)
            if row["surplus"] is None
            else _buried(row, REASON_BACKLOG_FULL, row["surplus"])
            for row in in_order
        ]
        settled = await self._end(connection, endings)
        done = [in_order[index] for index in settled.ended.done]
        slots = sum(map(_is_unseen_slot, done)) if reason == REASON_EXPIRED else 0
        return Reaped(dead=len(done), expired_slots=slots), settled

    async def _end(self, connection: Connection, endings: Sequence[Ending]) -> Settled:
        return await self._ender.carry_out(connection, endings, NOTHING)


def _dead(rows: Sequence[Any], reason: str) -> list[Ending]:
    return [_buried(row, reason) for row in rows]


def _buried(row: Any, reason: str, error: str | None = None) -> Ending:
    effects: tuple[Effect, ...] = ()
    if row["schedule_id"] is not None:
        effects = (slot_end.dead_result(row["terms"], row["run"], reason, None),)
    return Ending(claim=_claim(row), fate=Fate.DEAD, reason=reason, error=error, effects=effects)


def _is_unseen_slot(row: Any) -> bool:
    """Whether it was a slot, not an extra run, that was never started."""
    return row["slot"] is not None and not row["run"] and not row["attempts"]


def _lease_end(row: Any) -> Ending:
    """The ending of a pull lease that expired: it counts as an attempt."""
    terms, claim = row["terms"], _claim(row)
    is_used_up = row["attempts"] + 1 > slot_end.max_retries_for(terms, row["max_retries"])
    effects: tuple[Effect, ...] = ()
    if row["schedule_id"] is not None:
        effects = (slot_end.lease_expired_result(terms, row["run"], is_used_up=is_used_up),)
    if is_used_up:
        return Ending(claim=claim, fate=Fate.DEAD, reason=REASON_MAX_RETRIES, effects=effects)
    return Ending(claim=claim, fate=Fate.RETRY, error=slot_end.LEASE_RAN_OUT, effects=effects)


def _claim(row: Any) -> Claim:
    return Claim(row["tenant"], row["id"], row["claim"], row["holder"])
