"""This process's identity in the cluster, and the heartbeat that keeps its lease.

The heartbeat has its own thread, event loop and connection: a handler that blocks the main event
loop slows this process down but does not cost it its lease. If the lease is lost anyway, other
nodes have everything this node claimed and led. The node then takes a new identity and notifies
the worker.

But a live lease must not keep schedules away from nodes that could plan them. So the thread of a
node that leads schedules pings the main event loop. If the loop does not respond for a whole TTL,
the node steps down: it gives up its shards and the scheduler role, so that other nodes lead them at
once. It takes the role again as soon as the loop responds. Its claims stay its own, and its
handlers continue. `term` rises each time: requests and answers of an earlier term lead nothing.

Trust is counted from before the heartbeat was sent: a slow answer proves nothing about now.

A heartbeat that fails, or has no answer after a moment, is reported at once (`outages`).

Every error is retried. If an unexpected error lasts until the lease has expired, the node takes a
new identity as well. If the thread ends anyway, whoever runs inside `guarded()` gets
`HeartbeatEnded`: without a heartbeat the process would silently stop working.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM, QueuePermits
from tickwork.errors import NodeExpired, StoreError, TickworkError
from tickwork.service.loop import run_forever
from tickwork.service.observe import NodeEvents
from tickwork.service.outages import Outages, Pager
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.shared.watches import run_in_own_thread

TTL_SECONDS = 15.0
"""Seconds a lease lasts after a heartbeat."""

BEATS_PER_TTL = 3
"""Number of heartbeats per TTL."""

ANSWERS_PER_TTL = 15
"""A heartbeat without an answer for this part of the TTL (one second) is reported as failed."""

SCHEDULER_ROLE = "scheduler"
"""The role of a node that leads schedules."""

_RETRY_SECONDS = 0.5
"""Seconds between two attempts while the database is unavailable."""

_STOP_SECONDS = 10.0
"""Seconds `stop` waits for the thread."""

OpenStore = Callable[[], Awaitable[Store]]


class HeartbeatEnded(TickworkError):
    """The heartbeat thread of this process ended unexpectedly."""

    code = "heartbeat_ended"

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the heartbeat thread of this process ended ({why}); restart the process")

    def _init_args(self) -> tuple[object, ...]:
        return (self.why,)


class Node:
    """An identity with a lease. `id` changes when a lease was lost; `term` rises when the node gave
    up its shards because its event loop was blocked. A heartbeat reports `hold_seconds`."""

    def __init__(
        self,
        open_store: OpenStore,
        *,
        name: str,
        roles: Sequence[str],
        workflows: Sequence[tuple[str, str | None]] = (),
        permits: Sequence[QueuePermits] = (),
        observer: NodeEvents | None = None,
        ttl_seconds: float = TTL_SECONDS,
        pager: Pager | None = None,
    ) -> None:
        self.workflows = workflows
        self.permits = tuple(permits)
        self._open_store = open_store
        self._name = name
        self._roles = tuple(roles)
        self._observer = observer or NodeEvents()
        self._ttl_seconds = ttl_seconds
        self._outages = Outages(
            name,
            observer=self._observer,
            beat_seconds=ttl_seconds / BEATS_PER_TTL,
            pager=pager,
        )
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
        self._is_stopping = False
        self._had_unexpected_error = False
        self._had_lease = False
        self.hold_seconds: Callable[[], float | None] = lambda: None
        self._on_lease_lost: list[Callable[[UUID], None]] = []
        self._on_ended: Callable[[], None] = lambda: None

    def on_lease_lost(self, notify: Callable[[UUID], None]) -> None:
        """Registers a callback for a lost identity. It is called on the node's thread."""
        self._on_lease_lost.append(notify)

    def drop_role(self, role: str) -> None:
        """Removes a role, also for a later identity."""
        self._roles = tuple(other for other in self._roles if other != role)

    async def start(self) -> None:
        """Joins the cluster and returns when the lease is valid; raises the error if it cannot.
        The calling event loop becomes the main loop that must respond to pings."""
        self._main_loop = asyncio.get_running_loop()
        self._thread.start()
        await run_in_own_thread(self._started.wait)
        if self._failed is not None:
            raise self._failed

    @asynccontextmanager
    async def guarded(self) -> AsyncIterator[None]:
        """Cancels the calling task if the heartbeat thread ends, and raises `HeartbeatEnded`."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        is_inside = True

        def cancel() -> None:
            if is_inside:
                task.cancel()

        def ended() -> None:
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(cancel)

        self._on_ended = ended
        try:
            if self._failed is not None:  # It ended before the callback was set.
                raise HeartbeatEnded(repr(self._failed)) from self._failed
            yield
        except asyncio.CancelledError:
            if self._failed is None or task.uncancel() > 0:
                raise
            raise HeartbeatEnded(repr(self._failed)) from self._failed
        finally:
            is_inside = False

    async def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Leaves the cluster and releases all claims. If that takes longer than `seconds`, the
        lease expires by itself. A node that is about to join leaves at once."""
        self._is_stopping = True
        if self._thread.ident is None:
            return
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # The thread has ended.
                self._loop.call_soon_threadsafe(self._stopping.set)
        await run_in_own_thread(self._thread.join, seconds)
        self._started.set()  # Releases a `start` that still waits.

    def _run(self) -> None:
        try:
            asyncio.run(self._live_recorded())
        finally:
            if not self._is_stopping and self._failed is None:
                self._failed = HeartbeatEnded("its thread was stopped")
            self._started.set()
            if not self._is_stopping:
                self._on_ended()

    async def _live_recorded(self) -> None:
        """Runs `_live` and records the error it ends with."""
        task = asyncio.create_task(self._live())
        await asyncio.wait([task])
        if not task.cancelled():
            self._failed = task.exception()

    async def _live(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        store = await self._open_store()
        try:
            if self._is_stopping:
                return
            await self._join(store)
            await self._outages.refresh_pager(store)
            self._started.set()
            await self._beat_until(self._stopping, store)
            with suppress(StoreError):
                await store.nodes.leave(SYSTEM, self.id)
        finally:
            await self._outages.close()
            await store.close()

    async def _beat_until(self, stopping: asyncio.Event, store: Store) -> None:
        loops = [
            run_forever("heartbeat", lambda: self._beat(store), report=self._report_unexpected)
        ]
        if SCHEDULER_ROLE in self._roles:
            report = self._observer.error_occurred
            loops.append(run_forever("watch", lambda: self._watch_main_loop(store), report=report))
        tasks = [asyncio.create_task(loop) for loop in loops]
        stop = asyncio.create_task(stopping.wait())
        await asyncio.wait([*tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()  # Raises: the loops never return.
            task.cancel()
        await asyncio.wait(tasks)

    def _report_unexpected(self, activity: str, error: Exception) -> None:
        self._had_unexpected_error = True
        self._observer.error_occurred(activity, error)
        self._renewal_failed(_cause(error))

    async def _join(self, store: Store) -> None:
        async with self._one_at_a_time:
            began = monotonic()
            roles = [
                role for role in self._roles if role != SCHEDULER_ROLE or not self._has_stepped_down
            ]
            await store.nodes.join(
                SYSTEM,
                self.id,
                name=self._name,
                roles=roles,
                ttl_seconds=self._ttl_seconds,
                workflows=self.workflows,
                permits=self.permits,
            )
            self._renewed(began)

    async def _beat(self, store: Store) -> float:
        """Sends a heartbeat; returns the seconds until the next one."""
        if self._had_unexpected_error and monotonic() > self.trusted_until:
            return await self._take_new_identity(store)
        wait = self._ttl_seconds / BEATS_PER_TTL
        began = monotonic()
        try:
            async with asyncio.timeout(wait), self._answer_expected():
                await store.nodes.heartbeat(SYSTEM, self.id, self._ttl_seconds, self.hold_seconds())
        except NodeExpired:
            return await self._take_new_identity(store)
        except (StoreError, TimeoutError) as error:
            self._renewal_failed(_cause(error))
            return _RETRY_SECONDS
        self._had_unexpected_error = False
        self._renewed(began)
        await self._outages.publish(store)
        await self._outages.refresh_pager(store)
        return max(began + wait - monotonic(), 0.0)

    def _renewed(self, began: float) -> None:
        """The lease is valid from `began` on."""
        self.trusted_until = began + self._ttl_seconds
        self._had_lease = True
        self._outages.renewed()

    @asynccontextmanager
    async def _answer_expected(self) -> AsyncIterator[None]:
        """Reports a request that has no answer after a moment."""
        seconds = self._ttl_seconds / ANSWERS_PER_TTL
        why = f"the database has not answered for {seconds:.1f} s"
        timer = asyncio.get_running_loop().call_later(seconds, self._renewal_failed, why)
        try:
            yield
        finally:
            timer.cancel()

    def _renewal_failed(self, why: str) -> None:
        if self._had_lease:  # Otherwise the loss was reported.
            left_seconds = self.trusted_until - monotonic()
            self._outages.renewal_failed(why, node_id=self.id, left_seconds=left_seconds)

    async def _take_new_identity(self, store: Store) -> float:
        """Takes a new identity; returns the seconds until the next heartbeat or attempt."""
        lost, self.id = self.id, new_id()
        if self._had_lease:  # Otherwise the last attempt to join failed, and its loss is no news.
            self._had_lease = False
            self._observer.lease_lost(lost)
            self._outages.lease_lost()
        for notify in self._on_lease_lost:
            notify(lost)
        wait = self._ttl_seconds / BEATS_PER_TTL
        try:
            async with asyncio.timeout(wait):
                await self._join(store)
        except (StoreError, TimeoutError):
            return _RETRY_SECONDS
        await self._outages.publish(store)
        return wait

    # Stepping down while the main event loop is blocked

    async def _watch_main_loop(self, store: Store) -> float:
        """Pings the main loop. If it does not respond for a TTL, steps down until it does. Returns
        the seconds until the next ping."""
        responded, part = self._ping_main_loop(), self._ttl_seconds / BEATS_PER_TTL
        for _ in range(BEATS_PER_TTL):
            # In parts: after a suspension of the whole process only one of them has elapsed.
            if await _is_set_within(responded, part):
                if self._has_stepped_down:  # The last attempt to resume failed and was reported.
                    await self._retry_until_done(lambda: self._resume_leading(store))
                return part
        if SCHEDULER_ROLE not in self._roles:
            return part
        self._observer.leading_paused(self._ttl_seconds)
        await self._retry_until_done(lambda: self._step_down(store))
        await responded.wait()
        await self._retry_until_done(lambda: self._resume_leading(store))
        if SCHEDULER_ROLE in self._roles:
            self._observer.leading_resumed()
        return part

    def _ping_main_loop(self) -> asyncio.Event:
        """An event that is set when the main loop has responded."""
        responded, own_loop = asyncio.Event(), asyncio.get_running_loop()

        def respond() -> None:
            with suppress(RuntimeError):  # Our own loop is closed.
                own_loop.call_soon_threadsafe(responded.set)

        assert self._main_loop is not None
        with suppress(RuntimeError):  # The main loop is closed and never responds.
            self._main_loop.call_soon_threadsafe(respond)
        return responded

    async def _retry_until_done(self, step: Callable[[], Awaitable[None]]) -> None:
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
            # Only now: requests of the new term find that the shards are given up.
            self.term += 1

    async def _resume_leading(self, store: Store) -> None:
        if SCHEDULER_ROLE in self._roles:
            await store.shards.come_back(SYSTEM, self.id)
        # The role may have been dropped meanwhile, and its give-up may have preceded `come_back`.
        if SCHEDULER_ROLE not in self._roles:
            await store.shards.give_up(SYSTEM, self.id)
        self._has_stepped_down = False


def _cause(error: Exception) -> str:
    return str(error) or "the database did not answer in time"


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await event.wait()
    return False
