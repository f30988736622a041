"""An app whose handler waits for a thread that nobody can stop, or just for a while."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from tickwork.app.messages import Message
from tickwork.facade import Tickwork
from tickwork.service import worker

app = Tickwork(sys.argv[1])
app.queue("work")


@app.on("work", max_concurrency=10)
async def handle(message: Message[Any]) -> None:
    """Says that it began."""
    sys.stdout.write(f"began {message.body}\n")
    sys.stdout.flush()
    if message.body == "thread":
        await asyncio.to_thread(threading.Event().wait)
    else:
        await asyncio.sleep(1)
        sys.stdout.write("ended\n")
        sys.stdout.flush()


if __name__ == "__main__":
    worker.LEAVE_SECONDS = float(sys.argv[3])
    app.run(drain_seconds=float(sys.argv[2]))
