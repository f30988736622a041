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
REAPED_AT_ONCE = 1_000
PRUNE_SECONDS = 60.0
PRUNED_AT_ONCE = 1_000
FLUSH_SECONDS = 1.0
LOOK_SECONDS = 30.0


class Keeper(NamedTuple):
    """Something to be done again and again; a step says how long to wait before the next."""

    name: str
    step: Callable[[], Awaitable[float]]


def keepers(store: Store, observer: Observer) -> list[Keeper]:
    """All there is to be done."""

    async def reap() -> float:
        reaped = await store.reaper.reap(SYSTEM, REAPED_AT_ONCE)
        observer.reaped(reaped)
        return 0.0 if reaped.released + reaped.dead >= REAPED_AT_ONCE else REAP_SECONDS

    async def prune() -> float:
        pruned = await store.pruner.prune(SYSTEM, PRUNED_AT_ONCE)
        most = max(getattr(pruned, field) for field in pruned.__struct_fields__)
        return REAP_SECONDS if most >= PRUNED_AT_ONCE else PRUNE_SECONDS

    async def flush() -> float:
        await store.stats.flush(SYSTEM)
        return FLUSH_SECONDS

    async def look() -> float:
        await observer.look(store)
        return LOOK_SECONDS

    return [
        Keeper("reaper", reap),
        Keeper("pruner", prune),
        Keeper("tallies", flush),
        Keeper("clock", look),
    ]
