"""The app that every node runs: one queue, and a handler that has nothing to do."""

from __future__ import annotations

from typing import Any

from tickwork import Message, Tickwork

QUEUE = "ticks"

app = Tickwork()  # Its database is TICKWORK_DATABASE, its roles are TICKWORK_ROLES.
app.queue(QUEUE)


@app.on(QUEUE)
async def tick(message: Message[Any]) -> None:
    """A slot of a schedule came up."""
