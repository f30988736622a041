"""An app whose queue declares a payload type, and whose handler, in a process, does not."""

from __future__ import annotations

from typing import Any

import msgspec

from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork

app = Tickwork()


class Order(msgspec.Struct):
    """What a message carries."""

    number: int


work = app.queue("work", payload=Order, max_retries=0)
app.queue("out")
app.queue("items")


@app.on("work", isolation="process")
async def handle(message: Any) -> None:
    """Tells what it was given, and makes a batch of it."""
    message.send("out", type(message.body).__name__)
    try:
        with message.transaction() as rows:
            rows.execute("nonsense")
            raise KeyError("caught")
    except KeyError:
        message.send("out", "caught")
    await app.batch("items", range(message.body.number))
    try:
        await app.batch("items", [], detached=True)
    except InvalidInput as error:
        message.send("out", str(error))
