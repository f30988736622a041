"""Sending: what a caller gives, checked, encoded and stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from msgspec import structs

from tickwork.core.message.body import GivenContentType, encode_body, known_content_type
from tickwork.core.model import ContentType, NewMessage, Scope
from tickwork.errors import FieldError, InvalidInput
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

_OPTIONS = frozenset(
    {
        "delay_seconds",
        "priority",
        "key",
        "event_id",
        "type",
        "source",
        "correlation_id",
        "causation_id",
        "expires_after_seconds",
    }
)


_ONE = (str, bytes, bytearray, memoryview, Mapping)


def is_many(bodies: object) -> bool:
    """Whether these can be several bodies: a text, bytes, a mapping or a model of Pydantic's is
    one, and not its parts."""
    is_model = hasattr(type(bodies), "model_fields")
    return isinstance(bodies, Iterable) and not isinstance(bodies, _ONE) and not is_model


def compose(
    body: object,
    *,
    content_type: GivenContentType = ContentType.JSON,
    encoded: bytes | None = None,
    **options: Any,
) -> NewMessage:
    """A message of a body and options; raises `InvalidInput` for a body that cannot be stored.

    `encoded` is the body as bytes, if the caller has made them already.
    """
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        known = ", ".join(sorted(_OPTIONS))
        raise InvalidInput(FieldError(name, f"is not known here; use {known}") for name in unknown)
    content_type = known_content_type(content_type)
    if encoded is None:
        encoded = encode_body(body, content_type)
    return NewMessage(id=new_id(), body=encoded, content_type=content_type, **options)


def check_one_event(messages: int, event_id: object) -> None:
    """Raises `InvalidInput` for several messages that are to be one event: all but one of them
    would go as its doubles, and nobody would handle them."""
    if messages > 1 and event_id is not None:
        fault = (
            "is the same for all of them, so only one would be handled: leave it out, or send each "
            "by itself, with an event_id of its own"
        )
        raise InvalidInput([FieldError("event_id", fault)])


async def send(store: Store, scope: Scope, queue: str, message: NewMessage) -> UUID:
    """Stores one message durably, and returns its id."""
    await store.messages.send(scope, queue, message)
    return message.id


async def send_batch(
    store: Store,
    scope: Scope,
    queue: str,
    messages: Sequence[NewMessage],
    *,
    delay_seconds: float | None = None,
) -> tuple[UUID, ...]:
    """Stores up to 100 messages, all or none; a delay given here counts for all of them."""
    if delay_seconds is not None:
        messages = [structs.replace(each, delay_seconds=delay_seconds) for each in messages]
    await store.messages.send_batch(scope, queue, messages)
    return tuple(message.id for message in messages)
