"""Completion by callback: after a 202 a firing goes on until its receiver completes it.

```
  claim ──▶ record the hash of a new token ──▶ request with the token ──▶ 202: release, and wait
                                                                             │
     completed with the token: ack, or a failed attempt ◀────────────────────┤
     the time is over: claimed again, a failed attempt `callback_timeout` ◀──┘
```

A token belongs to one claim of one message: the recorded claim number must be that of the message.
So a token of an earlier attempt is stale, and of a completion and a timeout exactly one wins.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import TypeAlias
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.outcome import excerpt
from tickwork.core.delivery.target import (
    COMPLETE_WITHIN_SECONDS,
    EndpointTarget,
    Envelope,
    WebhookTarget,
)
from tickwork.core.fields import Reader, iso
from tickwork.core.limits import is_name
from tickwork.core.message.outcome import Delivered, Failed, Snoozed, Succeeded
from tickwork.core.model import WAITING_SINCE, Message, State
from tickwork.errors import FieldError, InvalidInput

URL_HEADER, TOKEN_HEADER = "Tickwork-Complete-Url", "Tickwork-Complete-Token"
ACCEPTED = 202
"""Status of an answer that leaves the firing running."""

SECRET_BYTES = 32
CALLBACK_TIMEOUT = "callback_timeout"
NO_ERROR = "the receiver reported a failure"
NO_PUBLIC_URL = (
    "TICKWORK_PUBLIC_URL is not set on this worker; set it to the URL at which receivers reach "
    "this server"
)

_PREFIX = "tct_"
_ID_BYTES = 16
_TOKEN_LENGTH_MAX = 1_000
_ROW = "complete"
_FIELDS = frozenset({"status", "error"})
STATUSES = ("succeeded", "failed")


class CompletionToken(Struct, frozen=True):
    """What a token names: the message of a firing, and a hash of the whole token."""

    tenant: str
    message_id: UUID
    hash: str


class Completion(Struct, frozen=True):
    """What a receiver reports about a firing: success, or a failed attempt with its error."""

    is_failed: bool = False
    error: str | None = None


class _CallbackRow(Struct, frozen=True):
    claim: int
    hash: str


_ROWS = msgspec.json.Decoder(_CallbackRow)


def new_token(message: Message, secret: bytes) -> str:
    """A token for the current claim of a message."""
    named = secret + message.id.bytes + message.tenant.encode()
    return _PREFIX + urlsafe_b64encode(named).decode().rstrip("=")


def read_token(given: object) -> CompletionToken:
    """What a token names. Raises `InvalidInput` for what is not a token."""
    if isinstance(given, str) and len(given) <= _TOKEN_LENGTH_MAX and given.startswith(_PREFIX):
        text = given.removeprefix(_PREFIX)
        try:
            named = urlsafe_b64decode(text + "=" * (-len(text) % 4))[SECRET_BYTES:]
            tenant = named[_ID_BYTES:].decode()
            if is_name(tenant):
                return CompletionToken(tenant, UUID(bytes=named[:_ID_BYTES]), _hash(given))
        except (NotBase64, ValueError):
            pass
    fault = f"is not a token; give the value of the header {TOKEN_HEADER}, which starts with tct_"
    raise InvalidInput([FieldError("token", fault)])


def read_completion(fields: Mapping[str, object]) -> Completion:
    """What a receiver reports: `{"status": "succeeded"}`, the default, or
    `{"status": "failed", "error": "…"}`. Raises `InvalidInput`."""
    faults: list[FieldError] = []
    reader = Reader(fields, faults)
    reader.refuse_unknown(_FIELDS)
    status = reader.one_of("status", STATUSES) if reader.has("status") else STATUSES[0]
    error = reader.string("error") if reader.has("error") else None
    if error is not None and status == STATUSES[0]:
        reader.fault("error", "is only for the status failed")
    if faults:
        raise InvalidInput(faults)
    return Completion(status != STATUSES[0], error)


def token_row(message: Message, token: str) -> dict[str, str]:
    """The row of progress that makes a token valid for the current claim of a message."""
    return {_ROW: msgspec.json.encode(_CallbackRow(message.claim, _hash(token))).decode()}


def is_valid(
    token: CompletionToken, message: Message, rows: Mapping[str, str], now: datetime
) -> bool:
    """Whether a token completes the current attempt at a message, whose progress is given."""
    if _ROW not in rows:
        return False
    row = _ROWS.decode(rows[_ROW])
    if (row.claim, row.hash) != (message.claim, token.hash) or message.state is State.BLOCKED:
        return False
    return message.waits_since is None or message.visible_at > now


CallbackTarget: TypeAlias = WebhookTarget | EndpointTarget


def callback_target(envelope: Envelope) -> CallbackTarget | None:
    """The target of a delivery that its receiver may complete later."""
    target = envelope.target
    if isinstance(target, (WebhookTarget, EndpointTarget)) and target.is_callback:
        return target
    return None


def callback_headers(public_url: str, message: Message, token: str) -> dict[str, str]:
    """The headers from which a receiver knows how to complete the firing."""
    firing = public_id(Prefix.FIRING, message.id)
    url = f"{public_url.rstrip('/')}/v1/firings/{firing}/complete"
    return {URL_HEADER: url, TOKEN_HEADER: token}


def waiting(message: Message, target: CallbackTarget) -> Snoozed:
    """After a 202: the message waits, and its firing runs."""
    assert message.claimed_at is not None
    return Snoozed(float(_within(target)), f"{WAITING_SINCE}{iso(message.claimed_at)}")


def timed_out(message: Message, target: CallbackTarget) -> Delivered:
    """The receiver did not complete the firing in time: the attempt failed."""
    assert message.waits_since is not None
    assert message.claimed_at is not None
    error = f"{CALLBACK_TIMEOUT}: not completed within {_within(target)} seconds"
    took = message.claimed_at - message.waits_since
    return Delivered(
        Failed(error), ACCEPTED, reason=CALLBACK_TIMEOUT, took_seconds=took.total_seconds()
    )


def completed(completion: Completion, message: Message, now: datetime) -> Delivered:
    """The outcome that a receiver reported."""
    since = message.waits_since or message.claimed_at or now
    outcome: Succeeded | Failed = Succeeded()
    if completion.is_failed:
        outcome = Failed(excerpt(completion.error or "") or NO_ERROR)
    took = max((now - since).total_seconds(), 0.0)
    return Delivered(outcome, ACCEPTED, took_seconds=took)


def _within(target: CallbackTarget) -> int:
    return target.complete_within_seconds or COMPLETE_WITHIN_SECONDS


def _hash(token: str) -> str:
    return sha256(token.encode()).hexdigest()
