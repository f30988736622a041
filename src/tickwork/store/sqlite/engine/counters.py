"""What passed through queues: noted by pieces of work, counted once they are committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from tickwork.core.queue.stats import CounterName
from tickwork.store.shared.counters import Tallied, Tallies


class Passed(NamedTuple):
    """Messages of one kind that passed together. No type or source is an empty one."""

    queue_id: bytes
    tenant: str
    passing: CounterName
    type: str | None
    source: str | None
    messages: int


class Counting:
    """The tallies of a store, for the writer's thread that counts and any loop that asks."""

    def __init__(self) -> None:
        self._lock, self._tallies = Lock(), Tallies()

    def add(self, passed: Iterable[Passed]) -> None:
        """Counts what a commit made true."""
        summed: Counter[tuple[bytes, str, CounterName, str, str]] = Counter()
        for queue_id, tenant, passing, type_, source, messages in passed:
            summed[queue_id, tenant, passing, type_ or "", source or ""] += messages
        if summed:
            queues = {queue_id: UUID(bytes=queue_id) for queue_id in {each[0] for each in summed}}
            with self._lock:
                for (queue_id, tenant, passing, type_, source), messages in summed.items():
                    tallied = Tallied(queues[queue_id], tenant, passing, type_, source)
                    self._tallies.add(tallied, messages)

    def take(self) -> list[tuple[Tallied, int]]:
        """What was counted since the last time, to be written down."""
        with self._lock:
            return self._tallies.take()

    def give_back(self, counted: Iterable[tuple[Tallied, int]]) -> None:
        """What could not be written down."""
        with self._lock:
            self._tallies.give_back(counted)
