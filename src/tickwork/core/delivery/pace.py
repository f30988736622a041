"""Limits of what goes to one receiver: how many a second, and how many at once.

A delivery over a limit waits outside: it is released, and comes back after some seconds. Those that
wait come back one after the other at the rate of the limit, not all together, so that a receiver
with a long backlog costs little. Nobody is sent away for longer than `RETURN_SECONDS_MAX`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct, structs

from tickwork.core.queue.rate_limit import interval, is_allowed, spend

RETURN_SECONDS_MIN = 0.5
"""Least number of seconds before a delivery comes back."""

RETURN_SECONDS_MAX = 300.0
"""Maximum number of seconds before a delivery comes back."""

RETURNS_PER_SECOND = 20.0
"""Deliveries that come back in a second, if the limit has no rate: the default of a host."""

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
