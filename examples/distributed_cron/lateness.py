"""How late slots were: when their handlers began, after they were due, and what was to blame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from examples.distributed_cron.faults import Fault
from tickwork.core.schedule.firing import FiringRecord

LATE_SECONDS = 0.25
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
NOTHING = "neither: the machine was busy"


class Lateness(NamedTuple):
    """Seconds by share of the slots, and how many were late by what happened then."""

    slots: int
    seconds: dict[str, float]
    late: Counter[str]


def lateness(firings: Sequence[FiringRecord], faults: Sequence[Fault]) -> Lateness:
    """Of every slot that ran."""
    starts: dict[tuple[object, datetime], tuple[datetime, datetime]] = {}
    for each in firings:
        if each.attempt > 0 and not each.run and each.started_at is not None:
            slot = each.schedule_id, each.slot
            first, _ = starts.get(slot, (each.started_at, each.due_at))
            starts[slot] = min(first, each.started_at), each.due_at
    waits = sorted((started - due).total_seconds() for started, due in starts.values())
    late: Counter[str] = Counter()
    for started, due in starts.values():
        if (started - due).total_seconds() > LATE_SECONDS:
            causes = {f.kind for f in faults if f.touches(due, started)}
            late[" and ".join(sorted(causes)) or NOTHING] += 1
    seconds = {
        name: waits[min(int(len(waits) * share), len(waits) - 1)] if waits else 0.0
        for name, share in SHARES.items()
    }
    return Lateness(len(waits), seconds, late)


def table(found: Lateness) -> str:
    """The same for people."""
    lines = [f"{found.slots:,} slots ran; from due to the handler's first line:"]
    lines += [f"  {name:4} {seconds:9.3f} s" for name, seconds in found.seconds.items()]
    lines.append(f"later than {LATE_SECONDS:g} s: {found.late.total():,}")
    lines += [f"  {count:8,}  {cause}" for cause, count in found.late.most_common()]
    return "\n".join(lines)
