"""The reference's own reading of a cron expression.

Nothing here is shared with the product: fields become plain sets of numbers, and the two day
fields become one question, ``does this local date match?``.
"""

import calendar
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

MONTH_NAMES = (
    *("JAN", "FEB", "MAR", "APR", "MAY", "JUN"),
    *("JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
MONTHS = {name: number for number, name in enumerate(MONTH_NAMES, start=1)}
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
WEEKDAYS = {name: number for number, name in enumerate(WEEKDAY_NAMES)}
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

DayTest = Callable[[date], bool]


@dataclass(frozen=True)
class Cron:
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    day: DayTest


def sunday_is_0(day: date) -> int:
    return day.isoweekday() % 7


def month_length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def number(text: str, names: dict[str, int]) -> int:
    return names[text.upper()] if text.upper() in names else int(text)


def numbers(term: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    """One term of a list: ``*``, ``?``, ``7``, ``1-5``, each with an optional ``/step``."""
    span, _, step = term.partition("/")
    if span in ("*", "?"):
        first, last = low, high
    elif "-" in span:
        left, right = span.split("-")
        first, last = number(left, names), number(right, names)
    else:
        first = number(span, names)
        last = high if step else first
    return set(range(first, last + 1, int(step or 1)))


def field(text: str, low: int, high: int, names: dict[str, int] | None = None) -> frozenset[int]:
    found: set[int] = set()
    for term in text.split(","):
        found |= numbers(term, low, high, names or {})
    return frozenset(found)


def nearest_weekday(day: date, wanted: int) -> bool:
    """Is ``day`` the Monday-to-Friday day nearest to the ``wanted``-th, within its month?"""
    if wanted > month_length(day):
        return False
    target = day.replace(day=wanted)
    if target.isoweekday() == 6:  # Saturday: the Friday before, or the 3rd if it is the 1st
        return day.day == (wanted - 1 if wanted > 1 else 3)
    if target.isoweekday() == 7:  # Sunday: the Monday after, or the Friday before month's end
        return day.day == (wanted + 1 if wanted < month_length(day) else wanted - 2)
    return day.day == wanted


def last_weekday(day: date) -> bool:
    days = [day.replace(day=number) for number in range(1, month_length(day) + 1)]
    return day == max(one for one in days if one.isoweekday() <= 5)


def month_day_term(term: str) -> DayTest:
    if term == "L":
        return lambda day: day.day == month_length(day)
    if term in ("LW", "WL"):
        return last_weekday
    if term.endswith("W"):
        wanted = int(term[:-1])
        return lambda day: nearest_weekday(day, wanted)
    allowed = numbers(term, 1, 31, {})
    return lambda day: day.day in allowed


def week_day_term(term: str) -> DayTest:
    if "#" in term:
        name, nth = term.split("#")
        weekday = number(name, WEEKDAYS) % 7
        return lambda day: sunday_is_0(day) == weekday and (day.day - 1) // 7 + 1 == int(nth)
    if term.endswith("L"):
        weekday = number(term[:-1], WEEKDAYS) % 7
        return lambda day: sunday_is_0(day) == weekday and day.day + 7 > month_length(day)
    allowed = {value % 7 for value in numbers(term, 0, 6, WEEKDAYS)}
    return lambda day: sunday_is_0(day) in allowed


def read(expression: str) -> Cron:
    fields = ALIASES.get(expression, expression).split()
    seconds, minutes, hours, month_days, months, week_days = (
        fields if len(fields) == 6 else ["0", *fields]
    )
    in_month = [month_day_term(term.upper()) for term in month_days.split(",")]
    in_week = [week_day_term(term) for term in week_days.split(",")]
    allowed_months = field(months, 1, 12, MONTHS)
    # Vixie: a field that begins with * (or is ?) is unrestricted; then both must match.
    either = month_days[0] not in "*?" and week_days[0] not in "*?"

    def matches(day: date) -> bool:
        if day.month not in allowed_months:
            return False
        by_month = any(test(day) for test in in_month)
        by_week = any(test(day) for test in in_week)
        return (by_month or by_week) if either else (by_month and by_week)

    return Cron(field(seconds, 0, 59), field(minutes, 0, 59), field(hours, 0, 23), matches)
