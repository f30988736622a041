"""The first way: every schedule of a user is a schedule of Tickwork, with the user as its owner.

There is no table of schedules besides, no timer and no index: Tickwork's own row has the owner, the
state and the next run.
"""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from msgspec import to_builtins

from examples.hr_notifications.jobs import app, job_of, queue_of
from examples.hr_notifications.request import NewSchedule, ScheduleRow, Timing, UpcomingRow
from examples.hr_notifications.users import User
from tickwork import Fixed, NotFound, Schedule

JITTER_SECONDS = 50
"""Seconds over which schedules with the same time are spread."""


async def create(user: User, asked: NewSchedule) -> ScheduleRow:
    """Schedule a job."""
    schedule_id = f"sched-{uuid4().hex}"
    return _row(
        await app.schedules.create(
            **asked.fields(),
            name=schedule_id,
            owner=user.id,
            target={"type": "queue", "queue": queue_of(asked.type)},
            payload=to_builtins(job_of(asked.type, schedule_id, user)),
            metadata={"type": asked.type},
            jitter_seconds=JITTER_SECONDS,
            retry={"max_attempts": 4, "backoff": Fixed(60)},
            on_dead="pause",  # Someone has to look at it.
        )
    )


async def rows(user: User) -> list[ScheduleRow]:
    """Return the schedules of a user."""
    return [_row(schedule) for schedule in await app.schedules.list(owner=user.id)]


async def change(user: User, schedule_id: str, timing: Timing) -> ScheduleRow:
    """Give a schedule another time."""
    await _owned(user, schedule_id)
    return _row(await app.schedules.update(schedule_id, **timing.fields()))


async def pause(user: User, schedule_id: str) -> ScheduleRow:
    """Stop a schedule for a while."""
    await _owned(user, schedule_id)
    return _row(await app.schedules.pause(schedule_id))


async def resume(user: User, schedule_id: str) -> ScheduleRow:
    """Let a paused schedule go on."""
    await _owned(user, schedule_id)
    return _row(await app.schedules.resume(schedule_id))


async def delete(user: User, schedule_id: str) -> None:
    """Delete a schedule."""
    await _owned(user, schedule_id)
    await app.schedules.delete(schedule_id)


async def upcoming(count: int) -> list[UpcomingRow]:
    """Return the next runs of all users, soonest first."""
    found = []
    for fire in await app.schedules.upcoming(limit=count):
        schedule = await app.schedules.get(fire.schedule_id)
        found.append(
            UpcomingRow(
                fire.fire_at, schedule.owner or "", schedule.metadata["type"], schedule.name or ""
            )
        )
    return found


async def _owned(user: User, schedule_id: str) -> None:
    if (await app.schedules.get(schedule_id)).owner != user.id:
        raise NotFound("schedule", schedule_id)


def _row(schedule: Schedule) -> ScheduleRow:
    return ScheduleRow(
        id=schedule.name or "",
        type=schedule.metadata["type"],
        timezone=schedule.timezone,
        cron_expression=schedule.cron_expr,
        interval_minutes=schedule.interval_minutes,
        once_at=_instant(schedule.once_at),
        is_active=schedule.status == "active",
        next_run=schedule.next_fire_at if schedule.status == "active" else None,
        last_run=schedule.last_fire_at if schedule.fired else None,
        updated_at=schedule.updated_at,
    )


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
