"""Checks the payload of a schedule against the type that its target queue or handler declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tickwork.app.payloads import Payload, PayloadOf
from tickwork.core.message.body import decode_body
from tickwork.core.model import ContentType
from tickwork.core.schedule.model import FIRED_TYPE
from tickwork.errors import FieldError, InvalidInput


def with_typed_payload(fields: Mapping[str, object], payload_of: PayloadOf) -> Mapping[str, object]:
    """Returns the fields with the payload as plain JSON values of the declared type.

    Raises `InvalidInput` if the payload does not fit: every firing would become a dead letter.
    """
    target = fields.get("target")
    queue = target.get("queue") if isinstance(target, Mapping) else None
    message_type = target.get("message_type") if isinstance(target, Mapping) else None
    if not isinstance(queue, str) or not isinstance(message_type, str | None):
        return fields  # Reading the fields names this fault.
    payload = payload_of(queue, message_type or FIRED_TYPE)
    return fields if payload is None else as_typed(fields, payload)


def as_typed(fields: Mapping[str, object], payload: Payload[Any]) -> Mapping[str, object]:
    """As `with_typed_payload` for a known type."""
    if payload.is_plain:
        return fields
    given = fields.get("payload")
    try:
        body = payload.encode(given)
    except InvalidInput as error:
        missing = "is missing; without it the body is null, which " if given is None else ""
        raise InvalidInput(
            FieldError("payload", f"{missing}{each.message}") for each in error.errors
        ) from None
    return {**fields, "payload": decode_body(body, ContentType.JSON)}
