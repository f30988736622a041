"""A whole app in one script, whose handler has its own process: `script.py FOLDER`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import msgspec

from tickwork.app.message import Message
from tickwork.core.message.body import decode_body
from tickwork.core.model import DEFAULT
from tickwork.facade.app import Tickwork
from tickwork.facade.queue import Queue

app = Tickwork(f"sqlite:///{sys.argv[-1]}/work.db")


class Order(msgspec.Struct):
    """What a message carries."""

    number: int
    pid: int


work: Queue[Order] = app.queue("work", payload=Order, max_retries=0)
out: Queue[Any] = app.queue("out")
counted: Queue[Any] = app.queue("counted", payload=int)


@app.on("work", isolation="process")
async def handle(message: Message[Order]) -> None:
    """Sends in both ways, without a database of its own."""
    assert not app._engine.stores.is_open
    if os.getpid() != message.body.pid:
        await out.send("handled by another process")
    message.send("counted", message.body.number)
    again: Queue[int] = app.queue("counted")
    await again.send(2)
    app.background(background())
    assert not app._engine.stores.is_open


async def background() -> None:
    """Ends before the handler does."""
    await asyncio.sleep(0)


async def run() -> None:
    """Sends an order, and shows what came of it."""
    await work.send(Order(1, os.getpid()))
    async with app.running():
        store = await app._engine.open()
        while not await store.messages.peek(DEFAULT, "out", 1):
            dead = await store.stats.queue(DEFAULT, "work")
            assert not dead.counts.dead
            await asyncio.sleep(0.01)
        (told,) = await store.messages.peek(DEFAULT, "out", 1)
        sent = await store.messages.peek(DEFAULT, "counted", 10)
    sys.stdout.write(f"{decode_body(told.body, told.content_type)}\n")
    sys.stdout.write(f"sent: {sorted(decode_body(one.body, one.content_type) for one in sent)}\n")


if __name__ == "__main__":
    asyncio.run(run())
