"""Background tasks that maintain a store: reaper, pruner, counters, roll-up; and the clock offset.

Every node runs all of them. Each pass is bounded and skips what another node is working on, so
many nodes do no harm, and one live node is enough. The depth of queues is measured by one node: the
leader of the first shard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tickwork.core.model import SYSTEM
from tickwork.core.queue.performance import ROLL_UP_SECONDS, ROLLED_UP_MAX
from tickwork.ops.context import Context
from tickwork.ops.operations.verbs import carry_on
from tickwork.ops.queues import queue_depths
from tickwork.service.loop import Step
from tickwork.service.observe import ClockOffset, Observer
from tickwork.store.contract import Store
from tickwork.store.shared.archive import Archive

if TYPE_CHECKING:
    from tickwork.service.observe.metrics import WorkerMetrics

REAP_SECONDS = 1.0
"""Seconds between two passes of the reaper."""

REAP_BATCH_MAX = 1_000
"""Maximum number of claims the reaper handles in one pass."""

PRUNE_SECONDS = 60.0
"""Seconds between two passes of the pruner."""

PRUNE_BATCH_MAX = 1_000
"""Maximum number of rows of each kind the pruner deletes in one pass."""

FLUSH_SECONDS = 1.0
"""Seconds between two writes of the buffered counters."""

CLOCK_SECONDS = 30.0
"""Seconds between two measurements of the database's clock."""


MEASURE_SECONDS = 15.0
"""Seconds between two measurements of the depth of queues."""


class MaintenanceTask(NamedTuple):
    """A step to run in a loop, and the loop's name."""

    name: str
    step: Step


def maintenance_tasks(
    store: Store, observer: Observer, clock_offset: ClockOffset, archive: Archive | None = None
) -> list[MaintenanceTask]:
    """All maintenance tasks of a node."""

    async def reap() -> float:
        reaped = await store.reaper.reap(SYSTEM, REAP_BATCH_MAX)
        observer.claims_reaped(reaped)
        return 0.0 if reaped.released + reaped.dead >= REAP_BATCH_MAX else REAP_SECONDS

    async def prune() -> float:
        pruned = await store.pruner.prune(SYSTEM, PRUNE_BATCH_MAX, archive=archive)
        most = max(getattr(pruned, field) for field in pruned.__struct_fields__)
        return REAP_SECONDS if most >= PRUNE_BATCH_MAX else PRUNE_SECONDS

    async def flush() -> float:
        await store.stats.flush(SYSTEM)
        return FLUSH_SECONDS

    async def roll_up() -> float:
        noted = await store.performance.roll_up(SYSTEM, ROLLED_UP_MAX)
        return 0.0 if noted >= ROLLED_UP_MAX else ROLL_UP_SECONDS

    async def operate() -> float:
        return await carry_on(Context(store, SYSTEM))

    async def measure_clock() -> float:
        await clock_offset.measure(store)
        return CLOCK_SECONDS

    return [
        MaintenanceTask("reaper", reap),
        MaintenanceTask("pruner", prune),
        MaintenanceTask("tallies", flush),
        MaintenanceTask("roll-up", roll_up),
        MaintenanceTask("operations", operate),
        MaintenanceTask("clock", measure_clock),
    ]


def depth_task(
    store: Store, metrics: WorkerMetrics, is_measuring: Callable[[], bool]
) -> MaintenanceTask:
    """Measures the depth of all queues while somebody reads the metrics."""

    async def measure() -> float:
        if metrics.is_scraped and is_measuring():
            metrics.queues_measured(await queue_depths(store), 3 * MEASURE_SECONDS)
        else:
            metrics.queues_measured((), 0.0)
        return MEASURE_SECONDS

    return MaintenanceTask("queue depths", measure)
