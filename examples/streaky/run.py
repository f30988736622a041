"""`python -m examples.streaky.run users 1000` creates users; `… run day` runs and shows a day."""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, date, datetime

from examples.streaky.app import app, days, start_day
from examples.streaky.users import User, users

POLL_SECONDS = 0.5


def sample_user(number: int) -> User:
    """Return a user that the fake services know."""
    channel = "telegram" if number % 4 == 1 else "discord"
    return User(
        id=number,
        login=f"user-{number}",
        token=f"good-{number}",
        zone="UTC",
        repositories=".",
        channel=channel,
        address=f"{number}/secret-{number}" if channel == "discord" else f"bot:secret/{number}",
    )


async def add_users(count: int) -> None:
    """Create the tables and `count` users."""
    await days.stats()  # Creates the file and Tickwork's own tables.
    await users.create_tables()
    await users.add(sample_user(number) for number in range(count))


async def watch_day(day: date) -> None:
    """Start a day, or find the one that was started, and print its progress until it is done."""
    batch = await start_day(day)
    print(f"batch {batch.id}")
    while True:
        now = await batch.progress()
        print(
            f"{now.total} users: {now.pending} pending, {now.processing} processing, "
            f"{now.completed} completed, {now.failed} failed"
        )
        if now.status == "completed":
            return
        await asyncio.sleep(POLL_SECONDS)


async def run(arguments: argparse.Namespace) -> None:
    """Run a command and close the databases."""
    try:
        if arguments.command == "users":
            await add_users(arguments.count)
        else:
            await watch_day(arguments.day or datetime.now(UTC).date())
    finally:
        await users.database.close()
        await app.close()


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.streaky.run")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("users").add_argument("count", type=int)
    commands.add_parser("day").add_argument("day", type=date.fromisoformat, nargs="?")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
