"""An app whose handler records the slots it handled, and the account of all slots."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from tests.kit.schedules import StoreSchedules
from tickwork.app.message import Message
from tickwork.core import when
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.firing import FiringRecord, FiringStatus
from tickwork.core.schedule.model import Schedule
from tickwork.facade.app import Tickwork
from tickwork.store.contract import Store
from tickwork.testing import Harness, harness

QUEUE = "work"
PAGE = 1_000
PAGES_MAX = 1_000
TARGET = {"type": "queue", "queue": QUEUE}


class Fired(NamedTuple):
    """What a handler was given, and when."""

    schedule_id: UUID
    slot: datetime
    at: datetime
    catch_up: bool
    attempt: int


class Life:
    """The app at work."""

    def __init__(self, h: Harness, app: Tickwork, fired: list[Fired]) -> None:
        self.h, self.fired = h, fired
        self.schedules = StoreSchedules(
            app._engine.open, DEFAULT, lambda: when.Limits(min_interval_seconds=1)
        )

    @property
    def store(self) -> Store:
        return self.h.store

    async def create(self, **fields: Any) -> Schedule:
        return await self.schedules.create(**{"target": TARGET} | fields)

    async def until(self, at: datetime) -> None:
        """Lets time pass until then."""
        await self.h.advance(seconds=(at - self.h.now).total_seconds())

    def slots(self, schedule: Schedule) -> list[datetime]:
        """The slots that its handler was given, in order."""
        return [firing.slot for firing in self.fired_of(schedule)]

    def fired_of(self, schedule: Schedule) -> list[Fired]:
        """What its handler was given, in order."""
        return [firing for firing in self.fired if firing.schedule_id == schedule.id]

    async def now(self, schedule: Schedule) -> Schedule:
        return await self.schedules.get(schedule.id)

    async def records(self, schedule: Schedule) -> list[FiringRecord]:
        """All of them, oldest first."""
        found: list[FiringRecord] = []
        before: tuple[datetime, UUID] | None = None
        for _ in range(PAGES_MAX):
            page = await self.store.firings.list(DEFAULT, schedule.id, PAGE, before=before)
            found += page
            if len(page) < PAGE:
                break
            assert page[-1].finished_at is not None
            before = page[-1].finished_at, page[-1].id
        return found[::-1]

    async def reasons(self, schedule: Schedule) -> list[tuple[str | None, int]]:
        """Why slots did not fire, and how many."""
        records = await self.records(schedule)
        return [
            (record.reason, record.count)
            for record in records
            if record.status is FiringStatus.SKIPPED
        ]


@asynccontextmanager
async def living(
    app: Tickwork,
    database: str | None,
    start: datetime,
    *,
    max_concurrency: int | None = None,
) -> AsyncIterator[Life]:
    """An app with one queue, whose handler says what it was given; `fails` in a body is how often
    an attempt at it fails first."""
    app.queue(QUEUE)
    fired: list[Fired] = []

    @app.on(QUEUE, max_concurrency=max_concurrency)
    async def handle(message: Message[Any]) -> None:
        stored = message._stored
        assert stored.schedule_id is not None
        assert stored.slot is not None
        fired.append(
            Fired(stored.schedule_id, stored.slot, h.now, stored.catch_up, message.attempts)
        )
        if isinstance(message.body, dict) and message.body.get("fails", 0) >= message.attempts:
            raise ValueError("it fails")

    async with harness(app, database=database, start=start) as h:
        yield Life(h, app, fired)


def unaccounted(
    expected: Iterable[datetime], fired: Iterable[datetime], records: Iterable[FiringRecord]
) -> list[str]:
    """What is wrong with the account of a schedule's slots, in words: each was handed to a handler
    once, or is in one run that says why not."""
    wanted, given = sorted(expected), sorted(fired)
    runs = [record for record in records if record.status is FiringStatus.SKIPPED]
    faults = [f"{slot} came twice" for slot in {*given} if given.count(slot) > 1]
    faults += [f"{slot} is no slot" for slot in {*given} - {*wanted}]
    for slot in wanted:
        said = sum(run.slot <= slot <= (run.last_slot or run.slot) for run in runs)
        if (slot in given) + said != 1:
            faults.append(f"{slot}: given {slot in given}, in {said} runs")
    return faults
