"""An app whose handler waits for a thread that nobody can stop, writes rows without an end, has a
generator that does not close, sends again and again, or waits until there is a file."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.kit.waiting import eventually
from tickwork.app.message import Message
from tickwork.facade.app import Tickwork
from tickwork.service import process_lifecycle
from tickwork.service.worker import worker

CLEANUP_SECONDS = 0.2
"""In place of some seconds, of what a process does at its end."""

app = Tickwork(sys.argv[1])
app.queue("work")
kept: list[AsyncIterator[int]] = []


@app.on("work", max_concurrency=10)
async def handle(message: Message[Any]) -> None:
    """Says that it began."""
    say(f"began {message.body}")
    if message.body == "thread":
        await asyncio.to_thread(threading.Event().wait)
    elif message.body == "write":
        message.transaction().run(lambda _: _write())
    elif message.body == "generator":
        kept.append(_unclosing())
        await anext(kept[0])
        say("has a generator")
    elif message.body == "again":
        await app.queue("work").send("again")
    else:
        await eventually(Path(message.body).exists)
        say("ended")


def say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _write() -> None:
    say("writes")
    threading.Event().wait()


async def _unclosing() -> AsyncIterator[int]:
    try:
        yield 1
    finally:
        await asyncio.Event().wait()


if __name__ == "__main__":
    worker.LEAVE_SECONDS = float(sys.argv[3])
    worker.LEAVE_SECONDS_MIN = worker.HAND_OVER_SECONDS = CLEANUP_SECONDS
    process_lifecycle.CLEANUP_SECONDS = CLEANUP_SECONDS
    app.run(drain_seconds=float(sys.argv[2]))
