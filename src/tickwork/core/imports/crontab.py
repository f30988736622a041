"""Crontab files, as Vixie cron and its descendants (Debian cron, cronie) read them.

When a line fires there: if neither day field starts with `*`, one of them is enough, otherwise both
must match. A line whose minute or hour starts with `*` follows the clock: a local time that does
not exist does not fire, one that occurs twice fires twice. Others fire right after a gap, and
once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tickwork.core.imports.cron_fields import CronFields
from tickwork.core.imports.entry import FIRES_COMPARED, Entry, Read, Refused
from tickwork.errors import FieldError, InvalidInput

REACH_YEARS = 30
"""Years in which the fires of a line are looked for."""

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_VARIABLE = re.compile(r"""^\s*(["']?)([A-Za-z_][A-Za-z0-9_]*)\1\s*=\s*(.*?)\s*$""")
_PERCENT = re.compile(r"(?<!\\)%")
_NOT_HONOURED = {
    "MAILTO": "cron mails the output of commands; Tickwork does not; your handler may",
    "MAILFROM": "cron mails the output of commands; Tickwork does not",
    "RANDOM_DELAY": "lines are not delayed at random; give the schedules jitter_seconds",
    "CRON_WITHIN": "a window is not honoured; give the schedules expires_after_seconds",
}
_MINUTE = timedelta(minutes=1)


class _Line(NamedTuple):
    """A line that fires: its fields, and whether it follows the clock."""

    fields: CronFields
    is_wildcard: bool


def read_crontab(
    text: str, *, timezone: str, is_system: bool, start: datetime, count: int = FIRES_COMPARED
) -> Read:
    """Reads a crontab. With `is_system` lines have a column for the user, as in /etc/crontab."""
    _check_zone("timezone", timezone)
    zone, environment = timezone, dict[str, str]()
    entries: list[Entry] = []
    refused: list[Refused] = []
    notes: list[str] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line, label = raw.strip(), f"line {number}"
        if not line or line.startswith("#"):
            continue
        try:
            if (variable := _VARIABLE.match(line)) is not None:
                name, value = variable[2], _unquoted(variable[3])
                if name == "CRON_TZ":
                    _check_zone(name, value or timezone)
                    zone = value or timezone
                elif name in _NOT_HONOURED:
                    notes.append(f"{label}: {name} is not honoured: {_NOT_HONOURED[name]}")
                else:
                    environment[name] = value
                continue
            entries.append(_entry(label, line, zone, dict(environment), is_system, start, count))
        except InvalidInput as error:
            refused.append(Refused(label, line, "; ".join(fault.message for fault in error.errors)))
    if "TZ" in environment:
        notes.append("TZ is passed to the commands; the times follow CRON_TZ or --timezone")
    return Read(tuple(entries), tuple(refused), tuple(notes))


def _entry(
    label: str,
    line: str,
    zone: str,
    environment: dict[str, str],
    is_system: bool,
    start: datetime,
    count: int,
) -> Entry:
    when, rest = _split(line)
    user = None
    if is_system:
        user, _, rest = rest.partition(" ")
        rest = rest.strip()
    if not rest:
        raise _fault("has no command" + ("; is it a crontab of one user?" if is_system else ""))
    parsed = _parse(when)
    command, *data = _PERCENT.split(rest)
    payload: dict[str, Any] = {"command": command.replace("\\%", "%").strip(), "user": user}
    if data:
        payload["stdin"] = "\n".join(datum.replace("\\%", "%") for datum in data)
    if environment:
        payload["environment"] = environment
    fields = {**parsed.fields.timing(), "timezone": zone, "missed": {"policy": "skip"}}
    if parsed.is_wildcard:
        fields["dst"] = {"gap": "skip", "overlap": "both"}
    return Entry(
        label=label,
        title=payload["command"].split()[0].rpartition("/")[2],
        text=line,
        fields=fields,
        payload={name: value for name, value in payload.items() if value is not None},
        old_fires=tuple(vixie_fires(when, zone, start, count)),
    )


def _split(line: str) -> tuple[str, str]:
    """The time and the rest of a line."""
    line = line.removeprefix("-")
    if line.startswith("@"):
        macro, _, rest = line.partition(" ")
        if macro.lower() == "@reboot":
            fault = "@reboot has no time; let the service manager of the machine start it"
            raise _fault(fault)
        if macro.lower() not in _MACROS:
            raise _fault(f"{macro} is not known; there are {', '.join(_MACROS)}")
        return _MACROS[macro.lower()], rest.strip()
    parts = line.split(None, 5)
    if len(parts) < 6:
        raise _fault("needs five fields for the time, and a command")
    return " ".join(parts[:5]), parts[5]


def _parse(expr: str) -> _Line:
    texts = expr.split()
    minutes = _values(texts[0], "minute", range(60))
    hours = _values(texts[1], "hour", range(24))
    days = _values(texts[2], "day of the month", range(1, 32))
    months = _values(texts[3], "month", range(1, 13), _MONTHS, 1)
    weekdays = frozenset(
        day % 7 for day in _values(texts[4], "day of the week", range(8), _WEEKDAYS, 0)
    )
    fields = CronFields(
        minutes,
        hours,
        None if len(days) == 31 else days,
        months,
        None if len(weekdays) == 7 else weekdays,
        is_either_day=not (texts[2].startswith("*") or texts[4].startswith("*")),
    )
    return _Line(fields, texts[0].startswith("*") or texts[1].startswith("*"))


def _values(
    text: str, name: str, every: range, names: tuple[str, ...] = (), first: int = 0
) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        low_text, dash, high_text = span.partition("-")
        if "~" in part:
            raise _fault(f"{name}: {part!r} is random; write H or give the schedule jitter_seconds")
        if span == "*":
            low, high = every.start, every.stop - 1
        else:
            low = _number(low_text, name, names, first)
            high = _number(high_text, name, names, first) if dash else low
        step = _number(step_text, name, (), 0) if slash else 1
        if (slash and span != "*" and not dash) or step < 1:
            raise _fault(f"{name}: {part!r} is not valid; a step needs a range, such as 0-59/5")
        if low not in every or high not in every or low > high:
            fault = f"{name}: {part!r} is not valid; give {every.start} to {every.stop - 1}"
            raise _fault(fault)
        found |= {*range(low, high + 1, step)}
    return frozenset(found)


def _number(text: str, name: str, names: tuple[str, ...], first: int) -> int:
    if text[:3].upper() in names and len(text) >= 3:
        return names.index(text[:3].upper()) + first
    if not text.isascii() or not text.isdigit():
        raise _fault(f"{name}: {text!r} is not a number")
    return int(text)


def vixie_fires(expr: str, zone: str, start: datetime, count: int) -> Iterator[datetime]:
    """When Vixie cron starts a line after an instant, up to `count` times."""
    line, local = _parse(expr), ZoneInfo(zone)
    fields, found = line.fields, 0
    day = (start.astimezone(local) - timedelta(days=1)).date()
    times = [(hour, minute) for hour in sorted(fields.hours) for minute in sorted(fields.minutes)]
    for _ in range(REACH_YEARS * 366):
        fires: list[datetime] = []
        if _is_day(fields, day):
            for hour, minute in times:
                wall = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
                fires += _instants(wall, local, is_wildcard=line.is_wildcard)
        for at in sorted(fires):
            if at > start:
                yield at
                found += 1
                if found == count:
                    return
        day += timedelta(days=1)


def _is_day(fields: CronFields, day: date) -> bool:
    if day.month not in fields.months:
        return False
    is_day = fields.days is None or day.day in fields.days
    is_weekday = fields.weekdays is None or day.isoweekday() % 7 in fields.weekdays
    if fields.days is not None and fields.weekdays is not None and fields.is_either_day:
        return is_day or is_weekday
    return is_day and is_weekday


def _instants(wall: datetime, zone: ZoneInfo, *, is_wildcard: bool) -> list[datetime]:
    """The instants at which a local time starts a line."""
    both = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    exact = sorted(at for at in both if at.astimezone(zone).replace(tzinfo=None) == wall)
    if exact:
        return exact if is_wildcard else exact[:1]
    if is_wildcard:
        return []
    # It does not exist: cron runs it in the first minute after the gap.
    at = max(both)
    offset = at.astimezone(zone).utcoffset()
    while (at - _MINUTE).astimezone(zone).utcoffset() == offset:
        at -= _MINUTE
    return [at]


def _unquoted(value: str) -> str:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _check_zone(name: str, zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            [FieldError(name, f"{name}: there is no time zone {zone!r}; such as Europe/Berlin")]
        ) from None


def _fault(message: str) -> InvalidInput:
    return InvalidInput([FieldError("line", message)])
