"""What nouns use that is written for PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from tickwork.core.model import Message, NewMessage, Scope, StoredQueue
from tickwork.core.queue.stats import CounterName
from tickwork.store.ids import Moment, new_id
from tickwork.store.nouns.hot_paths import MessageKind
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.removal import Removal, bury_deliveries
from tickwork.store.postgres.messages.send import Group, Sender
from tickwork.store.postgres.messages.system_events import event_groups, receivers
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.fair_shares import LANES_MAX
from tickwork.store.steps import NOW, After, Native, Row, Statement, Steps

_PEEK = Statement("peek", Message)
_NEXT_VISIBLE_AT = Statement("next_visible_at")


class PostgresHotPaths:
    """Steps of a transaction that writes messages."""

    def __init__(
        self,
        moment: Moment,
        queues: PostgresQueues,
        sender: Sender,
        removal: Removal,
        counters: Counters,
    ) -> None:
        self._moment, self._queues = moment, queues
        self._sender, self._removal = sender, removal
        self._counters = counters

    def tenants(self, scope: Scope) -> Steps[Sequence[str | None]]:
        yield from ()
        return [scope.tenant]

    def queue(self, scope: Scope, name: str) -> Steps[StoredQueue]:
        return (yield from self._queues.find(scope, name))

    def send(self, queue: StoredQueue, messages: Mapping[str, Sequence[NewMessage]]) -> Steps[None]:
        groups = [Group(tenant, queue.id, queue.name, (*own,)) for tenant, own in messages.items()]
        stored = yield Native(lambda connection: self._store(connection, groups))
        yield After(lambda: self._sender.after_commit(stored))

    def peek(self, queue_id: UUID, tenant: str | None, limit: int) -> Steps[Sequence[Row]]:
        return (yield from _PEEK.fetch(NOW, queue_id, tenant, limit))

    def next_visible_at(self, queue_id: UUID, tenant: str | None) -> Steps[datetime | None]:
        values = (NOW, queue_id, tenant, LANES_MAX)
        at: datetime | None = yield from _NEXT_VISIBLE_AT.fetch_value(*values)
        return at

    def publish_events(self, events: Mapping[str, Sequence[NewMessage]]) -> Steps[int]:
        async def work(connection: Connection) -> tuple[int, list[Group]]:
            found = await receivers(connection, self._moment, events)
            groups = await event_groups(connection, events, found)
            copies = sum(len(group.messages) for group in groups)
            return copies, await self._store(connection, groups)

        number, stored = yield Native(work)
        yield After(lambda: self._sender.after_commit(stored))
        return int(number)

    def remove(self, waiting: Sequence[Row], reason: str) -> Steps[int]:
        after = yield Native(lambda connection: self._removal.remove(connection, waiting, reason))
        yield After(lambda: self._removal.finish(after))
        count: int = after.counts.total()
        return count

    def count(
        self, queue_id: UUID, counter: CounterName, kinds: Sequence[MessageKind]
    ) -> Steps[None]:
        keys = [
            CounterKey(queue_id, tenant, counter, type_ or "", source or "")
            for tenant, type_, source in kinds
        ]
        yield After(lambda: self._counters.add_all(keys))

    def bury_deliveries(self, gone: Sequence[Row]) -> Steps[None]:
        yield Native(lambda connection: bury_deliveries(connection, self._moment, gone))

    async def _store(self, connection: Connection, groups: Sequence[Group]) -> list[Group]:
        if not groups:
            return []
        backlog = BacklogChange()
        stored = await self._sender.store(connection, groups, new_id(), backlog)
        await change_backlog(connection, backlog)
        return stored
