"""Opens the store of an app on first use and closes it with its event loop.

A store belongs to the event loop in which it was opened, because its connections do. A program may
have several loops, one after the other (`asyncio.run(queue.send(…))`, then `app.run()`) or in
several threads. So each loop has its own store, which is closed when `asyncio.run` ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from tickwork.errors import FieldError, InvalidInput
from tickwork.store.contract import Store
from tickwork.store.shared.doctor import Finding, Level

__all__ = ["Finding", "Level", "LoopStore", "LoopStores", "OpenStore", "Store"]

CLOSE_SECONDS = 1.0
"""Seconds a store may take to close when its event loop ends."""

OpenStore = Callable[[], Awaitable[Store]]
BeforeClose = Callable[[Store], Awaitable[None]]


class LoopStore:
    """The store of one event loop."""

    def __init__(self, open_store: OpenStore, before_close: BeforeClose) -> None:
        self._open_store, self._opening = open_store, asyncio.Lock()
        self._before_close = before_close
        self.store: Store | None = None
        self._is_closed_by_caller = False
        self._lifetime: AsyncGenerator[Store, None] | None = None

    async def get(self) -> Store:
        """Returns the open store; opens it on the first call."""
        async with self._opening:
            if self.store is None:
                lifetime = self._keep_open()
                self.store, self._lifetime = await anext(lifetime), lifetime
        return self.store

    async def close(self) -> None:
        """Completes accepted writes and closes the connections."""
        async with self._opening:
            lifetime, self._lifetime = self._lifetime, None
            if lifetime is not None:
                self._is_closed_by_caller = True
                await lifetime.aclose()
                self._is_closed_by_caller = False

    async def _keep_open(self) -> AsyncGenerator[Store, None]:
        # An async generator, because an ending event loop closes its async generators. That is
        # the only notice we get, and the last moment in which connections can be closed.
        store = await self._open_store()
        try:
            yield store
        finally:
            self.store = None
            # An ending loop has cancelled every task, also those that would have returned their
            # connection to the pool. So closing must not wait for them.
            limit = None if self._is_closed_by_caller else CLOSE_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await self._before_close(store)
            with suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await store.close()


class LoopStores:
    """The stores of an app, one for each event loop."""

    def __init__(self, open_store: OpenStore, before_close: BeforeClose | None = None) -> None:
        self._open_store, self._before_close = open_store, before_close or _do_nothing
        self._by_loop: dict[asyncio.AbstractEventLoop, LoopStore] = {}
        self._borrowed: Store | None = None
        self._borrowed_by: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """Whether the store of this event loop is open."""
        known = self._by_loop.get(asyncio.get_running_loop())
        return known is not None and known.store is not None

    @property
    def is_in_harness(self) -> bool:
        """Whether a test harness drives this app."""
        return self._borrowed is not None

    @property
    def harness_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the test harness that drives this app."""
        return None if self._borrowed is None else self._borrowed_by

    def check_not_in_harness(self, called: str) -> None:
        """Raises `InvalidInput` while a test harness drives this app.

        A harness handles messages only when the test says so, so a caller would wait forever.
        """
        if self._borrowed is not None:
            fault = (
                "waits forever while a test harness drives this app: call `await h.drain()` or "
                "`h.advance(…)`, then `await batch.progress()`"
            )
            raise InvalidInput([FieldError(called, fault)])

    async def get(self) -> Store:
        """Returns the store of this event loop; opens it on the first call."""
        if self._borrowed is not None:
            return self._borrowed
        loop = asyncio.get_running_loop()
        known = self._by_loop.get(loop)
        if known is not None and known.store is not None:
            return known.store
        if known is None:
            for other in [*self._by_loop]:
                if other.is_closed():
                    self._by_loop.pop(other, None)
            known = self._by_loop[loop] = LoopStore(self._open_store, self._before_close)
        return await known.get()

    async def close(self) -> None:
        """Closes the store of this event loop and leaves those of other loops open."""
        known = self._by_loop.get(asyncio.get_running_loop())
        if known is not None:
            await known.close()

    @contextmanager
    def using(self, store: Store) -> Iterator[None]:
        """Uses this store instead, in every event loop, while the context is open."""
        before = self._borrowed
        self._borrowed, self._borrowed_by = store, asyncio.get_running_loop()
        try:
            yield
        finally:
            self._borrowed = before


async def _do_nothing(_store: Store) -> None:
    pass
