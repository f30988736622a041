"""Checks that a rule fires at all, and not more often than its tenant allows."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain, islice, pairwise

from msgspec import structs

from tickwork.core.when.cron import CronError, compile_cron
from tickwork.core.when.interval import NEVER
from tickwork.core.when.model import (
    EPOCH,
    Cron,
    Daily,
    Interval,
    Limits,
    Monthly,
    Once,
    Recurrence,
    Rule,
    ShortMonth,
    Timing,
    Weekly,
)
from tickwork.core.when.rrule.text import RecurrenceError, parse_parts
from tickwork.core.when.slots import count_between, iterate_slots, next_after
from tickwork.errors import FieldError

_SLOTS_SAMPLED = 100
_SAMPLE = timedelta(days=10 * 366)
_SECOND = timedelta(seconds=1)
_YEAR_2000 = 946_684_800
_DAY_SECONDS = 86_400
_MONTH_DAYS_MIN = 28


def text_fault(timing: Timing) -> FieldError | None:
    """The fault of a cron expression or a recurrence that cannot be read; None otherwise."""
    try:
        match timing:
            case Cron(expr=expr):
                compile_cron(expr, "")
            case Recurrence(text=text):
                parse_parts(text)
            case _:
                pass
    except (CronError, RecurrenceError) as error:
        return FieldError(_field(timing), str(error))
    return None


def rule_fault(rule: Rule, limits: Limits) -> FieldError | None:
    """The fault of a rule that never fires or fires too often; None for a valid one."""
    if isinstance(rule.timing, Recurrence):
        # Slots are searched for once for all schedules of a rule. Its seed moves only due times.
        rule = structs.replace(rule, seed="")
    try:
        return _rule_fault(rule, limits)
    except RecurrenceError as error:  # Its parts contradict each other.
        return FieldError("rrule", str(error))


def _rule_fault(rule: Rule, limits: Limits) -> FieldError | None:
    field = _field(rule.timing)
    names_seconds = isinstance(rule.timing, Cron) and len(rule.timing.expr.split()) == 6
    if names_seconds and not limits.seconds_allowed:
        return FieldError(field, "has 6 fields; seconds are not allowed here; give 5")
    interval = _min_interval_seconds(rule)
    if interval is not None and interval < limits.min_interval_seconds:
        least = limits.min_interval_seconds
        fault = f"fires {interval} s apart; the minimum here is {least} s"
        if least == limits.owner_min_interval_seconds:
            fault += " for schedules that have an owner (owner_min_interval_seconds)"
        return FieldError(field, fault)
    if not _fires(rule):
        bounds = " within its bounds" if _is_bounded(rule) else ""
        return FieldError(field, f"never fires; no day or time matches{bounds}")
    return None


def _field(timing: Timing) -> str:
    match timing:
        case Cron():
            return "cron_expr"
        case Interval():
            return "interval_seconds"
        case Recurrence():
            return "rrule"
        case Once():
            return "once_at"
        case _:
            return f"{type(timing).__name__.lower()}_time"


def _min_interval_seconds(rule: Rule) -> int | None:
    match rule.timing:
        case Cron(expr=expr):
            return compile_cron(expr, rule.seed).times.min_gap_seconds()
        case Interval(seconds=seconds):
            return seconds
        case Recurrence():
            return _min_of_sample(rule)
        case Daily():
            return _DAY_SECONDS
        case Weekly(days_of_week=days):
            around = pairwise([*days, days[0] + 7])
            return min(later - day for day, later in around) * _DAY_SECONDS
        case Monthly(day=day, short_month=short):
            # Days 29 to 31 are further apart if months without them are skipped.
            skipping = day if day is not None and short is ShortMonth.SKIP else 0
            return max(_MONTH_DAYS_MIN, skipping) * _DAY_SECONDS
        case Once():
            return None


def _min_of_sample(rule: Rule) -> int | None:
    """The shortest distance between the first slots of a rule."""
    first = next_after(rule, rule.anchor)
    if first is None:
        return None
    # Counted first, so that iterating never searches beyond the sample.
    count = count_between(rule, first, first + min(_SAMPLE, NEVER - first))
    slots = islice(iterate_slots(rule, first), min(count, _SLOTS_SAMPLED))
    sample = pairwise(chain([first], slots))
    return min(((after - before) // _SECOND for before, after in sample), default=None)


def _fires(rule: Rule) -> bool:
    """Whether the rule ever fires. It searches only if something could prevent it."""
    if isinstance(rule.timing, Recurrence) or _is_bounded(rule):
        return next_after(rule, EPOCH - timedelta.resolution) is not None
    if isinstance(rule.timing, Cron):
        calendar = compile_cron(rule.timing.expr, rule.seed)
        return calendar.days.has_day_every_month() or calendar.next_naive(_YEAR_2000) is not None
    return True


def _is_bounded(rule: Rule) -> bool:
    return bool(rule.start_at or rule.end_at or rule.exclude or rule.holidays)
