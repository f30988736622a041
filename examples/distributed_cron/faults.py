"""What goes wrong: leaders are killed and frozen, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from examples.distributed_cron.fleet import Fleet
from tickwork.core.model import SYSTEM
from tickwork.store.contract import Store

KILLED, FROZEN = "killed", "frozen"
POLL_SECONDS = 0.1
LED_SECONDS_MAX = 120.0
FROZEN_LEASES = 1.5
"""A frozen node sleeps for so many leases: when it wakes, others have its shards."""


class Fault(NamedTuple):
    """What was done to a node, from when on, and when all shards had leaders again."""

    kind: str
    began: datetime
    ended: datetime

    def touches(self, since: datetime, until: datetime) -> bool:
        return self.began <= until and since <= self.ended


async def all_led(store: Store, nodes: int) -> None:
    """Waits until every shard is led by somebody who is alive, and so many nodes lead."""
    async with asyncio.timeout(LED_SECONDS_MAX):
        while True:
            leaders = {each.node for each in await store.shards.list(SYSTEM)}
            if None not in leaders and len(leaders) == nodes:
                return
            await asyncio.sleep(POLL_SECONDS)


async def campaign(
    store: Store, fleet: Fleet, kinds: list[str], tell: Callable[[str], None]
) -> list[Fault]:
    """One fault after the other, each on the node that is the longest there; after each the
    fleet is whole again."""
    faults: list[Fault] = []
    for kind in kinds:
        node, size = fleet.nodes[0], len(fleet.nodes)
        began = await store.now()
        tell(f"node {node.pid} is {kind}")
        if kind == KILLED:
            fleet.kill(node)
            await all_led(store, size - 1)
            ended = await store.now()
            fleet.start()
        else:
            fleet.freeze(node)
            await asyncio.sleep(fleet.lease_seconds * FROZEN_LEASES)
            await all_led(store, size - 1)
            fleet.wake(node)
            fleet.nodes.append(fleet.nodes.pop(0))
            ended = await store.now()
        tell(f"its shards are led by others after {(ended - began) / timedelta(seconds=1):.1f} s")
        await all_led(store, size)
        faults.append(Fault(kind, began, ended))
        fleet.check()
    return faults
