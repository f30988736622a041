"""The forecast: how many firings are due in each minute of the coming hours.

```
  AlikeSchedules, page by page ──add──▶ Tally ──forecast()──▶ Forecast
       rule × number                  counts per minute      minutes, targets, tenants, herds
```

Slots and due times come from `plan`, so the forecast counts what a leader will plan. Schedules with
the same rule and target are counted once and multiplied. Schedules whose times depend on their id
(`H`, jitter, fire window) are counted one by one up to a limit; beyond it jitter and windows are
spread evenly, and `H` is taken from a sample.

It assumes that every run takes no time: no slot is skipped because of an overlap, and a fixed delay
starts at once. While the operator has widened the windows, it assumes that they stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from math import inf
from statistics import median
from typing import NamedTuple, TypeVar
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.target import DELIVERIES_QUEUE
from tickwork.core.limits import ENTITIES_PREFIX, RUNS_QUEUE_PREFIX
from tickwork.core.schedule.due_times import NOBODY, due_times, spread_shares
from tickwork.core.schedule.model import depends_on_id
from tickwork.core.when import (
    EPOCH,
    Interval,
    IntervalMode,
    Rule,
    describe,
    has_days_off,
    just_before,
    next_after,
    slots_between,
)

T = TypeVar("T")

FORECAST_HOURS = 24
FORECAST_HOURS_MAX = 24 * 7
"""Hours that a forecast covers by default, and at most."""

WINDOWS_SECONDS = (60, 300, 900, 3_600)
"""Fire windows whose effect on the busiest minute is shown."""

WINDOW_SECONDS_MAX = 86_400
"""Maximum seconds of a fire window in a forecast."""

EXACT_MAX = 1_000
"""Maximum number of schedules of one rule whose `H`, jitter and windows are computed one by one."""

EXACT_TOTAL_MAX = 50_000
"""Maximum number of schedules that are computed one by one in a forecast."""

SAMPLE_MIN = 20
"""Number of schedules of a rule with `H` that are computed once `EXACT_TOTAL_MAX` is reached."""

RULES_AT_ONCE_MAX = 20_000
"""Maximum number of different rules that wait to be counted."""

DUE_TIMES_MAX = 250_000
"""Maximum number of due times that a request computes: they take up to ten seconds of a thread."""

SHARE_COST = 0.05
"""What the share of a minute in a slot that is spread costs, in due times."""

TARGETS_MAX = 500
"""Maximum number of targets with numbers of their own; the others are counted as one."""

HERD_FACTOR = 3
"""A minute is a herd if it has more than this many times the median of all minutes."""

HERD_FIRINGS_MIN = 10
"""Minimum number of firings in a herd."""

HERDS_MAX = 20
"""Maximum number of herds in a forecast, the largest first."""

CAUSES_MAX = 5
"""Maximum number of rules that are named for a herd."""

_CAUSES_KEPT = 4 * CAUSES_MAX
_PREFIXES = {ENTITIES_PREFIX: "entity", RUNS_QUEUE_PREFIX: "workflow"}
_MINUTE = timedelta(minutes=1)


class Target(NamedTuple):
    """Where firings go: a queue, an entity, a workflow, a host, an endpoint or a channel."""

    kind: str
    name: str


OTHERS = Target("others", "")


def queue_of(target: Target) -> str:
    """The queue whose consumers handle the firings for a target."""
    for prefix, kind in _PREFIXES.items():
        if target.kind == kind:
            return prefix + target.name
    return target.name if target.kind == "queue" else DELIVERIES_QUEUE


def target_of(queue: str, kind: str | None, address: str | None) -> Target:
    """The target of a schedule. `kind` and `address` (a URL, endpoint or service) are those of a
    delivery outside."""
    if kind is None:
        for prefix, name in _PREFIXES.items():
            if queue.startswith(prefix):
                return Target(name, queue.removeprefix(prefix))
        return Target("queue", queue)
    if kind != "webhook":
        return Target(kind, address or "")
    host = (address or "").partition("://")[2]
    for end in "/?#":
        host = host.partition(end)[0]
    return Target("host", host.rpartition("@")[2])


class AlikeSchedules(Struct, frozen=True, kw_only=True):
    """Active schedules of a tenant that have the same rule, target and next slot.

    `rule` has the days of its calendar. `last_slot` is the last slot that became a message. `name`
    and `last_id` are those of one of them.
    """

    tenant: str
    target: Target
    rule: Rule
    next_slot: datetime | None
    last_slot: datetime | None
    fired: int
    count: int
    last_id: UUID
    name: str | None = None


class TenantShare(Struct, frozen=True):
    """The firings of one tenant."""

    tenant: str
    firings: int


class TargetShare(Struct, frozen=True):
    """The firings for one target, and its busiest minute."""

    kind: str
    name: str
    firings: int
    peak_at: datetime
    peak_firings: int


class Cause(Struct, frozen=True):
    """A rule that fires in the minute of a herd; `schedule` names one of its schedules."""

    rule: str
    kind: str
    target: str
    schedules: int
    firings: int
    schedule: str


class Herd(Struct, frozen=True):
    """A minute with many more firings than usual, and the rules that cause most of them."""

    at: datetime
    firings: int
    causes: tuple[Cause, ...]


class WindowEffect(Struct, frozen=True):
    """The busiest minute if all schedules without a fire window had one of so many seconds."""

    fire_window_seconds: int
    peak_firings: int


class Forecast(Struct, frozen=True, kw_only=True):
    """Firings per minute, from the minute `start` on; overdue ones count in the first. The operator
    has given all schedules that are not exact a fire window of at least `widened_seconds`."""

    now: datetime
    start: datetime
    hours: int
    schedules: int
    firings: int
    median: float
    peak_at: datetime
    peak_firings: int
    minutes: tuple[int, ...]
    targets: tuple[TargetShare, ...]
    tenants: tuple[TenantShare, ...]
    herds: tuple[Herd, ...]
    windows: tuple[WindowEffect, ...]
    widened_seconds: int = 0


class _Times(NamedTuple):
    """What decides the due times of a schedule: two with equal values fire together. The id is that
    of a single schedule whose window is widened."""

    rule: Rule
    next_slot: datetime | None
    last_slot: datetime | None
    fired: int
    schedule_id: UUID | None = None


class _Span(NamedTuple):
    """From now to the end of the forecast; `start` is the minute of now."""

    now: datetime
    start: datetime
    end: datetime

    def minute(self, at: datetime) -> int:
        return (max(at, self.now) - self.start) // _MINUTE


class _Waiting:
    """Schedules with the same rule, whatever their ids, and the same target."""

    __slots__ = ("count", "name", "seen")

    def __init__(self, name: str) -> None:
        self.count, self.name = 0, name
        self.seen: list[tuple[_Times, int]] = []


Minutes = tuple[tuple[int, float], ...]
"""Numbers of firings by minute, of the minutes that have some."""


class TooManyDueTimes(Exception):
    """A forecast would compute more due times than it may."""


class _Budget:
    """How many due times may still be computed."""

    def __init__(self, due_times_max: float) -> None:
        self._left = due_times_max

    def counted(self, items: Iterable[T], cost: float = 1.0) -> Iterator[T]:
        """The items, each of which costs so many due times."""
        for item in items:
            self._left -= cost
            if self._left < 0:
                raise TooManyDueTimes
            yield item


class Tally:
    """Counts the firings of schedules that are added page by page. `widened_seconds` is the window
    that the operator gives to all schedules that are not exact. Raises `TooManyDueTimes` if more
    than `due_times_max` had to be computed."""

    def __init__(
        self,
        now: datetime,
        hours: int,
        *,
        widened_seconds: int = 0,
        due_times_max: int | None = None,
    ) -> None:
        self._widened_seconds = widened_seconds
        self._budget = _Budget(inf if due_times_max is None else due_times_max)
        start = now.replace(second=0, microsecond=0)
        self._span = _Span(now, start, start + timedelta(hours=hours))
        self._hours = hours
        self._schedules = 0
        self._exact = 0
        self._singles = 0
        size = hours * 60
        self._all, self._unspread = [0.0] * size, [0.0] * size
        self._targets: dict[Target, list[float]] = {}
        self._tenants: dict[str, float] = {}
        self._causes: list[dict[tuple[str, Target], tuple[float, int, str]]] = [
            {} for _ in range(size)
        ]
        self._waiting: dict[tuple[Target, Rule, str], _Waiting] = {}

    @property
    def start(self) -> datetime:
        """The first minute: that of now."""
        return self._span.start

    def add(self, page: Iterable[AlikeSchedules]) -> None:
        """Adds a page of schedules."""
        for alike in page:
            self._schedules += alike.count
            times = _normal(alike, self._span)
            is_spread = bool(self._widened(alike.rule))
            if is_spread and alike.count == 1 and self._singles < EXACT_TOTAL_MAX:
                self._singles, own = self._singles + 1, alike.last_id
                times = _Times(alike.rule, alike.next_slot, alike.last_slot, alike.fired, own)
            plain = structs.replace(times.rule, seed="")
            # Per tenant until they are counted: a tenant's sum needs its own number.
            key = (alike.target, plain, alike.tenant)
            waiting = self._waiting.get(key)
            if waiting is None:
                waiting = _Waiting(alike.name or public_id(Prefix.SCHEDULE, alike.last_id))
                self._waiting[key] = waiting
            waiting.count += alike.count
            if len(waiting.seen) < EXACT_MAX or not (is_spread or depends_on_id(times.rule)):
                waiting.seen.append((times, alike.count))
        if len(self._waiting) > RULES_AT_ONCE_MAX:
            self._count()

    def forecast(self, window_seconds: int | None = None) -> Forecast:
        """The forecast of all schedules that were added. `window_seconds` asks for the effect of a
        fire window of that length."""
        self._count()
        span, counts = self._span, [round(firings) for firings in self._all]
        peak = max(range(len(counts)), key=counts.__getitem__)
        windows = sorted({*WINDOWS_SECONDS, *([window_seconds] if window_seconds else [])})
        usual = float(median(counts))
        return Forecast(
            now=span.now,
            start=span.start,
            hours=self._hours,
            schedules=self._schedules,
            firings=round(sum(self._all)),
            median=usual,
            peak_at=span.start + peak * _MINUTE,
            peak_firings=counts[peak],
            minutes=tuple(counts),
            targets=tuple(
                sorted((self._target(*pair) for pair in self._targets.items()), key=_most)
            ),
            tenants=tuple(
                sorted((TenantShare(*_rounded(pair)) for pair in self._tenants.items()), key=_most)
            ),
            herds=tuple(self._herds(counts, usual)),
            windows=tuple(WindowEffect(window, self._peak_with(window)) for window in windows),
            widened_seconds=self._widened_seconds,
        )

    def minutes_of_targets(self) -> dict[Target, tuple[int, ...]]:
        """The firings of each minute by target, of all schedules that were added. Of targets beyond
        `TARGETS_MAX` those of all together."""
        self._count()
        return {
            target: tuple(round(firings) for firings in minutes)
            for target, minutes in self._targets.items()
        }

    def _target(self, target: Target, minutes: list[float]) -> TargetShare:
        peak = max(range(len(minutes)), key=minutes.__getitem__)
        at = self._span.start + peak * _MINUTE
        return TargetShare(*target, round(sum(minutes)), at, round(minutes[peak]))

    def _count(self) -> None:
        """Counts the firings of the schedules that wait for it."""
        for (target, rule, tenant), waiting in self._waiting.items():
            minutes = self._minutes(rule, waiting)
            if not minutes:
                continue
            if target not in self._targets and len(self._targets) >= TARGETS_MAX:
                target = OTHERS
            of_target = self._targets.setdefault(target, [0.0] * len(self._all))
            cause = (describe(rule), target)
            total = 0.0
            for minute, number in minutes:
                total += number
                self._all[minute] += number
                of_target[minute] += number
                if not rule.fire_window_seconds and not self._widened(rule):
                    self._unspread[minute] += number
                causes = self._causes[minute]
                known = causes.get(cause, (0.0, 0, waiting.name))
                causes[cause] = (known[0] + number, known[1] + waiting.count, known[2])
                if len(causes) > 2 * _CAUSES_KEPT:
                    largest = sorted(causes.items(), key=lambda pair: -pair[1][0])
                    self._causes[minute] = dict(largest[:_CAUSES_KEPT])
            self._tenants[tenant] = self._tenants.get(tenant, 0.0) + total
        self._waiting.clear()

    def _minutes(self, rule: Rule, waiting: _Waiting) -> Minutes:
        counts: dict[int, float] = {}
        seen = waiting.seen
        weight = 1.0
        widened = self._widened(rule)
        if widened or depends_on_id(rule):
            is_exact = waiting.count <= EXACT_MAX and self._exact < EXACT_TOTAL_MAX
            is_exact = is_exact and all(number == 1 for _, number in seen)
            if not is_exact and not _uses_hash(rule):
                return _evenly(seen[0][0], waiting.count, self._span, widened, self._budget)
            seen = seen if self._exact < EXACT_TOTAL_MAX else seen[:SAMPLE_MIN]
            self._exact += len(seen)
            weight = waiting.count / sum(number for _, number in seen)
        for times, number in seen:
            for minute, fires in _minutes_of(times, self._span, widened, self._budget):
                counts[minute] = counts.get(minute, 0.0) + fires * number * weight
        return tuple(counts.items())

    def _widened(self, rule: Rule) -> int:
        """The window that the operator gives to a schedule; 0 if it keeps its own."""
        seconds = self._widened_seconds
        return 0 if rule.is_exact or seconds <= rule.fire_window_seconds else seconds

    def _herds(self, counts: list[int], usual: float) -> Iterator[Herd]:
        least = max(usual * HERD_FACTOR, HERD_FIRINGS_MIN - 1)
        herds = sorted((-number, at) for at, number in enumerate(counts) if number > least)
        for number, at in herds[:HERDS_MAX]:
            causes = sorted(self._causes[at].items(), key=lambda cause: -cause[1][0])[:CAUSES_MAX]
            yield Herd(
                self._span.start + at * _MINUTE,
                -number,
                tuple(
                    Cause(rule, *target, schedules, round(firings), name)
                    for (rule, target), (firings, schedules, name) in causes
                ),
            )

    def _peak_with(self, window_seconds: int) -> int:
        flat = [total - unspread for total, unspread in zip(self._all, self._unspread, strict=True)]
        shares = [*spread_shares(0.0, 0, window_seconds)]
        for minute, number in enumerate(self._unspread):
            if number:
                for later, share in shares:
                    if minute + later < len(flat):
                        flat[minute + later] += number * share
        return round(max(flat))


@lru_cache(maxsize=4_096)
def _minutes_of(times: _Times, span: _Span, widened_seconds: int, budget: _Budget) -> Minutes:
    counts: dict[int, float] = {}
    rule, next_slot, last_slot, fired, schedule_id = times
    times_due = due_times(
        rule,
        next_slot=next_slot,
        last_slot=last_slot,
        fired=fired,
        now=span.now,
        end=span.end,
        schedule_id=schedule_id or NOBODY,
        widened_seconds=widened_seconds,
    )
    for at in budget.counted(times_due):
        minute = span.minute(at)
        counts[minute] = counts.get(minute, 0.0) + 1.0
    return tuple(counts.items())


def _normal(alike: AlikeSchedules, span: _Span) -> _Times:
    """The times of schedules, so that intervals that fire in the same seconds are equal."""
    rule, timing = alike.rule, alike.rule.timing
    times = _Times(rule, alike.next_slot, alike.last_slot, alike.fired)
    is_regular = (
        isinstance(timing, Interval)
        and timing.mode is IntervalMode.FIXED_RATE
        and not (has_days_off(rule) or rule.end_at or rule.jitter_seconds)
        and not (rule.max_firings or rule.fire_window_seconds)
    )
    if not is_regular or alike.next_slot is None or alike.next_slot <= span.now:
        return times
    assert isinstance(timing, Interval)
    step = timedelta(seconds=timing.seconds)
    if rule.start_at is not None and alike.next_slot - step <= rule.start_at:
        return times
    offset = timedelta(seconds=int(((rule.anchor - EPOCH) % step).total_seconds()))
    plain = structs.replace(rule, anchor=EPOCH + offset, start_at=None, seed="")
    return _Times(plain, next_after(plain, span.now), None, 0)


def _uses_hash(rule: Rule) -> bool:
    return depends_on_id(structs.replace(rule, jitter_seconds=0, fire_window_seconds=0))


def _evenly(
    times: _Times, count: int, span: _Span, widened_seconds: int, budget: _Budget
) -> Minutes:
    """The expected firings of many schedules whose slots are spread by jitter and window."""
    jitter, window = times.rule.jitter_seconds, times.rule.fire_window_seconds
    rule = structs.replace(times.rule, jitter_seconds=0, fire_window_seconds=0, seed="")
    following = next_after(rule, span.now)
    after = None if following is None else next_after(rule, following)
    if following is not None and after is not None:
        gap_seconds = int((after - following).total_seconds())
        jitter = min(jitter, gap_seconds)
        widened_seconds = min(widened_seconds, gap_seconds)
    window = max(window, widened_seconds)
    first = just_before(span.now - timedelta(seconds=jitter + window))
    slots = [*slots_between(rule, first, times.last_slot)] if times.last_slot else []
    following_slots = due_times(
        rule,
        next_slot=times.next_slot,
        last_slot=None,
        fired=times.fired,
        now=span.now,
        end=span.end,
    )
    slots += budget.counted(following_slots)
    counts: dict[int, float] = {}
    size, elapsed = (span.end - span.start) // _MINUTE, (span.now - span.start).total_seconds()
    for slot in slots:
        offset = (slot - span.start).total_seconds()
        shares = spread_shares(offset, jitter, window, since=elapsed)
        for minute, share in budget.counted(shares, SHARE_COST):
            if minute < size:
                counts[minute] = counts.get(minute, 0.0) + share * count
    return tuple(counts.items())


def _rounded(share: tuple[str, float]) -> tuple[str, int]:
    return share[0], round(share[1])


def _most(share: TargetShare | TenantShare) -> tuple[int, str]:
    return -share.firings, share.name if isinstance(share, TargetShare) else share.tenant
