"""A worker with two busy handler processes, to be killed; its argument is a folder."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from tests.kit.waiting import eventually
from tickwork.facade.app import Tickwork
from tickwork.facade.queue import Queue

app = Tickwork(f"sqlite:///{sys.argv[-1]}/work.db")
work: Queue[Any] = app.queue("work")


@app.on("work", isolation="process", max_concurrency=2)
def hang(_: Any) -> None:
    """Never ends, and never looks up."""
    threading.Event().wait()


async def run() -> None:
    """Keeps two of them busy, and says which processes they are."""
    await work.send_batch([1, 2])
    async with app._engine.running() as worker:
        await eventually(lambda: len(worker.consumers[0].running) == 2)
        await eventually(lambda: len(worker._context.isolator.processes.pids) == 2)
        sys.stdout.write(f"pids {' '.join(map(str, worker._context.isolator.processes.pids))}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run())
