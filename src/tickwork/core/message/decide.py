"""Decides what happens to a message after its handler: ack, retry, release or dead letter.

```
  succeeded ───────────────────────────▶ ack, with everything the handler sent
  failed, or retry requested ──────────▶ retry after the backoff, while attempts are left
                                    └──▶ dead  max_retries
  snoozed ─────────────────────────────▶ release, counts no attempt
  no handler for its type ─────────────▶ release, for about ten minutes
                                    └──▶ dead  unhandled_type
  permanent · invalid payload ─────────▶ dead at once
  outcome of a delivery unknown ───────▶ dead at once
  32 hops · expired ───────────────────▶ dead at once
```

Contract: a store accepts every ending that `settle` returns. Delays are clamped to their limits,
and errors are cleaned so that they can be stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import assert_never

from msgspec import structs

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.effects import Effect
from tickwork.core.limits import DELAY_SECONDS_MAX, ERROR_LENGTH_MAX, HOPS_MAX
from tickwork.core.message.backoff import delay_seconds
from tickwork.core.message.error_summary import OMITTED_MARK
from tickwork.core.message.outcome import (
    Committed,
    Delivered,
    EndpointDisabled,
    Expired,
    Failed,
    InvalidPayload,
    Outcome,
    OutcomeUnknown,
    Permanent,
    RetryRequested,
    Snoozed,
    Succeeded,
    TooManyHops,
    UnhandledType,
)
from tickwork.core.model import (
    REASON_ENDPOINT_DISABLED,
    REASON_EXPIRED,
    REASON_INVALID_PAYLOAD,
    REASON_MAX_RETRIES,
    REASON_TOO_MANY_HOPS,
    REASON_UNHANDLED_TYPE,
    BatchWithItems,
    Ending,
    Fate,
    Message,
    NewMessage,
    QueueSettings,
    Send,
)
from tickwork.core.schedule.slot_outcome import settings_for, with_delivery, with_firing_result
from tickwork.core.stable_hash import stable_hash

UNHANDLED_DELAY_SECONDS = 30.0
"""Seconds that a message without a handler waits for another node."""

UNHANDLED_RELEASES_MAX = 20
"""Maximum number of such releases. Releases by `Snooze` do not count: there a handler exists."""

REASON_PERMANENT = "permanent"
REASON_OUTCOME_UNKNOWN = "outcome_unknown"

NO_TEXT = "no error text was given"

_UNHANDLED_BEFORE = re.compile(r"no handler for .* \(release (\d{1,9}) of \d+\)", re.DOTALL)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_SUCCEEDED = Succeeded()


def effective_outcome(requested: Outcome | None, result: Outcome | None) -> Outcome:
    """The outcome of a handler that `requested` one, such as by `ack()`, and then finished with
    `result`. The request wins. A requested retry keeps the error of the result."""
    if requested is None:
        return result or _SUCCEEDED
    if isinstance(requested, RetryRequested) and isinstance(result, Failed | Permanent):
        return RetryRequested(requested.delay_seconds, result.error)
    return requested


def settle(
    message: Message,
    outcome: Outcome,
    settings: QueueSettings,
    *,
    jitter: float = 0.0,
    sends: Iterable[Send] = (),
    batches: Iterable[BatchWithItems] = (),
    took_seconds: float = 0.0,
) -> Ending:
    """Returns the ending of the message's claim.

    `jitter` is `jitter_of` the message, or 0 for exact delays. The sends and batches of the handler
    are part of the ending only on success; each of their messages gets the cause and correlation.
    For a schedule's slot the schedule's own terms apply, and the ending has a firing record.
    """
    if isinstance(outcome, Delivered):
        return _delivered(message, outcome, settings, jitter, took_seconds)
    if message.schedule_id is None:
        return _ending(message, outcome, settings, jitter, sends, batches, took_seconds)
    settings = settings_for(message, settings)
    ending = _ending(message, outcome, settings, jitter, sends, batches, took_seconds)
    return with_firing_result(message, ending, took_seconds=took_seconds)


def _delivered(
    message: Message,
    delivered: Delivered,
    settings: QueueSettings,
    jitter: float,
    took_seconds: float,
) -> Ending:
    settings, counted = settings_for(message, settings), message
    if (retry := delivered.retry) is not None:
        attempts_max = retry.max_attempts or settings.max_retries + 1
        backoff = retry.backoff or settings.backoff
        settings = structs.replace(settings, max_retries=attempts_max - 1, backoff=backoff)
        counted = structs.replace(message, attempts=retry.attempts_before + message.attempts)
    if delivered.took_seconds is not None:
        took_seconds = delivered.took_seconds
    ending = _ending(
        counted, delivered.outcome, settings, jitter, delivered.sends, (), took_seconds
    )
    ending = with_firing_result(message, ending, took_seconds=took_seconds)
    return with_delivery(ending, delivered)


def _ending(
    message: Message,
    outcome: Outcome,
    settings: QueueSettings,
    jitter: float,
    sends: Iterable[Send],
    batches: Iterable[BatchWithItems],
    took_seconds: float,
) -> Ending:
    if type(outcome) is Succeeded:
        return _acked(message, sends, batches, took_seconds)
    ending = _other_ending(message, outcome, settings, jitter, sends, batches, took_seconds)
    is_over = ending.fate in (Fate.ACK, Fate.DEAD)
    return structs.replace(ending, took_seconds=took_seconds) if is_over else ending


def _other_ending(
    message: Message,
    outcome: Outcome,
    settings: QueueSettings,
    jitter: float,
    sends: Iterable[Send],
    batches: Iterable[BatchWithItems],
    took_seconds: float,
) -> Ending:
    match outcome:
        case Committed(effects, own_sends):
            ending = _acked(message, sends, batches, took_seconds)
            if ending.fate is not Fate.ACK:
                return ending
            later = tuple(
                structs.replace(send, message=_later(message, send.message)) for send in own_sends
            )
            return structs.replace(ending, effects=effects, sends=ending.sends + later)
        case Succeeded():
            return _acked(message, sends, batches, took_seconds)
        case RetryRequested(delay, error):
            cleaned = None if error is None else clean_error(error)
            return _retried(message, settings, jitter, delay=delay, error=cleaned)
        case Failed(error, at_least):
            return _retried(message, settings, jitter, at_least=at_least, error=clean_error(error))
        case Permanent(error, effects):
            dead = _dead(message, REASON_PERMANENT, clean_error(error))
            return structs.replace(dead, effects=effects) if effects else dead
        case Snoozed(seconds, note, effects, until):
            return _released(message, seconds, note, effects, until)
        case InvalidPayload(error):
            return _dead(message, REASON_INVALID_PAYLOAD, clean_error(error))
        case UnhandledType(what, is_nowhere):
            return _unhandled(message, what, is_nowhere=is_nowhere)
        case TooManyHops():
            return _too_many_hops(message)
        case Expired():
            return _dead(message, REASON_EXPIRED)
        case OutcomeUnknown(error):
            return _dead(message, REASON_OUTCOME_UNKNOWN, clean_error(error))
        case EndpointDisabled(error):
            return _dead(message, REASON_ENDPOINT_DISABLED, clean_error(error))
        case Delivered():
            inner = outcome.outcome
            return _ending(message, inner, settings, jitter, sends, batches, took_seconds)
    assert_never(outcome)


def early_outcome(message: Message) -> Outcome | None:
    """The outcome of a message that no handler may see; None if it can be handled."""
    return TooManyHops() if message.hops >= HOPS_MAX else None


def caused_by(message: Message, new: NewMessage) -> NewMessage:
    """A message that a handler sends, with the handled message as its cause.

    It has the same correlation id unless the sender gave another one, and one more hop.
    """
    return structs.replace(
        new,
        correlation_id=new.correlation_id or message.correlation,
        causation_id=new.causation_id or cause_name(message),
        traceparent=new.traceparent or message.traceparent,
        hops=message.hops + 1,
    )


def cause_name(message: Message) -> str:
    """What names a message as a cause: its event id, or its id."""
    return message.event_id or public_id(Prefix.MESSAGE, message.id)


def _later(message: Message, new: NewMessage) -> NewMessage:
    """A message that starts a story of its own, such as an alarm of an entity that sets the next
    one: it is no chain of hops."""
    return structs.replace(caused_by(message, new), hops=0)


def with_effects(
    message: Message, ending: Ending, sends: Iterable[Send], batches: Iterable[BatchWithItems]
) -> Ending:
    """An ending with more sends and batches, caused by the message."""
    sent = tuple(structs.replace(send, message=caused_by(message, send.message)) for send in sends)
    made = tuple(
        structs.replace(batch, items=tuple(caused_by(message, item) for item in batch.items))
        for batch in batches
    )
    return structs.replace(ending, sends=ending.sends + sent, batches=ending.batches + made)


def jitter_of(message: Message) -> float:
    """A number from 0 to 1 for the jitter of this attempt; the same on every node."""
    return stable_hash(f"{message.id}:{message.attempts + 1}") / 2**64


def clean_error(text: str) -> str:
    """An error text that can be stored. Replaces characters that databases refuse, and removes the
    middle of a text that is too long."""
    if not text.strip():
        return NO_TEXT
    if len(text) > ERROR_LENGTH_MAX:
        mark = f"\n… {len(text)} characters in all; {OMITTED_MARK}\n"
        kept = ERROR_LENGTH_MAX - len(mark)
        text = text[: kept // 2] + mark + text[-(kept - kept // 2) :]
    return _UNSTORABLE.sub(_REPLACEMENT, text)


def _acked(
    message: Message,
    sends: Iterable[Send],
    batches: Iterable[BatchWithItems],
    took_seconds: float,
) -> Ending:
    ending = Ending(claim=message.current_claim, fate=Fate.ACK, took_seconds=took_seconds)
    sends, batches = tuple(sends), tuple(batches)
    if not sends and not batches:
        return ending
    if message.hops >= HOPS_MAX:
        return _too_many_hops(message)
    return with_effects(message, ending, sends, batches)


def _retried(
    message: Message,
    settings: QueueSettings,
    jitter: float,
    *,
    delay: float | None = None,
    at_least: float = 0.0,
    error: str | None = None,
) -> Ending:
    attempt = message.attempts + 1
    if attempt > settings.max_retries:
        return _dead(message, REASON_MAX_RETRIES, error)
    if delay is None:
        delay = max(delay_seconds(settings.backoff, attempt, jitter=jitter), at_least)
    return Ending(
        claim=message.current_claim,
        fate=Fate.RETRY,
        delay_seconds=_clamped(delay),
        error=error,
    )


def _unhandled(message: Message, what: str | None, *, is_nowhere: bool) -> Ending:
    named = what or ("its type" if message.type is None else f"the type {message.type!r}")
    error, times = f"no handler for {named}", _times_unhandled(message) + 1
    if is_nowhere or times > UNHANDLED_RELEASES_MAX:
        return _dead(message, REASON_UNHANDLED_TYPE, clean_error(error))
    counted = f"{error} (release {times} of {UNHANDLED_RELEASES_MAX})"
    return _released(message, UNHANDLED_DELAY_SECONDS, clean_error(counted))


def _times_unhandled(message: Message) -> int:
    """Number of releases because no node had a handler, as the last error says. A failed attempt or
    a lost claim resets it; their number is limited, too."""
    before = _UNHANDLED_BEFORE.fullmatch(message.last_error or "")
    return 0 if before is None else int(before[1])


def _too_many_hops(message: Message) -> Ending:
    return _dead(message, REASON_TOO_MANY_HOPS, f"the message has {message.hops} hops")


def _released(
    message: Message,
    seconds: float,
    error: str | None = None,
    effects: tuple[Effect, ...] = (),
    visible_at: datetime | None = None,
) -> Ending:
    return Ending(
        claim=message.current_claim,
        fate=Fate.RELEASE,
        delay_seconds=_clamped(seconds),
        visible_at=visible_at,
        error=error,
        effects=effects,
    )


def _dead(message: Message, reason: str, error: str | None = None) -> Ending:
    return Ending(claim=message.current_claim, fate=Fate.DEAD, reason=reason, error=error)


def _clamped(seconds: float) -> float:
    # In this order a NaN becomes 0.
    return min(max(0.0, seconds), float(DELAY_SECONDS_MAX))
