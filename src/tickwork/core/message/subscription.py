"""Subscriptions: queues that get a copy of each message whose type matches a pattern.

A pattern is a type (`content.published`), a prefix (`content.*`), or `*` for every type. Copies are
not copied again: a message is copied once, from the queue it was sent to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Generic, NamedTuple
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.answers.ids import AnId
from tickwork.core.model import Message, NewMessage
from tickwork.core.stable_hash import derived_id
from tickwork.errors import FieldError

SUBSCRIPTIONS_MAX = 1_000
"""Maximum number of subscriptions of a tenant."""

PATTERN_LENGTH_MAX = 120


class Subscription(Struct, frozen=True):
    """Copies messages whose type matches to a queue. `tenant` None: messages of every tenant."""

    tenant: str | None
    types: str
    queue_id: UUID
    queue: str


def matches(types: str, message_type: str | None) -> bool:
    """Whether a pattern matches a type."""
    if message_type is None:
        return False
    if types.endswith("*"):
        return message_type.startswith(types[:-1])
    return message_type == types


def copy_for(message: NewMessage, queue_id: UUID) -> NewMessage:
    """The copy of a message for a subscriber. Its id is derived from the message's, so a repeated
    send creates the same copy. It has no slot: the message itself accounts for the slot."""
    return structs.replace(
        message,
        id=copy_id(message.id, queue_id),
        schedule_id=None,
        slot=None,
        run=0,
        catch_up=False,
        idempotency_base=message.idempotency_key,
    )


def copy_id(message_id: UUID, queue_id: UUID) -> UUID:
    """The id of the copy of a message in a subscriber's queue."""
    return derived_id(message_id, queue_id.hex)


def beyond_room(room_bytes: int, sizes_bytes: Iterable[int]) -> list[int]:
    """Which copies do not fit into the backlog of a subscriber, by index. In order, each copy that
    still fits takes its bytes; the others take none."""
    beyond: list[int] = []
    for index, size in enumerate(sizes_bytes):
        if size <= room_bytes:
            room_bytes -= size
        else:
            beyond.append(index)
    return beyond


class FiredSlots(NamedTuple, Generic[AnId]):
    """Slots of one schedule that became messages, by their ids."""

    tenant: str
    queue_id: AnId
    type: str
    message_ids: Sequence[AnId]


def slot_event(message: Message, now: datetime, expires_at: datetime | None) -> NewMessage:
    """The message of a planned slot, as subscribers get it. It becomes visible together with the
    slot's message. The key that orders the slots of a schedule does not apply to copies."""
    lasts = None if expires_at is None else (expires_at - message.visible_at).total_seconds()
    return NewMessage(
        id=message.id,
        body=message.body,
        content_type=message.content_type,
        delay_seconds=max((message.visible_at - now).total_seconds(), 0.0),
        priority=message.priority,
        type=message.type,
        source=message.source,
        schedule_id=message.schedule_id,
        slot=message.slot,
        run=message.run,
        idempotency_base=message.idempotency_base,
        expires_after_seconds=lasts,
    )


def pattern_faults(types: str) -> Iterator[FieldError]:
    """Errors of a pattern."""
    if not 1 <= len(types) <= PATTERN_LENGTH_MAX:
        yield FieldError("types", f"must have 1 to {PATTERN_LENGTH_MAX} characters")
    elif "*" in types[:-1]:
        yield FieldError("types", "may have one *, as its last character, such as content.*")
    elif not types.isprintable():
        yield FieldError("types", "must have printable characters only")
