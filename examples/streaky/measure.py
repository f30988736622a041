"""How long a day takes in one process; and the same calls in a plain loop, without Tickwork.

`STREAKY_SLOTS=1000 python -m examples.streaky.measure` checks everybody of a new day, here, and
prints the seconds from the worker's start to the completed batch. With `--here` nobody is called:
units wait in this process for as long as the seed's did, so that no HTTP is measured. `--beside`
also takes the time of the plain loop.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import ClientSession

from examples.streaky import calling, github, settings
from examples.streaky.app import NOON, app, start_day
from examples.streaky.reminding import remind
from examples.streaky.users import User, users
from tickwork.core.message.batch import Batch, BatchStatus

FETCH_SECONDS, COMPUTE_SECONDS, NOTIFY_SECONDS = 1.5, 0.5, 1.0
"""What a user took in the seed."""

LOOK_SECONDS = 0.02

SCHEDULED = Path("/proc/thread-self/schedstat")

NOTHING: dict[str, Any] = {
    "data": {"user": {"contributionsCollection": {"commitContributionsByRepository": []}}}
}


async def pretended(
    http: ClientSession, url: str, *, body: dict[str, Any], headers: dict[str, str]
) -> Any:
    """An answer that takes its time: nobody ever committed."""
    assert not http.closed
    assert body
    assert headers
    is_fetch = url.endswith("/graphql")
    await asyncio.sleep(FETCH_SECONDS + COMPUTE_SECONDS if is_fetch else NOTIFY_SECONDS)
    return NOTHING


class Took(NamedTuple):
    """What a day took, and what came of it. While it was `crowded_out` the loop had work to do,
    and other programs had the processors."""

    seconds: float
    crowded_out_seconds: float
    ended: Batch


def crowded_out_seconds() -> float:
    """So long this thread was ready to run and did not; known on Linux."""
    return int(SCHEDULED.read_text().split()[1]) / 1e9 if SCHEDULED.exists() else 0.0


async def with_tickwork(day: date) -> Took:
    """A day, from the worker's start to the completed batch."""
    batch = await start_day(day)
    began, crowded = time.perf_counter(), crowded_out_seconds()
    async with app.running():
        progress = await batch.progress()
        while progress.status is not BatchStatus.COMPLETED:
            await asyncio.sleep(LOOK_SECONDS)
            progress = await batch.progress()
        seconds = time.perf_counter() - began
        return Took(seconds, crowded_out_seconds() - crowded, progress)


async def without(day: date) -> float:
    """The seconds of the same calls, so many at a time: nothing is stored, nothing repeated."""
    at = datetime.combine(day, NOON)
    due = [await users.unchecked(each, date.min) for each in await users.roster(day)]
    free = asyncio.Semaphore(settings.SLOTS or len(due))

    async def unit(user: User) -> None:
        async with free, ClientSession() as http:
            await github.commits(http, user, at)
            await remind(http, user, text="", key=f"without/{user.id}")

    began = time.perf_counter()
    await asyncio.gather(*(unit(user) for user in due if user is not None))
    return time.perf_counter() - began


async def run(given: argparse.Namespace) -> None:
    """Measures, and prints."""
    if given.here:
        calling.post = pretended
    took = await with_tickwork(given.day)
    print(
        f"{took.ended.completed} of {took.ended.total} users, {settings.SLOTS} slots: "
        f"{took.seconds:.2f} s, crowded out for {took.crowded_out_seconds:.2f} s of it",
        flush=True,
    )
    if given.beside:
        print(f"without Tickwork: {await without(given.day):.2f} s", flush=True)
    await users.database.close()


def in_loop(work: Coroutine[Any, Any, None]) -> None:
    """On the loop that `tickwork run` takes."""
    try:
        import uvloop
    except ImportError:  # There is none for this system.
        asyncio.run(work)
    else:
        uvloop.run(work)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.streaky.measure")
    today = datetime.now(UTC).date()
    parser.add_argument("--day", type=date.fromisoformat, default=today)
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--beside", action="store_true")
    in_loop(run(parser.parse_args()))


if __name__ == "__main__":
    main()
