"""Reads the settings of a queue as an app or a topology file gives them."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from tickwork.core.fields import FieldReader, reader_of
from tickwork.core.message.backoff import Backoff, read_backoff
from tickwork.core.model import QueueSettings

_BACKOFF: dict[Any, FieldReader] = {Backoff: read_backoff}

SETTINGS: dict[str, FieldReader] = {
    field.name: reader_of(field.type, _BACKOFF) for field in structs.fields(QueueSettings)
}
"""A reader for each field of `QueueSettings`, by its type."""
