"""Sets of minutes, hours, days, months and weekdays, as a cron expression or a recurrence rule.

Other systems fire when the day of the month *and* the weekday match. Our cron expressions fire when
either matches, so such a rule becomes an RRULE.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

_RRULE_DAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
_RRULE_START = "2020-01-01T00:00:00"
"""A recurrence needs a start; any in the past will do, because it names all times itself."""


class CronFields(NamedTuple):
    """Allowed values; weekdays from 0 (Sunday) to 6. None allows every day."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None
    seconds: frozenset[int] = frozenset({0})
    is_either_day: bool = False
    """Whether one of day and weekday is enough if both are restricted."""

    def timing(self) -> dict[str, Any]:
        """The timing of a schedule that fires at these times."""
        needs_both = self.days is not None and self.weekdays is not None and not self.is_either_day
        if not needs_both:
            return {"cron_expr": self._cron()}
        parts = {
            "BYMONTH": _listed(self.months, range(1, 13)),
            "BYMONTHDAY": _listed(self.days or (), range(1, 32)),
            "BYDAY": ",".join(_RRULE_DAYS[day] for day in sorted(self.weekdays or ())),
            "BYHOUR": _numbers(self.hours),
            "BYMINUTE": _numbers(self.minutes),
            "BYSECOND": _numbers(self.seconds),
        }
        text = ";".join(f"{name}={value}" for name, value in parts.items() if value != "*")
        return {"rrule": f"FREQ=DAILY;{text}", "start_at": _RRULE_START}

    def _cron(self) -> str:
        fields = (
            _listed(self.minutes, range(60)),
            _listed(self.hours, range(24)),
            "*" if self.days is None else _numbers(self.days),
            _listed(self.months, range(1, 13)),
            "*" if self.weekdays is None else _numbers(self.weekdays),
        )
        seconds = "" if self.seconds == {0} else f"{_listed(self.seconds, range(60))} "
        return seconds + " ".join(fields)


def _listed(values: Collection[int], every: range) -> str:
    if len(values) == len(every):
        return "*"
    ordered = sorted(values)
    step = ordered[1] - ordered[0] if len(ordered) > 2 else 0
    if step > 1 and every.start in values and ordered == [*every[::step]]:
        return f"*/{step}" if every.start == 0 else _numbers(values)
    return _numbers(values)


def _numbers(values: Collection[int]) -> str:
    return ",".join(map(str, sorted(values)))
