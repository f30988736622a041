"""Measures how late slots started, and which faults happened while they waited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from examples.distributed_cron.faults import Fault

LATE_SECONDS = 0.25
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
NO_FAULT = "no fault: the machine was busy"


class Attempt(Protocol):
    """What is read of a row of a schedule's history."""

    @property
    def schedule_id(self) -> object: ...
    @property
    def slot(self) -> datetime: ...
    @property
    def run(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def due_at(self) -> datetime: ...
    @property
    def started_at(self) -> datetime | None: ...


class Lateness(NamedTuple):
    """Seconds by quantile, and the number of late slots by the fault that happened meanwhile."""

    slots: int
    seconds: dict[str, float]
    late: Counter[str]


def measure_lateness(firings: Sequence[Attempt], faults: Sequence[Fault]) -> Lateness:
    """Measure every slot that ran, by its first attempt."""
    starts: dict[tuple[object, datetime], tuple[datetime, datetime]] = {}
    for firing in firings:
        if firing.attempt > 0 and not firing.run and firing.started_at is not None:
            slot = firing.schedule_id, firing.slot
            first, _ = starts.get(slot, (firing.started_at, firing.due_at))
            starts[slot] = min(first, firing.started_at), firing.due_at
    waits = sorted((started - due).total_seconds() for started, due in starts.values())
    late: Counter[str] = Counter()
    for started, due in starts.values():
        if (started - due).total_seconds() > LATE_SECONDS:
            causes = {f.kind for f in faults if f.overlaps(due, started)}
            late[" and ".join(sorted(causes)) or NO_FAULT] += 1
    seconds = {
        name: waits[min(int(len(waits) * share), len(waits) - 1)] if waits else 0.0
        for name, share in QUANTILES.items()
    }
    return Lateness(len(waits), seconds, late)


def format_table(found: Lateness) -> str:
    """Return the measurement as a table."""
    lines = [f"{found.slots:,} slots ran; from due to the start of the handler:"]
    lines += [f"  {name:4} {seconds:9.3f} s" for name, seconds in found.seconds.items()]
    lines.append(f"later than {LATE_SECONDS:g} s: {found.late.total():,}")
    lines += [f"  {count:8,}  {cause}" for cause, count in found.late.most_common()]
    return "\n".join(lines)
