"""Outcomes: how a handing-out ended, said by whoever handled it.

An outcome says what happened; what follows from it is decided in `decide.py`. An error is any
text, as it came out of a handler.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Succeeded(Struct, frozen=True):
    """The work is done."""


class RetryRequested(Struct, frozen=True):
    """The handler asks for another attempt; a delay of its own, also 0, wins over the backoff. If
    it raised after that, there is an `error`, too."""

    delay_seconds: float | None = None
    error: str | None = None


class Failed(Struct, frozen=True):
    """The handler raised, or took too long; another attempt may do better."""

    error: str


class Permanent(Struct, frozen=True):
    """No attempt will ever succeed."""

    error: str


class Snoozed(Struct, frozen=True):
    """Not now: no attempt was used up."""

    seconds: float


class InvalidPayload(Struct, frozen=True):
    """The body does not fit what its queue and type declare; no handler saw it."""

    error: str


class UnhandledType(Struct, frozen=True):
    """This node has no handler for the type; one that runs a newer version may have."""


class TooManyHops(Struct, frozen=True):
    """The message is so far from its beginning that it must be going round; no handler saw it."""


class Expired(Struct, frozen=True):
    """It is too late for this message; no handler saw it."""


Outcome: TypeAlias = (
    Succeeded
    | RetryRequested
    | Failed
    | Permanent
    | Snoozed
    | InvalidPayload
    | UnhandledType
    | TooManyHops
    | Expired
)


def effective_outcome(requested: Outcome | None, result: Outcome | None) -> Outcome:
    """What counts of a handler that has `said` this, and then did not return but `ended` so: its
    own word, if there is one. An error is told also with a retry, since that is no success."""
    if requested is None:
        return result or _SUCCEEDED
    if isinstance(requested, RetryRequested) and isinstance(result, Failed | Permanent):
        return RetryRequested(requested.delay_seconds, result.error)
    return requested


_SUCCEEDED = Succeeded()
