"""The declarations: two queues, a unit of work, a day that begins at noon.

`tickwork run examples.streaky.app:app` begins it, and handles what it is made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from aiohttp import ClientSession, ClientTimeout

from examples.streaky import github, settings
from examples.streaky.reminding import remind
from examples.streaky.streak import Streak, streak_of
from examples.streaky.users import ADD_CHECK, ADD_DAY, ADD_REMINDER, User, users
from tickwork import Firing, Message, Tickwork
from tickwork.core.message.backoff import Exponential

if TYPE_CHECKING:
    from tickwork.ops.batches import RunningBatch

STREAKY = UUID("6f1d8a52-5b0e-4c0e-9a53-0d6f0f3f8c11")
NOON = time(12, tzinfo=UTC)
USEFUL_SECONDS = 10 * 3_600
"""A reminder for today is worth nothing tomorrow."""


@dataclass
class Check:
    """One user at one noon."""

    user_id: int
    at: datetime


app = Tickwork(settings.DATABASE)
checks = app.queue(
    "checks",
    payload=Check,
    max_retries=settings.RETRIES,
    timeout_seconds=settings.WALL_SECONDS,
    backoff=Exponential(base_seconds=settings.RETRY_SECONDS, factor=2.0, cap_seconds=600.0),
)
days = app.queue("days")


async def start_day(day: date) -> RunningBatch:
    """A batch with everybody who is to be checked on a day.

    Asked twice it is the same batch: its id follows from the day, and its items from the roster.
    So a timer may repeat itself, and so may whoever was cut off in the middle.
    """
    at = datetime.combine(day, NOON)
    return await app.batch(
        "checks",
        [Check(user_id, at) for user_id in await users.roster(day)],
        batch_id=uuid5(STREAKY, day.isoformat()),
        completion_queue="days",
        detached=True,  # In `daily`: there may be more users than fit into one transaction.
        expires_after_seconds=USEFUL_SECONDS,
    )


@app.schedule(
    daily_time={"hour": NOON.hour, "minute": NOON.minute},
    missed={"policy": "skip", "grace_seconds": USEFUL_SECONDS},
)
async def daily(firing: Firing[Any]) -> None:
    """Every day, also if the workers were away at noon and are back in time."""
    await start_day(firing.slot.date())


@app.on(
    "checks",
    isolation=settings.ISOLATION,
    max_concurrency=settings.SLOTS,
    **settings.LIMITS,
)
async def check(message: Message[Check]) -> None:
    """One user's day: look, compute, and remind them if there is need. The rows commit with the
    ack: however often this runs, there is one of each."""
    at = message.body.at
    user = await users.unchecked(message.body.user_id, at.date())
    if user is None:
        return
    key = f"{at.date()}/{user.id}"
    reminder = None
    async with ClientSession(timeout=ClientTimeout(total=message.time_left())) as http:
        streak = streak_of(await github.commits(http, user, at), user.zone, at)
        if not streak.has_today:
            reminder = text_for(user, streak)
            await remind(http, user, text=reminder, key=key)
    said = users.database.said
    with message.transaction() as rows:
        rows.execute(said(ADD_CHECK), str(at.date()), user.id, streak.days, streak.has_today)
        if reminder is not None:
            rows.execute(said(ADD_REMINDER), key, user.id, reminder)


@app.on("days", type="batch.completed")
async def day_done(message: Message[dict[str, Any]]) -> None:
    """The last of a day's units has ended."""
    done = message.body
    numbers = (done["total"], done["completed"], done["failed"])
    message.transaction().execute(users.database.said(ADD_DAY), done["batch_id"], *numbers)


def text_for(user: User, streak: Streak) -> str:
    """What a reminder says."""
    if not streak.days:
        return f"{user.login}, a good day to begin a streak."
    days = "1 day" if streak.days == 1 else f"{streak.days} days"
    return f"{user.login}, your streak of {days} ends tonight: no commit yet."
