"""When a waiting message will run, by what is ahead of it and how fast its queue is.

The slowest of the measured rate and the rates that limits allow decides. A limit binds if it allows
no more than what was measured, or if as many messages are claimed as it allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from tickwork.core.fields import iso
from tickwork.core.queue.stats import CounterName, MinuteCount

RATE_SECONDS = 300.0
"""Seconds over which the current rate of a queue is measured at most."""

BUSY_SECONDS_MIN = 10.0
"""Seconds for which messages have waited before the rate is measured: counters are stored a moment
late."""

_MINUTE = timedelta(minutes=1)

AHEAD_MAX = 50_000
"""Maximum number of messages ahead that are counted."""

_BINDS_AT = 0.8
"""Share of an allowed rate from which on the limit binds: a measured rate is a mean, below it."""

CONCURRENCY = "concurrency"
RATE_LIMIT = "rate_limit"
NAMED_LIMIT = "named_limit"
TENANT_CAP, PAUSED = "tenant_cap", "paused"
"""What keeps a message waiting, for programs."""

_HANDLED = frozenset({CounterName.DONE, CounterName.RETRIED, CounterName.DEAD})


class Cap(Struct, frozen=True, kw_only=True):
    """A limit of the claims of a queue: a rate, or a number of claimed messages of which some are
    in use. `words` name it in a sentence."""

    code: str
    words: str
    rate_per_second: float | None = None
    claimed: int = 0
    claimed_max: int | None = None

    @property
    def is_full(self) -> bool:
        """Whether as many messages are claimed as it allows."""
        return self.claimed_max is not None and self.claimed >= self.claimed_max


class WaitEstimate(Struct, frozen=True, kw_only=True):
    """What is ahead of a waiting message, the current rate, which limit binds, and when the message
    is expected to run; None where that is not known."""

    ahead: int
    rate_per_second: float | None = None
    limited_by: str | None = None
    limit_words: str | None = None
    expected_at: datetime | None = None


def measured_rate(
    minutes: Sequence[MinuteCount], now: datetime, waiting_seconds: float | None
) -> float | None:
    """Handled messages per second since messages have waited: a queue that was empty before could
    have handled more. `waiting_seconds` is the age of the oldest waiting message. None if they have
    not waited for long, or nothing was handled."""
    busy_seconds = min(RATE_SECONDS, waiting_seconds or 0.0)
    if busy_seconds < BUSY_SECONDS_MIN:
        return None
    since = now - timedelta(seconds=busy_seconds)
    first = since.replace(second=0, microsecond=0)
    handled = Counter[datetime]()
    for counted in minutes:
        if counted.counter in _HANDLED:
            handled[counted.minute] += counted.messages
    busy = {minute: messages for minute, messages in handled.items() if minute >= first}
    if not busy:
        return None
    total: float = sum(busy.values())
    if first in busy:
        # A part of this minute is left out. Before the wait the queue was as fast as a minute ago.
        alike = first if busy_seconds == RATE_SECONDS else first - _MINUTE
        total -= handled[alike] * ((since - first) / _MINUTE)
    # While nothing was handled, the queue was paused or had no worker.
    start = max(since, min(busy))
    return total / max((now - start).total_seconds(), 1.0) if total > 0 else None


def estimate(
    *,
    ahead: int,
    claimed: int,
    rate_per_second: float | None,
    caps: Iterable[Cap],
    obstacles: Sequence[str],
    visible_at: datetime,
    now: datetime,
) -> WaitEstimate:
    """When a message runs that has so many ahead of it."""
    if obstacles:
        return WaitEstimate(
            ahead=ahead,
            rate_per_second=rate_per_second,
            limited_by=PAUSED,
            limit_words="; ".join(obstacles),
        )
    known = tuple(caps)
    rates = [cap.rate_per_second for cap in known if cap.rate_per_second is not None]
    binding = next((cap for cap in known if cap.is_full), None)
    if binding is None and rates and (rate_per_second is None or ahead):
        slowest = min(rates)
        if rate_per_second is None or rate_per_second >= _BINDS_AT * slowest:
            binding = next(cap for cap in known if cap.rate_per_second == slowest)
    code = None if binding is None else binding.code
    words = None if binding is None else binding.words
    if binding is None and claimed:
        code, words = CONCURRENCY, f"its workers are busy with {claimed} of its messages"
    effective = min([*rates, *([] if rate_per_second is None else [rate_per_second])], default=None)
    expected = None
    if effective is not None:
        expected = max(now + timedelta(seconds=min(ahead / effective, _FAR_SECONDS)), visible_at)
    return WaitEstimate(
        ahead=ahead,
        rate_per_second=rate_per_second,
        limited_by=code,
        limit_words=words,
        expected_at=expected,
    )


_FAR_SECONDS = 365 * 86_400.0


def estimate_words(found: WaitEstimate) -> list[str]:
    """An estimate as parts of sentences."""
    more = " or more" if found.ahead >= AHEAD_MAX else ""
    words = [f"{found.ahead}{more} {'message is' if found.ahead == 1 else 'messages are'} ahead"]
    if found.rate_per_second is not None:
        words.append(f"the queue handles {found.rate_per_second:.3g} messages a second now")
    if found.limited_by not in (None, PAUSED):
        words.append(f"what limits it: {found.limit_words}")
    if found.expected_at is not None:
        at = iso(found.expected_at.replace(microsecond=0))
        words.append(f"it is expected to start at about {at}")
    return words
