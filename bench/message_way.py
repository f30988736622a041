"""The way of one message through the package: the modules and functions that run for it.

    python -m bench.message_way            # counts
    python -m bench.message_way --list     # every module with its functions

A first message fills caches and imports what is late. The second is followed from its send until
nothing is left of it, in every thread. What a running app does anyway is not the message's way: the
functions that also run while it only waits are left out.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType

import tickwork
from tests.kit.waiting import eventually
from tickwork import Message, Tickwork

PACKAGE = str(Path(tickwork.__file__).parent)
IDLE_SECONDS = 3.0
"""Seconds for which an app that only waits is watched."""

TIMEOUT_SECONDS = 30.0
"""Seconds that a message may take."""


class Follower:
    """Notes the functions of the package that run, in every thread that starts after it."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    async def during(self, act: Callable[[], Awaitable[object]]) -> set[CodeType]:
        """The functions that run meanwhile."""
        self._codes = set()
        await act()
        return self._codes

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self._codes.add(frame.f_code)


async def follow(database: str) -> set[CodeType]:
    """The functions that run for one message on this database."""
    follower, app, done = Follower(), Tickwork(database), asyncio.Event()
    letters = app.queue("letters")

    @app.on("letters")
    async def handle(_message: Message[int]) -> None:
        done.set()

    async def is_gone() -> bool:
        stats = await letters.stats()
        return stats.counts.ready + stats.counts.claimed == 0

    async def send_one() -> None:
        done.clear()
        await letters.send(1)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await done.wait()
            await eventually(is_gone, what="the message is gone")

    async with app.running():
        await send_one()
        waiting = await follower.during(lambda: asyncio.sleep(IDLE_SECONDS))
        looking = await follower.during(is_gone)
        sending = await follower.during(send_one)
    follower.stop()
    return sending - waiting - looking


def main() -> None:
    """Prints the counts."""
    with tempfile.TemporaryDirectory() as folder:
        codes = asyncio.run(follow(f"sqlite:///{folder}/way.db"))
    by_module: dict[str, list[str]] = {}
    for code in codes:
        name = str(Path(code.co_filename).relative_to(PACKAGE))
        by_module.setdefault(name, []).append(code.co_qualname)
    sys.stdout.write(f"{len(by_module)} modules, {len(codes)} functions\n")
    if "--list" in sys.argv:
        for name, functions in sorted(by_module.items()):
            sys.stdout.write(f"{name}: {', '.join(sorted(functions))}\n")


if __name__ == "__main__":
    main()
