"""Queues on SQLite: their backlog, and purging and counting them."""

from __future__ import annotations

from tickwork.core.message.batch import REASON_PURGED
from tickwork.core.model import Counts, QueueSettings, Scope, StoredQueue
from tickwork.store.nouns.queues import Queues, queue_values
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.batch_progress import BatchName
from tickwork.store.sqlite.messages.queue_rows import find_queue
from tickwork.store.sqlite.messages.removal import REMOVAL_CHUNK_MESSAGES, complete_all, remove_some
from tickwork.store.steps import Port, Row, Statement, Steps

_PUT = Statement("put_queue", StoredQueue)
_RECOUNT_BACKLOG = Statement("recount_backlog")


class SqliteQueues(Queues):
    """Queues by name. Every operation looks the name up in its own transaction."""

    def __init__(self, port: Port, database: Database) -> None:
        super().__init__(port)
        self._database = database

    async def purge(self, scope: Scope, name: str) -> int:
        """Deletes in chunks. Messages sent after the call started stay."""
        queue = await self._database.read(lambda transaction: find_queue(transaction, scope, name))
        until = await self._database.read(lambda transaction: transaction.now)
        values = (queue.id, scope.tenant, until)
        purged, ended = 0, set[BatchName]()
        while True:
            gone, batches = await self._database.change(
                lambda transaction: _purge_some(transaction, values), rows=REMOVAL_CHUNK_MESSAGES
            )
            purged += gone
            ended |= batches
            if not gone:
                break
        if ended:
            await self._database.write(lambda transaction: complete_all(transaction, ended))
        return purged

    async def counts(self, scope: Scope, name: str, *, at_most: int | None = None) -> Counts:
        def work(transaction: Transaction) -> Counts:
            queue = find_queue(transaction, scope, name)
            values = (queue.id, scope.tenant, transaction.now, at_most)
            *counts, _, _ = transaction.execute(SQL.count_messages, values).fetchone()
            return Counts(*counts)

        return await self._database.read(work)

    def _store(
        self, tenant: str | None, name: str, text: str, settings: QueueSettings
    ) -> Steps[Row]:
        row = yield from _PUT.fetch_row(*queue_values(tenant, name, text, settings))
        assert row is not None
        yield from _RECOUNT_BACKLOG.execute(row["id"], settings.backlog_bytes_max is not None)
        return row


def _purge_some(
    transaction: Transaction, values: tuple[bytes, str | None, int]
) -> tuple[int, set[BatchName]]:
    """Blocked messages first: otherwise they would be unblocked only to be purged."""
    return remove_some(transaction, (SQL.purge_blocked, SQL.purge_ready), values, REASON_PURGED)
