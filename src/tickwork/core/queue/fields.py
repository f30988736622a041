"""Reads and checks the settings of a queue as an app or a topology file gives them."""

from __future__ import annotations

from typing import Any, get_args

from msgspec import structs

from tickwork.core.fields import NAME_LENGTH_MAX, FieldReader, reader_of, text_faults
from tickwork.core.limits import (
    ENTITIES_PREFIX,
    FOREVER_SECONDS,
    RUNS_QUEUE_PREFIX,
    hidden_queue_faults,
)
from tickwork.core.message.backoff import Backoff, backoff_faults, read_backoff
from tickwork.core.message.history import HistoryKept
from tickwork.core.model import QueueSettings
from tickwork.core.options.declared import faults_of
from tickwork.core.options.queue import QueueOptions
from tickwork.errors import FieldError, InvalidInput

_OWN: dict[Any, FieldReader] = {
    Backoff: read_backoff,
    HistoryKept: lambda reader, name: reader.one_of(name, get_args(HistoryKept)),
}

SETTINGS: dict[str, FieldReader] = {
    field.name: reader_of(field.type, _OWN) for field in structs.fields(QueueSettings)
}
"""A reader for each field of `QueueSettings`, by its type."""

_ENDLESS = ("retention_seconds", "timeout_seconds")
"""Settings that have no limit in hidden queues of runs and entities."""


def check_queue(name: str, settings: QueueSettings) -> None:
    """Raises `InvalidInput` for a queue with an invalid name or settings."""
    faults = [*text_faults("name", name, NAME_LENGTH_MAX)]
    has_no_end = name.startswith((RUNS_QUEUE_PREFIX, ENTITIES_PREFIX))
    highs = dict.fromkeys(_ENDLESS, FOREVER_SECONDS) if has_no_end else {}
    faults += faults_of(QueueOptions, settings, highs)
    faults += backoff_faults(settings.backoff, "backoff")
    if settings.dead_letter_queue is not None:
        faults += hidden_queue_faults("dead_letter_queue", settings.dead_letter_queue)
        if settings.dead_letter_queue == name:
            faults.append(FieldError("dead_letter_queue", "must be another queue"))
    if faults:
        raise InvalidInput(faults)
