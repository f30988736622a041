"""Reads the jobs of APScheduler 3: of a scheduler object, or of the table of its SQLAlchemy store.

The next fires come from APScheduler's own triggers. The functions of jobs are not imported.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tickwork.cli.import_sources import load_object, needed, query
from tickwork.core.imports import FIRES_COMPARED, Entry, Read, Refused
from tickwork.core.imports.cron_fields import CronFields
from tickwork.errors import FieldError, InvalidInput

_RANGES = {
    "month": range(1, 13),
    "day": range(1, 32),
    "day_of_week": range(7),
    "hour": range(24),
    "minute": range(60),
    "second": range(60),
}
_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day_of_week": ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
}
_RANDOM_ID = re.compile(r"[0-9a-f]{32}")
_ORDINALS = {"1st": "#1", "2nd": "#2", "3rd": "#3", "4th": "#4", "5th": "#5", "last": "L"}


def read_apscheduler(source: str, start: datetime) -> Read:
    """Reads MODULE:SCHEDULER, or the URL of a database with the table `apscheduler_jobs`."""
    needed("apscheduler")
    jobs = _of_table(source) if "://" in source else _of_scheduler(source, start)
    entries: list[Entry] = []
    refused: list[Refused] = []
    notes: list[str] = []
    for name, job in jobs:
        text = f"{name}: {job['func']} {job['trigger']}"
        if job["is_paused"]:
            notes.append(f"{name} is paused there and is left out")
            continue
        try:
            entries.append(_entry(name, text, job, start))
        except InvalidInput as error:
            refused.append(Refused(name, text, "; ".join(fault.message for fault in error.errors)))
    return Read(tuple(entries), tuple(refused), tuple(notes))


def _of_table(url: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for job_id, state in query(url, "apscheduler_jobs"):
        # Their store would delete a job whose function cannot be imported; this only reads.
        job = pickle.loads(state)  # noqa: S301
        yield str(job_id), {**job, "is_paused": job.get("next_run_time") is None}


def _of_scheduler(reference: str, start: datetime) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for job in load_object(reference, "a scheduler of APScheduler").get_jobs():
        names = ("trigger", "args", "kwargs", "misfire_grace_time", "coalesce", "max_instances")
        parts = {name: getattr(job, name, None) for name in names}
        # A job of a scheduler that was not started has no next time yet.
        is_paused = getattr(job, "next_run_time", start) is None
        # Without an id of its own a job gets a new one each time its module is loaded.
        name = job.name if _RANDOM_ID.fullmatch(job.id) else job.id
        yield str(name), {"func": job.func_ref, "is_paused": is_paused, **parts}


def _entry(name: str, text: str, job: Mapping[str, Any], start: datetime) -> Entry:
    payload = {"job": name, "function": job["func"], "args": job["args"], "kwargs": job["kwargs"]}
    try:
        payload = json.loads(json.dumps(payload))
    except (TypeError, ValueError):
        raise _fault("its arguments are not JSON; give it plain values") from None
    trigger = job["trigger"]
    fields = {**_timing(trigger, start), **_policies(job)}
    old = () if "once_at" in fields else tuple(fires_of(trigger, start))
    if getattr(trigger, "jitter", None):
        fields["jitter_seconds"] = int(trigger.jitter)
        old = ()  # Random there, so there is nothing to compare.
    # The first run of an interval is counted from when the trigger was made.
    unstable = frozenset({"start_at"} if "interval_seconds" in fields else ())
    return Entry(
        label=name,
        title=name,
        text=text,
        fields=fields,
        payload=payload,
        old_fires=old,
        unstable=unstable,
    )


def _policies(job: Mapping[str, Any]) -> dict[str, Any]:
    grace = job.get("misfire_grace_time", 1)
    if grace is None:
        policy = "fire_most_recent" if job.get("coalesce", True) else "fire_late"
        missed: dict[str, Any] = {"policy": policy}
    else:
        missed = {"policy": "skip", "grace_seconds": max(int(grace), 1)}
    is_single = (job.get("max_instances") or 1) == 1
    return {"missed": missed, "overlap": "skip" if is_single else "allow"}


def fires_of(trigger: Any, start: datetime, count: int = FIRES_COMPARED) -> Iterator[datetime]:
    """When a trigger fires after an instant, by its own `get_next_fire_time`."""
    previous, now = None, start
    for _ in range(count):
        found = trigger.get_next_fire_time(previous, now)
        if found is None:
            return
        previous = now = found
        if found > start:
            yield found.astimezone(UTC)


def _timing(trigger: Any, start: datetime) -> dict[str, Any]:
    from apscheduler.triggers.cron import CronTrigger
    from apscheduler.triggers.date import DateTrigger
    from apscheduler.triggers.interval import IntervalTrigger

    if isinstance(trigger, DateTrigger):
        if trigger.run_date <= start:
            raise _fault("its time is over")
        return {"once_at": trigger.run_date.isoformat()}
    if isinstance(trigger, IntervalTrigger):
        seconds = trigger.interval.total_seconds()
        if seconds != int(seconds):
            raise _fault(f"runs every {seconds:g} s; an interval is whole seconds")
        timing: dict[str, Any] = {"interval_seconds": int(seconds)}
    elif isinstance(trigger, CronTrigger):
        texts = {field.name: str(field) for field in trigger.fields}
        timing = {**_cron(texts), "timezone": str(trigger.timezone)}
    else:
        raise _fault(f"has a trigger of type {type(trigger).__name__}, which is not known")
    bounds = {"start_at": trigger.start_date, "end_at": trigger.end_date}
    return timing | {name: at.isoformat() for name, at in bounds.items() if at is not None}


def _cron(texts: Mapping[str, str]) -> dict[str, Any]:
    """The timing of cron fields, all of which must match."""
    for name in ("year", "week"):
        if texts[name] != "*":
            raise _fault(f"restricts the {name} to {texts[name]}; Tickwork has no such field")
    day, values = texts["day"], {}
    special = _special_day(day)
    for name in _RANGES:
        values[name] = _values(name, "*" if name == "day" and special else texts[name])
    weekdays = frozenset((value + 1) % 7 for value in values["day_of_week"])
    fields = CronFields(
        values["minute"],
        values["hour"],
        None if len(values["day"]) == 31 else values["day"],
        values["month"],
        None if len(weekdays) == 7 else weekdays,
        values["second"],
    )
    if special is None:
        return fields.timing()
    if fields.weekdays is not None:
        raise _fault(f"combines the day {day} with weekdays; Tickwork has no such rule")
    *head, _, month, _ = fields.timing()["cron_expr"].split()
    return {"cron_expr": " ".join([*head, special[0], month, special[1]])}


def _special_day(text: str) -> tuple[str, str] | None:
    """`last` and `2nd fri` as a day of the month and a weekday of ours."""
    if text == "last":
        return "L", "*"
    ordinal, _, weekday = text.partition(" ")
    if ordinal in _ORDINALS and weekday in _NAMES["day_of_week"]:
        number = (_NAMES["day_of_week"].index(weekday) + 1) % 7
        return "*", f"{number}{_ORDINALS[ordinal]}"
    return None


def _values(name: str, text: str) -> frozenset[int]:
    every, found = _RANGES[name], set[int]()
    for part in text.split(","):
        span, _, step = part.partition("/")
        low, dash, high = span.partition("-")
        first = every.start if span == "*" else _number(name, low)
        last = every.stop - 1 if span == "*" or (step and not dash) else first
        last = _number(name, high) if dash else last
        found |= {*range(first, last + 1, int(step or 1))}
    return frozenset(found)


def _number(name: str, text: str) -> int:
    if text in _NAMES.get(name, ()):
        return _NAMES[name].index(text) + _RANGES[name].start
    if not text.isdigit():
        raise _fault(f"restricts the {name} to {text}; Tickwork has no such rule")
    return int(text)


def _fault(message: str) -> InvalidInput:
    return InvalidInput([FieldError("job", message)])
