"""What must not hold up whoever closes: blocking calls of our own, and waits without an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


async def aside(call: Callable[..., T], *values: object) -> T:
    """Calls in a thread of its own. The event loop's executor may be full of an app's work, and
    whoever closes must not wait for that."""
    threads = ThreadPoolExecutor(1, thread_name_prefix="tickwork-aside")
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, call, *values)
    finally:
        threads.shutdown(wait=False)


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """What it returns; None if it takes longer. Then it is cancelled, and that is not waited for:
    to be cancelled may take a driver as long as its server does not answer."""
    task = asyncio.create_task(work)
    task.add_done_callback(_heard_of)
    try:
        done, _ = await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
    return task.result() if done else None


def _heard_of(task: asyncio.Task[Any]) -> None:
    """Whoever does not wait for it any more need not be told what became of it."""
    if not task.cancelled():
        task.exception()
