"""Waiting for a condition with a bound: the one place of the tests that sleeps.

Contract: the first truthy value of the condition is returned as soon as it is seen; an exception
of the condition is not swallowed; when the bound passes, `TimeoutError` says what was awaited. The
bounds are generous on purpose: a test that passes never waits for them. The longer a wait takes,
the less often it looks: looking takes the processor from what the test waits for.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

TIMEOUT_SECONDS = 180.0
POLL_SECONDS = 0.005
POLL_SECONDS_MAX = 0.05
POLL_SHARE = 0.05
"""The pause before the next look, as a share of the time waited so far."""


@overload
async def eventually(
    condition: Callable[[], Awaitable[T]], *, timeout_seconds: float = ..., what: str = ...
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], T], *, timeout_seconds: float = ..., what: str = ...
) -> T: ...


async def eventually(
    condition: Callable[[], object], *, timeout_seconds: float = TIMEOUT_SECONDS, what: str = ""
) -> object:
    """The first truthy value of a plain or async condition; other tasks run meanwhile."""
    started_at = time.monotonic()
    try:
        async with asyncio.timeout(timeout_seconds):
            while True:
                value = condition()
                if inspect.isawaitable(value):
                    value = await value
                if value:
                    return value
                await asyncio.sleep(pause_seconds(time.monotonic() - started_at))
    except TimeoutError:
        raise TimeoutError(_late(condition, what, timeout_seconds)) from None


def eventually_blocking(
    condition: Callable[[], T], *, timeout_seconds: float = TIMEOUT_SECONDS, what: str = ""
) -> T:
    """The same for code without an event loop: starting a server, a session fixture."""
    started_at = time.monotonic()
    while not (value := condition()):
        if time.monotonic() > started_at + timeout_seconds:
            raise TimeoutError(_late(condition, what, timeout_seconds))
        time.sleep(pause_seconds(time.monotonic() - started_at))
    return value


def pause_seconds(waited_seconds: float) -> float:
    """Seconds until the next look."""
    return max(POLL_SECONDS, min(waited_seconds * POLL_SHARE, POLL_SECONDS_MAX))


async def delay(seconds: float) -> None:
    """For faults that are delays themselves; no test waits for its subject with this."""
    await asyncio.sleep(seconds)


def _late(condition: Callable[[], object], what: str, timeout_seconds: float) -> str:
    awaited = what or getattr(condition, "__qualname__", repr(condition))
    return f"still waiting after {timeout_seconds:g} s for: {awaited}"
