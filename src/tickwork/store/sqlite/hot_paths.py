"""What nouns use that is written for SQLite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from tickwork.core.model import Message, NewMessage, Scope, StoredQueue
from tickwork.core.queue.stats import CounterName
from tickwork.store.nouns.hot_paths import MessageKind
from tickwork.store.nouns.queues import find_queue as find_stored_queue
from tickwork.store.shared.columns import Kind
from tickwork.store.shared.fair_shares import LANES_MAX
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.claim import lanes
from tickwork.store.sqlite.messages.prepared_messages import PreparedMessages
from tickwork.store.sqlite.messages.queue_rows import find_queue
from tickwork.store.sqlite.messages.removal import bury_deliveries, finish_removal
from tickwork.store.sqlite.messages.system_events import publish_events
from tickwork.store.steps import NOW, Native, Row, Statement, Steps

_ALL_TENANTS = Statement("all_tenants")
_PEEK = Statement("peek", Message)
_NEXT_VISIBLE_AT = Statement("next_visible_at", at=Kind.TIME)


class SqliteHotPaths:
    """Steps of a transaction that writes messages."""

    def tenants(self, scope: Scope) -> Steps[Sequence[str | None]]:
        if not scope.is_system:
            return [scope.tenant]
        return [row["id"] for row in (yield from _ALL_TENANTS.fetch())]

    def queue(self, scope: Scope, name: str) -> Steps[StoredQueue]:
        return (yield from find_stored_queue(scope, name))

    def send(self, queue: StoredQueue, messages: Mapping[str, Sequence[NewMessage]]) -> Steps[None]:
        def work(transaction: Transaction) -> None:
            found = find_queue(transaction, Scope(queue.tenant), queue.name)
            for tenant, own in messages.items():
                PreparedMessages(own).store(transaction, tenant, found)

        yield Native(work)

    def peek(self, queue_id: UUID, tenant: str | None, limit: int) -> Steps[Sequence[Row]]:
        # An index finds those of one tenant and priority.
        ready = yield Native(lambda transaction: lanes(transaction, queue_id.bytes, tenant))
        rows: list[Row] = []
        for lane in ready:
            rows += yield from _PEEK.fetch(queue_id, lane.tenant, lane.priority, NOW, limit)
        return sorted(rows, key=lambda row: (-row["priority"], row["visible_at"], row["id"]))

    def next_visible_at(self, queue_id: UUID, tenant: str | None) -> Steps[datetime | None]:
        values = (queue_id, tenant, NOW, LANES_MAX)
        at: datetime | None = yield from _NEXT_VISIBLE_AT.fetch_value(*values)
        return at

    def publish_events(self, events: Mapping[str, Sequence[NewMessage]]) -> Steps[int]:
        def work(transaction: Transaction) -> int:
            return sum(publish_events(transaction, tenant, own) for tenant, own in events.items())

        number: int = yield Native(work)
        return number

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

    def count(
        self, queue_id: UUID, counter: CounterName, kinds: Sequence[MessageKind]
    ) -> Steps[None]:
        counted = [
            CountedMessages(queue_id.bytes, tenant, counter, type_, source, 1)
            for tenant, type_, source in kinds
        ]
        yield Native(lambda transaction: transaction.counted.extend(counted))

    def bury_deliveries(self, gone: Sequence[Row]) -> Steps[None]:
        names = [(row["tenant"], row["id"].bytes) for row in gone]
        yield Native(lambda transaction: bury_deliveries(transaction, names))
