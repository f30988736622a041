"""Where a handler runs: in a task, a thread, or a process.

| where | a handler that does not end | what it cannot do |
|---|---|---|
| task | is cancelled; if it will not have that, left behind and counted | – |
| thread | is left behind and counted | hold up the others' event loop |
| process | is killed | cost the others memory, processor time or their lives |
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from tickwork.app.declarations import Consumer, HandlerDeclaration, Isolation
from tickwork.app.message import ClaimedMessage
from tickwork.core.queue.rate_limit import AUTO_CONCURRENCY_MAX
from tickwork.service.isolation.process_pool import ProcessPool
from tickwork.service.isolation.threads import AbandonedHandlers, ThreadPool
from tickwork.service.worker.invoke import (
    HandlerArgument,
    InvocationResult,
    invoke,
    invoke_guarded,
    run_coroutine,
)

PROCESSES_PER_CORE = 4
"""So many processes a queue may have unless somebody says how many (`max_concurrency`)."""


class Isolator:
    """Runs the handlers of a worker, each where it wants to run; open while it is entered."""

    def __init__(self, handlers: Sequence[HandlerDeclaration]) -> None:
        self._handlers = handlers
        self.abandoned = AbandonedHandlers()
        self.threads = ThreadPool(self.abandoned)
        self.processes = ProcessPool()

    async def __aenter__(self) -> Isolator:
        """Raises `InvalidInput` for a handler that no process can import."""
        await self.processes.start(
            [each for each in self._handlers if each.isolation is Isolation.PROCESS]
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends every thread that can be ended, and every process."""
        self.threads.stop()
        await self.processes.stop()

    def invoke(
        self, handler: HandlerDeclaration, given: HandlerArgument
    ) -> Coroutine[Any, Any, InvocationResult]:
        """One invocation. Cancelled, it ends soon unless it is a coroutine that will not."""
        if handler.isolation is Isolation.PROCESS:
            assert isinstance(given, ClaimedMessage)
            return invoke_guarded(self.processes.invoke(handler, given), given)
        if handler.isolation is Isolation.THREAD:
            return invoke(lambda _, each: self.threads.run(handler, each), given)
        return invoke(partial(run_coroutine, handler.function), given)


def auto_permits_max(consumer: Consumer) -> int:
    """How many slots a queue gets at most when nobody says how many."""
    handlers = [consumer.batch] if consumer.batch else [*consumer.by_type.values()]
    if any(each.isolation is Isolation.PROCESS for each in handlers):
        return min(PROCESSES_PER_CORE * (os.cpu_count() or 1), AUTO_CONCURRENCY_MAX)
    return AUTO_CONCURRENCY_MAX
