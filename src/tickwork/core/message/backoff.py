"""How long to wait before the next attempt.

A backoff is one of the settings of a queue. `delay_seconds` computes the wait after an attempt. The
caller supplies the jitter, so that this module needs no random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct, structs

from tickwork.core.fields import FieldReader, Reader, choice_error, shown
from tickwork.errors import FieldError

BACKOFF_SECONDS_MAX = 365.0 * 86_400
FACTOR_MAX = 100.0
LIST_LENGTH_MAX = 100

JITTER_MAX = 0.1
"""Maximum jitter, as a fraction of the delay. It spreads the retries of messages that failed
together."""


class Exponential(Struct, frozen=True, tag="exponential", tag_field="kind"):
    """`base_seconds` after the first attempt, then `factor` times as long each time, up to
    `cap_seconds`."""

    base_seconds: float = 30.0
    factor: float = 2.0
    cap_seconds: float = 600.0


class Listed(Struct, frozen=True, tag="list", tag_field="kind"):
    """One delay per attempt; the last one repeats."""

    seconds: tuple[float, ...] = (60.0, 300.0, 1800.0)


class Fixed(Struct, frozen=True, tag="fixed", tag_field="kind"):
    """The same delay after every attempt."""

    seconds: float = 60.0


Backoff: TypeAlias = Exponential | Listed | Fixed

_KINDS: dict[str, type[Backoff]] = {"exponential": Exponential, "list": Listed, "fixed": Fixed}
_EXAMPLE = 'Fixed(60), Listed((60, 300)), Exponential(30), or {"kind": "fixed", "seconds": 60}'


def delay_seconds(backoff: Backoff, attempt: int, *, jitter: float = 0.0) -> float:
    """Seconds to wait after an attempt, counted from 1. A `jitter` from 0 to 1 adds up to
    `JITTER_MAX`."""
    assert attempt >= 1
    assert 0.0 <= jitter <= 1.0
    plain = _plain_seconds(backoff, attempt)
    wait = plain + plain * JITTER_MAX * jitter
    # A store refuses a longer wait, so the longest delay gets no jitter.
    return min(wait, BACKOFF_SECONDS_MAX)


def read_backoff(reader: Reader, name: str) -> Backoff | None:
    """A backoff, or an object with its `kind` and its fields; `backoff_faults` checks ranges."""
    value = reader.value(name)
    if isinstance(value, Exponential | Listed | Fixed):
        value = {"kind": type(value).__struct_config__.tag, **structs.asdict(value)}
    if not isinstance(value, Mapping):
        reader.fault(name, f"must be a backoff, such as {_EXAMPLE}, not {shown(value)}")
        return None
    inner, kind = reader.nested(name, value), value.get("kind")
    if kind is None:
        inner.fault("kind", f"is missing; give one of {', '.join(_KINDS)}")
        return None
    if (message := choice_error(kind, _KINDS)) is not None:
        inner.fault("kind", message)
        return None
    made = _KINDS[kind]
    seconds: FieldReader = Reader.numbers if made is Listed else Reader.number
    known = dict.fromkeys(made.__struct_fields__, seconds)
    inner.refuse_unknown({"kind", *known})
    before = len(reader.faults)
    fields = inner.read(known)
    return made(**fields) if len(reader.faults) == before else None


def backoff_faults(backoff: Backoff, field: str) -> Iterator[FieldError]:
    """Errors of a backoff whose values are out of range."""
    match backoff:
        case Fixed(seconds):
            yield from _seconds_faults(seconds, f"{field}.seconds")
        case Listed(seconds):
            if not 1 <= len(seconds) <= LIST_LENGTH_MAX:
                yield FieldError(f"{field}.seconds", f"must have 1 to {LIST_LENGTH_MAX} entries")
            for index, second in enumerate(seconds):
                yield from _seconds_faults(second, f"{field}.seconds[{index}]")
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
