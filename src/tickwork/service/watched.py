"""A worker, and those who watch it: numbers, and a thread that sees the event loop stand still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from tickwork.service.watchdog import Watchdog
from tickwork.service.worker import Worker


class WatchedWorker(NamedTuple):
    """A worker that is not at work yet."""

    worker: Worker
    collectors: Sequence[Collector]
    watchdog: Watchdog

    @asynccontextmanager
    async def running(
        self, *, drain_seconds: float, registry: CollectorRegistry | None
    ) -> AsyncIterator[Worker]:
        """At work meanwhile, and watched to the end; its numbers are in the registry. Raises
        `HeartbeatEnded` if it can no longer keep its lease."""
        with ExitStack() as watching:
            if registry is not None:
                for each in self.collectors:
                    registry.register(each)
                    watching.callback(registry.unregister, each)
            watching.enter_context(self.watchdog)
            await self.worker.start()
            try:
                async with self.worker.guarded():
                    yield self.worker
            finally:
                await self.worker.stop(drain_seconds)
