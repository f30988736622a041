"""How late slots were: when their handlers began, after they were due, and what was to blame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from examples.distributed_cron.faults import Fault
from tickwork.core.schedule.firing import Firing

LATE_SECONDS = 0.25
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
NOTHING = "neither: the machine was busy"


class Lateness(NamedTuple):
    """Seconds by share of the slots, and how many were late by what happened then."""

    slots: int
    seconds: dict[str, float]
    late: Counter[str]


def lateness(firings: Sequence[Firing], faults: Sequence[Fault]) -> Lateness:
    """Of every slot that ran."""
    ran: dict[tuple[object, object], Firing] = {}
    for each in firings:
        if each.attempt > 0 and not each.run:
            first = ran.setdefault((each.schedule_id, each.slot), each)
            if each.started_at < first.started_at:
                ran[each.schedule_id, each.slot] = each
    waits = sorted((each.started_at - each.due_at).total_seconds() for each in ran.values())
    late: Counter[str] = Counter()
    for each in ran.values():
        if (each.started_at - each.due_at).total_seconds() > LATE_SECONDS:
            causes = {f.kind for f in faults if f.touches(each.due_at, each.started_at)}
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
