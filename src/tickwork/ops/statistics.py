"""What passed through a queue, put in order for reading."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from tickwork.core.model import Counts, Queue, Scope
from tickwork.core.queue.stats import Passing, QueueStats
from tickwork.store.contract import Store

QUEUES_MAX = 100
"""As many queues as an overview looks at."""


class Passed(Struct, frozen=True):
    """How many messages passed, by what happened to them; what did not happen is left out."""

    label: str
    counts: Mapping[Passing, int]


def by_minute(stats: QueueStats) -> tuple[Passed, ...]:
    """The recent minutes in which something passed, oldest first."""
    found: dict[datetime, dict[Passing, int]] = {}
    for each in stats.minutes:
        counts = found.setdefault(each.minute, {})
        counts[each.passing] = counts.get(each.passing, 0) + each.messages
    return tuple(Passed(f"{at:%Y-%m-%d %H:%M}", counts) for at, counts in sorted(found.items()))


def by_kind(stats: QueueStats) -> tuple[Passed, ...]:
    """The types and sources of the last hour, by name."""
    found: dict[str, dict[Passing, int]] = {}
    for each in stats.kinds:
        label = f"{each.type or '(no type)'} from {each.source or '(no source)'}"
        counts = found.setdefault(label, {})
        counts[each.passing] = counts.get(each.passing, 0) + each.messages
    return tuple(Passed(label, counts) for label, counts in sorted(found.items()))


class QueueView(Struct, frozen=True):
    """A queue in the overview: how it stands, and what passed, by the minute and by kind."""

    queue: str
    tenant: str | None
    counts: Counts
    oldest_age_seconds: float | None
    minutes: tuple[Passed, ...]
    kinds: tuple[Passed, ...]


async def overview(store: Store, scope: Scope) -> tuple[QueueView, ...]:
    """All queues of a scope, at most `QUEUES_MAX`."""
    queues = await store.queues.list(scope)
    return tuple([await _view(store, each) for each in queues[:QUEUES_MAX]])


async def _view(store: Store, queue: Queue) -> QueueView:
    # The owner's view: of a shared queue everybody's messages.
    stats = await store.stats.queue(Scope(queue.tenant), queue.name)
    return QueueView(
        queue.name,
        queue.tenant,
        stats.counts,
        stats.oldest_age_seconds,
        by_minute(stats),
        by_kind(stats),
    )
