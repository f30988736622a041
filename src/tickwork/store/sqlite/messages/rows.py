"""Converts rows to values. Values that the rows of one result share are created once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec

from tickwork.core.model import (
    ContentType,
    Message,
    QueueSettings,
    State,
)
from tickwork.store.shared.columns import MESSAGE, Kind, compiled
from tickwork.store.sqlite.engine.sql import from_microseconds

Row = tuple[Any, ...]

_ID = 1 + Message.__struct_fields__.index("id")
"""Position of the id in a row of a rowid and a message's columns."""

_STATES = {str(state): state for state in State}
_CONTENT_TYPES = {str(kind): kind for kind in ContentType}
_SETTINGS = msgspec.json.Decoder(QueueSettings)
_SETTINGS_KEPT = 1_024


class Uuids(dict[bytes | None, UUID | None]):
    """Ids by their bytes."""

    def __missing__(self, raw: bytes | None) -> UUID | None:
        made = self[raw] = None if raw is None else UUID(bytes=raw)
        return made


class Times(dict[int | None, datetime | None]):
    """Times by their microseconds: rows of one result often have the same ones."""

    def __missing__(self, at: int | None) -> datetime | None:
        made = self[at] = None if at is None else from_microseconds(at)
        return made


_BY_KIND = {Kind.ID: "uuids[{}]", Kind.TIME: "times[{}]", Kind.FLAG: "{} == 1"}


def _decoder(record: type, kinds: Mapping[str, Kind], **others: str) -> Callable[..., Any]:
    """A function that makes records from rows of a rowid and the record's fields, given the rows,
    their ids, and the ids and times seen so far. `others`: expressions for single fields."""
    fields = record.__struct_fields__  # type: ignore[attr-defined]
    values = (
        others.get(field) or _BY_KIND.get(kinds[field], "{}").format(field) for field in fields
    )
    return compiled(
        "rows, ids, uuids, times",
        f"tuple([record({', '.join(values)}) "
        f"for id_, (_, {', '.join(fields)}) in zip(ids, rows, strict=True)])",
        record=record,
        states=_STATES,
        content_types=_CONTENT_TYPES,
    )


_messages = _decoder(
    Message,
    {column.name: column.kind for column in MESSAGE},
    id="id_",
    state="states[state]",
    content_type="content_types[content_type]",
)


def messages(rows: Sequence[Row]) -> tuple[Message, ...]:
    """Rows of a rowid and a message's columns, as messages."""
    # Converted together in C: one by one they would cost as much as everything else.
    ids = msgspec.convert([row[_ID] for row in rows], list[UUID])
    made: tuple[Message, ...] = _messages(rows, ids, Uuids(), Times())
    return made


@lru_cache(_SETTINGS_KEPT)
def settings(text: str) -> QueueSettings:
    """A queue's settings from the text in its row."""
    return _SETTINGS.decode(text)


def as_json(rowids: Iterable[int]) -> str:
    """Rowids as a JSON array, as statements take them."""
    return f"[{','.join(map(str, rowids))}]"
