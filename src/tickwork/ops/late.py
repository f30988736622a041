"""Lists what is overdue now: schedules that no scheduler has planned, and messages that wait."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from tickwork.core.answers.ids import Id, Prefix
from tickwork.core.queue.stats import LATE_SECONDS
from tickwork.core.schedule.model import ScheduleOrder, ScheduleSelection
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.queues import COUNTED_MAX, QUEUES_MAX
from tickwork.ops.schedules.lookup import LIST_LIMIT, list_schedules

LATE_SECONDS_MAX = 365 * 86_400.0


class LateSchedule(Struct, frozen=True):
    """An active schedule whose slot is due and not planned yet."""

    id: Id
    name: str | None
    slot: datetime
    due_at: datetime
    late_seconds: float
    timezone: str


class LateQueue(Struct, frozen=True):
    """A queue whose oldest visible message waits; `messages` counts all that are ready."""

    queue: str
    messages: int
    visible_at: datetime
    late_seconds: float
    paused: bool


class Late(Struct, frozen=True):
    """What is overdue; `now` is the database's time."""

    now: datetime
    schedules: tuple[LateSchedule, ...]
    queues: tuple[LateQueue, ...]


async def list_late(
    context: Context, *, seconds: float = LATE_SECONDS, limit: int = LIST_LIMIT
) -> Late:
    """Returns what is overdue by at least so many seconds: schedules, the longest overdue first, up
    to `limit`, and the first `QUEUES_MAX` queues with waiting messages."""
    if not 0 <= seconds <= LATE_SECONDS_MAX:
        fault = f"must be from 0 to {LATE_SECONDS_MAX:.0f}, not {seconds:g}"
        raise InvalidInput([FieldError("seconds", fault)])
    now = await context.store.now()
    return Late(
        now=now,
        schedules=await _schedules(context, now, now - timedelta(seconds=seconds), limit),
        queues=await _queues(context, now, seconds),
    )


async def _schedules(
    context: Context, now: datetime, before: datetime, limit: int
) -> tuple[LateSchedule, ...]:
    selection = ScheduleSelection(order=ScheduleOrder.NEXT_DUE, before=before)
    return tuple(
        LateSchedule(
            id=Id.of(Prefix.SCHEDULE, schedule.id),
            name=schedule.name,
            slot=schedule.next_slot,
            due_at=schedule.due_at,
            late_seconds=(now - schedule.due_at).total_seconds(),
            timezone=schedule.definition.rule.timezone,
        )
        for schedule in await list_schedules(context, selection, limit=limit)
        if schedule.next_slot is not None and schedule.due_at is not None
    )


async def _queues(context: Context, now: datetime, seconds: float) -> tuple[LateQueue, ...]:
    late: list[LateQueue] = []
    queues = (await context.store.queues.list(context.scope))[:QUEUES_MAX]
    found = await context.store.stats.queues(context.scope, queues, at_most=COUNTED_MAX)
    for queue, stats in zip(queues, found, strict=True):
        age = stats.oldest_age_seconds
        if age is not None and age >= seconds:
            waiting_since = now - timedelta(seconds=age)
            late.append(LateQueue(queue.name, stats.counts.ready, waiting_since, age, queue.paused))
    return tuple(sorted(late, key=lambda late_queue: -late_queue.late_seconds))
