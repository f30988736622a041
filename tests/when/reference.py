"""When a schedule fires, the slow and obvious way. An independent reference for the product.

The method:

1. ``Walk``: go through a stretch of UTC minute by minute and write down what a wall clock in the
   zone shows. A wall minute shown once exists; shown twice it is an overlap; and where the wall
   clock jumps from one shown minute to a later one, the minutes between were lost: a gap.
2. ``meet``: list every wall minute that the rule names (date by date, hour by hour, minute by
   minute) and look it up in the walk: shown once, shown twice, or lost.
3. ``Meeting.slots``: apply the DST policy to what is not plain, and cut the window
   ``start < slot <= end``.

A walk is shared by all rules, a meeting by all policies. No cron library, no offset arithmetic
beyond "what did the clock show one minute ago". Wall minutes and UTC minutes are integers
counted from 1970-01-01 00:00, the one on the wall, the other in UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.when import reference_cron

GAPS = ("run_after", "shift", "skip")
OVERLAPS = ("first", "last", "both")
POLICIES = tuple((gap, overlap) for gap in GAPS for overlap in OVERLAPS)

MINUTES_A_DAY = 24 * 60
GAP_MINUTES_MAX = 3 * 60
#: A policy moves a slot by three hours at most, and no overlap we walk is longer than a day.
MARGIN_MINUTES = 25 * 60
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Rule:
    """The wall times a schedule names. ``through``: it runs through the day, whatever the DST."""

    day: reference_cron.DayTest
    hours: frozenset[int]
    minutes: frozenset[int]
    seconds: frozenset[int] = frozenset({0})
    through: bool = False
    excluded: frozenset[date] = frozenset()


@dataclass(frozen=True)
class Gap:
    """Wall minutes ``first <= minute < end`` were never shown; ``after`` is when ``end`` was."""

    first: int
    end: int
    after: int

    @property
    def minutes(self) -> int:
        return self.end - self.first


class Walk:
    """What the wall clock showed, for every UTC minute around a window."""

    def __init__(self, zone: ZoneInfo, start: datetime, end: datetime) -> None:
        self.start, self.end = start, end
        self.shown: dict[int, list[int]] = {}
        self.gaps: list[Gap] = []
        first = utc_minute(start) - MARGIN_MINUTES
        last = utc_minute(end) + MARGIN_MINUTES
        before = wall_minute(first - 1, zone)
        for minute in range(first, last + 1):
            wall = wall_minute(minute, zone)
            self.shown.setdefault(wall, []).append(minute)
            if wall > before + 1:
                self.gaps.append(Gap(before + 1, wall, minute))
            before = wall
        self.first_wall, self.last_wall = min(self.shown), max(self.shown)
        for gap in self.gaps:
            assert not any(lost in self.shown for lost in range(gap.first, gap.end)), gap

    def instants(self, wall: int) -> list[int]:
        """The UTC minutes in which the clock showed this."""
        return self.shown.get(wall, [])

    def gap_of(self, wall: int) -> Gap:
        (gap,) = [gap for gap in self.gaps if gap.first <= wall < gap.end]
        return gap


@dataclass
class Meeting:
    """Where a rule meets a walk. Seconds since 1970: wall seconds if lost, UTC seconds if shown."""

    walk: Walk
    through: bool
    once: list[int] = field(default_factory=list)
    twice: list[list[int]] = field(default_factory=list)
    lost: list[tuple[int, Gap]] = field(default_factory=list)

    def slots(self, gap: str, overlap: str) -> list[datetime]:
        found = set(self.once)
        for instants in self.twice:
            found.update(instants if self.through else choose(instants, overlap))
        if not self.through:
            for wall, hole in self.lost:
                found.update(after_gap(wall, hole, gap))
        first, last = utc_second(self.walk.start), utc_second(self.walk.end)
        return [EPOCH + timedelta(seconds=one) for one in sorted(found) if first < one <= last]


def meet(rule: Rule, walk: Walk) -> Meeting:
    meeting = Meeting(walk, rule.through)
    for day in range(walk.first_wall // MINUTES_A_DAY, walk.last_wall // MINUTES_A_DAY + 1):
        on = date.fromordinal(EPOCH_DAY + day)
        if on in rule.excluded or not rule.day(on):
            continue
        for hour in rule.hours:
            for minute in rule.minutes:
                wall = day * MINUTES_A_DAY + hour * 60 + minute
                if not walk.first_wall <= wall <= walk.last_wall:
                    continue
                instants = walk.instants(wall)
                for second in rule.seconds:
                    if len(instants) == 1:
                        meeting.once.append(instants[0] * 60 + second)
                    elif instants:
                        meeting.twice.append([one * 60 + second for one in instants])
                    else:
                        meeting.lost.append((wall * 60 + second, walk.gap_of(wall)))
    return meeting


def choose(instants: list[int], overlap: str) -> list[int]:
    return {"first": instants[:1], "last": instants[-1:], "both": instants}[overlap]


def after_gap(wall: int, gap: Gap, policy: str) -> list[int]:
    """The slots of a lost wall second. ``shift``: as long after the gap as it was into it."""
    if policy == "skip" or gap.minutes > GAP_MINUTES_MAX:
        return []
    if policy == "run_after":
        return [gap.after * 60]
    return [gap.after * 60 + (wall - gap.first * 60)]


def read(spec: Mapping[str, Any]) -> Rule:
    """A rule from the JSON of a schedule's timing."""
    excluded = frozenset(date.fromisoformat(day) for day in spec.get("exclude", ()))
    if "cron_expr" in spec:
        cron = reference_cron.read(spec["cron_expr"])
        return Rule(
            cron.day, cron.hours, cron.minutes, cron.seconds, through_the_day(cron.hours), excluded
        )
    (timing,) = [
        spec[name] for name in ("daily_time", "weekly_time", "monthly_time") if name in spec
    ]
    return Rule(
        day_test(spec),
        frozenset({timing["hour"]}),
        frozenset({timing["minute"]}),
        excluded=excluded,
    )


def through_the_day(hours: frozenset[int]) -> bool:
    """At least two hours, and the same step from each to the next, around the clock."""
    ordered = sorted(hours)
    following = [*ordered[1:], ordered[0] + 24]
    steps = {later - earlier for earlier, later in zip(ordered, following, strict=True)}
    return len(ordered) >= 2 and len(steps) == 1


def day_test(spec: Mapping[str, Any]) -> reference_cron.DayTest:
    if "weekly_time" in spec:
        named = spec["weekly_time"]["day_of_week"]
        weekdays = set(named if isinstance(named, list) else [named])
        return lambda day: reference_cron.sunday_is_0(day) in weekdays
    if "monthly_time" in spec:
        timing = spec["monthly_time"]
        return lambda day: day.day == day_in_month(timing, reference_cron.month_length(day))
    return every_day


def every_day(_: date) -> bool:
    return True


def day_in_month(timing: Mapping[str, Any], length: int) -> int | None:
    if timing["day"] == "last":
        return length
    if timing["day"] > length:
        return length if timing["short_month"] == "last_day" else None
    return int(timing["day"])


def wall_minute(minute: int, zone: ZoneInfo) -> int:
    """What the zone's wall clock shows at a UTC minute."""
    wall = datetime.fromtimestamp(minute * 60, zone)
    assert wall.second == 0, f"{zone} has an offset of odd seconds at {wall}"
    return (wall.toordinal() - EPOCH_DAY) * MINUTES_A_DAY + wall.hour * 60 + wall.minute


def utc_second(instant: datetime) -> int:
    return int((instant - EPOCH).total_seconds())


def utc_minute(instant: datetime) -> int:
    return utc_second(instant) // 60
