"""Rules from and to the JSON fields of the API.

`parse` returns a rule that is known to fire, or raises `InvalidInput` with every fault by field.
`render` is its inverse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from typing import Any

from tickwork.core.fields import Reader, iso, shown
from tickwork.core.options import (
    DstPolicy,
    MissedOptions,
    MonthlyTime,
    RuleFields,
    TimeOfDay,
    WeeklyTime,
    names_of,
)
from tickwork.core.when.excluded_days import EXCLUDED_DAYS_MAX
from tickwork.core.when.model import (
    EPOCH,
    Cron,
    Daily,
    Dst,
    Gap,
    Interval,
    IntervalMode,
    Limits,
    Missed,
    MissedPolicy,
    Monthly,
    Once,
    Overlap,
    Recurrence,
    Roll,
    Rule,
    ShortMonth,
    Timing,
    Weekly,
)
from tickwork.core.when.never_fires import rule_fault, text_fault
from tickwork.core.when.rrule.text import Frequency, normalize, parse_parts
from tickwork.core.when.slot_sources import resolve_local
from tickwork.core.when.time_texts import NoShortForm, expand
from tickwork.core.when.zone import nearest_zone, timeline
from tickwork.errors import FieldError, InvalidInput

TIMING_FIELDS = (
    "cron_expr",
    "interval_seconds",
    "interval_minutes",
    "daily_time",
    "weekly_time",
    "monthly_time",
    "once_at",
    "rrule",
)
RULE_FIELDS = names_of(RuleFields)

_DAILY_FIELDS = names_of(TimeOfDay)
_WEEKLY_FIELDS = names_of(WeeklyTime)
_MONTHLY_FIELDS = names_of(MonthlyTime)
_DST_FIELDS = names_of(DstPolicy)
_MISSED_FIELDS = names_of(MissedOptions)

_INTERVAL_SECONDS_MAX = 10 * 366 * 86_400
_SPREAD_SECONDS_MAX = 86_400
_GRACE_SECONDS_MAX = 366 * 86_400
_CAP_MAX = 1_000
_FIRINGS_MAX = 1_000_000_000
_UNREADABLE = Once(EPOCH)  # Replaces a faulty timing, so that the other fields are read too.
# Not zones: the machine's own zone, and copies of zones with or without leap seconds.
_ZONES_REFUSED = ("localtime", "posixrules", "Factory", "posix/", "right/")


# A fault in one of these leaves open whether the rule fires.
_BOUNDS = frozenset({*TIMING_FIELDS, "start_at", "end_at", "exclude", "calendar", "roll"})
_DEFAULT_DST = Dst()
_DEFAULT_LIMITS = Limits()


def parse(
    fields: Mapping[str, object],
    *,
    created_at: datetime = EPOCH,
    seed: str = "",
    calendars: Mapping[str, frozenset[date]] | None = None,
    limits: Limits | None = None,
    is_known: bool = False,
) -> Rule:
    """Reads a rule. Unknown fields are refused.

    `created_at` anchors intervals without a start. `seed` is the schedule's id. `limits` are the
    tenant's. `is_known`: the rule was accepted before, so it is not checked again
    that it fires, and not too often.
    """
    faults: list[FieldError] = []
    reader = Reader(fields, faults)
    reader.refuse_unknown(RULE_FIELDS)
    zone = _zone(reader)
    timing = _timing(reader)
    if timing is not None and not is_known and (fault := text_fault(timing)) is not None:
        faults.append(fault)
        timing = None
    timing = timing or _UNREADABLE
    dst = _dst(reader)
    values: dict[str, Any] = {"timezone": zone, "dst": dst, "seed": seed}
    for name in _MOMENTS:
        if reader.has(name):
            values[name] = _instant(reader, name, zone, dst)
    if isinstance(timing, Recurrence) and values.get("start_at"):
        values["start_at"] = _first_occurrence(values["start_at"], reader, zone)
    for name, read in _OPTIONAL.items():
        if reader.has(name):
            values[name] = read(reader)
    values["is_exact"] = values.get("fire_window_seconds") == 0
    if "calendar" in values:
        values["holidays"] = _holidays(values["calendar"], reader, calendars or {})
    if isinstance(timing, Interval):
        values["anchor"] = values.get("start_at") or created_at
    rule = Rule(timing=_with_instant(timing, reader, zone, dst), **values)
    if timing is not _UNREADABLE and not is_known and _BOUNDS.isdisjoint(_first_names(faults)):
        _check_rule(rule, reader, limits or _DEFAULT_LIMITS)
    if faults:
        raise InvalidInput(faults)
    return rule


def validate(
    fields: Mapping[str, object],
    *,
    created_at: datetime = EPOCH,
    calendars: Mapping[str, frozenset[date]] | None = None,
    limits: Limits | None = None,
) -> tuple[FieldError, ...]:
    """The faults that `parse` would raise; empty for a valid rule."""
    try:
        parse(fields, created_at=created_at, calendars=calendars, limits=limits)
    except InvalidInput as error:
        return error.errors
    return ()


def render(rule: Rule) -> dict[str, object]:
    """The JSON fields of a rule, without defaults except for the zone."""
    fields: dict[str, object] = {**_render_timing(rule.timing), "timezone": rule.timezone}
    if rule.dst != Dst():
        fields["dst"] = {"gap": str(rule.dst.gap), "overlap": str(rule.dst.overlap)}
    if rule.missed != Missed():
        fields["missed"] = {
            "policy": str(rule.missed.policy),
            "cap": rule.missed.cap,
            "grace_seconds": rule.missed.grace_seconds,
        }
    for name in ("start_at", "end_at"):
        moment = getattr(rule, name)
        if moment is not None:
            fields[name] = iso(moment)
    if rule.exclude:
        fields["exclude"] = [day.isoformat() for day in rule.exclude]
    if rule.roll is not Roll.SKIP:
        fields["roll"] = str(rule.roll)
    for name in ("max_firings", "calendar", "jitter_seconds", "fire_window_seconds"):
        if getattr(rule, name):
            fields[name] = getattr(rule, name)
    if rule.is_exact:
        fields["fire_window_seconds"] = 0
    return fields


def _zone(reader: Reader) -> str:
    if not reader.has("timezone"):
        return "UTC"
    name = reader.text("timezone")
    if name is None:
        return "UTC"
    try:
        if name.startswith(_ZONES_REFUSED):
            raise KeyError(name)
        timeline(name)
    except (KeyError, ValueError, OSError):
        near = nearest_zone(name)
        advice = " such as Europe/Berlin" if near is None else f"; did you mean {near!r}?"
        reader.fault("timezone", f"{shown(name)} is not an IANA time zone{advice}")
        return "UTC"
    return name


def _timing(reader: Reader) -> Timing | None:
    given = [name for name in TIMING_FIELDS if reader.has(name)]
    if len(given) != 1:
        found = f"{' and '.join(given)} are given" if given else "none is given"
        reader.fault(
            given[1] if given else "timing",
            f"give exactly one of {', '.join(TIMING_FIELDS)}; {found}",
        )
        return None
    if reader.has("interval_mode") and not given[0].startswith("interval_"):
        reader.fault("interval_mode", f"is only for an interval, not for {given[0]}")
    return _READERS[given[0]](reader)


def _cron(reader: Reader) -> Timing | None:
    expr = reader.text("cron_expr")
    return None if expr is None else Cron(" ".join(expr.split()))


def _interval(reader: Reader) -> Timing | None:
    name, unit = "interval_seconds", 1
    if reader.has("interval_minutes"):
        name, unit = "interval_minutes", 60
    amount = reader.integer(name, 1, _INTERVAL_SECONDS_MAX // unit)
    mode = reader.choice("interval_mode", IntervalMode.FIXED_RATE)
    return None if amount is None else Interval(amount * unit, mode, in_minutes=unit == 60)


def _daily(reader: Reader) -> Timing | None:
    inner = _wall_clock(reader, "daily_time", _DAILY_FIELDS)
    at = _time_of_day(inner)
    return None if at is None else Daily(*at)


def _weekly(reader: Reader) -> Timing | None:
    inner = _wall_clock(reader, "weekly_time", _WEEKLY_FIELDS)
    at = _time_of_day(inner)
    if inner is None or at is None:
        return None
    days = inner.integers("day_of_week", 0, 6, "0 is Sunday")
    return None if days is None else Weekly(days, *at)


def _monthly(reader: Reader) -> Timing | None:
    inner = _wall_clock(reader, "monthly_time", _MONTHLY_FIELDS)
    at = _time_of_day(inner)
    if inner is None or at is None:
        return None
    short = inner.choice("short_month", ShortMonth.SKIP)
    if inner.is_word("day", "last"):
        return Monthly(None, *at, short)
    day = inner.integer("day", 1, 31)
    return None if day is None else Monthly(day, *at, short)


def _once(reader: Reader) -> Timing | None:
    at = reader.moment("once_at")
    return None if at is None else Once(at)


def _rrule(reader: Reader) -> Timing | None:
    text = reader.text("rrule")
    if not reader.has("start_at"):
        reader.fault("start_at", "is missing; an rrule starts there")
    return None if text is None else Recurrence(normalize(text))


_READERS: dict[str, Callable[[Reader], Timing | None]] = {
    "cron_expr": _cron,
    "interval_seconds": _interval,
    "interval_minutes": _interval,
    "daily_time": _daily,
    "weekly_time": _weekly,
    "monthly_time": _monthly,
    "once_at": _once,
    "rrule": _rrule,
}


def _wall_clock(reader: Reader, name: str, known: AbstractSet[str]) -> Reader | None:
    """The object of a wall-clock timing, also where it is given in its short form."""
    value = reader.value(name)
    if not isinstance(value, str | time):
        return reader.object(name, known)
    try:
        return reader.nested(name, expand(name, value))
    except NoShortForm as error:
        reader.fault(name, str(error))
        return None


def _time_of_day(inner: Reader | None) -> tuple[int, int] | None:
    if inner is None:
        return None
    hour, minute = inner.integer("hour", 0, 23), inner.integer("minute", 0, 59)
    return None if hour is None or minute is None else (hour, minute)


def _dst(reader: Reader) -> Dst:
    inner = reader.object("dst", _DST_FIELDS) if reader.has("dst") else None
    if inner is None:
        return _DEFAULT_DST
    return Dst(inner.choice("gap", Gap.RUN_AFTER), inner.choice("overlap", Overlap.FIRST))


def _missed(reader: Reader) -> Missed:
    inner = reader.object("missed", _MISSED_FIELDS)
    if inner is None:
        return Missed()
    default = Missed()
    return Missed(
        inner.choice("policy", MissedPolicy.FIRE_LATE),
        inner.integer("cap", 1, _CAP_MAX, default.cap) or default.cap,
        inner.integer("grace_seconds", 0, _GRACE_SECONDS_MAX, default.grace_seconds) or 0,
    )


def _spread(name: str) -> Callable[[Reader], object]:
    return lambda reader: reader.integer(name, 0, _SPREAD_SECONDS_MAX)


_MOMENTS = ("start_at", "end_at")
_OPTIONAL: dict[str, Callable[[Reader], object]] = {
    "missed": _missed,
    "max_firings": lambda reader: reader.integer("max_firings", 1, _FIRINGS_MAX),
    "exclude": lambda reader: reader.dates("exclude", EXCLUDED_DAYS_MAX),
    "calendar": lambda reader: reader.text("calendar"),
    "roll": lambda reader: reader.choice("roll", Roll.SKIP),
    "jitter_seconds": _spread("jitter_seconds"),
    "fire_window_seconds": _spread("fire_window_seconds"),
}


def _holidays(
    name: str | None, reader: Reader, calendars: Mapping[str, frozenset[date]]
) -> frozenset[date]:
    if name is None:
        return frozenset()
    if name not in calendars:
        reader.fault("calendar", f"{shown(name)} is not a calendar; create it first")
        return frozenset()
    return calendars[name]


def _instant(reader: Reader, name: str, zone: str, dst: Dst) -> datetime | None:
    moment = reader.moment(name) if reader.has(name) else None
    return None if moment is None else _in_zone(moment, reader, name, zone, dst)


def _first_occurrence(start_at: datetime, reader: Reader, zone: str) -> datetime:
    """DTSTART sets the time of day of all slots, so it must exist and have whole seconds."""
    given = reader.moment("start_at")
    if given is not None and given.tzinfo is None:
        _in_zone(given, reader, "start_at", zone, Dst(gap=Gap.SKIP))
    return start_at.replace(microsecond=0)


def _with_instant(timing: Timing, reader: Reader, zone: str, dst: Dst) -> Timing:
    """Resolves a single instant that was given in local time."""
    if not isinstance(timing, Once):
        return timing
    at = _in_zone(timing.at, reader, "once_at", zone, dst) or EPOCH
    return Once(at, timing.at if timing.at.tzinfo is None else None)


def _in_zone(moment: datetime, reader: Reader, name: str, zone: str, dst: Dst) -> datetime | None:
    if moment.tzinfo is None:
        resolved = resolve_local(moment, zone, dst)
        if resolved is None:
            reader.fault(name, f"{moment.isoformat()} does not exist in {zone}; name another time")
            return None
        moment = resolved
    # Checked again in UTC: a stored time must be readable.
    return moment if reader.is_in_years(name, moment) else None


def _first_names(faults: Iterable[FieldError]) -> set[str]:
    return {re.split(r"[.\[]", fault.field)[0] for fault in faults}


def _check_rule(rule: Rule, reader: Reader, limits: Limits) -> None:
    """Checks that need the whole rule. A faulty zone counts as UTC here."""
    if rule.start_at and rule.end_at and rule.end_at <= rule.start_at:
        reader.fault("end_at", "must be after start_at")
        return
    if rule.roll is not Roll.SKIP and _has_no_days(rule.timing):
        reader.fault("roll", "needs a timing with days; an interval can only skip excluded days")
        return
    fault = rule_fault(rule, limits)
    if fault is not None:
        in_minutes = fault.field == "interval_seconds" and reader.has("interval_minutes")
        reader.fault("interval_minutes" if in_minutes else fault.field, fault.message)


def _has_no_days(timing: Timing) -> bool:
    if isinstance(timing, Recurrence):
        return parse_parts(timing.text).frequency > Frequency.DAILY
    return isinstance(timing, Interval)


def _render_timing(timing: Timing) -> dict[str, object]:
    match timing:
        case Cron(expr=expr):
            return {"cron_expr": expr}
        case Interval(seconds=seconds, mode=mode, in_minutes=in_minutes):
            interval: dict[str, object] = (
                {"interval_minutes": seconds // 60} if in_minutes else {"interval_seconds": seconds}
            )
            return interval | (
                {} if mode is IntervalMode.FIXED_RATE else {"interval_mode": str(mode)}
            )
        case Daily(hour=hour, minute=minute):
            return {"daily_time": {"hour": hour, "minute": minute}}
        case Weekly(days_of_week=days, hour=hour, minute=minute):
            day = days[0] if len(days) == 1 else list(days)
            return {"weekly_time": {"day_of_week": day, "hour": hour, "minute": minute}}
        case Monthly(day=number, hour=hour, minute=minute, short_month=short):
            fields: dict[str, object] = {"day": number or "last", "hour": hour, "minute": minute}
            if short is not ShortMonth.SKIP:
                fields["short_month"] = str(short)
            return {"monthly_time": fields}
        case Once(at=at, wall=wall):
            return {"once_at": iso(at) if wall is None else wall.isoformat()}
        case Recurrence(text=text):
            return {"rrule": text}
