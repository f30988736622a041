"""An app to stop by a signal: its handler reports its start and takes a while to finish."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tickwork.app.message import Message, MessageBatch
from tickwork.facade.app import Tickwork

app = Tickwork(sys.argv[1])
app.queue("work")
app.queue("gathered", max_batch_timeout=60)
app.queue("out")


@app.on("work", max_concurrency=1)
async def handle(message: Message[Any]) -> None:
    """Ends a while after the test has seen it begin."""
    sys.stdout.write(f"began {message.body}\n")
    sys.stdout.flush()
    await asyncio.sleep(1)
    message.send("out", message.body)


@app.consumer("gathered")
async def never(batch: MessageBatch[Any]) -> None:
    """The batch is never full, nor is it waited for long enough."""
    raise AssertionError(batch)


if __name__ == "__main__":
    app.run(drain_seconds=float(sys.argv[2]))
