"""Subscriptions: which queues get a copy of a message, by its type.

A pattern is a type (`content.published`), a beginning (`content.*`), or `*` for every type.
Copies are not sent on: a message is copied once, from the queue it was sent to.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.hashing import derived_id
from tickwork.core.model import NewMessage
from tickwork.errors import FieldError

SUBSCRIPTIONS_MAX = 1_000
"""As many a tenant may have."""

PATTERN_LENGTH_MAX = 120


class Subscription(Struct, frozen=True):
    """Messages whose type fits go to the queue as well. `tenant` None: those of every tenant."""

    tenant: str | None
    types: str
    queue_id: UUID
    queue: str


def matches(types: str, message_type: str | None) -> bool:
    """Whether a pattern fits a type."""
    if message_type is None:
        return False
    if types.endswith("*"):
        return message_type.startswith(types[:-1])
    return message_type == types


def copy_for(message: NewMessage, queue_id: UUID) -> NewMessage:
    """The copy for a subscriber. Its id follows from the message's, so that a repeat is one; a
    slot is accounted for by the message itself, not by its copies."""
    own = derived_id(message.id, queue_id.hex)
    return structs.replace(message, id=own, schedule_id=None, slot=None, run=0, catch_up=False)


def pattern_faults(types: str) -> Iterator[FieldError]:
    """What is wrong with a pattern, in words."""
    if not 1 <= len(types) <= PATTERN_LENGTH_MAX:
        yield FieldError("types", f"must have 1 to {PATTERN_LENGTH_MAX} characters")
    elif "*" in types[:-1]:
        yield FieldError("types", "may have one `*`, as its last character: `content.*`")
    elif not types.isprintable():
        yield FieldError("types", "must have printable characters only")
