"""Cron expressions: the grammar of cronsim plus `@` aliases, `?`, `W` and `H`.

cronsim reads lists, ranges, steps, names, `L`, `LW` and `#`. This module adds the rest and turns
the fields into a calendar rule. If both the day of the month and the day of the week are
restricted, one match suffices, as in Vixie cron. A field that starts with `*` does not count as
restricted.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from tickwork.core.stable_hash import stable_hash
from tickwork.core.when.calendar_rule import LAST, CalendarRule, DayPattern, Times

EXPRESSION_LENGTH_MAX = 256
"""Maximum number of characters in an expression."""

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = ("second", "minute", "hour", "day-of-month", "month", "day-of-week")
_RANGES = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day-of-month": (1, 31),
    "month": (1, 12),
    "day-of-week": (0, 6),
}
_HINTS = {
    "second": "0-59",
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L, LW or 15W",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT, 5#3 or 5L",
}
# A hashed day of the month exists in every month.
_HASH_RANGES = {**_RANGES, "day-of-month": (1, 28)}
_HASHED = re.compile(r"^H(?:\((\d{1,2})-(\d{1,2})\))?(?:/(\d{1,2}))?$")
_HASH_ITEM = re.compile(r"(?:^|[\s,])H(?:$|[\s,(/])")
_NEAREST = re.compile(r"^(\d{1,2})W$")
_TO_SUNDAY = re.compile(r"(?<![0-9A-Z])(MON|TUE|WED|THU|FRI|SAT|[1-6])-SUN(?![A-Z])")
_STEP = re.compile(r"/(\d+)(?:,|$)")
_ANCHOR = datetime(2000, 1, 1)  # noqa: DTZ001 (a naive clock: only the grammar is used)


class CronError(ValueError):
    """An invalid expression. The text is one sentence for a person."""


def field_texts(expr: str) -> tuple[str, ...]:
    """The six field texts of an expression, with aliases resolved and seconds first."""
    text = expr.strip()
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise CronError(f"is longer than {EXPRESSION_LENGTH_MAX} characters")
    if not text.isascii():
        raise CronError(f"{text!r} has characters that are not allowed in a cron expression")
    if text.startswith("@"):
        if text.lower() not in _ALIASES:
            raise CronError(f"{text!r} is not an alias; use one of {', '.join(_ALIASES)}")
        text = _ALIASES[text.lower()]
    texts = tuple(text.upper().split())
    if len(texts) == 5:
        return ("0", *texts)
    if len(texts) != 6:
        raise CronError(
            f"{expr.strip()!r} has {len(texts)} field{'s' if len(texts) != 1 else ''}; give 5 "
            "(minute hour day month weekday) or 6 with seconds first"
        )
    return texts


def without_alias(expr: str) -> str:
    """The expression, or the one that an alias such as `@daily` stands for."""
    return _ALIASES.get(expr.lower(), expr)


def compile_cron(expr: str, seed: str) -> CalendarRule[DayPattern]:
    """Compiles an expression to a calendar rule. `seed` decides the values of `H`."""
    return _compile(expr, seed if uses_hash(expr) else "")


def uses_hash(expr: str) -> bool:
    """Whether an expression contains `H`, whose value depends on the schedule's id."""
    upper = expr.upper()
    return "H" in upper and _HASH_ITEM.search(upper) is not None


@lru_cache(maxsize=4096)
def _compile(expr: str, seed: str) -> CalendarRule[DayPattern]:
    texts = field_texts(expr)
    if "/" in expr:
        _check_steps(texts)
    if "?" in expr:
        texts = _without_question_marks(texts)
    # cronsim counts SUN as 0, before Monday.
    texts = (*texts[:5], _TO_SUNDAY.sub(r"\1-7", texts[5]))
    if uses_hash(expr):
        texts = tuple(
            _without_hashes(name, text, seed) for name, text in zip(_FIELDS, texts, strict=True)
        )
    plain, nearest = _without_nearest(texts[3])
    parsed = _read((*texts[:3], plain or "*", *texts[4:]))
    return CalendarRule(
        _days(texts, parsed, dates=parsed.days if plain else set(), nearest=nearest),
        Times(_ordered(parsed.hours), _ordered(parsed.minutes), _ordered(parsed.seconds)),
    )


def _ordered(values: set[int]) -> tuple[int, ...]:
    return tuple(sorted(values))


def _read(texts: tuple[str, ...]) -> CronSim:
    try:
        return CronSim(" ".join(texts), _ANCHOR)
    except (CronSimError, AssertionError) as error:  # cronsim asserts on a step of `5#3`.
        raise CronError(_sentence(str(error).removeprefix("Bad "), texts)) from None


def _sentence(name: str, texts: tuple[str, ...]) -> str:
    if name not in _FIELDS:
        return f"{' '.join(texts)!r} cannot be read as a cron expression"
    text = texts[_FIELDS.index(name)]
    if name == "day-of-month" and _is_readable(texts):
        return f"never fires: none of its months has a day {text}"
    return f"the {name} field {text!r} is not valid; allowed: {_HINTS[name]}, lists, ranges, steps"


def _is_readable(texts: tuple[str, ...]) -> bool:
    """Whether the fields are valid if every month is allowed."""
    try:
        CronSim(" ".join((*texts[:4], "*", texts[5])), _ANCHOR)
    except CronSimError:
        return False
    return True


def _days(
    texts: tuple[str, ...], parsed: CronSim, *, dates: set[int], nearest: frozenset[int]
) -> DayPattern:
    date_text, weekday_text = texts[3], texts[5]
    return DayPattern(
        months=frozenset(parsed.months),
        days=None if date_text == "*" else frozenset(_day(day) for day in dates),
        nearest=nearest,
        last_workday=CronSim.LAST_WEEKDAY in dates,
        weekdays=None
        if weekday_text == "*"
        else frozenset(item % 7 for item in parsed.weekdays if isinstance(item, int)),
        nth=frozenset(
            (item[0] % 7, _day(item[1])) for item in parsed.weekdays if isinstance(item, tuple)
        ),
        either=not date_text.startswith("*") and not weekday_text.startswith("*"),
    )


def _day(number: int) -> int:
    return LAST if number == CronSim.LAST else number


def _check_steps(texts: tuple[str, ...]) -> None:
    """Refuses a step longer than its field: it would select one value, not one in so many."""
    for name, text in zip(_FIELDS, texts, strict=True):
        low, high = _RANGES[name]
        for step in _STEP.findall(text):
            if len(step) > 3 or int(step) > high - low + 1:
                raise CronError(
                    f"the {name} field {text!r} has a step of {step[:9]}, but only "
                    f"{high - low + 1} values; use interval_minutes for longer periods"
                )


def _without_question_marks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for name, text in zip(_FIELDS, texts, strict=True):
        if "?" in text and (text != "?" or not name.startswith("day-")):
            raise CronError("'?' may only stand alone, for the day of the month or of the week")
    return tuple("*" if text == "?" else text for text in texts)


def _without_hashes(name: str, text: str, seed: str) -> str:
    if "H" not in text:
        return text
    return ",".join(_hashed(name, item, seed) for item in text.split(","))


def _hashed(name: str, item: str, seed: str) -> str:
    found = _HASHED.match(item)
    if found is None:
        return item
    low, high = _HASH_RANGES[name]
    if found[1] is not None:
        if not _RANGES[name][0] <= int(found[1]) <= int(found[2]) <= _RANGES[name][1]:
            raise CronError(f"the {name} field {item!r} has a range outside {_HINTS[name]}")
        low, high = int(found[1]), int(found[2])
    step = int(found[3]) if found[3] is not None else None
    if step == 0:
        raise CronError(f"the {name} field {item!r} has a step of 0")
    span = high - low + 1 if step is None else min(step, high - low + 1)
    start = low + stable_hash(f"{seed}/{name}") % span
    return str(start) if step is None else f"{start}-{high}/{step}"


def _without_nearest(text: str) -> tuple[str, frozenset[int]]:
    """Splits the `15W` items off a day-of-month field; returns the rest and their days."""
    nearest, rest = set(), []
    for item in text.split(","):
        found = _NEAREST.match(item)
        if found is None:
            rest.append(item)
        elif 1 <= int(found[1]) <= 31:
            nearest.add(int(found[1]))
        else:
            raise CronError(f"the day-of-month field {item!r} is not valid; use 1W to 31W")
    return ",".join(rest), frozenset(nearest)
