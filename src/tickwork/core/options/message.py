"""The options of a message: `send` and its like."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from tickwork.core.limits import DELAY_SECONDS_MAX
from tickwork.core.model import ContentType
from tickwork.core.options.declared import Between

GivenContentType: TypeAlias = ContentType | Literal["json", "text", "bytes"]
"""A content type as callers may give it."""


class SendOptions(TypedDict, total=False):
    """Options of a message: `send`, `send_batch`, `message.send`, `firing.send`, `app.batch`."""

    delay_seconds: Annotated[
        float | None, Between(0, DELAY_SECONDS_MAX), "Seconds before it becomes visible."
    ]
    priority: Annotated[int, Between(0, 9), "9 is handled first; default 4."]
    key: Annotated[str | None, "Messages of a key are handled in order."]
    event_id: Annotated[str | None, "An event is handled once in 15 days in a queue."]
    type: Annotated[str | None, "What it is, such as order.paid."]
    source: Annotated[str | None, "Who sent it."]
    correlation_id: Annotated[str | None, "The same for all that one message caused."]
    causation_id: Annotated[str | None, "Id of what caused it."]
    expires_after_seconds: Annotated[
        float | None, "Seconds it may wait; then it becomes a dead letter."
    ]
    content_type: Annotated[GivenContentType, "Type of the body; default json."]


class _OwnId(SendOptions, total=False):
    id: Annotated[str | None, "A UUIDv7 of yours: a repeat is not stored twice."]


class MessageFields(_OwnId):
    """A message."""

    body: Annotated[Any, "Any JSON value; a text or base64 for the other content types."]


class _CommonDelay(TypedDict, total=False):
    delay_seconds: Annotated[float, Between(0, DELAY_SECONDS_MAX), "Of messages without their own."]


class ManyMessages(_CommonDelay):
    """Up to 10,000 messages; each may have its own delay."""

    messages: list[MessageFields]


class _BatchOptions(TypedDict, total=False):
    items: list[MessageFields]
    completion_queue: Annotated[str | None, "Gets the event batch.completed."]
    open: bool


class NewBatchFields(_BatchOptions):
    """A queue and the items: messages, each with its own options. A batch that is `open` takes more
    items until it is closed, or gets none for an hour."""

    queue: str


class MoreItems(TypedDict):
    """More items of an open batch."""

    items: list[MessageFields]
