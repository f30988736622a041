"""Builds what a channel sends from a target, its payload and the message that carries them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.headers import percent_encoded
from tickwork.core.delivery.sealed import secrets_in
from tickwork.core.delivery.signature import signature_headers
from tickwork.core.delivery.target import (
    CHAT_UNITS_MAX,
    SUBJECT_CHARACTERS_MAX,
    ChatTarget,
    EmailTarget,
    WebhookTarget,
)
from tickwork.core.delivery.templates import fill_in, shortened
from tickwork.core.model import Message
from tickwork.core.stable_hash import derived_bytes

EMAIL_DOMAIN = "tickwork.invalid"
"""Domain of message ids if the sender's address has none."""

_DELIVERIES = UUID("b1f5f6f0-2c5e-5f0b-8a0e-6d1f1f3c9d57")
"""What the ids of deliveries are derived from."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SLOT_ID = re.compile(
    r"<?msg_([0-9a-f]{32})([0-9a-f]{16})(?:_([0-9]{1,10}))?(?:\.[^@<>]{1,100})?(?:@[^@]{1,255})?>?"
)


class WebhookRequest(Struct, frozen=True, kw_only=True):
    """A request that is ready to be sent: signed, with all headers. Its answer must begin within
    `first_byte_seconds`, if these are set, and be complete within `timeout_seconds`. Its `secrets`
    are not shown, also if its receiver repeats them."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"
    timeout_seconds: float = 30.0
    first_byte_seconds: float | None = None
    permanent_statuses: frozenset[int] = frozenset()
    secrets: frozenset[str] = frozenset()


class EmailRequest(Struct, frozen=True, kw_only=True):
    """An email that is ready to be sent."""

    sender: str
    to: Sequence[str]
    subject: str
    text: str | None = None
    html: str | None = None
    message_id: str
    sent_at: datetime
    timeout_seconds: float = 30.0


def webhook_request(
    target: WebhookTarget,
    payload: Any,
    message: Message,
    channel: str,
    *,
    keys: Sequence[bytes],
    sent_at: datetime,
    timeout_seconds: float,
    headers: Mapping[str, str] = {},
) -> WebhookRequest:
    """A signed webhook of a message. Its id is the same for every attempt and every replay.
    `headers` are more of our own."""
    body = b"" if target.method == "GET" else msgspec.json.encode(payload)
    has_type = "content-type" in map(str.lower, target.headers)
    return WebhookRequest(
        url=target.url,
        method=target.method,
        headers={
            **({} if has_type else {"Content-Type": "application/json"}),
            **target.headers,
            **own_headers(message),
            **headers,
            **signature_headers(keys, delivery_id(message, channel), sent_at, body),
        },
        body=body,
        timeout_seconds=timeout_seconds,
        first_byte_seconds=target.first_byte_seconds,
        secrets=secrets_in(target),
    )


def chat_request(
    target: ChatTarget, values: Mapping[str, Any], *, timeout_seconds: float
) -> WebhookRequest:
    """The message of a chat service, as its incoming webhooks take it: a long one is shortened."""
    text = shortened(fill_in(target.text, values), CHAT_UNITS_MAX[target.service])
    match target.service:
        case "discord":
            body: dict[str, Any] = {"content": text}
        case "telegram":
            body = {"chat_id": target.chat_id, "text": text}
        case _:
            body = {"text": text}
    return WebhookRequest(
        url=target.url,
        headers={"Content-Type": "application/json"},
        body=msgspec.json.encode(body),
        timeout_seconds=timeout_seconds,
        secrets=secrets_in(target),
    )


def email_request(
    target: EmailTarget,
    values: Mapping[str, Any],
    message: Message,
    channel: str,
    *,
    sender: str,
    sent_at: datetime,
    timeout_seconds: float,
) -> EmailRequest:
    """The email of a message. Raises `NotFilled`."""
    domain = sender.rpartition("@")[2].rstrip(">") or EMAIL_DOMAIN
    return EmailRequest(
        sender=sender,
        to=target.to,
        subject=" ".join(
            fill_in(target.subject, values, characters_max=SUBJECT_CHARACTERS_MAX).split()
        ),
        text=None if target.text is None else fill_in(target.text, values),
        html=None if target.html is None else fill_in(target.html, values, is_html=True),
        message_id=f"<{delivery_id(message, channel)}@{domain}>",
        sent_at=sent_at,
        timeout_seconds=timeout_seconds,
    )


def delivery_id(message: Message, channel: str) -> str:
    """The id of a delivery, which a receiver can use to drop repeats. The retries and the replays
    of a slot have the same. It names the slot, so that it can be looked up."""
    named = "" if channel in ("webhook", "email") else f".{percent_encoded(channel)}"
    sent = sent_slot(message)
    if sent is None:
        own = derived_bytes(_DELIVERIES, f"{message.tenant}:{message.work_key}").hex()
    else:
        microseconds = (sent.slot - _EPOCH) // timedelta(microseconds=1)
        own = f"{sent.schedule_id.hex}{microseconds:016x}" + (f"_{sent.run}" if sent.run else "")
    return f"msg_{own}{named}"


class SentSlot(NamedTuple):
    """A slot of a schedule that a delivery was made for, and its first run."""

    schedule_id: UUID
    slot: datetime
    run: int


def sent_slot(message: Message) -> SentSlot | None:
    """The slot of a message, as the id of its delivery names it; None if it has none. A replay has
    the run of the message that died, which its key names."""
    if message.schedule_id is None or message.slot is None:
        return None
    _, is_named, run = message.work_key.rpartition(f":{_iso(message.slot)}")
    if not is_named or (run and not run[1:].isdigit()):
        return None
    return SentSlot(message.schedule_id, message.slot, int(run[1:] or 0))


def read_delivery_id(text: str) -> SentSlot | None:
    """The slot in the id of a delivery, or of an email; None if it is another id."""
    found = _SLOT_ID.fullmatch(text)
    if found is None:
        return None
    try:
        slot = _EPOCH + timedelta(microseconds=int(found[2], 16))
    except OverflowError:
        return None
    return SentSlot(UUID(found[1]), slot, int(found[3] or 0))


def values_of(payload: Any, message: Message, schedule_name: str | None) -> dict[str, Any]:
    """The values of the placeholders in texts."""
    return {
        "payload": payload,
        "slot": None if message.slot is None else _iso(message.slot),
        "schedule": {"name": schedule_name},
    }


def own_headers(message: Message) -> dict[str, str]:
    """The headers of a message, besides its body."""
    headers = {
        "Idempotency-Key": percent_encoded(message.work_key),
        "Tickwork-Attempt": str(message.attempts + 1),
        "Tickwork-Fence": str(message.claim),
    }
    if message.schedule_id is not None:
        headers["Tickwork-Schedule"] = public_id(Prefix.SCHEDULE, message.schedule_id)
    if message.slot is not None:
        headers["Tickwork-Slot"] = _iso(message.slot)
    if message.catch_up:
        headers["Tickwork-Catch-Up"] = "true"
    return headers


def _iso(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
