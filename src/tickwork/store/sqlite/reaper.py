"""The reaper on SQLite: one short transaction for each kind of row whose time has come."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from tickwork.core.delivery.push import expiry_reason
from tickwork.core.limits import check_limit, check_system
from tickwork.core.message.batch import BATCH_FILLING_SECONDS_MAX
from tickwork.core.model import (
    LOST_CLAIMS_MAX,
    REASON_EXPIRED,
    REASON_MAX_RETRIES,
    REASON_WORKER_LOST,
    Reaped,
    Scope,
)
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule.slot_outcome import LEASE_RAN_OUT, max_retries_for
from tickwork.core.workflow.control import RUN_LOST
from tickwork.store.ports.sqlite import carry_out
from tickwork.store.sqlite.endpoints.endpoints import pull_probes
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.entities.entities import delete_calls_of_dead_nodes
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.batch_progress import complete, seal
from tickwork.store.sqlite.messages.claim import lanes
from tickwork.store.sqlite.messages.dead_letters import (
    DeadLetterCounts,
    NewDeadLetter,
    add_dead_letters,
    add_dead_letters_and_end_slots,
)
from tickwork.store.sqlite.nodes import release_messages
from tickwork.store.sqlite.schedules.shards import free_shards
from tickwork.store.sqlite.schedules.slot_outcome import end_slots, slots_of_expired_leases

NODES_PER_PASS = 10
QUEUES_PER_PASS = 100


class SqliteReaper:
    """Releases claims of dead holders and expires messages and batches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last_queue_id = b""

    async def reap(self, scope: Scope, limit: int) -> Reaped:
        check_system(scope)
        check_limit(limit)
        nodes = await self._database.write(_end_nodes)
        await self._database.write(
            lambda transaction: delete_calls_of_dead_nodes(transaction, limit)
        )
        released, dead = await self._database.write(
            lambda transaction: _end_leases(transaction, limit)
        )
        # A message past its retention is the head of its key: it goes before blocked ones that
        # expire.
        retired = await self._retire(limit)
        expired = await self._database.write(lambda transaction: _bury_expired(transaction, limit))
        unseen = [*retired, expired]
        batches = await self._database.write(lambda transaction: _end_batches(transaction, limit))
        await self._database.write(lambda transaction: carry_out(transaction, pull_probes()))
        return Reaped(
            nodes.nodes,
            nodes.released + released,
            nodes.dead + dead + sum(counts.dead for counts in unseen),
            batches,
            sum(counts.expired_slots for counts in unseen),
        )

    async def next_expiry(self, scope: Scope) -> datetime | None:
        check_system(scope)

        def work(transaction: Transaction) -> int | None:
            at: int | None = transaction.execute(SQL.next_expiry, (transaction.now,)).fetchone()[0]
            return at

        at = await self._database.read(work)
        return None if at is None else from_microseconds(at)

    async def _retire(self, limit: int) -> list[DeadLetterCounts]:
        """Expires messages past their retention, in some queues a pass, in turn."""
        values = (self._last_queue_id, QUEUES_PER_PASS)
        queues = await self._database.read(
            lambda transaction: transaction.execute(SQL.next_queues, values).fetchall()
        )
        self._last_queue_id = queues[-1][0] if len(queues) == QUEUES_PER_PASS else b""
        return [
            await self._database.write(
                lambda transaction, queue=queue: _retire_from(  # type: ignore[misc]
                    transaction, queue[0], limit, expiry_reason(is_disabled=bool(queue[1]))
                )
            )
            for queue in queues
        ]


def _end_nodes(transaction: Transaction) -> Reaped:
    execute = transaction.execute
    expired = execute(SQL.expired_nodes, (transaction.now, NODES_PER_PASS)).fetchall()
    released = dead = 0
    for (node_id,) in expired:
        values = (node_id, LOST_CLAIMS_MAX, RUN_LOST)
        for (message_id,) in execute(SQL.fail_lost_runs, values).fetchall():
            execute(SQL.forgive_lost_claims, (node_id, message_id))
        killers = execute(SQL.lost_too_often, (node_id, LOST_CLAIMS_MAX)).fetchall()
        dead += add_dead_letters_and_end_slots(
            transaction, [NewDeadLetter(rowid, REASON_WORKER_LOST) for (rowid,) in killers]
        ).dead
        back = release_messages(transaction, SQL.give_back, (node_id, 1))
        transaction.counted.extend(
            CountedMessages(queue_id, tenant, CounterName.LOST, type_, source, 1)
            for queue_id, tenant, type_, source in back
        )
        released += len(back)
        execute(SQL.end_nodes, (node_id,))
        free_shards(transaction, node_id)
    return Reaped(tuple(UUID(bytes=node_id) for (node_id,) in expired), released, dead)


def _end_leases(transaction: Transaction, limit: int) -> tuple[int, int]:
    found = transaction.execute(SQL.expired_pull_leases, (transaction.now, limit)).fetchall()
    if not found:
        return 0, 0
    used_up = {
        rowid: attempts + 1 > max_retries_for(terms, max_retries)
        for rowid, attempts, max_retries, terms in found
    }
    slots = slots_of_expired_leases(transaction, used_up)
    over = [rowid for rowid, is_over in used_up.items() if is_over]
    dead = add_dead_letters(
        transaction, [NewDeadLetter(rowid, REASON_MAX_RETRIES, counted=1) for rowid in over]
    )
    back = rows.as_json([rowid for rowid, is_over in used_up.items() if not is_over])
    values = (back, transaction.now, LEASE_RAN_OUT)
    ended = transaction.execute(SQL.expire_pull_leases, values).fetchall()
    for queue_id, tenant, type_, source in ended:
        transaction.queues_to_wake.add(UUID(bytes=queue_id))
        transaction.counted.append(
            CountedMessages(queue_id, tenant, CounterName.RETRIED, type_, source, 1)
        )
    end_slots(transaction, slots)
    return len(ended), dead


def _bury_expired(transaction: Transaction, limit: int) -> DeadLetterCounts:
    found = transaction.execute(SQL.expired_messages, (transaction.now, limit)).fetchall()
    return add_dead_letters_and_end_slots(
        transaction, [NewDeadLetter(rowid, REASON_EXPIRED) for (rowid,) in sorted(found)]
    )


def _retire_from(
    transaction: Transaction, queue_id: bytes, limit: int, reason: str
) -> DeadLetterCounts:
    found: list[rows.Row] = []
    for lane in lanes(transaction, queue_id, None):
        if len(found) >= limit:
            break
        values = (queue_id, lane.tenant, lane.priority, transaction.now, limit - len(found))
        found += transaction.execute(SQL.retired_messages, values).fetchall()
    return add_dead_letters_and_end_slots(
        transaction, [NewDeadLetter(rowid, reason) for (rowid,) in sorted(found)]
    )


def _end_batches(transaction: Transaction, limit: int) -> int:
    """Seals abandoned batches and completes those whose items have all ended; returns how many it
    completed."""
    long_ago = transaction.now - microseconds(BATCH_FILLING_SECONDS_MAX)
    abandoned = transaction.execute(SQL.abandoned_batches, (long_ago, limit)).fetchall()
    completed = sum(seal(transaction, *batch) for batch in abandoned)
    ended = transaction.execute(SQL.ended_batches, (limit,)).fetchall()
    return completed + sum(complete(transaction, *batch) for batch in ended)
