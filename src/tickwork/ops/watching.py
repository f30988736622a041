"""Watching a batch: how far it is and how fast it goes, until it is completed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

from msgspec import Struct

from tickwork.clock import monotonic
from tickwork.core.message.batch import Batch, BatchStatus, Speed
from tickwork.core.model import Scope
from tickwork.errors import FieldError, InvalidInput
from tickwork.store.contract import Store

LOOK_SECONDS_MIN = 0.1
LOOK_SECONDS_MAX = 1.0
"""So often we look; less often while nothing changes."""

WATCH_SECONDS_MAX = 30 * 86_400.0


class Progress(Struct, frozen=True):
    """How far a batch is, and how fast it goes. `remaining_seconds` is None while nothing moves,
    and while the batch is filling: nobody knows its total then."""

    batch: Batch
    rate_per_second: float | None = None
    remaining_seconds: float | None = None


async def watch(
    store: Store, scope: Scope, batch_id: UUID, *, timeout_seconds: float | None = None
) -> AsyncIterator[Progress]:
    """How far the batch is, at every look. The last is the one at its completion, or the one when
    the time was up."""
    if timeout_seconds is not None and not 0 <= timeout_seconds <= WATCH_SECONDS_MAX:
        told = f"must be from 0 to {WATCH_SECONDS_MAX:.0f}, not {timeout_seconds:g}"
        raise InvalidInput([FieldError("timeout_seconds", told)])
    speed, seen, pause = Speed(), None, LOOK_SECONDS_MIN
    until = monotonic() + (WATCH_SECONDS_MAX if timeout_seconds is None else timeout_seconds)
    while True:
        batch, now = await store.batches.get(scope, batch_id), monotonic()
        speed.add(now, batch.completed + batch.failed)
        is_whole = batch.status is not BatchStatus.FILLING
        left = speed.seconds_left(batch.total) if is_whole else None
        yield Progress(batch, speed.per_second, left)
        if batch.status is BatchStatus.COMPLETED or now >= until:
            return
        pause = min(pause * 2, LOOK_SECONDS_MAX) if batch == seen else LOOK_SECONDS_MIN
        seen = batch
        await asyncio.sleep(min(pause, until - now))
