"""This process's identity, and the heartbeat that keeps everything it holds.

The heartbeat has a thread, an event loop and a connection of its own: a handler that blocks the
main loop costs this process its pace, not its lease. When the lease is lost all the same, whatever
the node held has been given to others; it takes a new identity, and whoever works for it is told.

Trust counts from before the request was sent: an answer that took long proves nothing about now.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM
from tickwork.errors import NodeExpired, StoreError
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

TTL_SECONDS = 15.0
BEATS_PER_TTL = 3
_RETRY_SECONDS = 0.5
_STOP_SECONDS = 10.0

OpenStore = Callable[[], Awaitable[Store]]


class Node:
    """An identity that is kept alive. `id` changes when a lease was lost."""

    def __init__(
        self,
        open_store: OpenStore,
        *,
        name: str,
        roles: Sequence[str],
        ttl_seconds: float = TTL_SECONDS,
    ) -> None:
        self._open_store, self._name, self._roles = open_store, name, tuple(roles)
        self._ttl_seconds = ttl_seconds
        self.id: UUID = new_id()
        self.trusted_until = float("-inf")
        self._thread = threading.Thread(target=self._run, name="tickwork-node", daemon=True)
        self._started = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed: BaseException | None = None
        self._on_lost: list[Callable[[UUID], None]] = []

    def on_lost(self, tell: Callable[[UUID], None]) -> None:
        """Calls, on the node's thread, when an identity was lost."""
        self._on_lost.append(tell)

    async def start(self) -> None:
        """Joins; returns when the lease has begun, or raises why it cannot."""
        self._thread.start()
        await asyncio.to_thread(self._started.wait)
        if self._failed is not None:
            raise self._failed

    async def stop(self) -> None:
        """Leaves, and gives back what is still held."""
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # The thread has ended by itself.
                self._loop.call_soon_threadsafe(self._stopping.set)
        await asyncio.to_thread(self._thread.join, _STOP_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except StoreError as error:
            self._failed = error
        finally:
            self._started.set()

    async def _live(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        store = await self._open_store()
        try:
            await self._join(store)
            self._started.set()
            while not self._stopping.is_set():
                await self._beat(store)
            with suppress(StoreError):
                await store.nodes.leave(SYSTEM, self.id)
        finally:
            await store.close()

    async def _join(self, store: Store) -> None:
        began = monotonic()
        await store.nodes.join(
            SYSTEM, self.id, name=self._name, roles=self._roles, ttl_seconds=self._ttl_seconds
        )
        self.trusted_until = began + self._ttl_seconds

    async def _beat(self, store: Store) -> None:
        assert self._stopping is not None
        wait = self._ttl_seconds / BEATS_PER_TTL
        began = monotonic()
        try:
            async with asyncio.timeout(wait):
                await store.nodes.heartbeat(SYSTEM, self.id, self._ttl_seconds)
            self.trusted_until = began + self._ttl_seconds
        except NodeExpired:
            wait = await self._renew(store)
        except (StoreError, TimeoutError):
            wait = _RETRY_SECONDS
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), wait)

    async def _renew(self, store: Store) -> float:
        """Takes a new identity; how long to wait before the next beat, or before trying again."""
        lost, self.id = self.id, new_id()
        for tell in self._on_lost:
            tell(lost)
        try:
            await self._join(store)
        except StoreError:
            return _RETRY_SECONDS
        return self._ttl_seconds / BEATS_PER_TTL
