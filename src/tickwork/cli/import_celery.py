"""Reads the periodic tasks of Celery: of an app, of beat's own file, or of django-celery-beat.

The next fires come from Celery's own code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tickwork.cli.import_sources import load_object, needed, query
from tickwork.core.imports import FIRES_COMPARED, Entry, Read, Refused
from tickwork.core.imports.cron_fields import CronFields
from tickwork.errors import FieldError, InvalidInput

POLL = timedelta(minutes=1)
"""Time between two looks of the simulated beat while clocks change."""

CLOCK_CHANGE_MAX = timedelta(hours=3)
"""Longest clock change."""

POLLS_MAX = 10_000
"""Maximum number of looks for one fire."""

_FILE_ENDINGS = ("", ".db", ".dat")
"""What the kinds of dbm append to the name of a file."""


def read_celery(source: str, start: datetime) -> Read:
    """Reads MODULE:APP, the URL of a Django database, or the file that beat writes."""
    needed("celery")
    if "://" in source:
        return _collected(_of_django(source), start)
    if any(Path(f"{source}{ending}").exists() for ending in _FILE_ENDINGS):
        return _collected(_of_file(source), start)
    app = load_object(source, "an app of Celery")
    return _collected(_of_settings(app), start)


def _of_settings(app: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, given in dict(app.conf.beat_schedule or {}).items():
        yield str(name), {"zone": str(app.timezone), **given}


def _of_file(path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    import shelve  # Beat writes pickles: the file must be trusted, as its help says.

    with shelve.open(path, flag="r") as stored:  # noqa: S301
        zone = str(stored.get("tz") or "UTC")
        for name, entry in dict(stored.get("entries", {})).items():
            parts = {
                field: getattr(entry, field) for field in ("task", "schedule", "args", "kwargs")
            }
            yield str(name), {"zone": zone, "options": dict(entry.options or {}), **parts}


def _of_django(url: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    from celery.schedules import crontab, schedule

    for row in query(url, "periodic_tasks"):
        (name, task, args, kwargs, enabled, one_off, expires, queue, *rest) = row
        (minute, hour, day, month, weekday, zone, every, period, clocked, solar) = rest
        given: dict[str, Any] = {
            "task": task,
            "args": json.loads(args or "[]"),
            "kwargs": json.loads(kwargs or "{}"),
            "options": {} if queue is None else {"queue": queue},
            "zone": zone or "UTC",
            "is_off": not enabled,
            "is_once": bool(one_off),
            "expires": expires,
        }
        if minute is not None:
            given["schedule"] = crontab(
                minute=minute,
                hour=hour,
                day_of_month=day,
                month_of_year=month,
                day_of_week=weekday,
            )
        elif every is not None:
            given["schedule"] = schedule(timedelta(**{period: every}))
        elif clocked is not None:
            given["at"] = clocked
        elif solar is not None:
            given["is_solar"] = True
        yield str(name), given


def _collected(found: Iterator[tuple[str, Mapping[str, Any]]], start: datetime) -> Read:
    entries: list[Entry] = []
    refused: list[Refused] = []
    notes: list[str] = []
    for name, given in found:
        if given.get("is_off"):
            notes.append(f"{name} is disabled there and is left out")
            continue
        text = f"{name}: {given.get('task')} {given.get('schedule', '')}".strip()
        try:
            entries.append(_entry(name, text, given, start))
        except InvalidInput as error:
            refused.append(Refused(name, text, "; ".join(fault.message for fault in error.errors)))
    return Read(tuple(entries), tuple(refused), tuple(notes))


def _entry(name: str, text: str, given: Mapping[str, Any], start: datetime) -> Entry:
    fields, old = _timing(given, start)
    if given.get("is_once"):
        fields["max_firings"] = 1
    if given.get("expires") is not None:
        fields["end_at"] = _instant(given["expires"])
    payload = {
        "task": given["task"],
        "args": [*(given.get("args") or ())],
        "kwargs": dict(given.get("kwargs") or {}),
        "options": dict(given.get("options") or {}),
    }
    try:
        payload = json.loads(json.dumps(payload))
    except (TypeError, ValueError):
        raise _fault("its arguments or options are not JSON; give it plain values") from None
    missed = {"missed": {"policy": "fire_most_recent"}}
    return Entry(
        label=name,
        title=name,
        text=text,
        fields={**fields, **missed},
        payload=payload,
        old_fires=old,
    )


def _timing(
    given: Mapping[str, Any], start: datetime
) -> tuple[dict[str, Any], tuple[datetime, ...]]:
    """The timing of our schedule, and the next fires of Celery's."""
    from celery.schedules import crontab, schedule, solar

    when: Any = given.get("schedule")
    zone = str(given["zone"])
    if isinstance(when, int | float | timedelta):
        when = schedule(when)
    if "at" in given:
        return {"once_at": _instant(given["at"])}, ()
    if isinstance(when, solar) or given.get("is_solar"):
        raise _fault("follows the sun; Tickwork has no such rule, give it times of day")
    if isinstance(when, crontab):
        fields = CronFields(
            frozenset(when.minute),
            frozenset(when.hour),
            None if len(when.day_of_month) == 31 else frozenset(when.day_of_month),
            frozenset(when.month_of_year),
            None if len(when.day_of_week) == 7 else frozenset(when.day_of_week),
        )
        # A local time that does not exist is sent later by the length of the gap.
        dst = {"gap": "shift", "overlap": "first"}
        timing = {**fields.timing(), "timezone": zone, "dst": dst}
        return timing, tuple(celery_fires(when, zone, start))
    if type(when) is schedule:
        seconds = when.run_every.total_seconds()
        if seconds != int(seconds) or seconds < 1:
            raise _fault(f"runs every {seconds:g} s; an interval is whole seconds")
        return {"interval_seconds": int(seconds)}, ()
    raise _fault(f"has a schedule of type {type(when).__name__}, which is not known")


def celery_fires(
    when: Any, zone: str, start: datetime, count: int = FIRES_COMPARED
) -> Iterator[datetime]:
    """When beat sends a task after an instant, by Celery's own `remaining_estimate`."""
    from zoneinfo import ZoneInfo

    local = ZoneInfo(zone)
    last = at = start.astimezone(UTC)
    asked = when.nowfun
    try:
        for _ in range(count):
            for _poll in range(POLLS_MAX):
                when.nowfun = lambda now=at: now.astimezone(local)
                left = when.remaining_estimate(last.astimezone(local))
                if left <= timedelta(0) and at > last:
                    break
                # Celery subtracts local times: what is left is wrong across a clock change.
                there = at + max(left, timedelta(seconds=1))
                if at.astimezone(local).utcoffset() == there.astimezone(local).utcoffset():
                    at = there
                else:
                    at += max(left - CLOCK_CHANGE_MAX, POLL)
            else:
                return
            last = at
            yield at
    finally:
        when.nowfun = asked


def _instant(value: Any) -> str:
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).isoformat()


def _fault(message: str) -> InvalidInput:
    return InvalidInput([FieldError("entry", message)])
