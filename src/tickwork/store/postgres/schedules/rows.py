"""Encodes and decodes rows of schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
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
from tickwork.store.shared.columns import common_values, own_values

OVERLAPS = {str(policy): policy for policy in OverlapPolicy}
_STATUSES = {str(status): status for status in ScheduleStatus}
_RETRY = msgspec.json.Decoder(Retry)


def new_row(tenant: str, queue_id: UUID, new: NewSchedule) -> tuple[Any, ...]:
    """A new schedule, as `create_schedules` takes it."""
    return (tenant, queue_id, *own_values(new), *common_values(new))


def columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Rows as columns, also for no rows."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * width


def schedules(rows: Iterable[Any]) -> tuple[Schedule, ...]:
    """Decodes rows that start with a schedule's columns."""
    return tuple(schedule(row) for row in rows)


def schedule(row: Any) -> Schedule:
    schedule_terms = read_terms(row["terms"])
    return Schedule(
        tenant=row["tenant"],
        id=row["id"],
        name=row["name"],
        status=_STATUSES[row["status"]],
        version=row["version"],
        definition=Definition(
            rule=read_rule(row["rule"], row["id"], row["shift"]),
            queue=row["queue"],
            body=row["body"],
            type=row["type"],
            content_type=ContentType(row["content_type"]),
            priority=row["priority"],
            overlap=OVERLAPS[row["overlap"]],
            on_dead=OnDead(row["on_dead"]),
            retry=None if row["retry"] is None else _RETRY.decode(row["retry"]),
            expires_after_seconds=row["expires_after_seconds"],
            metadata=row["metadata"],
            on_success=schedule_terms.on_success,
            on_failure=schedule_terms.on_failure,
        ),
        next_slot=row["next_slot"],
        due_at=row["due_at"],
        look_at=row["look_at"],
        last_slot=row["last_slot"],
        fired=row["fired"],
        runs=row["runs"],
        last_status=row["last_status"],
        last_error=row["last_error"],
        error_count=row["error_count"],
        idempotency_key=row["idempotency_key"],
        fingerprint=row["fingerprint"],
        owner=row["owner"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        changed_at=row["changed_at"],
    )


def alike(row: Any) -> AlikeSchedules:
    """A row of `alike_schedules`."""
    return AlikeSchedules(
        tenant=row["tenant"],
        target=target_of(row["queue"], row["kind"], row["address"]),
        rule=read_rule(row["rule"], row["last_id"], row["shift"]),
        next_slot=row["next_slot"],
        last_slot=row["last_slot"],
        fired=row["fired"],
        count=row["count"],
        last_id=row["last_id"],
        name=row["name"],
    )
