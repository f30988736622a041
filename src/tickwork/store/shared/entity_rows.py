"""Rows of entities, as both stores encode and decode them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tickwork.core.answers.ids import ENCODER
from tickwork.core.entity.call import prefix_end
from tickwork.core.entity.model import (
    Alarm,
    CallResult,
    EntityHead,
    EntityRecord,
    EntityState,
    StorageSelection,
)

_SCHEDULES = msgspec.json.Decoder(tuple[str, ...])


def schedules_text(names: Sequence[str]) -> str:
    """Encodes the names of an entity's schedules."""
    return ENCODER.encode(names).decode()


def head_of(
    now: datetime,
    changed_by: UUID | None,
    schema_version: int,
    size: int,
    alarm_id: UUID | None,
    alarm_at: datetime | None,
    dead_alarm_id: UUID | None,
    schedules: str,
    result_key: str | None,
    *result: Any,
    values: dict[str, bytes] | None,
) -> EntityHead:
    """What a call reads first, from the columns of `entity_head.sql`."""
    found = None if result_key is None else call_result(result_key, *result)
    if changed_by is None:
        return EntityHead(now=now, result=found, values={})
    is_set = alarm_id is not None and alarm_at is not None
    state = EntityState(
        changed_by=changed_by,
        schema_version=schema_version,
        alarm=Alarm(alarm_id, alarm_at) if is_set else None,  # type: ignore[arg-type]
        dead_alarm=dead_alarm_id,
        schedules=_SCHEDULES.decode(schedules),
    )
    return EntityHead(now=now, state=state, storage_bytes=size, result=found, values=values)


def call_result(key: str, fingerprint: bytes, value: bytes | None, error: str | None) -> CallResult:
    """The kept result of a call."""
    return CallResult(key=key, fingerprint=fingerprint, value=value, error=error)


def record_of(
    type_name: str,
    key: str,
    size: int,
    schema_version: int,
    alarm_at: datetime | None,
    schedules: str,
    created_at: datetime,
    updated_at: datetime,
) -> EntityRecord:
    """An entity of a list, from the columns of `list_entities.sql`."""
    return EntityRecord(
        type=type_name,
        key=key,
        storage_bytes=size,
        schema_version=schema_version,
        alarm_at=alarm_at,
        schedules=_SCHEDULES.decode(schedules),
        created_at=created_at,
        updated_at=updated_at,
    )


def bounds(selection: StorageSelection) -> tuple[str, str | None, str | None]:
    """The first key of a selection, the key that it comes after, and the key that it ends
    before."""
    ends = [end for end in (selection.end, prefix_end(selection.prefix)) if end is not None]
    first = max(selection.prefix, selection.start or "")
    return first, selection.start_after, min(ends, default=None)
