"""Message counters of one process: work items add to them, and only after their commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from tickwork.core.queue.stats import CounterName
from tickwork.store.shared.counters import CounterKey, Counters

UNTALLIED_MAX = 1_000
"""Number of counts in memory that are tallied at the latest."""


class CountedMessages(NamedTuple):
    """How many messages of one queue, tenant, type and source to add to a counter."""

    queue_id: bytes
    tenant: str
    counter: CounterName
    type: str | None
    source: str | None
    messages: int


class MessageCounters:
    """The counters of a store. The writer thread adds; any event loop may take."""

    def __init__(self) -> None:
        self._lock, self._tallies = Lock(), Counters()
        self._untallied: list[CountedMessages] = []

    def add(self, counted: Sequence[CountedMessages]) -> None:
        """Adds what one commit changed. They are tallied later: the callers of the commit wait."""
        if counted:
            with self._lock:
                self._untallied += counted
                if len(self._untallied) >= UNTALLIED_MAX:
                    self._tally()

    def take(self) -> list[tuple[CounterKey, int]]:
        """Removes and returns the counts since the last call, for the caller to store."""
        with self._lock:
            self._tally()
            return self._tallies.take()

    def give_back(self, counted: Iterable[tuple[CounterKey, int]]) -> None:
        """Adds counts again that the caller could not store."""
        with self._lock:
            self._tallies.give_back(counted)

    def _tally(self) -> None:
        """Tallies what was added. No type or source counts as an empty one."""
        counted, self._untallied = self._untallied, []
        summed: Counter[tuple[bytes, str, CounterName, str, str]] = Counter()
        for queue_id, tenant, counter, type_, source, messages in counted:
            summed[queue_id, tenant, counter, type_ or "", source or ""] += messages
        queues = {queue_id: UUID(bytes=queue_id) for queue_id in {key[0] for key in summed}}
        for (queue_id, tenant, counter, type_, source), messages in summed.items():
            key = CounterKey(queues[queue_id], tenant, counter, type_, source)
            self._tallies.add(key, messages)
