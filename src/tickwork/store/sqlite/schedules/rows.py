"""Converts schedules to rows and rows to schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tickwork.core.model import ContentType
from tickwork.core.schedule.forecast import AlikeSchedules, target_of
from tickwork.core.schedule.model import (
    Definition,
    NewSchedule,
    OnDead,
    OverlapPolicy,
    Retry,
    Schedule,
    ScheduleStatus,
    read_rule,
    read_terms,
)
from tickwork.core.schedule.plan import DueSchedule
from tickwork.core.schedule.tzdata_change import WaitingSchedule
from tickwork.store.shared import columns
from tickwork.store.shared.columns import NEW_SCHEDULE_COMMON, NEW_SCHEDULE_OWN, Kind
from tickwork.store.sqlite.engine.sql import CONVERSIONS, from_microseconds, to_microseconds
from tickwork.store.sqlite.messages.rows import Row

_RETRY = msgspec.json.Decoder(Retry)
_OVERLAPS = {str(policy): policy for policy in OverlapPolicy}


class StoredSchedule(NamedTuple):
    """A schedule with its rowid and the id of its queue."""

    rowid: int
    queue_id: bytes
    schedule: Schedule


def optional_time(at: int | None) -> datetime | None:
    return None if at is None else from_microseconds(at)


def optional_microseconds(at: datetime | None) -> int | None:
    return None if at is None else to_microseconds(at)


def read_schedule(row: Row) -> StoredSchedule:
    """A row of a rowid, a queue id and `SCHEDULE_COLUMNS`."""
    (
        rowid, queue_id, tenant, id_, name, status, version, next_slot, due_at, look_at, last_slot,
        fired, runs, last_status, last_error, error_count, idempotency_key, fingerprint,
        created_at, updated_at, changed_at, rule, queue, body, type_, content_type, priority,
        overlap, on_dead, retry, expires_after_seconds, metadata, shift, owner, terms,
    ) = row  # fmt: skip
    schedule_id, schedule_terms = UUID(bytes=id_), read_terms(terms)
    definition = Definition(
        rule=read_rule(rule, schedule_id, shift),
        queue=queue,
        body=body,
        type=type_,
        content_type=ContentType(content_type),
        priority=priority,
        overlap=_OVERLAPS[overlap],
        on_dead=OnDead(on_dead),
        retry=None if retry is None else _RETRY.decode(retry),
        expires_after_seconds=expires_after_seconds,
        metadata=metadata,
        on_success=schedule_terms.on_success,
        on_failure=schedule_terms.on_failure,
    )
    schedule = Schedule(
        tenant=tenant,
        id=schedule_id,
        name=name,
        status=ScheduleStatus(status),
        version=version,
        definition=definition,
        next_slot=optional_time(next_slot),
        due_at=optional_time(due_at),
        look_at=optional_time(look_at),
        last_slot=optional_time(last_slot),
        fired=fired,
        runs=runs,
        last_status=last_status,
        last_error=last_error,
        error_count=error_count,
        idempotency_key=idempotency_key,
        fingerprint=fingerprint,
        owner=owner,
        created_at=from_microseconds(created_at),
        updated_at=from_microseconds(updated_at),
        changed_at=from_microseconds(changed_at),
    )
    return StoredSchedule(rowid, queue_id, schedule)


def read_due(rows: Iterable[Row]) -> tuple[DueSchedule, ...]:
    """Rows of `due_schedules`."""
    found: list[DueSchedule] = []
    for row in rows:
        _, tenant, id_, shard, version, next_slot, rule, shift, overlap, fired, *more = row
        unfinished, days, expires = more
        schedule_id = UUID(bytes=id_)
        found.append(
            DueSchedule(
                tenant=tenant,
                id=schedule_id,
                shard=shard,
                version=version,
                next_slot=from_microseconds(next_slot),
                rule=read_rule(rule, schedule_id, shift),
                overlap=_OVERLAPS[overlap],
                fired=fired,
                unfinished=unfinished,
                calendar_version=days,
                expires_after_seconds=expires,
            )
        )
    return tuple(found)


def read_waiting(rows: Iterable[Row]) -> tuple[WaitingSchedule, ...]:
    """Rows of `schedules_of_shard`."""
    found: list[WaitingSchedule] = []
    for tenant, id_, name, next_slot, look_at, last_slot, updated_at, fired, rule in rows:
        schedule_id = UUID(bytes=id_)
        found.append(
            WaitingSchedule(
                tenant=tenant,
                id=schedule_id,
                name=name,
                next_slot=from_microseconds(next_slot),
                look_at=from_microseconds(look_at),
                last_slot=optional_time(last_slot),
                updated_at=from_microseconds(updated_at),
                fired=fired,
                rule=read_rule(rule, schedule_id),
            )
        )
    return tuple(found)


def read_alike(row: Row) -> AlikeSchedules:
    """A row of `alike_schedules`."""
    tenant, queue, kind, address, rule, shift, next_slot, last_slot, fired, id_, name, count = row
    last_id = UUID(bytes=id_)
    return AlikeSchedules(
        tenant=tenant,
        target=target_of(queue, kind, address),
        rule=read_rule(rule, last_id, shift),
        next_slot=optional_time(next_slot),
        last_slot=optional_time(last_slot),
        fired=fired,
        count=count,
        last_id=last_id,
        name=name,
    )


def own_values(new: NewSchedule) -> tuple[Any, ...]:
    """The columns in which alike schedules differ, as the file stores them."""
    return _converted(NEW_SCHEDULE_OWN, columns.own_values(new))


def common_values(new: NewSchedule) -> tuple[Any, ...]:
    """The columns that alike schedules have in common, as the file stores them."""
    return _converted(NEW_SCHEDULE_COMMON, columns.common_values(new))


def _converted(listed: Sequence[tuple[str, Kind]], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        value if value is None or kind not in CONVERSIONS else CONVERSIONS[kind](value)
        for (_, kind), value in zip(listed, values, strict=True)
    )
