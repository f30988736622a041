"""Whether a rule may exist: it fires at all, and not more often than its tenant may."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice, pairwise

from tickwork.core.when.cron import compile_cron
from tickwork.core.when.model import EPOCH, Cron, Interval, Limits, Once, Recurrence, Rule
from tickwork.core.when.slots import iterate, next_after
from tickwork.errors import FieldError

_SLOTS_SAMPLED = 100
_YEAR_2000 = 946_684_800


def complaint(rule: Rule, limits: Limits) -> FieldError | None:
    """The fault of a rule that never fires or fires too often; None for a good one."""
    field = _field(rule)
    if isinstance(rule.timing, Cron) and not limits.seconds_allowed:
        if len(rule.timing.expr.split()) == 6:
            return FieldError(field, "has 6 fields; seconds are not allowed here, give 5")
    interval = _least_interval_seconds(rule)
    if interval is not None and interval < limits.min_interval_seconds:
        least = limits.min_interval_seconds
        return FieldError(field, f"fires {interval} s apart; the minimum here is {least} s")
    if not _fires(rule):
        return FieldError(field, "never fires; no day or time fits it")
    return None


def _field(rule: Rule) -> str:
    match rule.timing:
        case Cron():
            return "cron_expr"
        case Interval():
            return "interval_seconds"
        case Recurrence():
            return "rrule"
        case Once():
            return "once_at"
        case timing:
            return f"{type(timing).__name__.lower()}_time"


def _least_interval_seconds(rule: Rule) -> int | None:
    match rule.timing:
        case Cron(expr=expr):
            return compile_cron(expr, rule.seed).times.least_gap_seconds()
        case Interval(seconds=seconds):
            return seconds
        case Recurrence():
            slots = islice(iterate(rule, rule.anchor), _SLOTS_SAMPLED)
            gaps = [(after - before) // timedelta(seconds=1) for before, after in pairwise(slots)]
            return min(gaps, default=None)
        case _:
            return None


def _fires(rule: Rule) -> bool:
    """Searches only where something could keep the rule from ever firing."""
    if isinstance(rule.timing, Cron):
        calendar = compile_cron(rule.timing.expr, rule.seed)
        if calendar.days.may_never_come() and calendar.next_naive(_YEAR_2000) is None:
            return False
    bounded = rule.end_at is not None or rule.exclude or rule.holidays
    if not bounded and not isinstance(rule.timing, Recurrence):
        return True
    return next_after(rule, EPOCH - timedelta(days=1)) is not None
