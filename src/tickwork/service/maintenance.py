"""What keeps a store in order, whichever process does it: reaper, pruner, tallies; and what a
process keeps in mind about its store.

Every node does it all. Each pass is bounded and takes only what nobody else is taking, so that
many do no harm, and as long as one node lives it is done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tickwork.core.model import SYSTEM
from tickwork.service.observe import Observer
from tickwork.store.contract import Store

REAP_SECONDS = 1.0
REAP_BATCH_MAX = 1_000
PRUNE_SECONDS = 60.0
PRUNE_BATCH_MAX = 1_000
FLUSH_SECONDS = 1.0
LOOK_SECONDS = 30.0


class MaintenanceTask(NamedTuple):
    """Something to be done again and again; a step says how long to wait before the next."""

    name: str
    step: Callable[[], Awaitable[float]]


def maintenance_tasks(store: Store, observer: Observer) -> list[MaintenanceTask]:
    """All there is to be done."""

    async def reap() -> float:
        reaped = await store.reaper.reap(SYSTEM, REAP_BATCH_MAX)
        observer.reaped(reaped)
        return 0.0 if reaped.released + reaped.dead >= REAP_BATCH_MAX else REAP_SECONDS

    async def prune() -> float:
        pruned = await store.pruner.prune(SYSTEM, PRUNE_BATCH_MAX)
        most = max(getattr(pruned, field) for field in pruned.__struct_fields__)
        return REAP_SECONDS if most >= PRUNE_BATCH_MAX else PRUNE_SECONDS

    async def flush() -> float:
        await store.stats.flush(SYSTEM)
        return FLUSH_SECONDS

    async def look() -> float:
        await observer.look(store)
        return LOOK_SECONDS

    return [
        MaintenanceTask("reaper", reap),
        MaintenanceTask("pruner", prune),
        MaintenanceTask("tallies", flush),
        MaintenanceTask("clock", look),
    ]
