"""Builds schedules for tests of decisions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tickwork.core.schedule.model import Definition, Schedule, ScheduleStatus
from tickwork.core.when import due_at, first_slot, parse

CREATED = datetime(2026, 3, 1, tzinfo=UTC)
ID = UUID("0190f5a0-0000-7000-8000-000000000001")


def at(text: str) -> datetime:
    """A UTC instant: `09:30` on the day after creation, or a full date and time."""
    full = text if "T" in text else f"2026-03-02T{text}"
    return datetime.fromisoformat(full).replace(tzinfo=UTC)


def a_schedule(fields: dict[str, Any], **changes: Any) -> Schedule:
    """A schedule with these fields, created at `CREATED` and never planned."""
    rule = parse(fields, created_at=CREATED, seed=str(ID))
    slot = changes.pop("next_slot", first_slot(rule, CREATED))
    values: dict[str, Any] = {
        "tenant": "default",
        "id": ID,
        "name": None,
        "status": ScheduleStatus.ACTIVE,
        "version": 1,
        "definition": Definition(rule=rule, queue="work", body=b"null"),
        "next_slot": slot,
        "due_at": None if slot is None else due_at(rule, slot),
        "look_at": slot,
        "last_slot": None,
        "fired": 0,
        "runs": 0,
        "last_status": None,
        "last_error": None,
        "error_count": 0,
        "idempotency_key": None,
        "fingerprint": None,
        "created_at": CREATED,
        "updated_at": CREATED,
        "changed_at": CREATED,
    }
    return Schedule(**(values | changes))
