"""Runs a step again and again, and survives any error of it.

This is the one place that catches every error: a background loop that dies of one error would stop
working unnoticed. An error is reported, and the step runs again after a growing pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_SECONDS_MIN = 0.1
"""Seconds to pause after the first error."""

PAUSE_SECONDS_MAX = 10.0
"""Maximum number of seconds to pause after repeated errors."""

ReportError = Callable[[str, Exception], None]
"""Receives the name of a loop and its error."""


Step = Callable[[], Awaitable[float]]
"""Does its work once and returns the seconds to wait before the next time."""


async def run_forever(name: str, step: Step, *, report: ReportError) -> None:
    """Runs a step in an endless loop. The step returns the seconds to wait between two runs."""
    pause = PAUSE_SECONDS_MIN
    while True:
        try:
            wait = await step()
            pause = PAUSE_SECONDS_MIN
        except Exception as error:
            report(name, error)
            wait, pause = pause, min(pause * 2, PAUSE_SECONDS_MAX)
        await asyncio.sleep(wait)


async def catch_async(work: Awaitable[T]) -> T | Exception:
    """The result of an awaitable, or its error. Cancellation is not caught."""
    try:
        return await work
    except Exception as error:
        return error


def catch(work: Callable[[], T]) -> T | Exception:
    """The result of a call, or its error, so that one bad item does not stop the others."""
    try:
        return work()
    except Exception as error:
        return error
