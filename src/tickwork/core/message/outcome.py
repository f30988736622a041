"""Outcomes: the result of handling a message.

`decide.py` decides what follows from an outcome. An error is the unchanged text from the handler.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from msgspec import Struct

from tickwork.core.effects import Effect
from tickwork.core.message.backoff import Backoff
from tickwork.core.model import Send
from tickwork.core.schedule.firing import ChannelOutcome


class Succeeded(Struct, frozen=True):
    """The handler succeeded."""


class Committed(Succeeded, frozen=True):
    """The handler succeeded, with effects that commit with the ack. So do the `sends`, which start
    a story of their own: they have no hops."""

    effects: tuple[Effect, ...] = ()
    sends: tuple[Send, ...] = ()


class RetryRequested(Struct, frozen=True):
    """The handler requested a retry. Its delay, if given, replaces the backoff. `error` is set if
    the handler raised afterwards."""

    delay_seconds: float | None = None
    error: str | None = None


class Failed(Struct, frozen=True):
    """The handler raised or timed out. A retry may succeed, after the backoff and not sooner than
    `at_least_seconds`, which a receiver may ask for."""

    error: str
    at_least_seconds: float = 0.0


class Permanent(Struct, frozen=True):
    """The handler raised `Permanent`: no retry can succeed. The effects commit with the dead
    letter."""

    error: str
    effects: tuple[Effect, ...] = ()


class Snoozed(Struct, frozen=True):
    """The handler postponed the message. It counts no attempt. `note` replaces its last error. With
    `until` it is visible at that time, however late it is released. The effects commit with the
    release."""

    seconds: float
    note: str | None = None
    effects: tuple[Effect, ...] = ()
    until: datetime | None = None


class InvalidPayload(Struct, frozen=True):
    """The body does not match the declared type. No handler ran."""

    error: str


class UnhandledType(Struct, frozen=True):
    """This node has no handler for the type, or for `what`. A node with a newer version may have
    one, unless it `is_nowhere`: no live node has one."""

    what: str | None = None
    is_nowhere: bool = False


class TooManyHops(Struct, frozen=True):
    """The message has so many hops that it must be in a loop. No handler ran."""


class Expired(Struct, frozen=True):
    """The message expired. No handler ran."""


class OutcomeUnknown(Struct, frozen=True):
    """A delivery at most once was interrupted. It may have arrived, and is not repeated."""

    error: str


class EndpointDisabled(Struct, frozen=True):
    """A delivery waited for a disabled endpoint as long as messages are kept. It was not sent."""

    error: str


class RetryTerms(Struct, frozen=True, kw_only=True):
    """How a delivery is retried, if not as its queue and its schedule say. None means the queue's
    setting. `attempts_before` counts those of an earlier message."""

    max_attempts: int | None = None
    backoff: Backoff | None = None
    attempts_before: int = 0


class Delivered(Struct, frozen=True):
    """The outcome of a delivery outside, and what its firing record shows besides.

    `failed` names the channels that failed while others succeeded: the firing is partial. `sends`
    retry them. `reason` is that of a failed attempt. `took_seconds` is set if the attempt took
    longer than its handler ran.
    """

    outcome: Succeeded | RetryRequested | Failed | Permanent | OutcomeUnknown
    result_code: int | None = None
    excerpt: str | None = None
    channels: tuple[ChannelOutcome, ...] = ()
    failed: tuple[str, ...] = ()
    sends: tuple[Send, ...] = ()
    retry: RetryTerms | None = None
    reason: str | None = None
    took_seconds: float | None = None


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
    | OutcomeUnknown
    | EndpointDisabled
    | Delivered
)
