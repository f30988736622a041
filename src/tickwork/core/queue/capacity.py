"""Headroom: will the workers that run keep up with what schedules will send?

```
  firings per minute and target ─┐
  permits, rates, caps           ├─ LaneFacts ──judge()──▶ lanes, and when one falls behind
  how messages fared             ┘
```

A lane lets only so many messages through in a minute: a queue with its workers, a named limit with
all its queues and endpoints, an endpoint with limits of its own. The lowest of its bounds decides.
A rate is known. A number of messages at a time is a rate once the mean run time is known. What the
workers do is measured in full minutes; before there is one, it is their permits by the mean run
time, which is the most that they could do.

A full minute is one in which half of the messages or more had waited for a minute: there was work
all the time, so what ended is what the workers can do. Any other minute shows only what came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from msgspec import Struct

from tickwork.core.queue.performance import (
    PERIODS_MAX,
    PeriodPerformance,
    Width,
    mean_seconds,
    merged,
    percentiles,
)
from tickwork.core.queue.wait_estimate import PAUSED, Cap

MEASURED_SECONDS = 86_400
"""Seconds that are looked back upon for what was handled."""

MEASURED_ROWS_MAX = PERIODS_MAX
"""Maximum number of rows of minutes that are looked at, the newest first."""

WAITING_MAX = 200_000
WAITING_OF_QUEUE_MIN = 1_000
"""Maximum number of waiting messages of all queues that are counted, and of each at least."""

FULL_WAIT_SECONDS = 60.0
"""Median wait from which on a minute is full."""

SHORTFALLS_MAX = 20
"""Maximum number of shortfalls of a lane, the first ones."""

LATE_SECONDS_MIN = 60.0
"""Seconds of lateness from which on a lane falls behind."""

MEASURED, PERMITS = "measured", "permits"
"""What bounds a lane besides the limits that hold a message back, for programs."""

_MINUTE = timedelta(minutes=1)
_BEHIND_MIN = 0.5
"""Messages that are left over from which on a minute is not done: less is a rounding error."""


class LaneKind(StrEnum):
    """What lets messages through."""

    QUEUE = "queue"
    LIMIT = "limit"
    ENDPOINT = "endpoint"


class Verdict(StrEnum):
    """Whether a lane keeps up. `UNKNOWN`: nothing of it was measured. `UNPROVEN`: its bounds let
    it, but it never handled as much in a minute."""

    LATE = "late"
    UNKNOWN = "unknown"
    UNPROVEN = "unproven"
    ENOUGH = "enough"


class Measured(Struct, frozen=True, kw_only=True):
    """How the messages of a lane fared: how many ended, the mean time a handler ran, the busiest
    minute, and the busiest of the full minutes."""

    ended: int = 0
    run_seconds: float | None = None
    busiest_per_minute: int = 0
    full_minutes: int = 0
    full_per_minute: int = 0


def measured(rows: Iterable[PeriodPerformance]) -> dict[str, Measured]:
    """What rows of minutes say about each queue."""
    by_queue: dict[str, list[PeriodPerformance]] = {}
    for row in merged(rows, Width.MINUTE, by_type=False):
        by_queue.setdefault(row.queue, []).append(row)
    return {queue: _measured(minutes) for queue, minutes in by_queue.items()}


def _measured(minutes: Sequence[PeriodPerformance]) -> Measured:
    ended = [minute.performance.done + minute.performance.failed for minute in minutes]
    full = []
    for minute, number in zip(minutes, ended, strict=True):
        (wait,) = percentiles(minute.performance.waits, (0.5,))
        if wait is not None and wait >= FULL_WAIT_SECONDS:
            full.append(number)
    runs: dict[int, int] = {}
    for minute in minutes:
        for bucket, number in minute.performance.runs.items():
            runs[bucket] = runs.get(bucket, 0) + number
    return Measured(
        ended=sum(ended),
        run_seconds=mean_seconds(runs),
        busiest_per_minute=max(ended, default=0),
        full_minutes=len(full),
        full_per_minute=max(full, default=0),
    )


class LaneFacts(Struct, frozen=True, kw_only=True):
    """What is known of a lane. `coming` are the firings of each minute, `waiting` the messages that
    are ready now; `waits_more`: at least so many. `permits` are those of all workers that run, with
    the number of messages that each takes at a time; None if the lane has no workers of its own."""

    kind: LaneKind
    name: str
    coming: Sequence[int]
    waiting: int = 0
    waits_more: bool = False
    measured: Measured = Measured()
    permits: int | None = None
    messages_per_permit: int = 1
    caps: tuple[Cap, ...] = ()
    is_paused: bool = False


class LaneCapacity(Struct, frozen=True, kw_only=True):
    """Something that lets only so many messages through: at most `per_minute`, because of
    `limited_by`; None where that is not known. `handled` to `full_minutes` are of the last day,
    `slots` those that come, `words` say it all in a sentence."""

    kind: LaneKind
    name: str
    verdict: Verdict
    per_minute: float | None
    limited_by: str | None
    limit_words: str | None
    permits: int | None
    handled: int
    run_seconds: float | None
    busiest_per_minute: int
    full_minutes: int
    waiting: int
    waits_more: bool
    slots: int
    peak_at: datetime | None
    peak_slots: int
    words: str


class Shortfall(Struct, frozen=True, kw_only=True):
    """A stretch in which a lane falls behind: `slots` come from `at` on while more wait than it
    lets through, the last of them is `late_seconds` late, and it has caught up at `caught_up_at`;
    None: not within the forecast. If not `is_certain`, the lane may be faster than it ever was."""

    kind: LaneKind
    name: str
    at: datetime
    slots: int
    waiting: int
    per_minute: float
    late_seconds: float | None
    caught_up_at: datetime | None
    limited_by: str
    is_certain: bool
    words: str


class Capacity(Struct, frozen=True, kw_only=True):
    """Whether the workers that run keep up with the slots of the coming hours. It is not `ok` if a
    lane will certainly fall behind. `uncounted_slots` have targets that the forecast counts as one.
    What was measured is of the minutes since `measured_since`."""

    now: datetime
    start: datetime
    hours: int
    slots: int
    uncounted_slots: int
    measured_since: datetime
    nodes: int
    lanes: tuple[LaneCapacity, ...]
    shortfalls: tuple[Shortfall, ...]
    ok: bool


class Bound(Struct, frozen=True):
    """A number of messages that a lane lets through in a minute, and why."""

    code: str
    words: str
    per_minute: float


class Congestion(Struct, frozen=True):
    """Minutes in which more waits than is let through: from the minute `first` on, with `slots` up
    to the one whose last slot is the latest, and caught up before the minute `end`."""

    first: int
    waiting: float
    slots: int
    late_minutes: float
    end: int | None


def stretches(coming: Sequence[int], waiting: float, per_minute: float) -> Iterator[Congestion]:
    """When a lane falls behind by more than a minute, if so many wait at first and it lets through
    so many in a minute. Without any it never catches up."""
    left = float(waiting)
    ahead = worst = 0.0
    slots = worst_slots = 0
    first: int | None = None
    for minute, number in enumerate(coming):
        if first is None:
            first, ahead = minute, left
            worst, slots = 0.0, 0
        left += number
        slots += number
        late = left / per_minute if per_minute else (float("inf") if left else 0.0)
        if late > worst:
            worst, worst_slots = late, slots
        left = max(left - per_minute, 0.0)
        if left < _BEHIND_MIN:
            if worst * 60.0 > LATE_SECONDS_MIN:
                yield Congestion(first, ahead, worst_slots, worst, minute + 1)
            first = None
    if first is not None and worst * 60.0 > LATE_SECONDS_MIN:
        yield Congestion(first, ahead, worst_slots, worst, None)


def bounds(facts: LaneFacts) -> list[Bound]:
    """All that bounds a lane, the lowest first."""
    found = []
    if facts.is_paused:
        found.append(Bound(PAUSED, "it is paused", 0.0))
    run_seconds = facts.measured.run_seconds
    for cap in facts.caps:
        if cap.rate_per_second is not None:
            found.append(Bound(cap.code, cap.words, cap.rate_per_second * 60.0))
        if cap.claimed_max is not None and run_seconds:
            words = f"{cap.words}, and a run takes {run_seconds:.3g} s"
            found.append(Bound(cap.code, words, cap.claimed_max * 60.0 / run_seconds))
    if facts.measured.full_minutes:
        words = f"the most of {_counted(facts.measured.full_minutes, 'full minute')}"
        found.append(Bound(MEASURED, words, float(facts.measured.full_per_minute)))
    elif facts.permits and run_seconds:
        at_once = facts.permits * facts.messages_per_permit
        by = "" if facts.messages_per_permit == 1 else f" of {facts.messages_per_permit} messages"
        words = f"{_counted(facts.permits, 'permit')}{by}, and a run takes {run_seconds:.3g} s"
        found.append(Bound(PERMITS, words, at_once * 60.0 / run_seconds))
    return sorted(found, key=lambda bound: bound.per_minute)


def judge(
    lanes: Iterable[LaneFacts],
    *,
    now: datetime,
    start: datetime,
    hours: int,
    nodes: int,
    measured_since: datetime,
    slots: int,
    uncounted_slots: int = 0,
) -> Capacity:
    """The lanes with what they let through, and when one falls behind; the worst lanes first, the
    shortfalls in the order of time."""
    judged = [_judge_lane(facts, start, now) for facts in lanes]
    order = [*Verdict]
    shortfalls = [shortfall for _, own in judged for shortfall in own]
    return Capacity(
        now=now,
        start=start,
        hours=hours,
        slots=slots,
        uncounted_slots=uncounted_slots,
        measured_since=measured_since,
        nodes=nodes,
        lanes=tuple(
            sorted(
                (lane for lane, _ in judged),
                key=lambda lane: (order.index(lane.verdict), -lane.slots, lane.kind, lane.name),
            )
        ),
        shortfalls=tuple(sorted(shortfalls, key=lambda found: (found.at, found.kind, found.name))),
        ok=all(lane.verdict is not Verdict.LATE for lane, _ in judged),
    )


def _judge_lane(
    facts: LaneFacts, start: datetime, now: datetime
) -> tuple[LaneCapacity, tuple[Shortfall, ...]]:
    known = bounds(facts)
    lowest = known[0] if known else None
    verdict, shortfalls = Verdict.ENOUGH, tuple[Shortfall, ...]()
    if lowest is not None:
        shortfalls = _shortfalls(facts, lowest, start, now, is_certain=True)
    if shortfalls:
        verdict = Verdict.LATE
    elif (facts.waiting or any(facts.coming)) and facts.kind is LaneKind.QUEUE:
        if not facts.measured.ended:
            verdict = Verdict.UNKNOWN
        elif not facts.measured.full_minutes:
            most = facts.measured.busiest_per_minute
            proven = Bound(MEASURED, "the busiest minute so far", float(most))
            shortfalls = _shortfalls(facts, proven, start, now, is_certain=False)
            verdict = Verdict.UNPROVEN if shortfalls else Verdict.ENOUGH
    elif lowest is None and any(facts.coming):
        verdict = Verdict.UNKNOWN
    peak = max(range(len(facts.coming)), key=facts.coming.__getitem__, default=0)
    peak_slots = facts.coming[peak] if facts.coming else 0
    lane = LaneCapacity(
        kind=facts.kind,
        name=facts.name,
        verdict=verdict,
        per_minute=None if lowest is None else lowest.per_minute,
        limited_by=None if lowest is None else lowest.code,
        limit_words=None if lowest is None else lowest.words,
        permits=facts.permits,
        handled=facts.measured.ended,
        run_seconds=facts.measured.run_seconds,
        busiest_per_minute=facts.measured.busiest_per_minute,
        full_minutes=facts.measured.full_minutes,
        waiting=facts.waiting,
        waits_more=facts.waits_more,
        slots=sum(facts.coming),
        peak_at=start + peak * _MINUTE if peak_slots else None,
        peak_slots=peak_slots,
        words=_lane_words(facts, lowest, verdict),
    )
    return lane, shortfalls


def _shortfalls(
    facts: LaneFacts, bound: Bound, start: datetime, now: datetime, *, is_certain: bool
) -> tuple[Shortfall, ...]:
    found = stretches(facts.coming, facts.waiting, bound.per_minute)
    return tuple(
        Shortfall(
            kind=facts.kind,
            name=facts.name,
            at=(at := max(start + stretch.first * _MINUTE, now)),
            slots=stretch.slots,
            waiting=round(stretch.waiting),
            per_minute=bound.per_minute,
            late_seconds=stretch.late_minutes * 60.0 if bound.per_minute else None,
            caught_up_at=None if stretch.end is None else start + stretch.end * _MINUTE,
            limited_by=bound.code,
            is_certain=is_certain,
            words=_shortfall_words(facts, bound, stretch, at, now, is_certain=is_certain),
        )
        for stretch in islice(found, SHORTFALLS_MAX)
    )


def _shortfall_words(
    facts: LaneFacts,
    bound: Bound,
    stretch: Congestion,
    at: datetime,
    now: datetime,
    *,
    is_certain: bool,
) -> str:
    """Such as: at 09:00 UTC 61,000 slots for queue mail; your workers do 4,100 a minute: 15 minutes
    late."""
    when = f"{at:%H:%M} UTC" if at - now < timedelta(days=1) else f"{at:%Y-%m-%d %H:%M} UTC"
    slots = f"{_counted(stretch.slots, 'slot')} for {facts.kind} {facts.name}"
    more = " or more" if facts.waits_more else ""
    behind = f" behind {round(stretch.waiting):,}{more} that wait" if stretch.waiting >= 1 else ""
    subject = f"at {when} {slots}{behind}"
    if not bound.per_minute:
        return f"{subject}: {bound.words}, so they wait"
    late = _duration(stretch.late_minutes)
    if not is_certain:
        rate = f"your workers never did more than {bound.per_minute:,.0f} a minute so far"
        return f"{subject}; {rate}: if they cannot do more, {late} late"
    rate = _rate(bound.per_minute)
    who = "your workers do" if bound.code in (MEASURED, PERMITS) else "its limit allows"
    end = "" if stretch.end is not None else ", and more wait when the forecast ends"
    return f"{subject}; {who} {rate} a minute ({bound.words}): {late} late{end}"


def _lane_words(facts: LaneFacts, lowest: Bound | None, verdict: Verdict) -> str:
    subject = f"{facts.kind} {facts.name}"
    permits = facts.permits
    if facts.kind is LaneKind.QUEUE and not facts.measured.ended:
        words = f"no measured rate for {subject}: nothing ran in the last 24 hours"
        if permits is not None:
            none = "no running worker handles it"
            words += f"; {f'configured permits {permits}' if permits else none}"
        if lowest is not None:
            words += f"; at most {_rate(lowest.per_minute)} a minute: {lowest.words}"
        return words
    if lowest is None:
        return f"no measured rate for {subject}: no run time is known"
    words = f"{subject}: at most {_rate(lowest.per_minute)} a minute ({lowest.words})"
    if verdict is Verdict.UNPROVEN:
        words += f"; the busiest minute so far had {facts.measured.busiest_per_minute:,}"
    if permits == 0 and lowest.code == MEASURED:
        words += "; no running worker handles it now"
    return words


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _rate(per_minute: float) -> str:
    return f"{per_minute:,.0f}" if per_minute >= 10 else f"{per_minute:.3g}"


def _duration(minutes: float) -> str:
    if minutes < 90:
        return _counted(round(minutes), "minute")
    hours = minutes / 60
    return f"{hours:.3g} hours" if hours < 72 else f"{hours / 24:.3g} days"


class DayPlan(Struct, frozen=True, kw_only=True):
    """How many users a day has room for: each takes `seconds` and `cost_per_user` of what
    `limit_per_day` allows. `one_by_one_seconds` and `seconds_needed` are how long all users take,
    one after the other and `at_once` together. `headroom` is how often the users would fit."""

    users: int
    seconds: float
    at_once: int
    limit_per_day: float | None
    cost_per_user: float
    one_by_one_seconds: float
    seconds_needed: float
    users_by_time: int
    users_by_limit: int | None
    users_per_day: int
    limited_by: str
    headroom: float


def plan_day(
    *,
    users: int,
    seconds: float,
    at_once: int = 1,
    limit_per_day: float | None = None,
    cost_per_user: float = 1.0,
) -> DayPlan:
    """The capacity of a day, by time and by a daily limit; the lower one decides."""
    rounds = -(-users // at_once)
    by_time = int(_DAY_SECONDS * at_once / seconds)
    by_limit = None if limit_per_day is None else int(limit_per_day / cost_per_user)
    most = by_time if by_limit is None else min(by_time, by_limit)
    return DayPlan(
        users=users,
        seconds=seconds,
        at_once=at_once,
        limit_per_day=limit_per_day,
        cost_per_user=cost_per_user,
        one_by_one_seconds=users * seconds,
        seconds_needed=rounds * seconds,
        users_by_time=by_time,
        users_by_limit=by_limit,
        users_per_day=most,
        limited_by="time" if most == by_time else "limit",
        headroom=most / users,
    )


_DAY_SECONDS = 86_400
