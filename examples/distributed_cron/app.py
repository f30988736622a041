"""The app that every node runs: one queue with an empty handler."""

from __future__ import annotations

from typing import Any

from tickwork import Message, Tickwork

QUEUE = "ticks"

app = Tickwork(min_interval_seconds=1)  # Its database is TICKWORK_DATABASE.
app.queue(QUEUE)


@app.on(QUEUE)
async def tick(message: Message[Any]) -> None:
    """Handle one slot of a schedule."""
