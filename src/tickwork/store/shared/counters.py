"""Counters of messages, kept in memory until they are written."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.queue.stats import CounterName

COUNTERS_MAX = 10_000
"""Maximum number of different counters in memory. Beyond it, types and sources are counted
together."""


_SOURCES = (f"{Prefix.SCHEDULE}_", f"{Prefix.BATCH}_")
AN_ID = "(id)"
"""The source under which all sources that are ids are counted."""


class CounterKey(NamedTuple):
    """What a counter counts. An empty type or source means none."""

    queue_id: UUID
    tenant: str
    passing: CounterName
    type: str = ""
    source: str = ""


class Counters:
    """The counters of one process. Safe for one thread at a time."""

    def __init__(self) -> None:
        self._counts: Counter[CounterKey] = Counter()

    def add(self, key: CounterKey, messages: int = 1) -> None:
        """Counts messages. Sources that are ids are counted together: a schedule is the source
        of its messages, and there may be a million schedules."""
        if _is_id(key.source):
            key = key._replace(source=AN_ID)
        if len(self._counts) >= COUNTERS_MAX and key not in self._counts:
            key = key._replace(type="", source="")
        self._counts[key] += messages

    def add_all(self, many: Iterable[CounterKey]) -> None:
        """Counts one message for each key."""
        if isinstance(many, list) and len(many) == 1:
            self.add(many[0])
            return
        for key, messages in Counter(many).items():
            self.add(key, messages)

    def take(self) -> list[tuple[CounterKey, int]]:
        """Returns the counters since the last call, in a fixed order, to be written."""
        counted, self._counts = self._counts, Counter()
        return sorted(counted.items())

    def give_back(self, counted: Iterable[tuple[CounterKey, int]]) -> None:
        """Adds counters again that could not be written."""
        for key, messages in counted:
            self.add(key, messages)


def _is_id(source: str) -> bool:
    """Whether a text looks like the id of a schedule or batch, or like a UUID. It runs for every
    message, so it checks only the prefix or the dashes."""
    if len(source) != 36:
        return False
    has_dashes = source[8] == source[13] == source[18] == source[23] == "-"
    return has_dashes or source.startswith(_SOURCES)


_log = logging.getLogger("tickwork")


def warn_missing_completion_queue(batch_id: UUID, queue: str) -> None:
    """Logs that the completion queue of a batch does not exist. The batch is completed anyway."""
    _log.warning(
        "batch %s completed, but its completion queue %s does not exist; no event was sent",
        public_id(Prefix.BATCH, batch_id),
        queue,
    )
