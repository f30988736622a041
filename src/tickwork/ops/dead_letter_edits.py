"""Replaces the bodies of open dead letters, before their replay."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tickwork.app.payloads import Payload
from tickwork.core.delivery import endpoint, target
from tickwork.core.entity.call import check_edited_call
from tickwork.core.limits import ENTITIES_PREFIX, is_hidden
from tickwork.core.message.dead_letter import StoredDeadLetter
from tickwork.core.model import ContentType
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.dead_letters import find_dead_letter
from tickwork.ops.queues import queue_names
from tickwork.ops.types import known_types


async def edit_dead_letter(
    context: Context, dead_letter_id: UUID, body: bytes, content_type: ContentType
) -> StoredDeadLetter:
    """Replaces the body of an open dead letter; a replay sends the new one.

    Raises `Conflict` if the dead letter is resolved. Of a delivery only the payload may change.
    """
    letter = await find_dead_letter(context, dead_letter_id)
    queue = (await queue_names(context)).get(letter.queue_id)
    if queue is not None and is_hidden(queue):
        _check_edited(queue, letter.body, body)
    async with recorded(context, "dead_letter.edit", dead_letter_id):
        return await context.store.dead_letters.edit(
            context.scope, dead_letter_id, body, content_type
        )


def _check_edited(queue: str, before: bytes, after: bytes) -> None:
    """Raises `InvalidInput` if an edit would send something else or elsewhere."""
    match queue:
        case target.DELIVERIES_QUEUE:
            target.check_edited_envelope(before, after)
        case endpoint.ENDPOINTS_QUEUE:
            endpoint.check_edited_envelope(before, after)
        case _ if queue.startswith(ENTITIES_PREFIX):
            check_edited_call(before, after)
        case _:
            raise InvalidInput([FieldError("body", "of an alert cannot be changed; discard it")])


async def edit_with_value(
    context: Context, dead_letter_id: UUID, value: object, content_type: ContentType
) -> StoredDeadLetter:
    """As `edit_dead_letter` with a body that is not encoded yet. Raises `InvalidInput` if it does
    not fit the type that is declared for its queue."""
    letter = await find_dead_letter(context, dead_letter_id)
    queue = (await queue_names(context)).get(letter.queue_id)
    payload = await _payload_of(context, queue, letter)
    encoded = (payload or Payload[Any]()).encode(value, content_type)
    return await edit_dead_letter(context, dead_letter_id, encoded, content_type)


async def edit_with_encoded(
    context: Context, dead_letter_id: UUID, body: bytes, content_type: ContentType
) -> StoredDeadLetter:
    """As `edit_dead_letter`. Raises `InvalidInput` if the body does not fit the type that is
    declared for its queue."""
    letter = await find_dead_letter(context, dead_letter_id)
    queue = (await queue_names(context)).get(letter.queue_id)
    payload = await _payload_of(context, queue, letter)
    if payload is not None:
        payload.check(body, content_type)
    return await edit_dead_letter(context, dead_letter_id, body, content_type)


async def _payload_of(
    context: Context, queue: str | None, letter: StoredDeadLetter
) -> Payload[Any] | None:
    if queue is None:
        return None
    return (await known_types(context, (queue,))).payload_of(queue, letter.type)
