"""Counting what passes through queues, in memory, until it is written down.

The end of a batch that nobody can be told of.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from tickwork.core.queue.stats import CounterName

PLACES_MAX = 10_000
"""As many different counts as are kept apart until they are written; beyond that, types and
sources are counted together."""


AN_ID = "(id)"
"""The source of what comes from something that is known by its id."""


class CounterKey(NamedTuple):
    """What is counted together. An empty type or source means none."""

    queue_id: UUID
    tenant: str
    passing: CounterName
    type: str = ""
    source: str = ""


class Counters:
    """Counts of one process. Safe for one thread at a time."""

    def __init__(self) -> None:
        self._counts: Counter[CounterKey] = Counter()

    def add(self, tallied: CounterKey, messages: int = 1) -> None:
        """Counts messages that passed. Sources that are ids are counted together: a schedule names
        itself as the source of its messages, and there may be a million of them."""
        if _is_id(tallied.source):
            tallied = tallied._replace(source=AN_ID)
        if len(self._counts) >= PLACES_MAX and tallied not in self._counts:
            tallied = tallied._replace(type="", source="")
        self._counts[tallied] += messages

    def add_all(self, many: Iterable[CounterKey]) -> None:
        """Counts one message for each."""
        for tallied, messages in Counter(many).items():
            self.add(tallied, messages)

    def take(self) -> list[tuple[CounterKey, int]]:
        """What was counted since the last time, to be written down, in a fixed order."""
        counted, self._counts = self._counts, Counter()
        return sorted(counted.items())

    def give_back(self, counted: Iterable[tuple[CounterKey, int]]) -> None:
        """What could not be written down."""
        for tallied, messages in counted:
            self.add(tallied, messages)


def _is_id(source: str) -> bool:
    """Whether a text has the form of a UUID; quick, for it is asked of every message."""
    return len(source) == 36 and source[8] == source[13] == source[18] == source[23] == "-"


_log = logging.getLogger("tickwork")


def warn_untold(batch_id: UUID, queue: str) -> None:
    """Its completion queue is gone, or was never there; the batch is completed all the same."""
    _log.warning(
        "batch %s has ended, and its completion queue %s is not there: nobody is told",
        batch_id,
        queue,
    )
