"""An app with a handler that never ends: a `thread`, or a `task` that will not be cancelled.

`python -m tests.service.programs.hanging thread|task FOLDER`
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress
from typing import Any

from tickwork.facade.app import Tickwork
from tickwork.facade.queue import Queue
from tickwork.service import process_lifecycle
from tickwork.service.worker import invocations

app = Tickwork(f"sqlite:///{sys.argv[2]}/work.db")
work: Queue[Any] = app.queue("work")


def tell() -> None:
    sys.stdout.write("hanging\n")
    sys.stdout.flush()


def hang(_: Any) -> None:
    """Says that it hangs, and does."""
    tell()
    threading.Event().wait()


async def refuse(_: Any) -> None:
    """Says that it hangs, and does, whatever it is told."""
    tell()
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


app.on("work")(hang if sys.argv[1] == "thread" else refuse)


async def begin() -> None:
    """Sends it something."""
    await work.send("anything")
    await app.close()


if __name__ == "__main__":
    invocations.CANCEL_GRACE_SECONDS = process_lifecycle.CLEANUP_SECONDS = 0.2
    asyncio.run(begin())
    app.run(drain_seconds=0)
