"""Measures how long one piece of work holds the event loop."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import msgspec

T = TypeVar("T")

BEAT_SECONDS = 0.001
"""Seconds between two beats of a loop that nothing holds."""

HOLD_SECONDS_MAX = 0.05
"""Seconds of processor time that one request may hold the loop of a quiet machine, on which the
reference takes `REFERENCE_SECONDS`."""

REFERENCE_SECONDS = 0.006
"""Seconds of processor time that the reference takes on such a machine."""

REFERENCES = 3
"""Number of times that the reference is taken; the quickest counts."""

_REFERENCE = b'{"a":[' + b",".join([b'{"b":"some text","c":[1,2.5,null]}'] * 8_000) + b"]}"


def reference_seconds() -> float:
    """Processor time that work like that of a request takes now: JSON of half the parts that a body
    may have is parsed, looked at and written. On a virtual machine whose processor is taken away it
    is several times that of a quiet one: the time that is stolen counts as used."""
    begin = time.thread_time()
    parsed = msgspec.json.decode(_REFERENCE)
    texts = sum(len(part["b"]) for part in parsed["a"] if type(part["c"]) is list)
    assert texts == 8_000 * len("some text")
    msgspec.json.encode(parsed)
    del parsed
    return time.thread_time() - begin


def hold_seconds_max() -> float:
    """Seconds that a request may hold the loop of this machine now: longer only where the reference
    takes longer, too, so that what holds a quiet machine too long fails on a busy one as well."""
    quickest = min(reference_seconds() for _ in range(REFERENCES))
    return HOLD_SECONDS_MAX * max(quickest / REFERENCE_SECONDS, 1.0)


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
