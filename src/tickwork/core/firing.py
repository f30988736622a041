"""Firings: what became of a slot, one row for each attempt."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

FIRING_SECONDS = 30 * 86_400
"""So long firings are kept."""


class FiringStatus(StrEnum):
    """How an attempt at a slot stands or ended."""

    PLANNED = "planned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    DEAD = "dead"
    SKIPPED = "skipped"
    EXPIRED = "expired"


class ChannelOutcome(Struct, frozen=True):
    """What one of several channels said."""

    channel: str
    status: str
    detail: str | None = None


class FiringRecord(Struct, frozen=True, kw_only=True):
    """What a handler's end says about its slot; the message knows which slot that is."""

    status: FiringStatus
    reason: str | None = None
    took_seconds: float = 0.0
    result_code: int | None = None
    excerpt: str | None = None
    channels: tuple[ChannelOutcome, ...] = ()


class Firing(Struct, frozen=True):
    """A recorded attempt at a slot."""

    id: UUID
    tenant: str
    schedule_id: UUID
    slot: datetime
    run: int
    attempt: int
    status: FiringStatus
    reason: str | None
    due_at: datetime
    started_at: datetime
    finished_at: datetime
    result_code: int | None
    excerpt: str | None
    channels: tuple[ChannelOutcome, ...]
    catch_up: bool
    count: int
