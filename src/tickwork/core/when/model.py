"""The values that say *when*: one small type per timing, and the rule around it.

All are frozen and hashable: a rule is the key under which its next time is memoised.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from enum import StrEnum

from msgspec import Struct

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Gap(StrEnum):
    """What happens to a local time that a zone leaves out."""

    RUN_AFTER = "run_after"
    SHIFT = "shift"
    SKIP = "skip"


class Overlap(StrEnum):
    """What happens to a local time that comes twice."""

    FIRST = "first"
    LAST = "last"
    BOTH = "both"


class Roll(StrEnum):
    """Where a slot on an excluded day goes."""

    SKIP = "skip"
    NEXT_DAY = "next_day"
    PREVIOUS_DAY = "previous_day"


class ShortMonth(StrEnum):
    """What "the 31st" means in a month that has none."""

    SKIP = "skip"
    LAST_DAY = "last_day"


class IntervalMode(StrEnum):
    """Counted from the anchor, or from the end of the previous run."""

    FIXED_RATE = "fixed_rate"
    FIXED_DELAY = "fixed_delay"


class MissedPolicy(StrEnum):
    """What becomes of slots that are late by more than their grace."""

    FIRE_LATE = "fire_late"
    FIRE_MOST_RECENT = "fire_most_recent"
    SKIP = "skip"


class Dst(Struct, frozen=True):
    """The policy for rules that name a time of day."""

    gap: Gap = Gap.RUN_AFTER
    overlap: Overlap = Overlap.FIRST


class Missed(Struct, frozen=True):
    """The policy for missed slots; lateness counts from the due time."""

    policy: MissedPolicy = MissedPolicy.FIRE_LATE
    cap: int = 10
    grace_seconds: int = 60


class Cron(Struct, frozen=True, tag="cron"):
    """A cron expression of five fields, or six with seconds first."""

    expr: str


class Interval(Struct, frozen=True, tag="interval"):
    """Elapsed time; slot k is anchor + k · seconds and never drifts."""

    seconds: int
    mode: IntervalMode = IntervalMode.FIXED_RATE


class Daily(Struct, frozen=True, tag="daily"):
    """Every day at a wall-clock time."""

    hour: int
    minute: int


class Weekly(Struct, frozen=True, tag="weekly"):
    """On some days of the week (0 = Sunday) at a wall-clock time."""

    days_of_week: tuple[int, ...]
    hour: int
    minute: int


class Monthly(Struct, frozen=True, tag="monthly"):
    """On one day of the month, or its last (`day` is None), at a wall-clock time."""

    day: int | None
    hour: int
    minute: int
    short_month: ShortMonth = ShortMonth.SKIP


class Once(Struct, frozen=True, tag="once"):
    """A single instant; `wall` is the local time it was given as, if it was."""

    at: datetime
    wall: datetime | None = None


class Recurrence(Struct, frozen=True, tag="rrule"):
    """An RFC 5545 recurrence; its DTSTART is the rule's `start_at`."""

    text: str


Timing = Cron | Interval | Daily | Weekly | Monthly | Once | Recurrence


class Limits(Struct, frozen=True):
    """What a tenant may ask for. Seconds in cron are allowed below a minute's interval."""

    min_interval_seconds: int = 60

    @property
    def seconds_allowed(self) -> bool:
        return self.min_interval_seconds < 60


class RolledSlot(Struct, frozen=True):
    """A time of a rule with `roll`, as a clock on the wall without days off has it, and the slot
    that stands for it; None if that is another one's as well."""

    natural: datetime
    slot: datetime | None


class Rule(Struct, frozen=True, cache_hash=True, kw_only=True):
    """A timing with its zone, policies and bounds: everything that decides the slots.

    `anchor` is where intervals count from; `seed` (the schedule's id) makes `H`, jitter and
    window stable; `holidays` are the dates of the named calendar as they were when parsed.

    Of a rule with `roll` whose days have changed (`core.rolling`): `kept` are slots that it has
    besides, `spent` are some that it has not, because what they stand for has had its firing.
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
    anchor: datetime = EPOCH
    seed: str = ""
    kept: tuple[RolledSlot, ...] = ()
    spent: tuple[RolledSlot, ...] = ()

    @property
    def excluded_days(self) -> frozenset[date]:
        return self.holidays.union(self.exclude)


def is_fixed_delay(rule: Rule) -> bool:
    """Whether its next slot is counted from the end of the one before."""
    return isinstance(rule.timing, Interval) and rule.timing.mode is IntervalMode.FIXED_DELAY


def has_one_known_slot(rule: Rule) -> bool:
    """Whether no more than one slot is known at a time."""
    return isinstance(rule.timing, Once) or is_fixed_delay(rule)
