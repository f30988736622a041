"""RFC 5545 recurrences: dateutil's engine, behind strict reading and an advancing anchor.

dateutil walks from DTSTART, so an old start makes every answer slow. The interval is what
ties a rule to its start: a start moved ahead by whole intervals, with the parts it implied
written out, has the same future. So the walk begins one period before the time asked for.

It also walks to the year 9999 when nothing matches. The calendar repeats every 400 years,
so the walk is done in the last cycle, and ends soon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from dateutil import rrule as engine

from tickwork.core.when.calendar_rule import Times
from tickwork.core.when.zone import Timeline

COUNT_MAX = 10_000
TIMES_PER_DAY_MAX = 96
INTERVAL_MAX = 1_000_000
TEXT_LENGTH_MAX = 512

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (naive local time, on purpose)
_CYCLE_YEARS = 400
_LAST_YEAR = 9990
_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_BY_DAY = re.compile(r"^([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)$")
_NUMBERS = {
    "BYMONTH": ("bymonth", 1, 12),
    "BYMONTHDAY": ("bymonthday", -31, 31),
    "BYYEARDAY": ("byyearday", -366, 366),
    "BYWEEKNO": ("byweekno", -53, 53),
    "BYSETPOS": ("bysetpos", -366, 366),
    "BYHOUR": ("byhour", 0, 23),
    "BYMINUTE": ("byminute", 0, 59),
    "BYSECOND": ("bysecond", 0, 59),
}


class RecurrenceError(ValueError):
    """A rule that cannot be read; the text is one sentence for a person."""


def read_parts(text: str) -> dict[str, str]:
    """The parts of an RRULE text by name; refuses what is not one rule."""
    body = text.strip().upper().removeprefix("RRULE:")
    if len(body) > TEXT_LENGTH_MAX:
        raise RecurrenceError(f"is longer than {TEXT_LENGTH_MAX} characters")
    if "DTSTART" in body:
        raise RecurrenceError("must not contain DTSTART; give the start as start_at")
    if "EXDATE" in body or "RDATE" in body or "\n" in body:
        raise RecurrenceError("must be a single RRULE; give dates to leave out as exclude")
    parts: dict[str, str] = {}
    for part in body.split(";"):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise RecurrenceError(f"{part!r} is not NAME=VALUE")
        if name in parts:
            raise RecurrenceError(f"{name} is given twice")
        parts[name] = value
    known = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_NUMBERS}
    for name in parts:
        if name not in known:
            raise RecurrenceError(f"{name} is not a part of RFC 5545's RRULE")
    if parts.get("FREQ") not in _FREQUENCIES:
        raise RecurrenceError(f"needs FREQ, one of {', '.join(_FREQUENCIES)}")
    if re.search(r"\d", parts.get("BYDAY", "")) and parts["FREQ"] not in ("YEARLY", "MONTHLY"):
        raise RecurrenceError("a BYDAY with a number needs FREQ=MONTHLY or YEARLY")
    if "COUNT" in parts and "UNTIL" in parts:
        raise RecurrenceError("COUNT and UNTIL exclude each other; give one")
    return parts


class RecurrenceRule:
    """One RRULE with its start, on a naive clock."""

    def __init__(self, text: str, start: int, line: Timeline) -> None:
        parts = read_parts(text)
        self._start = _EPOCH + timedelta(seconds=start)
        self._frequency = _FREQUENCIES.index(parts["FREQ"])
        self._interval = _integer(parts, "INTERVAL", 1, INTERVAL_MAX) or 1
        self._wkst = _weekday_number(parts.get("WKST", "MO"))
        self._by = _written_out(_by_parts(parts), self._frequency, self._start)
        self._until = _until(parts, line)
        self._check_density()
        count = _integer(parts, "COUNT", 1, COUNT_MAX)
        self._all = None if count is None else tuple(self._first(count))

    @property
    def runs_through_the_day(self) -> bool:
        hours = self._by.get("byhour")
        return hours is None or Times(tuple(sorted(set(hours))), (0,)).runs_through_the_day()

    def next_naive(self, after: int) -> int | None:
        for naive in self._from(after):
            if naive > after:
                return naive
        return None

    def count_naive(self, start: int, end: int) -> int:
        count = 0
        for naive in self._from(start - 1):
            if naive >= end:
                break
            count += naive >= start
        return count

    def _from(self, after: int) -> Iterator[int]:
        """The matches in order, from a little before `after` on."""
        if self._all is not None:
            yield from self._all
            return
        for naive in self._walk(after):
            if self._until is not None and naive > self._until:
                return
            yield naive

    def _walk(self, after: int) -> Iterator[int]:
        """dateutil's walk from the last period before `after`, within the last cycle."""
        anchor = self._anchor(_EPOCH + timedelta(seconds=max(after, _seconds(self._start))))
        cycles = (_LAST_YEAR - anchor.year) // _CYCLE_YEARS
        ahead = cycles * 146_097 * 86_400  # 400 years have this many days, always.
        first = _seconds(self._start)
        try:
            rule = self._engine(anchor + timedelta(seconds=ahead))
            for match in rule:
                naive = _seconds(match) - ahead
                if naive >= first:
                    yield naive
        except (ValueError, OverflowError):
            return  # The end of the calendar, or a combination that can never match.

    def _engine(self, anchor: datetime) -> engine.rrule:
        return engine.rrule(
            self._frequency,  # type: ignore[arg-type]
            dtstart=anchor,
            interval=self._interval,
            wkst=self._wkst,
            **self._by,
        )

    def _anchor(self, target: datetime) -> datetime:
        """The start of a period in step with DTSTART, at least one before `target`'s."""
        start, interval, frequency = self._start, self._interval, self._frequency
        if frequency == 0:
            periods = (target.year - start.year) // interval - 1
            moved = datetime(start.year + max(periods, 0) * interval, 1, 1)  # noqa: DTZ001
        elif frequency == 1:
            months = (target.year - start.year) * 12 + target.month - start.month
            total = start.year * 12 + start.month - 1 + max(months // interval - 1, 0) * interval
            moved = datetime(total // 12, total % 12 + 1, 1)  # noqa: DTZ001
        else:
            first, unit = self._first_period()
            periods = (target - first) // (unit * interval) - 1
            moved = first + max(periods, 0) * interval * unit
        return moved

    def _first_period(self) -> tuple[datetime, timedelta]:
        start = self._start
        midnight = start.replace(hour=0, minute=0, second=0)
        match _FREQUENCIES[self._frequency]:
            case "WEEKLY":
                back = (start.weekday() - self._wkst) % 7
                return midnight - timedelta(days=back), timedelta(weeks=1)
            case "DAILY":
                return midnight, timedelta(days=1)
            case "HOURLY":
                return start.replace(minute=0, second=0), timedelta(hours=1)
            case "MINUTELY":
                return start.replace(second=0), timedelta(minutes=1)
            case _:
                return start, timedelta(seconds=1)

    def _first(self, count: int) -> Iterator[int]:
        for number, naive in enumerate(self._walk(_seconds(self._start))):
            if number == count:
                return
            yield naive

    def _check_density(self) -> None:
        if self._frequency > 3:
            return
        times = len(self._by["byhour"]) * len(self._by["byminute"]) * len(self._by["bysecond"])
        if times > TIMES_PER_DAY_MAX:
            raise RecurrenceError(
                f"names {times} times a day, more than {TIMES_PER_DAY_MAX}; use a finer FREQ"
            )


def _seconds(naive: datetime) -> int:
    delta = naive - _EPOCH
    return delta.days * 86_400 + delta.seconds


def _by_parts(parts: dict[str, str]) -> dict[str, Any]:
    by: dict[str, Any] = {}
    for name, (keyword, low, high) in _NUMBERS.items():
        if name in parts:
            by[keyword] = [_number(name, text, low, high) for text in parts[name].split(",")]
    if "BYDAY" in parts:
        by["byweekday"] = [_weekday(text) for text in parts["BYDAY"].split(",")]
    return by


def _written_out(by: dict[str, Any], frequency: int, start: datetime) -> dict[str, Any]:
    """Adds the parts that the start implies, so that the start can move."""
    if not by.keys() & {"byweekno", "byyearday", "bymonthday", "byweekday"}:
        if frequency == 0:
            by.setdefault("bymonth", [start.month])
        if frequency <= 1:
            by["bymonthday"] = [start.day]
        elif frequency == 2:
            by["byweekday"] = [start.weekday()]
    for keyword, finer, value in (
        ("byhour", 4, start.hour),
        ("byminute", 5, start.minute),
        ("bysecond", 6, start.second),
    ):
        if frequency < finer:
            by.setdefault(keyword, [value])
    return by


def _integer(parts: dict[str, str], name: str, low: int, high: int) -> int | None:
    return _number(name, parts[name], low, high) if name in parts else None


def _number(name: str, text: str, low: int, high: int) -> int:
    if re.fullmatch(r"[+-]?\d{1,7}", text) and low <= int(text) <= high:
        if int(text) != 0 or name in ("BYHOUR", "BYMINUTE", "BYSECOND"):
            return int(text)
    raise RecurrenceError(f"{name}={text} is not a number from {low} to {high}")


def _weekday_number(text: str) -> int:
    if text not in _WEEKDAYS:
        raise RecurrenceError(f"WKST={text} is not one of {', '.join(_WEEKDAYS)}")
    return _WEEKDAYS.index(text)


def _weekday(text: str) -> Any:
    found = _BY_DAY.match(text)
    if found is None or (found[1] is not None and not 1 <= abs(int(found[1])) <= 53):
        raise RecurrenceError(f"BYDAY={text} is not a weekday such as MO, 1FR or -1SU")
    weekday = getattr(engine, found[2])
    return weekday(int(found[1])) if found[1] is not None else weekday


def _until(parts: dict[str, str], line: Timeline) -> int | None:
    """UNTIL as a naive second: local, or given in UTC and read on the zone's clock."""
    if "UNTIL" not in parts:
        return None
    text = parts["UNTIL"]
    for shape in ("%Y%m%d", "%Y%m%dT%H%M%S", "%Y%m%dT%H%M%SZ"):
        try:
            parsed = datetime.strptime(text, shape)  # noqa: DTZ007 (the shape tells the zone)
        except ValueError:
            continue
        if shape == "%Y%m%d":
            parsed += timedelta(days=1, seconds=-1)
        if not shape.endswith("Z"):
            return _seconds(parsed)
        instant = int(parsed.replace(tzinfo=UTC).timestamp())
        return instant + line.stretch(instant).offset
    raise RecurrenceError(f"UNTIL={text} is not a date such as 20271231 or 20271231T090000Z")
