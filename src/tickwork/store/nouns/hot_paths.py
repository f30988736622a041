"""What nouns use that each store has written for its database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tickwork.core.model import NewMessage, Scope, StoredQueue
from tickwork.core.queue.stats import CounterName
from tickwork.store.steps import Row, Steps

MessageKind = tuple[str, str | None, str | None]
"""The tenant, type and source of a message: by these it is counted."""


class HotPaths(Protocol):
    """Steps of a transaction that writes messages."""

    def tenants(self, scope: Scope) -> Steps[Sequence[str | None]]:
        """The tenants to ask a statement for, one after the other. On PostgreSQL a statement
        without a tenant reads the first rows of each; SQLite has no lateral joins."""

    def queue(self, scope: Scope, name: str) -> Steps[StoredQueue]:
        """The queue of a name, which PostgreSQL remembers for a moment; `NotFound` if there is
        none."""

    def send(self, queue: StoredQueue, messages: Mapping[str, Sequence[NewMessage]]) -> Steps[None]:
        """Stores messages, given by tenant, in a queue."""

    def peek(self, queue_id: UUID, tenant: str | None, limit: int) -> Steps[Sequence[Row]]:
        """The next ready messages, and maybe others after them."""

    def next_visible_at(self, queue_id: UUID, tenant: str | None) -> Steps[datetime | None]:
        """When the next message of a queue becomes visible."""

    def publish_events(self, events: Mapping[str, Sequence[NewMessage]]) -> Steps[int]:
        """Publishes system events, given by tenant; returns how many queues and new deliveries get
        them. `NotFound` if a queue that subscribes to them was deleted meanwhile."""

    def remove(self, waiting: Sequence[Row], reason: str) -> Steps[int]:
        """Deletes messages (rows with `tenant`, `queue_id`, `id` and `key`), unless they are
        claimed; returns how many."""

    def count(
        self, queue_id: UUID, counter: CounterName, kinds: Sequence[MessageKind]
    ) -> Steps[None]:
        """Counts messages after the commit."""

    def bury_deliveries(self, gone: Sequence[Row]) -> Steps[None]:
        """Marks the deliveries of messages (rows with `tenant` and `id`) as dead, unless they are
        delivered."""
