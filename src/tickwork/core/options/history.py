"""The default of what queues keep of their messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from tickwork.core.fields import Reader
from tickwork.core.message.history import (
    HISTORY_SECONDS_MAX,
    HISTORY_SECONDS_MIN,
    HistoryDefault,
    HistoryKept,
)
from tickwork.core.options.declared import Between, readers_of
from tickwork.errors import FieldError, InvalidInput


class HistoryOptions(TypedDict, total=False):
    """What queues keep that have no setting of their own."""

    history: Annotated[HistoryKept, "Records of ended messages: all, failures or off."]
    history_seconds: Annotated[
        int, Between(HISTORY_SECONDS_MIN, HISTORY_SECONDS_MAX), "Seconds to keep these records."
    ]


def read_history_default(given: Mapping[str, Any]) -> HistoryDefault:
    """Reads the default; what is left out is as in a new database. Raises `InvalidInput`."""
    faults: list[FieldError] = []
    reader, readers = Reader(given, faults), readers_of(HistoryOptions)
    reader.refuse_unknown(readers.keys())
    values = reader.read(readers)
    if faults:
        raise InvalidInput(faults)
    return HistoryDefault(**values)
