"""Kills and freezes leaders, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from examples.distributed_cron.cluster import Cluster
from examples.distributed_cron.fleet import Fleet

KILLED, FROZEN = "killed", "frozen"
SHARDS = 64
FROZEN_LEASES = 1.5
"""Number of leases that a frozen node sleeps; when it wakes, others lead its shards."""


class Fault(NamedTuple):
    """A fault of one node: from when, and until all shards had leaders again."""

    kind: str
    started: datetime
    ended: datetime

    def overlaps(self, since: datetime, until: datetime) -> bool:
        """Whether the fault lasted during a part of this time."""
        return self.started <= until and since <= self.ended


async def inject_faults(
    cluster: Cluster, fleet: Fleet, kinds: list[str], report: Callable[[str], None]
) -> list[Fault]:
    """Inject one fault after the other, each on the oldest node, and repair the fleet after
    each."""
    faults: list[Fault] = []
    for kind in kinds:
        node, size = fleet.nodes[0], len(fleet.nodes)
        started = await cluster.now()
        report(f"node {node.pid} is {kind}")
        if kind == KILLED:
            fleet.kill(node)
            await cluster.wait_for_leaders(size - 1, SHARDS)
            ended = await cluster.now()
            fleet.start()
        else:
            fleet.freeze(node)
            await asyncio.sleep(fleet.lease_seconds * FROZEN_LEASES)
            await cluster.wait_for_leaders(size - 1, SHARDS)
            fleet.wake(node)
            fleet.nodes.append(fleet.nodes.pop(0))
            ended = await cluster.now()
        seconds = (ended - started) / timedelta(seconds=1)
        report(f"other nodes lead its shards after {seconds:.1f} s")
        await cluster.wait_for_leaders(size, SHARDS)
        faults.append(Fault(kind, started, ended))
        fleet.check()
    return faults
