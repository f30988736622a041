"""Doing something again and again, whatever happens.

The one place where any error is caught: a background process that dies of one fault is a fault
that nobody sees. What went wrong is told, and it goes on after a pause that grows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 10.0

ReportError = Callable[[str, Exception], None]
"""Says which loop had which error."""


Step = Callable[[], Awaitable[float]]
"""Does something once, and says how many seconds to wait before the next time."""


async def run_forever(name: str, step: Step, *, tell: ReportError) -> None:
    """Runs a step again and again; it says how many seconds to wait before the next one."""
    pause = PAUSE_SECONDS_MIN
    while True:
        try:
            wait = await step()
            pause = PAUSE_SECONDS_MIN
        except Exception as error:
            tell(name, error)
            wait, pause = pause, min(pause * 2, PAUSE_SECONDS_MAX)
        await asyncio.sleep(wait)


async def catch_async(work: Awaitable[T]) -> T | Exception:
    """The same for what is awaited; to be cancelled is no error."""
    try:
        return await work
    except Exception as error:
        return error


def catch(work: Callable[[], T]) -> T | Exception:
    """What it returns, or the error that it raises: one bad thing must not stop its neighbours."""
    try:
        return work()
    except Exception as error:
        return error
