"""This process's identity, and the heartbeat that keeps everything it holds.

The heartbeat has a thread, an event loop and a connection of its own: a handler that blocks the
main loop costs this process its pace, not its lease. When the lease is lost all the same, whatever
the node held has been given to others; it takes a new identity, and whoever works for it is told.

But a lease that lives must not keep schedules from those who could plan them. So the thread asks
the loop of a node that leads for a sign of life, again and again. If there is none for a whole time
to live it stands aside: it gives up its shards and the role, so that others lead them at once, and
takes the role again as soon as the loop turns. What it claimed stays with it, its handlers run on.
`term` tells the two times apart: who asked, or was answered, in an earlier one leads nothing.

Trust counts from before the request was sent: an answer that took long proves nothing about now.

Whatever goes wrong is tried again. If it is something nobody thought of, and the lease has run out
meanwhile, a new identity is taken as well. Should the thread end all the same, whoever works for
the node is ended with an error: without a heartbeat it would stand still, and nobody would see it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM
from tickwork.errors import NodeExpired, StoreError, TickworkError
from tickwork.service.loop import ReportError, run_forever
from tickwork.service.observe.log_events import LogEvent
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.shared.waiting import aside

TTL_SECONDS = 15.0
BEATS_PER_TTL = 3

SCHEDULER_ROLE = "scheduler"
"""Of a node that leads schedules, as nodes and their settings call it."""

_RETRY_SECONDS = 0.5
_STOP_SECONDS = 10.0

_log = logging.getLogger("tickwork")

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
    """An identity that is kept alive. `id` changes when a lease was lost, `term` rises when what it
    led was given up because its event loop stood still."""

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
        self.term = 0
        self.trusted_until = float("-inf")
        self._has_stepped_down = False
        self._one_at_a_time = asyncio.Lock()
        self._main_loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="tickwork-node", daemon=True)
        self._started = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed: BaseException | None = None
        self._is_stopping = self._had_unexpected_error = False
        self._on_lease_lost: list[Callable[[UUID], None]] = []
        self._on_error: list[ReportError] = []
        self._on_ended: Callable[[], None] = lambda: None

    def on_lease_lost(self, tell: Callable[[UUID], None]) -> None:
        """Calls, on the node's thread, when an identity was lost."""
        self._on_lease_lost.append(tell)

    def on_error(self, tell: ReportError) -> None:
        """Calls, on the node's thread, when something went wrong that nobody thought of."""
        self._on_error.append(tell)

    def drop_role(self, role: str) -> None:
        """Has it no more; nor has a new identity, should this one be lost."""
        self._roles = tuple(each for each in self._roles if each != role)

    async def start(self) -> None:
        """Joins; returns when the lease has begun, or raises why it cannot. The loop in which it is
        called is the one that leads."""
        self._main_loop = asyncio.get_running_loop()
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
        """Leaves, and gives back what is still held; within so long, else its lease just ends. One
        that is about to join does not, or leaves as soon as it has."""
        self._is_stopping = True
        if self._thread.ident is None:
            return
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # The thread has ended by itself.
                self._loop.call_soon_threadsafe(self._stopping.set)
        await aside(self._thread.join, seconds)
        self._started.set()  # Nobody waits for that any more, nor has to at the end of the process.

    def _run(self) -> None:
        try:
            asyncio.run(self._live_recorded())
        finally:
            if not self._is_stopping and self._failed is None:
                self._failed = HeartbeatEnded("its thread could not go on")
            self._started.set()
            if not self._is_stopping:
                self._on_ended()

    async def _live_recorded(self) -> None:
        """Keeps what it ends with, whatever that is."""
        living = asyncio.create_task(self._live())
        await asyncio.wait([living])
        if not living.cancelled():
            self._failed = living.exception()

    async def _live(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        store = await self._open_store()
        try:
            if self._is_stopping:
                return
            await self._join(store)
            self._started.set()
            await self._beat_until(self._stopping, store)
            with suppress(StoreError):
                await store.nodes.leave(SYSTEM, self.id)
        finally:
            await store.close()

    async def _beat_until(self, stopping: asyncio.Event, store: Store) -> None:
        steps = [run_forever("heartbeat", lambda: self._beat(store), tell=self._report_unexpected)]
        if SCHEDULER_ROLE in self._roles:
            steps.append(
                run_forever("watch", lambda: self._watch_main_loop(store), tell=self._tell)
            )
        going_on = [asyncio.create_task(each) for each in steps]
        told = asyncio.create_task(stopping.wait())
        await asyncio.wait([*going_on, told], return_when=asyncio.FIRST_COMPLETED)
        for each in going_on:
            if each.done():
                each.result()  # It raises: by itself it has no end.
            each.cancel()
        await asyncio.wait(going_on)

    def _report_unexpected(self, what: str, error: Exception) -> None:
        self._had_unexpected_error = True
        self._tell(what, error)

    def _tell(self, what: str, error: Exception) -> None:
        for tell in self._on_error:
            tell(what, error)

    async def _join(self, store: Store) -> None:
        async with self._one_at_a_time:
            began = monotonic()
            roles = [
                each for each in self._roles if each != SCHEDULER_ROLE or not self._has_stepped_down
            ]
            await store.nodes.join(
                SYSTEM, self.id, name=self._name, roles=roles, ttl_seconds=self._ttl_seconds
            )
            self.trusted_until = began + self._ttl_seconds

    async def _beat(self, store: Store) -> float:
        """How long to wait before the next."""
        if self._had_unexpected_error and monotonic() > self.trusted_until:
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
        self.trusted_until, self._had_unexpected_error = began + self._ttl_seconds, False
        return wait

    async def _renew(self, store: Store) -> float:
        """Takes a new identity; how long to wait before the next beat, or before trying again."""
        lost, self.id = self.id, new_id()
        for tell in self._on_lease_lost:
            tell(lost)
        try:
            await self._join(store)
        except StoreError:
            return _RETRY_SECONDS
        return self._ttl_seconds / BEATS_PER_TTL

    # Standing aside

    async def _watch_main_loop(self, store: Store) -> float:
        """Asks the loop that leads for a sign of life; if none comes for a time to live, others
        lead until it does. How long to wait before it is asked again."""
        turned, piece = self._ping_main_loop(), self._ttl_seconds / BEATS_PER_TTL
        for _ in range(BEATS_PER_TTL):
            # In pieces: who was stopped as a whole, loop and all, finds but one of them over.
            if await _is_set_within(turned, piece):
                if self._has_stepped_down:  # Something went wrong the last time, and was told.
                    await self._until_done(lambda: self._resume_leading(store))
                return piece
        if SCHEDULER_ROLE not in self._roles:
            return piece
        told = "the event loop stands still: others lead the schedules of this node meanwhile"
        _log.warning(LogEvent(told, seconds=round(self._ttl_seconds, 3)))
        await self._until_done(lambda: self._step_down(store))
        await turned.wait()
        await self._until_done(lambda: self._resume_leading(store))
        if SCHEDULER_ROLE in self._roles:
            _log.info(LogEvent("the event loop turns again: this node leads schedules as before"))
        return piece

    def _ping_main_loop(self) -> asyncio.Event:
        """What is set when the loop that leads has turned."""
        turned, own = asyncio.Event(), asyncio.get_running_loop()

        def turn() -> None:
            with suppress(RuntimeError):  # Our own is closed: nobody waits for it any more.
                own.call_soon_threadsafe(turned.set)

        assert self._main_loop is not None
        with suppress(RuntimeError):  # It is closed, and does not turn any more.
            self._main_loop.call_soon_threadsafe(turn)
        return turned

    async def _until_done(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            with suppress(StoreError, NodeExpired, TimeoutError):
                async with asyncio.timeout(self._ttl_seconds / BEATS_PER_TTL), self._one_at_a_time:
                    return await step()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _step_down(self, store: Store) -> None:
        self._has_stepped_down = True
        try:
            await store.shards.give_up(SYSTEM, self.id)
        finally:
            self.term += 1  # Not before: who asks from now on is told that nothing is its own.

    async def _resume_leading(self, store: Store) -> None:
        if SCHEDULER_ROLE in self._roles:
            await store.shards.come_back(SYSTEM, self.id)
        if (
            SCHEDULER_ROLE not in self._roles
        ):  # Dropped, and what was given up then may have come first.
            await store.shards.give_up(SYSTEM, self.id)
        self._has_stepped_down = False


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False
