"""Suspects: messages whose worker died while it had claimed them.

When a worker process dies, all messages it had claimed become suspects, because one of them may
have killed it. Most are innocent. A suspect runs only together with other suspects; those that
survive are cleared, many at once. A suspect whose worker dies again runs all alone. The worker
polls for suspects. When a queue has some, the worker stops claiming, waits until its running
handlers finish, claims as many suspects as it has permits, runs them, and resumes. So neither
suspects nor other messages pay for a message that kills its worker.

Other messages must not wait long for suspects:

- A busy worker first defers suspects for a while, each worker for a different time: an idle
  worker may take them, and the workers do not all pause at once.
- After `SUSPECT_WAIT_SECONDS` without getting idle it resumes. Nothing was claimed, and an idle
  worker can take the suspects. The next time it waits twice as long, up to
  `SUSPECT_WAIT_SECONDS_MAX`.
- If even that is too short, it runs the suspects beside the handlers that still run. If their
  queue has no free permit, that queue alone claims nothing until it has one, for up to 30 seconds
  at a time.
- Suspects have `SUSPECT_ALONE_SECONDS` for themselves. If they run longer, everything else resumes
  beside them, and the worker logs that. It claims no other suspects until they finish: two that
  were lost too often would both become dead letters if one of them kills the process.
- For `SUSPECT_REST_FACTOR` times as long as it was paused it does not poll again, if it has other
  work.
- While the lease is not trusted nothing starts: the claims may belong to another worker.

So a pause takes at most `SUSPECT_WAIT_SECONDS_MAX` and `SUSPECT_ALONE_SECONDS`. The price: a
message that kills its process after that, or beside a longer handler, takes others along. They run
again, and the message is dead after `LOST_CLAIMS_MAX` processes at the latest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.model import SYSTEM, ClaimRequest, Message
from tickwork.errors import NodeExpired
from tickwork.service.worker.claim import WorkerContext
from tickwork.service.worker.consumer import QueueConsumer

SUSPECT_POLL_SECONDS = 1.0
"""Seconds between two polls for suspects."""

SUSPECT_WAIT_SECONDS = 5.0
"""Seconds the worker stays paused to get idle, at first."""

SUSPECT_WAIT_SECONDS_MAX = 30.0
"""The same at most. A worker that does not get idle then runs suspects beside other handlers."""

SUSPECT_ALONE_SECONDS = 30.0
"""Seconds that suspects run before the other messages resume beside them."""

SUSPECT_REST_FACTOR = 4.0
"""Multiple of a pause that must pass before the next one: at most a fifth of the time is paused."""

SUSPECT_DEFER_FACTORS = (1.0, 10.0)
"""Range of the multiple of `SUSPECT_POLL_SECONDS` for which a busy worker defers suspects."""

SUSPECTS_MAX = 100
"""Maximum number of suspects that run together: if one of them kills the process, all of them have
to run alone."""

REST_CHECK_SECONDS = 0.05
"""Seconds between two checks whether the worker had other work since the pause."""


class Suspects:
    """Runs the suspects of a worker's consumers. The list of consumers may change, but not while
    `is_changing` is locked."""

    def __init__(
        self,
        context: WorkerContext,
        consumers: Sequence[QueueConsumer],
        is_changing: asyncio.Lock,
    ) -> None:
        self._context = context
        self._consumers = consumers
        self._is_changing = is_changing
        self._running: tuple[QueueConsumer, frozenset[asyncio.Task[None]]] | None = None
        self._is_stopping = False
        self._wait_seconds = SUSPECT_WAIT_SECONDS
        self._last_index = 0
        self._paused_seconds = 0.0
        self._rest_until = -inf
        self._started_before = 0

    def stop(self) -> None:
        """Starts no more suspects."""
        self._is_stopping = True

    async def poll(self) -> float:
        """Runs suspects, unless it rests after a pause; returns the seconds until the next poll."""
        has_more = self._started_count() > self._started_before or not self._is_idle
        if monotonic() < self._rest_until and has_more:
            return REST_CHECK_SECONDS
        ran, self._paused_seconds = 0, 0.0
        with suppress(NodeExpired):  # The node takes a new identity by itself.
            ran = await self.run(SUSPECT_ALONE_SECONDS)
        rest_seconds = self._paused_seconds * SUSPECT_REST_FACTOR
        self._rest_until, self._started_before = monotonic() + rest_seconds, self._started_count()
        return REST_CHECK_SECONDS if ran else max(rest_seconds, SUSPECT_POLL_SECONDS)

    async def run(self, alone_seconds: float) -> int:
        """Runs the suspects of one queue, each queue in turn, and lets nothing else start for up to
        `alone_seconds`; returns their number."""
        if self._is_stopping or not self._consumers:
            return 0
        if self._has_running:
            return 0
        suspected = await self._queues_with_suspects()
        if suspected and any(consumer.is_working for consumer in self._consumers):
            await asyncio.sleep(self._defer_seconds())
            suspected = await self._queues_with_suspects()
        if not suspected:
            self._wait_seconds = SUSPECT_WAIT_SECONDS
            return 0
        indexes = [
            index
            for index, consumer in enumerate(self._consumers)
            if consumer.queue.id in suspected
        ]
        if not indexes:  # Their consumers ended meanwhile.
            return 0
        self._last_index = next(
            (index for index in indexes if index > self._last_index), indexes[0]
        )
        return await self._run_of(self._consumers[self._last_index], alone_seconds)

    @property
    def _has_running(self) -> bool:
        """Whether suspects of the last `run` still run."""
        if self._running is None:
            return False
        consumer, tasks = self._running
        return consumer in self._consumers and consumer.running.is_any_of(tasks)

    async def _run_of(self, consumer: QueueConsumer, alone_seconds: float) -> int:
        try:
            if self._is_last_wait:
                consumer.pause()
                await consumer.permits.wait_until_free(SUSPECT_WAIT_SECONDS_MAX)
                if _suspects_max(consumer) <= 0:
                    return 0
            async with self._is_changing:
                return await self._pause_for(consumer, alone_seconds)
        finally:
            consumer.resume()

    async def _pause_for(self, suspected: QueueConsumer, alone_seconds: float) -> int:
        """Pauses all consumers and runs the suspects of one; returns their number."""
        paused_at = monotonic()
        for consumer in self._consumers:
            consumer.pause()
        try:
            is_alone = await self._wait_until_idle()
            if not is_alone and not self._is_last_wait:
                self._wait_seconds = min(self._wait_seconds * 2, SUSPECT_WAIT_SECONDS_MAX)
                return 0
            self._wait_seconds = SUSPECT_WAIT_SECONDS
            messages = await self._claim(suspected)
            if messages and not is_alone:
                self._report_not_alone(suspected, "this worker was not idle in time")
            if not await self._run_alone(suspected, messages, alone_seconds):
                self._report_not_alone(suspected, "they take long")
            return len(messages)
        finally:
            for consumer in self._consumers:
                consumer.resume()
            self._paused_seconds = monotonic() - paused_at

    async def _run_alone(
        self, consumer: QueueConsumer, messages: Sequence[Message], seconds: float
    ) -> bool:
        """Handles claimed suspects and waits up to `seconds`; returns whether they finished."""
        consumer.has_more_suspects = len(messages) >= _suspects_max(consumer)
        tasks = consumer.start(messages)
        self._running = consumer, tasks
        is_finished = await consumer.running.wait_until_finished(tasks, seconds)
        consumer.has_more_suspects = False
        return is_finished

    @property
    def _is_last_wait(self) -> bool:
        """Whether the suspects run after this wait, idle or not."""
        return self._wait_seconds >= SUSPECT_WAIT_SECONDS_MAX

    async def _claim(self, consumer: QueueConsumer) -> Sequence[Message]:
        limit = _suspects_max(consumer)
        if not self._may_start() or limit <= 0 or consumer not in self._consumers:
            return ()
        holder = self._context.holder()
        request = ClaimRequest(queue=consumer.queue.name, holder=holder, limit=limit, separate=True)
        messages = await self._context.claimer.claim(consumer.scope, request)
        is_ending = not self._may_start() or consumer.is_draining
        if is_ending or holder != self._context.holder():
            consumer.endings.release(messages)
            return ()
        return messages

    def _report_not_alone(self, consumer: QueueConsumer, why: str) -> None:
        self._context.observer.suspects_not_alone(consumer.queue, why)

    async def _queues_with_suspects(self) -> frozenset[UUID]:
        """The ids of the queues that have suspects and whose consumers may start some."""
        queue_ids = [consumer.queue.id for consumer in self._consumers if not consumer.is_draining]
        return await self._context.store.messages.suspects(SYSTEM, queue_ids)

    def _defer_seconds(self) -> float:
        """Seconds to leave suspects to other workers; differs from node to node."""
        least, most = SUSPECT_DEFER_FACTORS
        fraction = self._context.holder().int % 1_000 / 1_000
        return (least + (most - least) * fraction) * SUSPECT_POLL_SECONDS

    @property
    def _is_idle(self) -> bool:
        return all(consumer.is_idle for consumer in self._consumers)

    def _started_count(self) -> int:
        return sum(consumer.permits.started_count for consumer in self._consumers)

    def _may_start(self) -> bool:
        return not self._is_stopping and self._context.is_trusted()

    async def _wait_until_idle(self) -> bool:
        """Waits until all consumers are idle; False if that takes too long."""
        until = monotonic() + self._wait_seconds
        for consumer in [*self._consumers]:
            if not await consumer.wait_until_idle(until - monotonic()):
                return False
        return True


def _suspects_max(consumer: QueueConsumer) -> int:
    """Maximum number of suspects to claim at once, so that each gets a permit."""
    if consumer.is_draining:
        return 0
    permits = consumer.permits
    free = permits.free if permits.running else max(permits.limit, 1)
    return min(free * consumer.batch_size, SUSPECTS_MAX)
