"""Parses the text of one RFC 5545 RRULE, with one sentence per error."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import IntEnum

from msgspec import Struct

COUNT_MAX = 10_000
"""Maximum COUNT."""

INTERVAL_MAX = 1_000_000
"""Maximum INTERVAL."""

TEXT_LENGTH_MAX = 512
"""Maximum number of characters in the text."""

_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_BY_DAY = re.compile(r"^([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)$")
_UNTIL = re.compile(r"^\d{8}(T\d{6}Z?)?$", re.ASCII)
_NUMBERS = {
    "BYMONTH": (1, 12),
    "BYMONTHDAY": (-31, 31),
    "BYYEARDAY": (-366, 366),
    "BYWEEKNO": (-53, 53),
    "BYSETPOS": (-366, 366),
    "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59),
    "BYSECOND": (0, 59),
}
_KNOWN = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_NUMBERS}


class RecurrenceError(ValueError):
    """An invalid RRULE. The text is one sentence for a person."""


class Frequency(IntEnum):
    """The FREQ of a rule, with the numbers of dateutil."""

    YEARLY = 0
    MONTHLY = 1
    WEEKLY = 2
    DAILY = 3
    HOURLY = 4
    MINUTELY = 5
    SECONDLY = 6


class Until(Struct, frozen=True):
    """The UNTIL of a rule, in UTC or in the rule's local time."""

    moment: datetime
    in_utc: bool


class Parts(Struct, frozen=True, kw_only=True):
    """The parts of one RRULE. `weekdays` are (0 = Monday, n or None)."""

    frequency: Frequency
    interval: int = 1
    wkst: int = 0
    count: int | None = None
    until: Until | None = None
    months: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    weekdays: tuple[tuple[int, int | None], ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    seconds: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()


def normalize(text: str) -> str:
    """Normalizes a text for storage: upper case, without the property name and without the
    semicolon that some programs write at the end."""
    return text.strip().upper().removeprefix("RRULE:").strip().removesuffix(";").rstrip()


def parse_parts(text: str) -> Parts:
    """Parses a normalized RRULE. Raises `RecurrenceError` if it is not one RFC 5545 rule."""
    texts = _split(text)
    if texts.get("FREQ") not in Frequency.__members__:
        raise RecurrenceError(f"needs FREQ, one of {', '.join(Frequency.__members__)}")
    frequency = Frequency[texts["FREQ"]]
    if "COUNT" in texts and "UNTIL" in texts:
        raise RecurrenceError("COUNT and UNTIL cannot be combined; give one")
    return Parts(
        frequency=frequency,
        interval=_integer(texts, "INTERVAL", INTERVAL_MAX) or 1,
        wkst=_week_start(texts.get("WKST", "MO")),
        count=_integer(texts, "COUNT", COUNT_MAX),
        until=_until(texts["UNTIL"]) if "UNTIL" in texts else None,
        months=_numbers(texts, "BYMONTH"),
        month_days=_numbers(texts, "BYMONTHDAY"),
        year_days=_numbers(texts, "BYYEARDAY"),
        week_numbers=_numbers(texts, "BYWEEKNO"),
        weekdays=_weekdays(texts, frequency),
        hours=_numbers(texts, "BYHOUR"),
        minutes=_numbers(texts, "BYMINUTE"),
        seconds=_numbers(texts, "BYSECOND"),
        positions=_numbers(texts, "BYSETPOS"),
    )


def _split(text: str) -> dict[str, str]:
    if len(text) > TEXT_LENGTH_MAX:
        raise RecurrenceError(f"is longer than {TEXT_LENGTH_MAX} characters")
    if "DTSTART" in text:
        raise RecurrenceError("must not contain DTSTART; give the start as start_at")
    if "EXDATE" in text or "RDATE" in text or "RRULE" in text or "\n" in text:
        raise RecurrenceError("must be a single RRULE; give excluded dates as exclude")
    texts: dict[str, str] = {}
    for part in text.split(";"):
        if not part:
            raise RecurrenceError("has an empty part; remove the extra ';'" if text else "is empty")
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise RecurrenceError(f"{part!r} is not NAME=VALUE")
        if name in texts:
            raise RecurrenceError(f"{name} is given twice")
        if name not in _KNOWN:
            raise RecurrenceError(f"{name} is not part of an RFC 5545 RRULE")
        texts[name] = value
    return texts


def _integer(texts: dict[str, str], name: str, high: int) -> int | None:
    return _number(name, texts[name], 1, high) if name in texts else None


def _numbers(texts: dict[str, str], name: str) -> tuple[int, ...]:
    """The numbers of one part, sorted and without duplicates."""
    if name not in texts:
        return ()
    low, high = _NUMBERS[name]
    return tuple(sorted({_number(name, text, low, high) for text in texts[name].split(",")}))


def _number(name: str, text: str, low: int, high: int) -> int:
    number = int(text) if re.fullmatch(r"[+-]?\d{1,7}", text) else None
    may_be_zero = name in ("BYHOUR", "BYMINUTE", "BYSECOND")
    if number is not None and low <= number <= high and (number or may_be_zero):
        return number
    raise RecurrenceError(f"{name}={text} is not a number from {low} to {high}")


def _week_start(text: str) -> int:
    if text not in _WEEKDAYS:
        raise RecurrenceError(f"WKST={text} is not one of {', '.join(_WEEKDAYS)}")
    return _WEEKDAYS.index(text)


def _weekdays(texts: dict[str, str], frequency: Frequency) -> tuple[tuple[int, int | None], ...]:
    if "BYDAY" not in texts:
        return ()
    in_months = frequency is Frequency.MONTHLY or "BYMONTH" in texts
    n_max = 5 if in_months else 53
    days = [_weekday(text, n_max) for text in texts["BYDAY"].split(",")]
    numbered = [n for _, n in days if n is not None]
    if numbered and frequency > Frequency.MONTHLY:
        raise RecurrenceError("a BYDAY with a number needs FREQ=MONTHLY or YEARLY")
    if numbered and len(numbered) < len(days):
        # dateutil matches nothing for a mixture, so a plain weekday becomes its numbered ones.
        days = [
            weekday
            for day, n in days
            for weekday in ([(day, n)] if n is not None else [(day, i + 1) for i in range(n_max)])
        ]
    return tuple(dict.fromkeys(days))


def _weekday(text: str, n_max: int) -> tuple[int, int | None]:
    found = _BY_DAY.match(text)
    n = int(found[1]) if found is not None and found[1] is not None else None
    if found is None or (n is not None and not 1 <= abs(n) <= n_max):
        raise RecurrenceError(
            f"BYDAY={text} is not a weekday such as MO, 1FR or -1SU, up to {n_max} here"
        )
    return _WEEKDAYS.index(found[2]), n


def _until(text: str) -> Until:
    # strptime alone accepts one-digit months and days and would read another date.
    readable = _UNTIL.match(text) is not None
    for format_ in ("%Y%m%d", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%SZ") if readable else ():
        try:
            moment = datetime.strptime(text, format_)  # noqa: DTZ007 (the format includes the zone)
        except ValueError:
            continue
        if format_ == "%Y%m%d":
            moment += timedelta(hours=23, minutes=59, seconds=59)
        return Until(moment, format_.endswith("Z"))
    raise RecurrenceError(f"UNTIL={text} is not a date such as 20271231 or 20271231T090000Z")
