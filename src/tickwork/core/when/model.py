"""Timings and the rule around them.

All values are frozen and hashable: a rule is the cache key of its next slot.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from enum import StrEnum

from msgspec import Struct

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Gap(StrEnum):
    """What to do with a local time that does not exist because clocks went forward."""

    RUN_AFTER = "run_after"
    SHIFT = "shift"
    SKIP = "skip"


class Overlap(StrEnum):
    """Which one to use when a local time occurs twice because clocks went back."""

    FIRST = "first"
    LAST = "last"
    BOTH = "both"


class Roll(StrEnum):
    """Which day a slot on an excluded day moves to, if any."""

    SKIP = "skip"
    NEXT_DAY = "next_day"
    PREVIOUS_DAY = "previous_day"


class ShortMonth(StrEnum):
    """What day 29, 30 or 31 means in a month without it."""

    SKIP = "skip"
    LAST_DAY = "last_day"


class IntervalMode(StrEnum):
    """Whether an interval counts from its anchor or from the finish of the previous run."""

    FIXED_RATE = "fixed_rate"
    FIXED_DELAY = "fixed_delay"


class MissedPolicy(StrEnum):
    """What to do with slots that are later than the grace period."""

    FIRE_LATE = "fire_late"
    FIRE_MOST_RECENT = "fire_most_recent"
    SKIP = "skip"


class Dst(Struct, frozen=True):
    """Daylight saving policy of rules with a time of day."""

    gap: Gap = Gap.RUN_AFTER
    overlap: Overlap = Overlap.FIRST


class Missed(Struct, frozen=True):
    """Policy for missed slots. Lateness is measured from the due time."""

    policy: MissedPolicy = MissedPolicy.FIRE_LATE
    cap: int = 10
    grace_seconds: int = 60


class Cron(Struct, frozen=True, tag="cron"):
    """A cron expression of five fields, or six with seconds first."""

    expr: str


class Interval(Struct, frozen=True, tag="interval"):
    """Elapsed time. Slot k is anchor + k · seconds and never drifts."""

    seconds: int
    mode: IntervalMode = IntervalMode.FIXED_RATE
    in_minutes: bool = False
    """Whether it was given as `interval_minutes`, and is shown as such."""


class Daily(Struct, frozen=True, tag="daily"):
    """Every day at a wall-clock time."""

    hour: int
    minute: int


class Weekly(Struct, frozen=True, tag="weekly"):
    """On given weekdays (0 = Sunday) at a wall-clock time."""

    days_of_week: tuple[int, ...]
    hour: int
    minute: int


class Monthly(Struct, frozen=True, tag="monthly"):
    """On one day of the month, or the last day (`day` None), at a wall-clock time."""

    day: int | None
    hour: int
    minute: int
    short_month: ShortMonth = ShortMonth.SKIP


class Once(Struct, frozen=True, tag="once"):
    """A single instant. `wall` is its local time, if it was given as one."""

    at: datetime
    wall: datetime | None = None


class Recurrence(Struct, frozen=True, tag="rrule"):
    """An RFC 5545 recurrence. Its DTSTART is the rule's `start_at`."""

    text: str


Timing = Cron | Interval | Daily | Weekly | Monthly | Once | Recurrence


class Limits(Struct, frozen=True):
    """Limits of a tenant. Cron may name seconds if intervals below a minute are allowed. Schedules
    that have an owner have a least interval of their own, if one is given."""

    min_interval_seconds: int = 60
    owner_min_interval_seconds: int | None = None

    def for_owner(self, owner: str | None) -> Limits:
        """The limits for the schedules of an owner, or for None those without one. An owner's
        schedules may fire no more often than the tenant's own."""
        least = self.owner_min_interval_seconds
        if owner is None or least is None:
            return Limits(self.min_interval_seconds)
        return Limits(max(self.min_interval_seconds, least), least)

    @property
    def seconds_allowed(self) -> bool:
        return self.min_interval_seconds < 60


class PinnedTime(Struct, frozen=True):
    """A natural time of a rule with `roll` that does not follow its excluded days.

    `natural` is the local time without excluded days, in naive seconds. It fires at the local time
    `moved_to`, or if that is None, never: it has fired already.
    """

    natural: int
    moved_to: int | None


class Rule(Struct, frozen=True, cache_hash=True, kw_only=True):
    """A timing with its zone, policies and bounds: everything that decides the slots.

    Intervals count from `anchor`. `seed` (the schedule's id) makes `H`, jitter and window stable.
    `holidays` are the dates of the named calendar at the time of parsing. `is_exact`: it was given
    the fire window 0, and no operator may widen it.

    `pinned` is set after the excluded days of a rule with `roll` changed (see
    `core.schedule.calendar_change`).
    """

    timing: Timing
    timezone: str = "UTC"
    dst: Dst = Dst()
    missed: Missed = Missed()
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_firings: int | None = None
    exclude: tuple[date, ...] = ()
    calendar: str | None = None
    holidays: frozenset[date] = frozenset()
    roll: Roll = Roll.SKIP
    jitter_seconds: int = 0
    fire_window_seconds: int = 0
    is_exact: bool = False
    anchor: datetime = EPOCH
    seed: str = ""
    pinned: tuple[PinnedTime, ...] = ()

    @property
    def excluded_days(self) -> frozenset[date]:
        return self.holidays.union(self.exclude)


def is_fixed_delay(rule: Rule) -> bool:
    """Whether its next slot is counted from the finish of the previous run."""
    return isinstance(rule.timing, Interval) and rule.timing.mode is IntervalMode.FIXED_DELAY


def has_one_known_slot(rule: Rule) -> bool:
    """Whether at most one slot is known at a time: a single instant or a fixed delay."""
    return isinstance(rule.timing, Once) or is_fixed_delay(rule)
