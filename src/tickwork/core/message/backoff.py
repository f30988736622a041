"""How long to wait before the next attempt.

A backoff is a value of a queue's settings. `delay_seconds` says what it means for an attempt;
the jitter over nodes is a fraction that the caller brings, so that nothing here is random.

What follows from what: retries, rates and groups of errors, as pure functions of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from tickwork.errors import FieldError

BACKOFF_SECONDS_MAX = 365.0 * 86_400
FACTOR_MAX = 100.0
LIST_LENGTH_MAX = 100

JITTER_MAX = 0.1
"""Up to a tenth longer, so that what failed together does not come back together."""


class Exponential(Struct, frozen=True, tag="exponential", tag_field="kind"):
    """`base`, then `factor` times as long each time, up to `cap`."""

    base_seconds: float = 30.0
    factor: float = 2.0
    cap_seconds: float = 600.0


class Listed(Struct, frozen=True, tag="list", tag_field="kind"):
    """One delay after another; the last one repeats."""

    seconds: tuple[float, ...] = (60.0, 300.0, 1800.0)


class Fixed(Struct, frozen=True, tag="fixed", tag_field="kind"):
    """Always the same."""

    seconds: float = 60.0


Backoff: TypeAlias = Exponential | Listed | Fixed


def delay_seconds(backoff: Backoff, attempt: int, *, jitter: float = 0.0) -> float:
    """The wait after the given attempt, the first being 1; `jitter` from 0 to 1 makes it up to
    a tenth longer."""
    assert attempt >= 1
    assert 0.0 <= jitter <= 1.0
    plain = _plain_seconds(backoff, attempt)
    wait = plain + plain * JITTER_MAX * jitter
    # The longest wait has no room for a jitter: a store would refuse it.
    return min(wait, BACKOFF_SECONDS_MAX)


def backoff_faults(backoff: Backoff, field: str) -> Iterator[FieldError]:
    """What is wrong with a backoff, in words."""
    match backoff:
        case Fixed(seconds):
            yield from _seconds_faults(seconds, f"{field}.seconds")
        case Listed(seconds):
            if not 1 <= len(seconds) <= LIST_LENGTH_MAX:
                yield FieldError(f"{field}.seconds", f"must have 1 to {LIST_LENGTH_MAX} entries")
            for index, each in enumerate(seconds):
                yield from _seconds_faults(each, f"{field}.seconds[{index}]")
        case Exponential(base, factor, cap):
            yield from _seconds_faults(base, f"{field}.base_seconds")
            yield from _seconds_faults(cap, f"{field}.cap_seconds")
            if not 1.0 <= factor <= FACTOR_MAX:
                yield FieldError(f"{field}.factor", f"must be from 1 to {FACTOR_MAX:g}")


def _plain_seconds(backoff: Backoff, attempt: int) -> float:
    match backoff:
        case Fixed(seconds):
            return seconds
        case Listed(seconds):
            return seconds[min(attempt, len(seconds)) - 1]
        case Exponential(base, factor, cap):
            wait = base
            for _ in range(attempt - 1):
                if wait >= cap:
                    break
                wait *= factor
            return min(wait, cap)


def _seconds_faults(seconds: float, field: str) -> Iterator[FieldError]:
    if not 0 <= seconds <= BACKOFF_SECONDS_MAX:
        yield FieldError(field, f"must be from 0 to {BACKOFF_SECONDS_MAX:.0f}")
