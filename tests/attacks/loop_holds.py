"""Measures how long one piece of work holds the event loop."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

T = TypeVar("T")

BEAT_SECONDS = 0.001
"""Seconds between two beats of a loop that nothing holds."""


class LoopHolds:
    """The longest hold of a loop so far: processor time of its thread between two beats. The time
    on the wall says little on a machine that is shared: it is at least as long."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0

    async def watch(self) -> None:
        """Beats until it is cancelled."""
        last = time.thread_time()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            now = time.thread_time()
            self.longest_seconds = max(self.longest_seconds, now - last)
            last = now

    async def during(self, work: Awaitable[T]) -> tuple[T, float]:
        """The result of some work, and the longest hold while it ran."""
        await self._beat()
        self.longest_seconds = 0.0
        result = await work
        await self._beat()
        return result, self.longest_seconds

    async def _beat(self) -> None:
        """Waits until the loop has beaten since this call."""
        await asyncio.sleep(2 * BEAT_SECONDS)


@asynccontextmanager
async def loop_holds() -> AsyncIterator[LoopHolds]:
    """Measures while the context is open. No garbage is collected meanwhile: how long that takes
    depends on the tests that ran before."""
    holds = LoopHolds()
    gc.collect()
    gc.disable()
    beating = asyncio.create_task(holds.watch())
    try:
        yield holds
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
        gc.enable()
