"""Two queues, one handler per user, and a schedule that starts a day at noon.

`tickwork run examples.streaky.app:app` runs all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID, uuid5

from aiohttp import ClientSession, ClientTimeout

from examples.streaky import github, settings
from examples.streaky.reminders import send_reminder
from examples.streaky.streak import Streak, streak_of
from examples.streaky.users import ADD_CHECK, ADD_DAY, ADD_REMINDER, User, users
from tickwork import BatchHandle, Exponential, Firing, Message, Tickwork

STREAKY = UUID("6f1d8a52-5b0e-4c0e-9a53-0d6f0f3f8c11")
NOON = time(12, tzinfo=UTC)
USEFUL_SECONDS = 10 * 3_600
"""Seconds after noon in which a reminder is useful."""


@dataclass
class Check:
    """One user on one day."""

    user_id: int
    at: datetime


app = Tickwork(settings.DATABASE)
checks = app.queue(
    "checks",
    payload=Check,
    max_retries=settings.RETRIES,
    timeout_seconds=settings.TIMEOUT_SECONDS,
    backoff=Exponential(base_seconds=settings.RETRY_SECONDS, factor=2.0, cap_seconds=600.0),
)
days = app.queue("days")


async def start_day(day: date) -> BatchHandle:
    """Create a batch with a message for every user to check on that day.

    Calling it again returns the same batch: its id depends on the day only, and its items come
    from the stored roster.
    """
    at = datetime.combine(day, NOON)
    return await app.batch(
        "checks",
        [Check(user_id, at) for user_id in await users.roster(day)],
        batch_id=uuid5(STREAKY, day.isoformat()),
        completion_queue="days",
        detached=True,  # There may be more users than fit into one transaction of `daily`.
        expires_after_seconds=USEFUL_SECONDS,
    )


@app.schedule(
    daily_time={"hour": NOON.hour, "minute": NOON.minute},
    missed={"policy": "skip", "grace_seconds": USEFUL_SECONDS},
)
async def daily(firing: Firing[Any]) -> None:
    """Start the day at noon, or later if all workers were down at noon."""
    await start_day(firing.slot.date())


@app.on(
    "checks",
    isolation=settings.ISOLATION,
    max_concurrency=settings.CONCURRENCY,
    **settings.LIMITS,
)
async def check(message: Message[Check]) -> None:
    """Check one user and send a reminder if needed. The rows commit with the ack, so there is one
    of each however often this runs."""
    at = message.body.at
    user = await users.unchecked(message.body.user_id, at.date())
    if user is None:
        return
    key = f"{at.date()}/{user.id}"
    reminder = None
    async with ClientSession(timeout=ClientTimeout(total=message.time_left())) as http:
        streak = streak_of(await github.commits(http, user, at), user.zone, at)
        if not streak.has_today:
            reminder = reminder_text(user, streak)
            await send_reminder(http, user, text=reminder, key=key)
    to_dialect = users.database.to_dialect
    with message.transaction() as rows:
        rows.execute(to_dialect(ADD_CHECK), str(at.date()), user.id, streak.days, streak.has_today)
        if reminder is not None:
            rows.execute(to_dialect(ADD_REMINDER), key, user.id, reminder)


@app.on("days", type="batch.completed")
async def day_done(message: Message[dict[str, Any]]) -> None:
    """Record a completed day."""
    batch = message.body
    counts = (batch["total"], batch["completed"], batch["failed"])
    statement = users.database.to_dialect(ADD_DAY)
    message.transaction().execute(statement, batch["batch_id"], *counts)


def reminder_text(user: User, streak: Streak) -> str:
    """Return the text of a reminder."""
    if not streak.days:
        return f"{user.login}, a good day to begin a streak."
    days = "1 day" if streak.days == 1 else f"{streak.days} days"
    return f"{user.login}, your streak of {days} ends tonight: no commit yet."
