"""An app to stop by a signal: its handler reports its start, and finishes while the app drains.

`python -m tests.service.programs.draining URL DRAIN_SECONDS`; with 0 seconds it does not finish.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tickwork.app.message import Message, MessageBatch
from tickwork.facade.app import Tickwork
from tickwork.service.worker.consumer import QueueConsumer

DRAIN_SECONDS = float(sys.argv[2])
app = Tickwork(sys.argv[1])
app.queue("work")
app.queue("gathered", max_batch_timeout=60)
app.queue("out")
is_draining = asyncio.Event()
drain = QueueConsumer.drain


async def drain_and_say_so(consumer: QueueConsumer, *seconds: float) -> None:
    """Drains, and lets the handler go on."""
    is_draining.set()
    await drain(consumer, *seconds)


@app.on("work", max_concurrency=1)
async def handle(message: Message[Any]) -> None:
    """Ends a while after its app was told to stop."""
    sys.stdout.write(f"began {message.body}\n")
    sys.stdout.flush()
    await is_draining.wait()
    await asyncio.sleep(0.05 if DRAIN_SECONDS else 60)
    message.send("out", message.body)


@app.consumer("gathered")
async def never(batch: MessageBatch[Any]) -> None:
    """The batch is never full, nor is it waited for long enough."""
    raise AssertionError(batch)


if __name__ == "__main__":
    setattr(QueueConsumer, "drain", drain_and_say_so)  # noqa: B010
    app.run(drain_seconds=DRAIN_SECONDS)
