"""Decodes rows of messages, queues and nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tickwork.core.model import (
    FORMAT_VERSION,
    ContentType,
    Message,
    QueueSettings,
    State,
)
from tickwork.errors import StoreBroken

_STATE = Message.__struct_fields__.index("state")
_CONTENT_TYPE = Message.__struct_fields__.index("content_type")
_WIDTH = len(Message.__struct_fields__)
_FORMAT = Message.__struct_fields__.index("format")
_STATES = {str(state): state for state in State}
_CONTENT_TYPES = {str(kind): kind for kind in ContentType}
_SETTINGS = msgspec.json.Decoder(QueueSettings)


def messages(rows: Iterable[Any]) -> tuple[Message, ...]:
    """Decodes rows that start with a message's columns."""
    found: list[Message] = []
    for row in rows:
        values = list(row[:_WIDTH])
        if values[_FORMAT] > FORMAT_VERSION:
            raise StoreBroken("a newer version of Tickwork wrote this message: upgrade to read it")
        values[_STATE] = _STATES[values[_STATE]]
        values[_CONTENT_TYPE] = _CONTENT_TYPES[values[_CONTENT_TYPE]]
        found.append(Message(*values))
    return tuple(found)


def settings(row: Any) -> QueueSettings:
    return _SETTINGS.decode(row["settings"])
