"""Which versions of workflows nodes have, and who executes the runs of a version that nobody has.

Runs of a version wait in a queue of their own, which nodes that declare the version consume. A node
that declares another version of the workflow looks every few seconds for queues whose version no
live node declares. After a grace period it consumes them, too, with its newest code, until a node
with that version comes back. Nobody consumes the queue of a version that was declared with `pin`,
and a node whose newest code is pinned consumes no other's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any

from tickwork.app.declarations import Consumer
from tickwork.app.workflows import WorkflowDeclaration
from tickwork.core.model import SYSTEM, StoredNode, StoredQueue
from tickwork.core.workflow.queue import is_pin_mark, pin_mark, runs_queue, workflow_of_queue
from tickwork.service.worker.found_consumers import FoundConsumer, FoundNow
from tickwork.store.contract import Store

VERSION_GRACE_SECONDS = 60.0
"""Seconds for which a version must be without a node before other code executes its runs."""

Versions = Mapping[str | None, WorkflowDeclaration]
"""The declared versions of a workflow; the last one is the newest."""

TakeOver = Callable[[str, str], Consumer]
"""Makes the consumer of a queue of a workflow."""


def own_queues(workflow: str, versions: Collection[str | None]) -> list[str]:
    """The queues of runs that a node with these versions consumes."""
    return [runs_queue(workflow, version) for version in dict.fromkeys([None, *versions])]


def declared_versions(workflows: Mapping[str, Collection[str | None]]) -> list[tuple[str, Any]]:
    """The versions of workflows that a node declares, as it says when it joins."""
    return [(name, version) for name, versions in workflows.items() for version in versions]


class OrphanedVersions:
    """Finds the queues of versions that no live node declares."""

    def __init__(
        self,
        store: Store,
        workflows: Mapping[str, Versions],
        take_over: TakeOver,
        *,
        monotonic: Callable[[], float],
        grace_seconds: float,
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._take_over = take_over
        self._monotonic, self._grace_seconds = monotonic, grace_seconds
        self._own = {
            queue for name, versions in workflows.items() for queue in own_queues(name, versions)
        }
        self._absent_since: dict[str, float] = {}

    async def find(self) -> FoundNow:
        """A consumer for each queue whose version has been without a node for long enough."""
        names = [name for name, versions in self._workflows.items() if not _is_pinned(versions)]
        if not names:
            return FoundNow((), None)
        stored, now = await self._store.queues.list(SYSTEM), await self._store.now()
        marks = {queue.name for queue in stored if is_pin_mark(queue.name)}
        kept = self._own | marks
        queues = {
            queue.name: queue
            for queue in stored
            if workflow_of_queue(queue.name) in names and queue.name not in kept
            if pin_mark(queue.name) not in marks
        }
        live = live_queues(await self._store.nodes.list(SYSTEM), now) if queues else set()
        absent, at = queues.keys() - live, self._monotonic()
        self._absent_since = {name: self._absent_since.get(name, at) for name in absent}
        over = at - self._grace_seconds
        left = {name: since - over for name, since in self._absent_since.items()}
        waiting = [seconds for seconds in left.values() if seconds > 0]
        return FoundNow(
            [self._consumer(queues[name]) for name in sorted(absent) if left[name] <= 0],
            now + timedelta(seconds=min(waiting)) if waiting else None,
        )

    def _consumer(self, queue: StoredQueue) -> FoundConsumer:
        consumer = self._take_over(str(workflow_of_queue(queue.name)), queue.name)
        return FoundConsumer(consumer, queue, SYSTEM)


def live_queues(nodes: Collection[StoredNode], now: Any) -> set[str]:
    """The queues of the versions that live nodes declare."""
    return {
        runs_queue(workflow, version)
        for node in nodes
        if node.expires_at > now
        for workflow, version in node.workflows
    }


def _is_pinned(versions: Versions) -> bool:
    return [*versions.values()][-1].pin
