"""Describes a rule in plain English, and a timing as a cron expression."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from tickwork.core.when.calendar_rule import LAST, DayPattern, Times
from tickwork.core.when.cron import compile_cron, without_alias
from tickwork.core.when.model import (
    Cron,
    Daily,
    Interval,
    IntervalMode,
    Monthly,
    Once,
    Recurrence,
    Roll,
    Rule,
    ShortMonth,
    Timing,
    Weekly,
)
from tickwork.core.when.rrule.text import Frequency, Parts, parse_parts
from tickwork.core.when.zone import timeline

_TIMES_LISTED_MAX = 6
_MONTH_DAYS_MIN = 28
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", LAST: "last"}
_UNITS = ((604_800, "week"), (86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_FREQUENCY_UNITS = {
    Frequency.YEARLY: "year",
    Frequency.MONTHLY: "month",
    Frequency.WEEKLY: "week",
    Frequency.DAILY: "day",
    Frequency.HOURLY: "hour",
    Frequency.MINUTELY: "minute",
    Frequency.SECONDLY: "second",
}
_ROLLED = {
    Roll.SKIP: "",
    Roll.NEXT_DAY: ", then on the next day",
    Roll.PREVIOUS_DAY: ", then on the day before",
}


def describe(rule: Rule) -> str:
    """A description such as "At 09:00, Monday to Friday, New York time"."""
    return ", ".join([*_timing(rule), *_bounds(rule)])


def cron_equivalent(timing: Timing) -> str | None:
    """The cron expression with the same slots, or None.

    Intervals count from their start, so none of them has one.
    """
    match timing:
        case Cron(expr=expr):
            return without_alias(expr)
        case Daily(hour=hour, minute=minute):
            return f"{minute} {hour} * * *"
        case Weekly(days_of_week=days, hour=hour, minute=minute):
            return f"{minute} {hour} * * {','.join(map(str, days))}"
        case Monthly(day=None, hour=hour, minute=minute):
            return f"{minute} {hour} L * *"
        case Monthly(day=int(day), hour=hour, minute=minute, short_month=short):
            follows_cron = day <= _MONTH_DAYS_MIN or short is ShortMonth.SKIP
            return f"{minute} {hour} {day} * *" if follows_cron else None
        case _:
            return None


def _zone_name(zone: str) -> str:
    """A zone name for people, such as "New York time"."""
    city = zone.rpartition("/")[2].replace("_", " ")
    return city if city in ("UTC", "GMT") else f"{city} time"


def _timing(rule: Rule) -> list[str]:
    match rule.timing:
        case Interval(seconds=seconds, mode=IntervalMode.FIXED_DELAY):
            return [f"{_duration(seconds)} after the end of the previous run"]
        case Interval(seconds=seconds):
            return [f"Every {_duration(seconds, every=True)}"]
        case Once(at=at):
            return [f"Once, on {_local(at, rule)}", _zone_name(rule.timezone)]
        case Recurrence(text=text):
            return [*_recurrence(text, rule), _zone_name(rule.timezone)]
        case _:
            return [*_wall(rule), _zone_name(rule.timezone)]


def _wall(rule: Rule) -> list[str]:
    match rule.timing:
        case Cron(expr=expr):
            calendar = compile_cron(expr, rule.seed)
            return [_times(calendar.times), *_days(calendar.days, calendar.times)]
        case Daily(hour=hour, minute=minute):
            return [f"At {hour:02}:{minute:02}", "every day"]
        case Weekly(days_of_week=days, hour=hour, minute=minute):
            return [f"At {hour:02}:{minute:02}", _every(_weekdays(days))]
        case Monthly(day=day, hour=hour, minute=minute, short_month=short):
            which = "the last day" if day is None else f"day {day}"
            rest = " or its last day" if short is ShortMonth.LAST_DAY and day else ""
            return [f"At {hour:02}:{minute:02}", f"on {which} of the month{rest}"]
        case _:
            return []


def _times(times: Times) -> str:
    seconds = "" if times.seconds == (0,) else f", at {_numbered('second', times.seconds)}"
    if len(times.hours) * len(times.minutes) <= _TIMES_LISTED_MAX and len(times.hours) < 24:
        clock = [f"{hour:02}:{minute:02}" for hour in times.hours for minute in times.minutes]
        if len(times.seconds) == 1 and seconds:
            return f"At {_listed([f'{time}:{times.seconds[0]:02}' for time in clock])}"
        return f"At {_listed(clock)}{seconds}"
    if len(times.minutes) == 60 and (step := _step(times.seconds, 60)) and seconds:
        return f"Every {_plural(step, 'second')}{_hours(times)}"
    if len(times.minutes) > 1 and (step := _step(times.minutes, 60)):
        return f"Every {_plural(step, 'minute')}{_hours(times)}{seconds}"
    if len(times.minutes) == 1 and _is_run(times.hours):
        past = f"{times.minutes[0]:02}"
        first, last = times.hours[0], times.hours[-1]
        return f"Every hour from {first:02}:{past} to {last:02}:{past}{seconds}"
    step = _step(times.hours, 24)
    if step and len(times.minutes) == 1:
        past = f", at minute {times.minutes[0]}" if times.minutes[0] else ""
        return f"Every {_plural(step, 'hour')}{past}{seconds}"
    return f"At {_numbered('minute', times.minutes)} past the hour{_hours(times)}{seconds}"


def _hours(times: Times) -> str:
    hours = times.hours
    if len(hours) == 24:
        return ""
    if _is_run(hours):
        return f" from {hours[0]:02}:00 to {hours[-1]:02}:59"
    return f" in the hours {_listed([f'{hour:02}' for hour in hours])}"


def _is_run(hours: Sequence[int]) -> bool:
    """Whether the hours are consecutive, but not the whole day."""
    return len(hours) < 24 and len(hours) == hours[-1] - hours[0] + 1


def _step(values: Sequence[int], base: int) -> int | None:
    """The step of evenly spaced values from zero that fill the base; None for others."""
    step = base // len(values)
    return step if tuple(values) == tuple(range(0, base, step)) and base % step == 0 else None


def _days(days: DayPattern, times: Times) -> list[str]:
    """The days of a calendar rule. "every day" is included only if hours are listed."""
    any_day = days.days is None and days.weekdays is None
    if any_day and len(times.hours) < 24 and not times.runs_around_the_clock():
        return ["every day", *_dates(days)]
    return _dates(days)


def _dates(days: DayPattern) -> list[str]:
    parts: list[str] = []
    by_date, by_week = _by_date(days), _by_week(days)
    if by_date and by_week:
        or_if = f"or {_every(by_week)}" if days.either else f"if it is {by_week}"
        parts.append(f"{by_date} {or_if}")
    elif by_date or by_week:
        parts.append(by_date or _every(by_week))
    if len(days.months) < 12:
        months = sorted(days.months)
        in_one_run = 2 < len(months) == months[-1] - months[0] + 1
        months_text = _spans(months, _MONTHS, first=1)
        parts.append(f"from {months_text}" if in_one_run else f"in {months_text}")
    return parts


def _by_date(days: DayPattern) -> str:
    if days.days is None:
        return ""
    numbers = sorted(day for day in days.days if day > 0)
    parts = [f"on {_numbered('day', numbers)} of the month"] if numbers else []
    if LAST in days.days:
        parts.append("on the last day of the month")
    if days.last_workday:
        parts.append("on the last weekday of the month")
    parts += [f"on the weekday nearest to day {day}" for day in sorted(days.nearest)]
    return _listed(parts)


def _by_week(days: DayPattern) -> str:
    if days.weekdays is None:
        return ""
    parts = [_weekdays(days.weekdays)] if days.weekdays else []
    parts += [
        f"on the {_ORDINALS[n]} {_WEEKDAYS[weekday]} of the month"
        for weekday, n in sorted(days.nth, key=lambda item: (item[1], item[0]))
    ]
    return _listed(parts)


def _weekdays(days: Iterable[int]) -> str:
    """Weekdays from Monday on, with Sunday (0) last."""
    ordered = sorted(day or 7 for day in days)
    return "day" if len(ordered) == 7 else _spans(ordered, (*_WEEKDAYS, "Sunday"), first=0)


def _every(days: str) -> str:
    return days if " " in days else f"every {days}"


def _recurrence(text: str, rule: Rule) -> list[str]:
    """A recurrence in words, or quoted if it is too complex."""
    parts = parse_parts(text)
    head = f"Every {_plural(parts.interval, _FREQUENCY_UNITS[parts.frequency])}"
    if _is_complex(parts):
        return [f"{head} by the rule {text}"]
    days = DayPattern(
        months=frozenset(parts.months or range(1, 13)),
        days=frozenset(parts.month_days) if parts.month_days else None,
        weekdays=frozenset((day + 1) % 7 for day, n in parts.weekdays if n is None)
        if parts.weekdays
        else None,
        nth=frozenset(((day + 1) % 7, n) for day, n in parts.weekdays if n is not None),
    )
    ends = [] if parts.count is None else [f"{parts.count} times"]
    if parts.until is not None:
        ends = [f"until {parts.until.moment:%Y-%m-%d}"]
    return [head, *_dates(days), *_clock_times(parts, rule), *ends]


def _is_complex(parts: Parts) -> bool:
    """Whether a recurrence says more than a sentence can."""
    if parts.positions or parts.year_days or parts.week_numbers or parts.seconds:
        return True
    if parts.frequency > Frequency.DAILY and (parts.hours or parts.minutes):
        return True
    numbers = [number for _, number in parts.weekdays if number is not None]
    return any(number not in _ORDINALS for number in numbers) or any(
        day < 0 and day != LAST for day in parts.month_days
    )


def _clock_times(parts: Parts, rule: Rule) -> list[str]:
    """The times of day of a recurrence, from its parts or its start."""
    if parts.frequency > Frequency.DAILY and not parts.hours:
        return []
    assert rule.start_at is not None
    start = rule.start_at.astimezone(timeline(rule.timezone).zone)
    clock = [
        f"{hour:02}:{minute:02}"
        for hour in parts.hours or (start.hour,)
        for minute in parts.minutes or (start.minute,)
    ]
    return [f"at {_listed(clock)}"]


def _bounds(rule: Rule) -> list[str]:
    parts: list[str] = []
    if rule.start_at is not None:
        parts.append(f"from {_local(rule.start_at, rule)}")
    if rule.end_at is not None:
        parts.append(f"until {_local(rule.end_at, rule)}")
    if rule.max_firings is not None:
        times = "once" if rule.max_firings == 1 else f"{rule.max_firings} times"
        parts.append(f"at most {times}")
    rolled = _ROLLED[rule.roll]
    if rule.exclude:
        parts.append(f"except on {_counted(len(rule.exclude), 'date')}{rolled}")
    if rule.calendar is not None:
        parts.append(f"except the days of calendar {rule.calendar}{rolled}")
    return parts


def _local(instant: datetime, rule: Rule) -> str:
    local = instant.astimezone(timeline(rule.timezone).zone)
    return f"{local:%Y-%m-%d at %H:%M:%S}".removesuffix(":00")


def _duration(seconds: int, *, every: bool = False) -> str:
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return _plural(seconds // size, unit) if every else _counted(seconds // size, unit)


def _plural(count: int, unit: str) -> str:
    return unit if count == 1 else f"{count} {unit}s"


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _numbered(unit: str, numbers: Sequence[int]) -> str:
    return f"{unit if len(numbers) == 1 else unit + 's'} {_spans(numbers, None, first=0)}"


def _spans(values: Sequence[int], names: tuple[str, ...] | None, *, first: int) -> str:
    """Values in order, with runs of three or more as "Monday to Friday"."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    parts: list[str] = []
    for run in runs:
        named = [names[value - first] if names else str(value) for value in run]
        parts += [f"{named[0]} to {named[-1]}"] if len(named) > 2 else named
    return _listed(parts)


def _listed(parts: list[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
