"""Plans due schedules, under one identity after the other, until all slots are in the queue.

    python -m tests.store.programs.plan PATH TOTAL

Ends when TOTAL slots are messages. Prints `planned N` and `refused N`, the number of plans that
were carried out and of those that were not. Point: `ready`, before it starts.
"""

import asyncio
import sys
from pathlib import Path

from tests.kit.points import reach
from tests.store.acts import WORK
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.schedule.plan import plan
from tickwork.store.ids import new_id
from tickwork.store.sqlite import SqliteStore

PASSES_PER_IDENTITY = 3
AT_ONCE = 20


async def main(path: Path, total: int) -> None:
    store = await SqliteStore.open(path)
    reach("ready")
    done = refused = 0
    while (await store.queues.counts(DEFAULT, WORK)).ready < total:
        node = new_id()
        await store.nodes.join(SYSTEM, node, name="x", roles=["scheduler"], ttl_seconds=60)
        for _ in range(PASSES_PER_IDENTITY):
            grants = await store.shards.hold(SYSTEM, node)
            shards = [grant.shard for grant in grants]
            due = await store.schedules.due(SYSTEM, shards, AT_ONCE)
            now = await store.now()
            plans = [plan(schedule, now) for schedule in due]
            result = await store.schedules.plan(SYSTEM, grants, plans)
            done += len(result.done)
            refused += len(plans) - len(result.done)
        await store.nodes.leave(SYSTEM, node)
    await store.close()
    sys.stdout.write(f"planned {done}\nrefused {refused}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
