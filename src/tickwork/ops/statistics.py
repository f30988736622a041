"""What passed through a queue, put in order for reading."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from tickwork.core.tally import Passing, QueueStats


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
