"""The store of an app: opened when it is first asked for, and closed with its event loop.

A store belongs to the event loop in which it was opened: connections and whoever waits for them do.
A program may have several, one after the other (`asyncio.run(queue.send(…))`, then `app.run()`) or
in several threads. So each loop has a store of its own, and when `asyncio.run` ends it is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from tickwork.errors import FieldError, InvalidInput
from tickwork.store.contract import Store
from tickwork.store.shared.doctor import Finding, Level

__all__ = ["Finding", "Level", "LoopStore", "LoopStores", "OpenStore", "Store"]

LAST_SECONDS = 1.0
"""So long a store may take to close at the end of its event loop."""

OpenStore = Callable[[], Awaitable[Store]]


class LoopStore:
    """The store of one event loop."""

    def __init__(self, open_store: OpenStore) -> None:
        self._open_store, self._opening = open_store, asyncio.Lock()
        self.store: Store | None = None
        self._is_closed_by_hand = False
        self._life: AsyncGenerator[Store, None] | None = None

    async def get(self) -> Store:
        """The store, open."""
        if self.store is not None:
            return self.store
        async with self._opening:
            if self.store is None:
                life = self._live()
                self.store, self._life = await anext(life), life
        return self.store

    async def close(self) -> None:
        """Finishes what was accepted, and lets go of the database."""
        async with self._opening:
            life, self._life = self._life, None
            if life is not None:
                self._is_closed_by_hand = True
                await life.aclose()
                self._is_closed_by_hand = False

    async def _live(self) -> AsyncGenerator[Store, None]:
        # A generator, because an event loop that ends closes those that it knows: it is the
        # only one to tell us, and the only moment in which connections can still be closed.
        store = await self._open_store()
        try:
            yield store
        finally:
            self.store = None
            # At the end of a loop every task was cancelled before, also those that would have
            # given their connection back: nothing is left to be waited for.
            limit = None if self._is_closed_by_hand else LAST_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await store.close()


class LoopStores:
    """The stores of an app."""

    def __init__(self, open_store: OpenStore) -> None:
        self._open_store = open_store
        self._of_loops: dict[asyncio.AbstractEventLoop, LoopStore] = {}
        self._lent: Store | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is one for this event loop."""
        known = self._of_loops.get(asyncio.get_running_loop())
        return known is not None and known.store is not None

    def check_own(self, called: str) -> None:
        """Raises `InvalidInput` while a test's harness has lent one: nothing happens there by
        itself, and whoever waits for it would wait for ever."""
        if self._lent is not None:
            fault = (
                "a harness has this app, and does only what it is told: use `await h.drain()` or "
                "`h.advance(…)`, and then `await batch.progress()`"
            )
            raise InvalidInput([FieldError(called, fault)])

    async def get(self) -> Store:
        """The one of this event loop."""
        if self._lent is not None:
            return self._lent
        loop = asyncio.get_running_loop()
        known = self._of_loops.get(loop)
        if known is None:
            for other in [*self._of_loops]:
                if other.is_closed():
                    self._of_loops.pop(other, None)
            known = self._of_loops[loop] = LoopStore(self._open_store)
        return await known.get()

    async def close(self) -> None:
        """Closes the one of this event loop; the others belong to others."""
        known = self._of_loops.get(asyncio.get_running_loop())
        if known is not None:
            await known.close()

    @contextmanager
    def lent(self, store: Store) -> Iterator[None]:
        """This one meanwhile, in every event loop."""
        before, self._lent = self._lent, store
        try:
            yield
        finally:
            self._lent = before
