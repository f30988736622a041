"""An entry of another system, the schedule that it becomes, and where their fires differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from tickwork.core import when

FIRES_COMPARED = 100
"""Number of next fires that are compared."""

LABEL_LENGTH_MAX = 200
"""Characters of an entry that its schedule keeps in its metadata."""

TITLE_LENGTH_MAX = 60
"""Characters of the title of an entry in the name of its schedule."""

_NOT_IN_NAMES = re.compile(r"[^\w.]+")

ENTRY_TYPES = {"crontab": "cron.command", "celery-beat": "celery.task", "apscheduler": "job.run"}
"""Type of the messages of imported schedules, by system."""

_DAY = timedelta(days=1)


class Entry(Struct, frozen=True, kw_only=True):
    """One entry: where it is, what people call it (`title`), what it runs (`payload`), when in our
    words (`fields`), and when it fires next in its own system (`old_fires`; empty for plain
    intervals, which start anew). `unstable` are fields that are new each time it is read."""

    label: str
    title: str
    text: str
    fields: Mapping[str, Any]
    payload: Mapping[str, Any]
    old_fires: tuple[datetime, ...] = ()
    unstable: frozenset[str] = frozenset()


class Refused(Struct, frozen=True):
    """An entry that cannot become a schedule, and why."""

    label: str
    text: str
    reason: str


class Read(Struct, frozen=True):
    """What was read from another system; `notes` are things that the reader should know."""

    entries: tuple[Entry, ...]
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()


class Difference(Struct, frozen=True):
    """The first fires that only the old or only the new system has, and a reason."""

    label: str
    text: str
    only_old: tuple[datetime, ...]
    only_new: tuple[datetime, ...]
    reason: str


def identity_of(entry: Entry) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What makes an entry the same one when it is read again."""
    stable = {name: value for name, value in entry.fields.items() if name not in entry.unstable}
    return stable, entry.payload


def schedule_body(
    entry: Entry, number: int, *, system: str, name: str, queue: str
) -> dict[str, Any]:
    """The fields of the schedule. The same entry always gets the same name, another one never the
    same; `number` counts equal entries."""
    identity = msgspec.json.encode([*identity_of(entry), number], order="sorted")
    digest = blake2b(identity, digest_size=4).hexdigest()
    title = _NOT_IN_NAMES.sub("-", entry.title).strip("-")[:TITLE_LENGTH_MAX]
    return {
        **entry.fields,
        "name": f"{name}/{title}-{digest}" if title else f"{name}/{digest}",
        "target": {"type": "queue", "queue": queue, "message_type": ENTRY_TYPES[system]},
        "payload": entry.payload,
        "metadata": {"import": name, "entry": entry.text[:LABEL_LENGTH_MAX]},
    }


def differences(entry: Entry, start: datetime) -> Difference | None:
    """Compares the next fires after an instant; None if they are the same."""
    if not entry.old_fires:
        return None
    rule = when.parse(
        {name: value for name, value in entry.fields.items() if name in when.RULE_FIELDS},
        created_at=start,
        limits=when.Limits(min_interval_seconds=1),
    )
    new = [*islice(when.iterate_slots(rule, start), len(entry.old_fires))]
    # Only up to the end of the shorter list; beyond it nothing is known.
    end = min(entry.old_fires[-1], new[-1]) if new else entry.old_fires[-1]
    old = Counter(fire for fire in entry.old_fires if fire <= end)
    known = Counter(fire for fire in new if fire <= end)
    only_old, only_new = sorted((old - known).elements()), sorted((known - old).elements())
    if not only_old and not only_new:
        return None
    is_clock = all(_is_near_change(fire, rule.timezone) for fire in [*only_old, *only_new])
    reason = (
        f"the clocks of {rule.timezone} change on that day"
        if is_clock
        else "the two systems read the rule in different ways"
    )
    return Difference(entry.label, entry.text, _first(only_old), _first(only_new), reason)


def _first(fires: Sequence[datetime]) -> tuple[datetime, ...]:
    return tuple(fires[:3])


def _is_near_change(at: datetime, zone: str) -> bool:
    local = ZoneInfo(zone)
    return (at - _DAY).astimezone(local).utcoffset() != (at + _DAY).astimezone(local).utcoffset()
