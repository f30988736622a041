"""A worker whose handlers may end the whole process: `python -m … URL task|thread`.

A node that is gone is missed after a moment. There is only so much memory for all of it.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any

from tests.faults.programs.exactly_once import find_the_dead_soon
from tickwork.facade.app import Tickwork

PROGRAM = "tests.service.programs.deadly"
ROOM_BYTES = 512 * 1024 * 1024
PIECE_BYTES = 64 * 1024 * 1024
"""So much is left for the others when a handler cannot have more."""


def build(url: str, isolation: str) -> Tickwork:
    """The app; a message says in its body what its handler does."""
    app = Tickwork(url)
    app.queue("work", max_retries=0)
    app.queue("out")

    def end(message: Any) -> None:
        message.send("out", message.body)
        if message.body == "exit":
            os._exit(3)
        kept = []
        while message.body == "allocate":
            kept.append(bytearray(PIECE_BYTES))

    async def end_in_a_task(message: Any) -> None:
        end(message)

    app.on("work")(end_in_a_task if isolation == "task" else end)
    return app


def limit_memory() -> None:
    """So much more than there is now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(url: str, isolation: str) -> None:
    find_the_dead_soon()
    app = build(url, isolation)
    app.run(drain_seconds=0, on_started=limit_memory)


if __name__ == "__main__":
    main(*sys.argv[1:])
