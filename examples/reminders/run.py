"""`python -m examples.reminders.run add …` creates a reminder; `… run list` shows all of them."""

from __future__ import annotations

import argparse
import asyncio

from examples.reminders.app import app, remind
from tickwork import ScheduleFields


async def add(asked: argparse.Namespace) -> None:
    """Create a reminder, and print when it comes."""
    when: ScheduleFields = {"once_at": asked.at}
    if asked.cron is not None:
        when = {"cron_expr": asked.cron, "timezone": asked.timezone}
    made = await remind(asked.name, asked.text, when, email=asked.email, url=asked.url)
    print(f"{made.name}: {made.next_fire_at:%Y-%m-%d %H:%M} UTC")


async def show() -> None:
    """Print each reminder with its state."""
    for reminder in await app.schedules.list():
        coming = f"{reminder.next_fire_at:%Y-%m-%d %H:%M}" if reminder.next_fire_at else "-"
        last = reminder.last_status or "-"
        error = reminder.last_error or ""
        print(f"{reminder.name}  {reminder.status}  next {coming}  last {last}  {error}")


async def run(asked: argparse.Namespace) -> None:
    """Run a command and close the database."""
    try:
        await (add(asked) if asked.command == "add" else show())
    finally:
        await app.close()


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.reminders.run")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    adding = commands.add_parser("add")
    adding.add_argument("name")
    adding.add_argument("text")
    when = adding.add_mutually_exclusive_group(required=True)
    when.add_argument("--cron", help="such as '0 9 * * *'")
    when.add_argument("--at", help="once, such as 2027-03-01T09:00:00Z")
    adding.add_argument("--timezone", default="UTC")
    adding.add_argument("--email")
    adding.add_argument("--url")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
