"""Partial success: what is known about the channels of a message, and what follows from it.

Each row of a message's progress is one channel:

| value | meaning |
|---|---|
| `sending` | recorded before sending, if the target is delivered at most once |
| `succeeded`, `failed` | the result of the channel |

A channel whose success is recorded is not sent again. At most once, no channel that has a row is
sent again, and one that stays `sending` has an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct, structs

from tickwork.core.delivery.outcome import Delivery, ErrorKind
from tickwork.core.delivery.receiver import receiver_of_target
from tickwork.core.delivery.target import (
    DELIVERIES_QUEUE,
    DELIVERIES_SETTINGS,
    ChannelsTarget,
    Envelope,
    FirstSent,
)
from tickwork.core.limits import BODY_BYTES_MAX
from tickwork.core.message.backoff import delay_seconds
from tickwork.core.message.outcome import (
    Delivered,
    Failed,
    OutcomeUnknown,
    Permanent,
    RetryTerms,
    Succeeded,
)
from tickwork.core.model import Message, NewMessage, Send
from tickwork.core.schedule.firing import ChannelOutcome
from tickwork.core.schedule.model import read_terms
from tickwork.core.schedule.slot_outcome import settings_for

SENDING = "sending"
SENT = "succeeded"
FAILED = "failed"
RETRYING = "retrying"
UNKNOWN = "unknown"
"""Statuses of a channel: in its progress, and in a firing record."""

NOT_REPEATED = "it was sent before, its outcome is unknown, and it is delivered at most once"

_PREFIX = "channel:"


class _ChannelRow(Struct, frozen=True, omit_defaults=True):
    status: str
    detail: str | None = None


_ROWS = msgspec.json.Decoder(_ChannelRow)


def sending_rows(channels: Sequence[str]) -> dict[str, str]:
    """The rows of channels that will be sent at most once."""
    return {f"{_PREFIX}{channel}": _text(_ChannelRow(SENDING)) for channel in channels}


def result_row(channel: str, result: Delivery) -> dict[str, str]:
    """The row of a channel's result."""
    status = SENT if result.is_delivered else FAILED
    return {f"{_PREFIX}{channel}": _text(_ChannelRow(status, result.error or result.excerpt))}


def known_results(rows: Mapping[str, str], envelope: Envelope) -> dict[str, Delivery]:
    """The results of the channels that must not be sent again, by channel."""
    known: dict[str, Delivery] = {}
    for channel in envelope.channel_names:
        if (text := rows.get(f"{_PREFIX}{channel}")) is None:
            continue
        row = _ROWS.decode(text)
        if row.status == SENT:
            known[channel] = Delivery(is_delivered=True, excerpt=row.detail)
        elif envelope.is_at_most_once and row.status == FAILED:
            known[channel] = Delivery(is_delivered=False, error=row.detail)
        elif envelope.is_at_most_once:
            known[channel] = Delivery(
                is_delivered=False, kind=ErrorKind.UNKNOWN, error=NOT_REPEATED
            )
    return known


def may_have_progress(message: Message, envelope: Envelope) -> bool:
    """Whether rows must be read before sending: the message was claimed before, or may be the
    replay of one that was."""
    if envelope.is_at_most_once:
        return True
    was_seen = message.claim > 1 or message.idempotency_base is not None
    return was_seen and len(envelope.channels) > 1


def as_first_sent(message: Message, envelope: Envelope) -> Message:
    """A message as its receivers see it. The retry of one channel has the ids, the slot and the
    attempts of the message in which the channel failed first."""
    first = envelope.first
    if first is UNSET:
        return message
    return structs.replace(
        message,
        id=first.id,
        claim=first.claim + message.claim,
        attempts=first.attempts + message.attempts,
        schedule_id=first.schedule_id,
        slot=first.slot,
        run=first.run,
        catch_up=first.catch_up,
        idempotency_base=first.idempotency_base,
    )


def outcome_of(
    results: Mapping[str, Delivery],
    *,
    retries: Mapping[str, Send] | None = None,
    retry: RetryTerms | None = None,
) -> Delivered:
    """What follows from the results of all channels.

    All succeeded, or some did: the message is done, what failed is named, and `retries` are sent.
    All failed: it is retried, unless no channel can ever succeed. Unknown results are final.
    """
    retries, is_single = retries or {}, len(results) == 1
    failures = {name: result for name, result in results.items() if not result.is_delivered}
    shown = next(iter(failures.values() or results.values()))
    delivered = Delivered(
        Succeeded(),
        shown.code if is_single else None,
        shown.excerpt if is_single else None,
        () if is_single else tuple(_channel(*pair, retries) for pair in results.items()),
        retry=retry,
    )
    if not failures:
        return delivered
    error = "; ".join(
        failure.error or FAILED if is_single else f"{name}: {failure.error}"
        for name, failure in failures.items()
    )
    if any(_is_unknown(failure) for failure in failures.values()):
        return structs.replace(delivered, outcome=OutcomeUnknown(error))
    if len(failures) < len(results):
        return structs.replace(delivered, failed=tuple(failures), sends=tuple(retries.values()))
    delays = [
        failure.retry_after_seconds for failure in failures.values() if failure.retry_after_seconds
    ]
    outcome: Failed | Permanent = Failed(error, max(delays, default=0.0))
    if all(failure.is_permanent for failure in failures.values()):
        outcome = Permanent(error)
    return structs.replace(delivered, outcome=outcome)


def retry_terms(envelope: Envelope) -> RetryTerms | None:
    """How a failed delivery is retried, if not as its queue and its schedule say."""
    if envelope.is_at_most_once:
        return RetryTerms(max_attempts=1)
    if envelope.first is UNSET:
        return None
    retry = envelope.first.retry
    return RetryTerms(
        max_attempts=None if retry is None else retry.max_attempts,
        backoff=None if retry is None else retry.backoff,
        attempts_before=envelope.first.attempts,
    )


class ChannelRetries(Struct, frozen=True):
    """The messages that retry failed channels, by channel, and the results of all channels: a
    channel that cannot be retried says so."""

    results: Mapping[str, Delivery]
    sends: Mapping[str, Send] = {}


def retries_of(
    envelope: Envelope,
    message: Message,
    results: Mapping[str, Delivery],
    new_id: Callable[[], UUID],
) -> ChannelRetries:
    """The retries of the failed channels of a partial success.

    There are none if the target does not ask for it, or if no attempt is left.
    """
    target = envelope.target
    if not isinstance(target, ChannelsTarget) or not target.retry_failed_channels:
        return ChannelRetries(results)
    failures = {name: outcome for name, outcome in results.items() if not outcome.is_delivered}
    if envelope.is_at_most_once or len(failures) == len(results):
        return ChannelRetries(results)
    settings, attempt = settings_for(message, DELIVERIES_SETTINGS), message.attempts + 1
    if attempt > settings.max_retries:
        return ChannelRetries(results)
    wait = delay_seconds(settings.backoff, attempt)
    shown, sends = dict(results), dict[str, Send]()
    for name, result in failures.items():
        if result.is_permanent:
            continue
        body = msgspec.json.encode(
            Envelope(envelope.channels[name], envelope.payload, _first_sent(message, name))
        )
        if len(body) > BODY_BYTES_MAX:  # A schedule leaves room; an edited dead letter may not.
            fault = f"not retried: its message has {len(body)} bytes; at most {BODY_BYTES_MAX}"
            shown[name] = structs.replace(result, error=f"{result.error}; {fault}")
            continue
        new = NewMessage(
            id=new_id(),
            body=body,
            delay_seconds=max(result.retry_after_seconds or 0.0, wait),
            priority=message.priority,
            source=message.source,
            idempotency_base=message.idempotency_key,
            receiver=receiver_of_target(envelope.channels[name]),
        )
        sends[name] = Send(DELIVERIES_QUEUE, new)
    return ChannelRetries(shown, sends)


def _first_sent(message: Message, channel: str) -> FirstSent:
    return FirstSent(
        channel=channel,
        id=message.id,
        claim=message.claim,
        attempts=message.attempts + 1,
        retry=read_terms(message.terms).retry,
        idempotency_base=message.idempotency_base,
        schedule_id=message.schedule_id,
        slot=message.slot,
        run=message.run,
        catch_up=message.catch_up,
    )


def _channel(name: str, result: Delivery, retries: Mapping[str, Send]) -> ChannelOutcome:
    status = SENT if result.is_delivered else FAILED
    if name in retries:
        status = RETRYING
    elif _is_unknown(result):
        status = UNKNOWN
    return ChannelOutcome(name, status, result.error or result.excerpt)


def _is_unknown(result: Delivery) -> bool:
    return result.kind is ErrorKind.UNKNOWN


def _text(row: _ChannelRow) -> str:
    return msgspec.json.encode(row).decode()
