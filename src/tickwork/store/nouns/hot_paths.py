"""What nouns use of the hot paths, which each store has written for its database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tickwork.core.model import NewMessage, StoredQueue
from tickwork.store.steps import Row, Steps


class HotPaths(Protocol):
    """Steps of a transaction that writes messages."""

    def send(self, queue: StoredQueue, messages: Mapping[str, Sequence[NewMessage]]) -> Steps[None]:
        """Stores messages, given by tenant, in a queue."""

    def publish_events(self, events: Mapping[str, Sequence[NewMessage]]) -> Steps[None]:
        """Publishes system events, given by tenant; `NotFound` if a queue that subscribes to them
        was deleted meanwhile."""

    def remove(self, waiting: Sequence[Row], reason: str) -> Steps[int]:
        """Deletes messages (rows with `tenant`, `queue_id`, `id` and `key`), unless they are
        claimed; returns how many."""

    def bury_deliveries(self, gone: Sequence[Row]) -> Steps[None]:
        """Marks the deliveries of messages (rows with `tenant` and `id`) as dead, unless they are
        delivered."""
