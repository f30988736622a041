"""Values from the store that a worker keeps for some seconds: endpoints, limits, keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from tickwork.errors import TickworkError

KEPT_MAX = 10_000
"""Maximum number of values that are kept."""

Value = TypeVar("Value")


class KeptValues(Generic[Value]):
    """Values that were read, each for some seconds. Who asks while one is read gets the same."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds, self._monotonic = seconds, monotonic
        self._found: dict[Hashable, tuple[float, asyncio.Future[Value]]] = {}

    def kept(self, key: Hashable) -> Value | None:
        """The value, if it is there already. `get` costs a coroutine."""
        until, found = self._found.get(key, (0.0, None))
        if found is None or not found.done() or until <= self._monotonic():
            return None
        has_failed = found.cancelled() or found.exception() is not None
        return None if has_failed else found.result()

    async def get(self, key: Hashable, read: Callable[[], Awaitable[Value]]) -> Value:
        """The value that `read` returned, at most so many seconds ago."""
        if not self._seconds:
            return await read()
        until, found = self._found.get(key, (0.0, None))
        if found is None or until <= self._monotonic():
            if len(self._found) >= KEPT_MAX:
                self._found.clear()
            found = asyncio.ensure_future(read())
            self._found[key] = (self._monotonic() + self._seconds, found)
        try:
            return found.result() if found.done() else await asyncio.shield(found)
        except TickworkError:
            self._found.pop(key, None)
            raise

    def forget(self, key: Hashable) -> None:
        """Reads a value again when it is asked for."""
        self._found.pop(key, None)
