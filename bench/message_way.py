"""The way of one message through the package: the modules and functions that run for it.

    python -m bench.message_way            # counts
    python -m bench.message_way --list     # every module with its functions

A first message fills caches and imports what is late. Some more are followed, each from its send
until its row is gone, in every thread. The way is what ran for all of them: what a running app also
does now and then (heartbeats, counts) is left out, and so are comprehensions, because not every
Python runs them as functions. A function is marked `+` if an app that only waits does not run it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from types import CodeType, FrameType

import tickwork
from tests.kit.waiting import eventually
from tickwork import Message, Tickwork

PACKAGE = str(Path(tickwork.__file__).parent)
INNER = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})
"""Names of comprehensions."""

MESSAGES = 5
"""Number of messages that are followed."""

IDLE_SECONDS = 3.0
"""Seconds for which an app that only waits is watched."""

REPORT_SECONDS = 0.01
"""Seconds for what follows the settlement, such as counting it."""

PAUSE_SECONDS = 0.3
"""Seconds between two messages, so that the worker waits again."""

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
        codes: set[CodeType] = set()
        self._codes = codes
        await act()
        self._codes = set()
        return codes

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name not in INNER:
            self._codes.add(code)


async def follow(path: Path) -> tuple[set[CodeType], set[CodeType]]:
    """The functions that run for one message on a SQLite file, and those of an app that waits."""
    follower, app, done = Follower(), Tickwork(f"sqlite:///{path}"), asyncio.Event()
    letters = app.queue("letters")

    @app.on("letters")
    async def handle(_message: Message[int]) -> None:
        done.set()

    async def is_gone() -> bool:
        with closing(sqlite3.connect(path)) as file:
            return file.execute("SELECT 1 FROM tickwork_messages").fetchone() is None

    async def send_one() -> None:
        done.clear()
        await letters.send(1)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await done.wait()
            await eventually(is_gone, what="the message is gone")
        await asyncio.sleep(REPORT_SECONDS)

    async with app.running():
        await send_one()
        await asyncio.sleep(PAUSE_SECONDS)
        waiting = await follower.during(lambda: asyncio.sleep(IDLE_SECONDS))
        ways = []
        for _ in range(MESSAGES):
            await asyncio.sleep(PAUSE_SECONDS)
            ways.append(await follower.during(send_one))
    follower.stop()
    return set.intersection(*ways), waiting


def main() -> None:
    """Prints the counts."""
    with tempfile.TemporaryDirectory() as folder:
        way, waiting = asyncio.run(follow(Path(folder) / "way.db"))
    only = way - waiting
    sys.stdout.write(f"{len(by_module(way))} modules, {len(way)} functions\n")
    sys.stdout.write(f"{len(by_module(only))} modules, {len(only)} functions not while it waits\n")
    if "--list" in sys.argv:
        for name, codes in sorted(by_module(way).items()):
            functions = sorted(("+" if code in only else "") + code.co_qualname for code in codes)
            sys.stdout.write(f"{name}: {', '.join(functions)}\n")


def by_module(codes: set[CodeType]) -> dict[str, list[CodeType]]:
    """Functions by the module that they stand in."""
    modules: dict[str, list[CodeType]] = {}
    for code in codes:
        modules.setdefault(str(Path(code.co_filename).relative_to(PACKAGE)), []).append(code)
    return modules


if __name__ == "__main__":
    main()
