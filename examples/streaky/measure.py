"""Measures how long a day takes in one process, with and without Tickwork.

`STREAKY_ISOLATION=task STREAKY_CONCURRENCY=1000 python -m examples.streaky.measure` runs a new day
in this process and prints the seconds from the worker's start to the completed batch. `--simulate`
replaces the HTTP calls by waits of the same length, which needs `task`. `--compare` also runs the
same calls in a plain loop.
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

from examples.streaky import github, http_calls, settings
from examples.streaky.app import NOON, app, start_day
from examples.streaky.reminders import send_reminder
from examples.streaky.users import User, users

FETCH_SECONDS = 1.5
COMPUTE_SECONDS = 0.5
NOTIFY_SECONDS = 1.0
"""Seconds that one user took in the original blog post."""

POLL_SECONDS = 0.02

SCHEDULER_STATS = Path("/proc/thread-self/schedstat")

NO_COMMITS: dict[str, Any] = {
    "data": {"user": {"contributionsCollection": {"commitContributionsByRepository": []}}}
}


async def simulated_post(
    http: ClientSession, url: str, *, body: dict[str, Any], headers: dict[str, str]
) -> Any:
    """Wait as long as the real call and return a user without commits."""
    assert not http.closed
    assert body
    assert headers
    is_fetch = url.endswith("/graphql")
    await asyncio.sleep(FETCH_SECONDS + COMPUTE_SECONDS if is_fetch else NOTIFY_SECONDS)
    return NO_COMMITS


class Result(NamedTuple):
    """How long a day took and its counts. For `cpu_wait_seconds` of it, other programs used the
    processors while this one was ready to run."""

    seconds: float
    cpu_wait_seconds: float
    completed: int
    total: int


def cpu_wait_seconds() -> float:
    """Seconds this thread was ready to run but did not; known on Linux only."""
    if not SCHEDULER_STATS.exists():
        return 0.0
    return int(SCHEDULER_STATS.read_text().split()[1]) / 1e9


async def with_tickwork(day: date) -> Result:
    """Run a day, from the worker's start to the completed batch."""
    batch = await start_day(day)
    started, cpu_wait = time.perf_counter(), cpu_wait_seconds()
    async with app.running():
        progress = await batch.progress()
        while progress.status != "completed":
            await asyncio.sleep(POLL_SECONDS)
            progress = await batch.progress()
        seconds = time.perf_counter() - started
        waited = cpu_wait_seconds() - cpu_wait
        return Result(seconds, waited, progress.completed, progress.total)


async def without_tickwork(day: date) -> float:
    """Return the seconds that the same calls take in a plain loop, with nothing stored."""
    at = datetime.combine(day, NOON)
    due = [await users.unchecked(user_id, date.min) for user_id in await users.roster(day)]
    limit = asyncio.Semaphore(settings.CONCURRENCY or len(due))

    async def check(user: User) -> None:
        async with limit, ClientSession() as http:
            await github.commits(http, user, at)
            await send_reminder(http, user, text="", key=f"without/{user.id}")

    started = time.perf_counter()
    await asyncio.gather(*(check(user) for user in due if user is not None))
    return time.perf_counter() - started


async def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    if arguments.simulate:
        http_calls.post = simulated_post
    result = await with_tickwork(arguments.day)
    print(
        f"{result.completed} of {result.total} users, concurrency {settings.CONCURRENCY}: "
        f"{result.seconds:.2f} s, of which {result.cpu_wait_seconds:.2f} s waiting for a CPU",
        flush=True,
    )
    if arguments.compare:
        seconds = await without_tickwork(arguments.day)
        print(f"without Tickwork: {seconds:.2f} s", flush=True)
    await users.database.close()


def run_on_uvloop(coroutine: Coroutine[Any, Any, None]) -> None:
    """Use the event loop that `tickwork run` uses: uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(coroutine)
    else:
        uvloop.run(coroutine)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.streaky.measure")
    today = datetime.now(UTC).date()
    parser.add_argument("--day", type=date.fromisoformat, default=today)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--compare", action="store_true")
    arguments = parser.parse_args()
    if arguments.simulate and settings.ISOLATION != "task":
        parser.error("--simulate replaces calls in this process only: set STREAKY_ISOLATION=task")
    run_on_uvloop(run(arguments))


if __name__ == "__main__":
    main()
