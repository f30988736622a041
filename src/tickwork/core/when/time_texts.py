"""Short forms of wall-clock timings: `"08:30"`, `"MON 08:30"`, `"last 18:00"`.

A short form becomes the object that the API documents, so everything after this sees one form.
"""

from __future__ import annotations

import re
from datetime import time

_WEEKDAYS = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
_WEEKDAY_NUMBERS = {
    name: number for number, full in enumerate(_WEEKDAYS) for name in (full, full[:3], str(number))
}
_TIME = re.compile(r"(\d{1,2}):(\d{2})")

TEXT_LENGTH_MAX = 200
"""Characters of a short form: all seven days with their full names have 70."""

EXAMPLES = {
    "daily_time": "08:30",
    "weekly_time": "MON 08:30, MON-FRI 08:30 or MON,THU 08:30",
    "monthly_time": "15 08:30 or last 18:00",
}


class NoShortForm(ValueError):
    """A text that is not a short form; the message says what to write."""


def expand(field: str, value: str | time) -> dict[str, object]:
    """The object that a short form stands for. Raises `NoShortForm`."""
    if isinstance(value, time):
        if field != "daily_time" or value.tzinfo or value.second or value.microsecond:
            raise NoShortForm(f"must be such as {EXAMPLES[field]}; give the zone as timezone")
        return {"hour": value.hour, "minute": value.minute}
    if len(value) > TEXT_LENGTH_MAX:
        raise NoShortForm(f"must be such as {EXAMPLES[field]}, not {value[:60]!r}…")
    if field == "daily_time":
        return _time(field, value)
    day, _, at = value.strip().replace(" ,", ",").rpartition(" ")
    if not day:
        day, _, at = value.strip().rpartition(",")
    if not day:
        raise NoShortForm(f"must be such as {EXAMPLES[field]}, not {value[:60]!r}")
    if field == "weekly_time":
        days = [number for part in re.split(r"[,+]", day) for number in _days(part.strip())]
        return {"day_of_week": days[0] if len(days) == 1 else days, **_time(field, at)}
    return {"day": _day(day.strip()), **_time(field, at)}


def _time(field: str, text: str) -> dict[str, object]:
    found = _TIME.fullmatch(text.strip())
    if found is None or int(found[1]) > 23 or int(found[2]) > 59:
        raise NoShortForm(f"must be such as {EXAMPLES[field]}, not {text.strip()[:60]!r}")
    return {"hour": int(found[1]), "minute": int(found[2])}


def _days(text: str) -> list[int]:
    first, _, last = text.upper().partition("-")
    numbers = [_WEEKDAY_NUMBERS.get(name) for name in (first, last or first)]
    if None in numbers:
        raise NoShortForm(f"{text[:60]!r} is not a day; use MON, Monday or 0-6 (0 is Sunday)")
    begin, end = numbers[0] or 0, numbers[1] or 0
    return [number % 7 for number in range(begin, end + 1 if begin <= end else end + 8)]


def _day(text: str) -> int | str:
    if text.lower() == "last":
        return "last"
    if not text.isdecimal():
        raise NoShortForm(f"{text[:60]!r} is not a day of the month; use 1-31 or last")
    return int(text)
