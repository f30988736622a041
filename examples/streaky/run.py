"""`python -m examples.streaky.run users 1000` and `… run day`: people, and a day to watch."""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, date, datetime

from examples.streaky.app import app, start_day
from examples.streaky.users import User, users
from tickwork.core.message.batch import BatchStatus

LOOK_SECONDS = 0.5


def made_up(number: int) -> User:
    """Somebody the stand-in knows."""
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
    """Makes the tables, and so many users."""
    await app.open()  # The file must be there, and be Tickwork's, before others write to it.
    await users.create_tables()
    await users.add(made_up(number) for number in range(count))


async def watch_day(day: date) -> None:
    """Starts a day, or finds the one that was started, and shows how far it is."""
    batch = await start_day(day)
    print(f"batch {batch.id}")
    while True:
        now = await batch.progress()
        print(
            f"{now.total} users: {now.pending} pending, {now.processing} processing, "
            f"{now.completed} completed, {now.failed} failed"
        )
        if now.status is BatchStatus.COMPLETED:
            return
        await asyncio.sleep(LOOK_SECONDS)


async def run(given: argparse.Namespace) -> None:
    """Does what was asked for."""
    try:
        if given.command == "users":
            await add_users(given.count)
        else:
            await watch_day(given.day or datetime.now(UTC).date())
    finally:
        await users.database.close()
        await app.close()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.streaky.run")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("users").add_argument("count", type=int)
    commands.add_parser("day").add_argument("day", type=date.fromisoformat, nargs="?")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
