"""This process's identity, and the heartbeat that keeps everything it holds.

The heartbeat has a thread, an event loop and a connection of its own: a handler that blocks the
main loop costs this process its pace, not its lease. When the lease is lost all the same, whatever
the node held has been given to others; it takes a new identity, and whoever works for it is told.

Trust counts from before the request was sent: an answer that took long proves nothing about now.

Whatever goes wrong is tried again. If it is something nobody thought of, and the lease has run out
meanwhile, a new identity is taken as well. Should the thread end all the same, whoever works for
the node is ended with an error: without a heartbeat it would stand still, and nobody would see it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM
from tickwork.errors import NodeExpired, StoreError, TickworkError
from tickwork.service.loop import Tell, forever
from tickwork.store.aside import aside
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

TTL_SECONDS = 15.0
BEATS_PER_TTL = 3
_RETRY_SECONDS = 0.5
_STOP_SECONDS = 10.0

OpenStore = Callable[[], Awaitable[Store]]


class HeartbeatEnded(TickworkError):
    """The thread that keeps this process's lease has ended, and nobody told it to."""

    code = "heartbeat_ended"

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the heartbeat of this process has ended ({why}); start it again")

    def _made_of(self) -> tuple[object, ...]:
        return (self.why,)


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
        self._is_told_to_stop = self._is_odd = False
        self._on_lost: list[Callable[[UUID], None]] = []
        self._on_trouble: list[Tell] = []
        self._on_ended: Callable[[], None] = lambda: None

    def on_lost(self, tell: Callable[[UUID], None]) -> None:
        """Calls, on the node's thread, when an identity was lost."""
        self._on_lost.append(tell)

    def on_trouble(self, tell: Tell) -> None:
        """Calls, on the node's thread, when something went wrong that nobody thought of."""
        self._on_trouble.append(tell)

    def drop_role(self, role: str) -> None:
        """Has it no more; nor has a new identity, should this one be lost."""
        self._roles = tuple(each for each in self._roles if each != role)

    async def start(self) -> None:
        """Joins; returns when the lease has begun, or raises why it cannot."""
        self._thread.start()
        await aside(self._started.wait)
        if self._failed is not None:
            raise self._failed

    @asynccontextmanager
    async def guarded(self) -> AsyncIterator[None]:
        """Cancels who is in here when the heart stops by itself, and raises `HeartbeatEnded`."""
        loop, guest = asyncio.get_running_loop(), asyncio.current_task()
        assert guest is not None
        is_inside = True

        def cancel() -> None:
            if is_inside:
                guest.cancel()

        def ended() -> None:
            with suppress(RuntimeError):  # The loop is closed: nobody is in here any more.
                loop.call_soon_threadsafe(cancel)

        self._on_ended = ended
        try:
            if self._failed is not None:  # Before anybody could be told.
                raise HeartbeatEnded(repr(self._failed)) from self._failed
            yield
        except asyncio.CancelledError:
            if self._failed is None or guest.uncancel() > 0:
                raise
            raise HeartbeatEnded(repr(self._failed)) from self._failed
        finally:
            is_inside = False

    async def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Leaves, and gives back what is still held; within so long, else its lease just ends."""
        self._is_told_to_stop = True
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # The thread has ended by itself.
                self._loop.call_soon_threadsafe(self._stopping.set)
        await aside(self._thread.join, seconds)

    def _run(self) -> None:
        try:
            asyncio.run(self._live_watched())
        finally:
            if not self._is_told_to_stop and self._failed is None:
                self._failed = HeartbeatEnded("its thread could not go on")
            self._started.set()
            if not self._is_told_to_stop:
                self._on_ended()

    async def _live_watched(self) -> None:
        """Keeps what it ends with, whatever that is."""
        living = asyncio.create_task(self._live())
        await asyncio.wait([living])
        if not living.cancelled():
            self._failed = living.exception()

    async def _live(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        store = await self._open_store()
        try:
            await self._join(store)
            self._started.set()
            await self._beat_until(self._stopping, store)
            with suppress(StoreError):
                await store.nodes.leave(SYSTEM, self.id)
        finally:
            await store.close()

    async def _beat_until(self, stopping: asyncio.Event, store: Store) -> None:
        beating = asyncio.create_task(
            forever("heartbeat", lambda: self._beat(store), tell=self._trouble)
        )
        told = asyncio.create_task(stopping.wait())
        await asyncio.wait([beating, told], return_when=asyncio.FIRST_COMPLETED)
        if beating.done():
            beating.result()  # It raises: by itself it has no end.
        beating.cancel()
        await asyncio.wait([beating])

    def _trouble(self, what: str, error: Exception) -> None:
        self._is_odd = True
        for tell in self._on_trouble:
            tell(what, error)

    async def _join(self, store: Store) -> None:
        began = monotonic()
        await store.nodes.join(
            SYSTEM, self.id, name=self._name, roles=self._roles, ttl_seconds=self._ttl_seconds
        )
        self.trusted_until = began + self._ttl_seconds

    async def _beat(self, store: Store) -> float:
        """How long to wait before the next."""
        if self._is_odd and monotonic() > self.trusted_until:
            return await self._renew(store)
        wait = self._ttl_seconds / BEATS_PER_TTL
        began = monotonic()
        try:
            async with asyncio.timeout(wait):
                await store.nodes.heartbeat(SYSTEM, self.id, self._ttl_seconds)
        except NodeExpired:
            return await self._renew(store)
        except (StoreError, TimeoutError):
            return _RETRY_SECONDS
        self.trusted_until, self._is_odd = began + self._ttl_seconds, False
        return wait

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
