"""Rate limits of queues, and automatic concurrency of consumers.

A rate limit is a token bucket that holds one second's worth of messages, at least one. Its only
state is the time until which the rate is spent. All times are whole microseconds, so that every
store computes the same. Within any time `t` at most `rate * t` messages and one bucket are
claimed.

Automatic concurrency starts with one permit. It doubles while all permits are in use and messages
wait: after as many invocations as there are permits, or after `AUTO_GROW_SECONDS`, because slow
handlers show nothing for a long time. It halves when most invocations fail, because a dependency
may be overloaded, and does not grow when more than a few fail. A `retry()` is not a failure. A
consumer with `max_concurrency` has a fixed number of permits.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache

from msgspec import Struct

RATE_MIN = 0.001
RATE_MAX = 1_000_000.0
_RATES_KEPT = 1_024


@lru_cache(_RATES_KEPT)
def interval(rate_per_second: float) -> timedelta:
    """The time that one message uses up, rounded up to a microsecond."""
    numerator, denominator = rate_per_second.as_integer_ratio()
    return timedelta(microseconds=-(-1_000_000 * denominator // numerator))


def bucket_size(rate_per_second: float) -> int:
    """Number of messages allowed at once after a pause: one second's worth, at least 1."""
    return max(int(rate_per_second), 1)


@lru_cache(_RATES_KEPT)
def _bucket(rate_per_second: float) -> timedelta:
    """The time that a whole bucket uses up."""
    return bucket_size(rate_per_second) * interval(rate_per_second)


def _unspent_since(spent_until: datetime | None, now: datetime, rate_per_second: float) -> datetime:
    """The time since which the rate is unspent, at most one bucket ago."""
    bucket = _bucket(rate_per_second)
    if spent_until is None or spent_until > now + bucket:
        # The clock went back. Waiting until `spent_until` could take too long.
        return now - bucket
    return max(spent_until, now - bucket)


def is_allowed(spent_until: datetime | None, now: datetime, rate_per_second: float) -> bool:
    """Whether one more message is allowed now."""
    return now - _unspent_since(spent_until, now, rate_per_second) >= interval(rate_per_second)


def allowance(spent_until: datetime | None, now: datetime, rate_per_second: float) -> int:
    """Number of messages that may be claimed now."""
    unspent = now - _unspent_since(spent_until, now, rate_per_second)
    return max(unspent // interval(rate_per_second), 0)


def spend(
    spent_until: datetime | None, now: datetime, rate_per_second: float, messages: int
) -> datetime:
    """The time until which the rate is spent after claiming some messages."""
    start = _unspent_since(spent_until, now, rate_per_second)
    return start + messages * interval(rate_per_second)


def seconds_until_next(
    spent_until: datetime | None, now: datetime, rate_per_second: float
) -> float:
    """Seconds until one more message is allowed; 0 if one is allowed now."""
    return wait_seconds(spent_until, now, rate_per_second, 1)


def wait_seconds(
    spent_until: datetime | None, now: datetime, rate_per_second: float, messages: int
) -> float:
    """Seconds until so many messages are allowed; 0 if they are allowed now."""
    since = _unspent_since(spent_until, now, rate_per_second)
    return max((since + messages * interval(rate_per_second) - now).total_seconds(), 0.0)


AUTO_CONCURRENCY_MIN = 1
AUTO_CONCURRENCY_MAX = 250

AUTO_GROW_SECONDS = 5.0
"""Seconds after which the concurrency grows although few invocations have finished."""

FAILED_SHARE_MAX = 0.5
"""Share of failed invocations above which the concurrency is halved."""

FAILED_SHARE_TO_GROW = 0.1
"""Share of failed invocations above which the concurrency does not grow."""


class Load(Struct, frozen=True):
    """What happened since the last check: invocations that finished and that failed, whether all
    permits were in use, and whether more messages were waiting."""

    finished: int
    failed: int
    all_busy: bool
    more_waiting: bool


def next_concurrency(current: int, load: Load) -> int:
    """Number of permits until the next check, when enough invocations have finished."""
    if load.finished and load.failed > load.finished * FAILED_SHARE_MAX:
        return max(current // 2, AUTO_CONCURRENCY_MIN)
    return grown_concurrency(current, load)


def grown_concurrency(current: int, load: Load) -> int:
    """The same when too few have finished to know whether most fail: it only grows."""
    if load.all_busy and load.more_waiting and load.failed <= load.finished * FAILED_SHARE_TO_GROW:
        return min(current * 2, AUTO_CONCURRENCY_MAX)
    return current
