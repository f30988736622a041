"""Blocking calls of our own, beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def aside(call: Callable[..., T], *values: object) -> T:
    """Calls in a thread of its own. The event loop's executor may be full of an app's work, and
    whoever closes must not wait for that."""
    threads = ThreadPoolExecutor(1, thread_name_prefix="tickwork-aside")
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, call, *values)
    finally:
        threads.shutdown(wait=False)
