"""Where a handler runs: in a task, a thread, or a process.

| where | a handler that does not finish | what it cannot do |
|---|---|---|
| task | is cancelled; if it ignores that, it is abandoned and counted | – |
| thread | is abandoned and counted | block the event loop of other handlers |
| process | is killed | take memory, CPU time or the process of other handlers |
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from tickwork import spans
from tickwork.app.declarations import Consumer, HandlerDeclaration
from tickwork.app.isolation import Isolation
from tickwork.app.message import ClaimedMessage
from tickwork.core.model import QueuePermits
from tickwork.core.queue.rate_limit import AUTO_CONCURRENCY_MAX
from tickwork.service.isolation.process_pool import ProcessPool
from tickwork.service.isolation.threads import AbandonedHandlers, ThreadPool
from tickwork.service.worker.invoke import (
    HandlerArgument,
    InvocationResult,
    invoke,
    invoke_guarded,
    run_coroutine,
    traced,
)

PROCESSES_PER_CORE = 4
"""Maximum number of processes per core for a queue without `max_concurrency`."""


class Isolator:
    """Runs the handlers of a worker, each with its declared isolation. Open inside its context."""

    def __init__(self, handlers: Sequence[HandlerDeclaration]) -> None:
        self._handlers = handlers
        self.abandoned = AbandonedHandlers()
        self.threads = ThreadPool(self.abandoned)
        self.processes = ProcessPool()

    async def __aenter__(self) -> Isolator:
        """Raises `InvalidInput` for a handler that no process can import."""
        await self.processes.start(
            [handler for handler in self._handlers if handler.isolation is Isolation.PROCESS]
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stops all idle threads and all processes."""
        self.threads.stop()
        await self.processes.stop()

    def invoke(
        self, handler: HandlerDeclaration, given: HandlerArgument
    ) -> Coroutine[Any, Any, InvocationResult]:
        """Runs one invocation. It ends soon when cancelled, unless a coroutine ignores that."""
        if handler.isolation is Isolation.TASK:
            invocation = invoke(partial(run_coroutine, handler.function), given)
        elif handler.isolation is Isolation.THREAD:
            invocation = invoke(lambda _, argument: self.threads.run(handler, argument), given)
        else:
            assert isinstance(given, ClaimedMessage)
            invocation = invoke_guarded(self.processes.invoke(handler, given), given)
        return traced(handler, given, invocation) if spans.is_on() else invocation


def auto_permits_max(consumer: Consumer) -> int:
    """Maximum number of permits of a queue without `max_concurrency`."""
    handlers = [consumer.batch] if consumer.batch else [*consumer.by_type.values()]
    if any(handler.isolation is Isolation.PROCESS for handler in handlers):
        return min(PROCESSES_PER_CORE * (os.cpu_count() or 1), AUTO_CONCURRENCY_MAX)
    return AUTO_CONCURRENCY_MAX


def permits_of(consumers: Iterable[Consumer]) -> tuple[QueuePermits, ...]:
    """What a worker with these consumers may run at a time."""
    return tuple(
        QueuePermits(
            consumer.queue.name,
            consumer.max_concurrency or auto_permits_max(consumer),
            is_auto=consumer.max_concurrency is None,
            is_batch=consumer.batch is not None,
        )
        for consumer in consumers
    )
