"""The types of messages as a user sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

ANY_TYPE = "*"
"""The name of what an app declares for messages of any type."""


class DeclaredType(Struct, frozen=True, kw_only=True):
    """What an app declares about messages of a type in a queue. The type `*` is any that no other
    handler has."""

    type: str
    queue: str
    app: str
    version: Annotated[str, Meta(description="The digest of the schema.")]
    handlers: Annotated[
        tuple[str, ...], Meta(description="Functions of the app that handle it; none if it sends.")
    ]
    first_seen_at: Annotated[datetime, Meta(description="When the app first had this version.")]
    last_seen_at: datetime
    schema: Annotated[
        dict[str, Any] | None,
        Meta(description="JSON Schema of the body; {} takes anything. Null in lists."),
    ] = None


class MessageType(Struct, frozen=True, kw_only=True):
    """A type of messages, or a pattern such as `content.*` that somebody subscribes to.

    `messages` are the numbers of the last hour by counter; none if nothing of the type was counted.
    `declared` is what apps declare about it.
    """

    type: str
    sources: tuple[str, ...]
    queues: tuple[str, ...]
    messages: dict[str, int]
    subscribers: tuple[str, ...]
    endpoints: tuple[str, ...]
    declared: tuple[DeclaredType, ...] = ()
