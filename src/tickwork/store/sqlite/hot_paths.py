"""What nouns use of the hot paths, on SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickwork.core.model import SYSTEM, NewMessage, StoredQueue
from tickwork.core.queue.stats import CounterName
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.prepared_messages import PreparedMessages
from tickwork.store.sqlite.messages.queue_rows import find_queue
from tickwork.store.sqlite.messages.removal import bury_deliveries, finish_removal
from tickwork.store.sqlite.messages.system_events import publish_events
from tickwork.store.steps import Native, Row, Steps


class SqliteHotPaths:
    """Steps of a transaction that writes messages."""

    def send(self, queue: StoredQueue, messages: Mapping[str, Sequence[NewMessage]]) -> Steps[None]:
        def work(transaction: Transaction) -> None:
            found = find_queue(transaction, SYSTEM, queue.name)
            for tenant, own in messages.items():
                PreparedMessages(own).store(transaction, tenant, found)

        yield Native(work)

    def publish_events(self, events: Mapping[str, Sequence[NewMessage]]) -> Steps[None]:
        def work(transaction: Transaction) -> None:
            for tenant, own in events.items():
                publish_events(transaction, tenant, own)

        yield Native(work)

    def remove(self, waiting: Sequence[Row], reason: str) -> Steps[int]:
        def work(transaction: Transaction) -> int:
            removed = [
                gone
                for row in waiting
                for gone in transaction.execute(
                    SQL.delete_message, (row["queue_id"].bytes, row["id"].bytes, row["tenant"])
                )
            ]
            finish_removal(transaction, removed, CounterName.PURGED, reason)
            return len(removed)

        count: int = yield Native(work)
        return count

    def bury_deliveries(self, gone: Sequence[Row]) -> Steps[None]:
        names = [(row["tenant"], row["id"].bytes) for row in gone]
        yield Native(lambda transaction: bury_deliveries(transaction, names))
