"""The types of messages as a user sees them."""

from __future__ import annotations

from msgspec import Struct


class MessageType(Struct, frozen=True, kw_only=True):
    """A type of messages, or a pattern such as `content.*` that somebody subscribes to.

    `messages` are the numbers of the last hour by counter; none if nothing of the type was counted.
    """

    type: str
    sources: tuple[str, ...]
    queues: tuple[str, ...]
    messages: dict[str, int]
    subscribers: tuple[str, ...]
    endpoints: tuple[str, ...]
