"""An app whose handlers report their start and then sleep for a minute, one of each kind."""

import asyncio
import sys
import threading
from datetime import UTC, datetime
from typing import Any

from tickwork.app.firing import Firing
from tickwork.app.message import Message, MessageBatch
from tickwork.facade.app import Tickwork

QUEUES = ("tasks", "stubborn", "threads", "processes", "batches", "rows")
SCHEDULE = "nightly"
SLEEP_SECONDS = 60.0

app = Tickwork(sys.argv[1] if __name__ == "__main__" else None)
for queue in QUEUES:
    app.queue(queue, max_retries=0, max_batch_timeout=0)


def say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


@app.on("tasks")
async def sleep(message: Message[Any]) -> None:
    say("began tasks")
    await asyncio.sleep(SLEEP_SECONDS)
    message.ack()


@app.on("stubborn")
async def fail_when_cancelled(_: Message[Any]) -> None:
    say("began stubborn")
    try:
        await asyncio.sleep(SLEEP_SECONDS)
    except asyncio.CancelledError:
        raise RuntimeError("cleaning up failed") from None


@app.on("threads")
def sleep_in_thread(_: Message[Any]) -> None:
    say("began threads")
    threading.Event().wait(SLEEP_SECONDS)


@app.on("processes", isolation="process")
def sleep_in_process(_: Message[Any]) -> None:
    say("began processes")
    threading.Event().wait(SLEEP_SECONDS)


@app.consumer("batches")
async def sleep_with_all(batch: MessageBatch[Any]) -> None:
    say("began batches")
    batch.messages[0].ack()
    await asyncio.sleep(SLEEP_SECONDS)


@app.on("rows")
async def wait_for_others(_: Message[Any]) -> None:
    say("began rows")
    async with asyncio.TaskGroup() as group:
        for _number in range(3):
            group.create_task(asyncio.sleep(SLEEP_SECONDS))


@app.schedule(name=SCHEDULE, once_at=datetime(2026, 1, 1, tzinfo=UTC), retry={"max_attempts": 1})
async def nightly(_: Firing[Any]) -> None:
    say(f"began {SCHEDULE}")
    await asyncio.sleep(SLEEP_SECONDS)


async def run_in_own_loop(drain_seconds: float) -> None:
    async with app.running(drain_seconds=drain_seconds):
        await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[3] == "app.run":
        app.run(drain_seconds=float(sys.argv[2]))
    else:
        asyncio.run(run_in_own_loop(float(sys.argv[2])))
