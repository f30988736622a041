"""The second way: one entity per user, which has the rows of its user and a timer for each.

This is the shape of the original, where a Durable Object with its own storage and alarm stood
behind every schedule.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from msgspec import convert, structs, to_builtins

from examples.hr_notifications.jobs import (
    PasswordReminderJob,
    app,
    auth_queue,
    job_of,
    notification_queue,
)
from examples.hr_notifications.request import (
    NewSchedule,
    ScheduleRow,
    Timing,
    TimingFields,
    UpcomingRow,
)
from examples.hr_notifications.users import USERS, User
from tickwork import Entity, NotFound, read


@app.entities.register
class UserSchedules(Entity):
    """The schedules of one user, by the user's id. Each is a row `row/ID` and a timer."""

    async def put(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Store a row and start its timer, or stop it if the row is not active."""
        row = structs.replace(convert(stored, ScheduleRow), updated_at=self.now)
        if row.is_active:
            await self.schedule(
                row.id,
                method="fire",
                payload=row.id,
                at=row.once_at,
                every=_interval(row),
                cron=row.cron_expression,
                timezone=row.timezone,
            )
        else:
            await self.unschedule(row.id)
        return await self._store(row)

    async def remove(self, schedule_id: str) -> None:
        """Delete a row and its timer."""
        await self._row(schedule_id)
        await self.storage.delete(f"row/{schedule_id}")
        await self.unschedule(schedule_id)

    async def fire(self, schedule_id: str) -> None:
        """Send the job. It is sent together with the note of when it ran, or not at all."""
        row = await self._row(schedule_id)
        job = job_of(row.type, row.id, USERS[self.key])
        if isinstance(job, PasswordReminderJob):
            await auth_queue.send(job)
        else:
            await notification_queue.send(job)
        is_active = row.once_at is None
        await self._store(structs.replace(row, last_run=self.now, is_active=is_active))

    @read
    async def rows(self) -> list[dict[str, Any]]:
        """Return all rows."""
        return [*(await self.storage.list("row/")).values()]

    @read
    async def row(self, schedule_id: str) -> dict[str, Any]:
        """Return one row."""
        found: dict[str, Any] = to_builtins(await self._row(schedule_id))
        return found

    async def _row(self, schedule_id: str) -> ScheduleRow:
        stored = await self.storage.get(f"row/{schedule_id}")
        if stored is None:
            raise NotFound("schedule", schedule_id)
        return convert(stored, ScheduleRow)

    async def _store(self, row: ScheduleRow) -> dict[str, Any]:
        stored: dict[str, Any] = to_builtins(row)
        await self.storage.put(f"row/{row.id}", stored)
        return stored


async def create(user: User, asked: NewSchedule) -> ScheduleRow:
    """Schedule a job."""
    row = ScheduleRow(id=f"sched-{uuid4().hex}", type=asked.type, timezone="UTC")
    return await _put(user, _timed(row, asked))


async def rows(user: User) -> list[ScheduleRow]:
    """Return the schedules of a user."""
    stored = await app.entity(UserSchedules, user.id).rows()
    return [await _shown(convert(row, ScheduleRow)) for row in stored]


async def change(user: User, schedule_id: str, timing: Timing) -> ScheduleRow:
    """Give a schedule another time."""
    return await _put(user, _timed(await _get(user, schedule_id), timing))


async def pause(user: User, schedule_id: str) -> ScheduleRow:
    """Stop a schedule for a while."""
    return await _put(user, structs.replace(await _get(user, schedule_id), is_active=False))


async def resume(user: User, schedule_id: str) -> ScheduleRow:
    """Let a paused schedule go on."""
    return await _put(user, structs.replace(await _get(user, schedule_id), is_active=True))


async def delete(user: User, schedule_id: str) -> None:
    """Delete a schedule."""
    await app.entity(UserSchedules, user.id).remove(schedule_id)


async def upcoming(count: int) -> list[UpcomingRow]:
    """Return the next runs of all users, soonest first. The timers of entities are schedules."""
    found = []
    for fire in await app.schedules.upcoming(limit=count):
        schedule = await app.schedules.get(fire.schedule_id)
        user_id, schedule_id = schedule.target["key"], schedule.payload
        row = await _get(USERS[user_id], schedule_id)
        found.append(UpcomingRow(fire.fire_at, user_id, row.type, schedule_id))
    return found


async def _get(user: User, schedule_id: str) -> ScheduleRow:
    return convert(await app.entity(UserSchedules, user.id).row(schedule_id), ScheduleRow)


async def _put(user: User, row: ScheduleRow) -> ScheduleRow:
    stored = await app.entity(UserSchedules, user.id).put(to_builtins(row))
    return await _shown(convert(stored, ScheduleRow))


def _timed(row: ScheduleRow, timing: Timing) -> ScheduleRow:
    fields = timing.fields()
    return structs.replace(
        row,
        timezone=fields.get("timezone", row.timezone),
        cron_expression=fields.get("cron_expr"),
        interval_minutes=fields.get("interval_minutes"),
        once_at=fields.get("once_at"),
    )


async def _shown(row: ScheduleRow) -> ScheduleRow:
    """A row with its next run."""
    if not row.is_active:
        return row
    interval = _interval(row)
    if interval is not None:
        counted_from = max(time for time in (row.last_run, row.updated_at) if time is not None)
        return structs.replace(row, next_run=counted_from + interval)
    fields: TimingFields = {
        "cron_expr": row.cron_expression,
        "once_at": row.once_at,
        "timezone": row.timezone,
    }
    preview = await app.schedules.preview(limit=1, **fields)
    return structs.replace(row, next_run=preview.fires[0].fire_at if preview.fires else None)


def _interval(row: ScheduleRow) -> timedelta | None:
    return None if row.interval_minutes is None else timedelta(minutes=row.interval_minutes)
