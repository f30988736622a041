"""How many messages a rate allows now: a bucket that holds one second's worth, at least one.

All that is remembered is one instant, the time from which on nothing was taken yet. Whole
microseconds on both sides, so that every store counts the same, and each message takes up no
less than its share: over any time `t` there are never more than `rate * t` and one bucket.

How many invocations of a consumer run at a time.

It grows while all are busy and more is waiting, and shrinks when invocations fail: what they
depend on may be the one that cannot take more. A `retry()` is no failure. By hand it is fixed.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

RATE_MIN = 0.001
RATE_MAX = 1_000_000.0


def interval(rate_per_second: float) -> timedelta:
    """The time one message takes up: the next whole microsecond, never less than its share."""
    numerator, denominator = rate_per_second.as_integer_ratio()
    return timedelta(microseconds=-(-1_000_000 * denominator // numerator))


def bucket_of(rate_per_second: float) -> int:
    """How many a rate allows at once, after a pause: one second's worth, at least one."""
    return max(int(rate_per_second), 1)


def unspent_from(spent_until: datetime | None, now: datetime, rate_per_second: float) -> datetime:
    """The instant from which the rate is unspent; what is older than the bucket is lost."""
    bucket = bucket_of(rate_per_second) * interval(rate_per_second)
    if spent_until is None or spent_until > now + bucket:
        # Nobody spends the future: the clock went back, and waiting for it would take too long.
        return now - bucket
    return max(spent_until, now - bucket)


def allowance(spent_until: datetime | None, now: datetime, rate_per_second: float) -> int:
    """How many messages may be handed out now."""
    unspent = now - unspent_from(spent_until, now, rate_per_second)
    return max(unspent // interval(rate_per_second), 0)


def spend(
    spent_until: datetime | None, now: datetime, rate_per_second: float, messages: int
) -> datetime:
    """The instant until which the rate is spent after so many messages."""
    begin = unspent_from(spent_until, now, rate_per_second)
    return begin + messages * interval(rate_per_second)


AUTO_CONCURRENCY_MIN = 1
AUTO_CONCURRENCY_MAX = 250

FAILED_SHARE_MAX = 0.5
"""With more failed than this of what ended since the last look, it shrinks to half."""


class Load(Struct, frozen=True):
    """What happened since the last look: how many invocations ended, how many of them failed,
    whether all slots were busy, and whether more was waiting than they could take."""

    ended: int
    failed: int
    all_busy: bool
    more_waiting: bool


def next_concurrency(current: int, load: Load) -> int:
    """The number of slots until the next look."""
    if load.ended and load.failed > load.ended * FAILED_SHARE_MAX:
        return max(current // 2, AUTO_CONCURRENCY_MIN)
    if load.all_busy and load.more_waiting and not load.failed:
        return min(current * 2, AUTO_CONCURRENCY_MAX)
    return current
