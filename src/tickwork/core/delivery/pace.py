"""Limits of what goes to one receiver: how many a second, and how many at once.

A consumer claims what may start now and what will be able to within a moment. What was claimed and
waits too long all the same is released, and comes back after some seconds. Those come back one
after the other at the rate of the limit, not all together. Nobody is sent away for longer than
`RETURN_SECONDS_MAX`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct, structs

from tickwork.core.limits import CLAIMED_MAX
from tickwork.core.queue.rate_limit import allowance, interval, is_allowed, spend, wait_seconds

RETURN_SECONDS_MIN = 0.5
"""Least number of seconds before a delivery comes back."""

RETURN_SECONDS_MAX = 300.0
"""Maximum number of seconds before a delivery comes back."""

RETURNS_PER_SECOND = 20.0
"""Deliveries that come back in a second, if the limit has no rate: the default of a host."""

AHEAD_SECONDS = 0.1
"""Seconds of throughput to claim beyond what a receiver gets at once."""

RATE_AHEAD_SECONDS = 0.25
"""Seconds of a rate to claim ahead."""

THROUGHPUT_SECONDS, FIRST_THROUGHPUT_SECONDS = 0.1, 0.05
"""Seconds over which throughput is measured, and those of the first measurement."""

THROUGHPUT_KEPT_SECONDS = 1.0
"""Seconds after which throughput falls if nothing ends."""

EMAIL_CONCURRENCY = 10
"""Firings whose email a node sends at once. Each email has a connection to the relay."""


class Limit(Struct, frozen=True):
    """What a receiver may get. None: as much as there is."""

    rate_per_second: float | None = None
    concurrency: int | None = None


class Shares(Struct, frozen=True):
    """How many deliveries a node makes at once, and how many of them each tenant is sure of. A
    tenant that has its share gets more only while the node is not full."""

    node: int
    tenant: int

    @property
    def reserve(self) -> int:
        """Deliveries above the node's number that tenants below their share may start. So they need
        not wait for those of a tenant that fills the node."""
        return max(self.node // 10, 1) if self.tenant < self.node else 0


def may_start_for_tenant(shares: Shares, *, of_tenant: int, in_all: int) -> bool:
    """Whether a tenant may start one more delivery while `of_tenant` of its own, and `in_all` of
    all tenants, are running."""
    return of_tenant < shares.tenant or in_all < shares.node


class HostPace(Struct, frozen=True):
    """What a host receives now. `spent_until` is the time until which its rate is spent, `returns`
    the time at which the last delivery that was sent away comes back."""

    running: int = 0
    spent_until: datetime | None = None
    returns: datetime | None = None


IDLE = HostPace()


def may_start(pace: HostPace, limit: Limit, now: datetime) -> bool:
    """Whether one more delivery may start now."""
    if limit.concurrency is not None and pace.running >= limit.concurrency:
        return False
    rate = limit.rate_per_second
    return rate is None or is_allowed(pace.spent_until, now, rate)


def started(pace: HostPace, limit: Limit, now: datetime) -> HostPace:
    """The pace after a start."""
    rate = limit.rate_per_second
    spent = pace.spent_until if rate is None else spend(pace.spent_until, now, rate, 1)
    return HostPace(pace.running + 1, spent, pace.returns)


def finished(pace: HostPace) -> HostPace:
    """The pace after an end."""
    return HostPace(pace.running - 1, pace.spent_until, pace.returns)


def room_of(
    pace: HostPace,
    limit: Limit,
    now: datetime,
    per_second: float,
    *,
    waiting: int,
    claimed: int,
    reserved: int = 0,
) -> int:
    """How many more deliveries to claim: as many as may start, and will within a moment at the
    throughput `per_second`. So many `waiting` ones are claimed already; or `claimed`, those that
    run included. Claims that are not answered may take the `reserved` ones. 0 until half of what to
    have ahead is gone: one large claim is cheaper."""
    taken, room = max(pace.running + waiting, claimed) + reserved, CLAIMED_MAX
    if limit.concurrency is not None:
        ahead = int(per_second * AHEAD_SECONDS)
        room = limit.concurrency + ahead - taken
        if room <= ahead // 2:
            return 0
    if limit.rate_per_second is not None:
        soon = now + timedelta(seconds=RATE_AHEAD_SECONDS)
        allowed = allowance(pace.spent_until, soon, limit.rate_per_second)
        room = min(room, allowed - (taken - pace.running))
    return max(room, 0)


def seconds_until_start(pace: HostPace, limit: Limit, now: datetime, deliveries: int = 1) -> float:
    """Seconds until the rate lets so many more deliveries start; 0 if it does now."""
    rate = limit.rate_per_second
    return 0.0 if rate is None else wait_seconds(pace.spent_until, now, rate, deliveries)


class Throughput:
    """How many deliveries end in a second, lately."""

    __slots__ = ("_ended", "_per_second", "_since")

    def __init__(self, at: float) -> None:
        self._since, self._ended = at, 0
        self._per_second = 0.0

    def count(self, at: float) -> None:
        """One has ended."""
        self._ended += 1
        elapsed = at - self._since
        if elapsed >= (THROUGHPUT_SECONDS if self._per_second else FIRST_THROUGHPUT_SECONDS):
            self._per_second = self._ended / elapsed
            self._since, self._ended = at, 0

    def per_second(self, at: float) -> float:
        """Less and less while none ends."""
        elapsed = at - self._since
        if elapsed <= THROUGHPUT_KEPT_SECONDS:
            return self._per_second
        return min(self._per_second, (self._ended + 1) / elapsed)


def sent_away(pace: HostPace, limit: Limit, now: datetime) -> tuple[HostPace, float]:
    """The pace after a delivery was sent away, and the seconds until that delivery comes back.
    After one that waits the longest time, the next one waits the shortest: this spreads a long
    backlog evenly over that time."""
    step = interval(limit.rate_per_second or RETURNS_PER_SECOND)
    latest = now + timedelta(seconds=RETURN_SECONDS_MAX)
    first = now + timedelta(seconds=RETURN_SECONDS_MIN)
    if limit.rate_per_second is not None and pace.spent_until is not None:
        first = max(first, pace.spent_until + step)
    first = min(first, latest)
    at = first if pace.returns is None else max(first, pace.returns + step)
    if at > latest:
        at = first
    return structs.replace(pace, returns=at), (at - now).total_seconds()


def is_idle(pace: HostPace, now: datetime) -> bool:
    """Whether the pace says nothing that matters any more."""
    times = (pace.spent_until, pace.returns)
    return pace.running == 0 and all(time is None or time <= now for time in times)
