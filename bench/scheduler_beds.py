"""Schedules to measure with, and a leader in this process whose clock is set by hand.

Idle schedules have slots half a year from now; those that fire have one each minute, at one of a
thousand instants, one in each millisecond. A leader that is set on by a minute finds all of
them to be planned, just ahead of their time, as it would if it had slept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bench import QUEUE
from bench.beds import Bed
from tests.kit.contexts import acting
from tickwork import wiring
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.schedule.model import SHARDS
from tickwork.core.when import Limits
from tickwork.ops.schedules.create import create_bulk
from tickwork.service.node import TTL_SECONDS as TTL_SECONDS
from tickwork.service.observe import Observer
from tickwork.service.scheduler.leadership import Leadership
from tickwork.service.scheduler.scheduler import Scheduler
from tickwork.store.ids import new_id

RULES = 1_000
MINUTE = timedelta(minutes=1)
AHEAD = timedelta(seconds=30)
TARGET = {"type": "queue", "queue": QUEUE}
PAYLOAD = {"to": "a@example.com", "template": "welcome", "n": 1}
IDLE_DAYS = 180
LEASE_SECONDS = 86_400.0
LIMITS = Limits(min_interval_seconds=1)

Fields = Mapping[str, Any]


def idle(count: int) -> Iterator[Fields]:
    """Schedules that do not fire while anybody looks."""
    far = datetime.now(UTC) + timedelta(days=IDLE_DAYS)
    rules = [f"{n % 60} {n // 60} {far.day % 28 + 1} {far.month} *" for n in range(RULES)]
    for number in range(count):
        yield {"cron_expr": rules[number % RULES], "target": TARGET, "payload": PAYLOAD}


def each_minute(count: int, first: datetime, spread: timedelta, **more: Any) -> Iterator[Fields]:
    """Schedules that fire each minute, beginning at `first` or up to `spread` later."""
    starts = [(first + spread * n / RULES).isoformat() for n in range(RULES)]
    for number in range(count):
        start_at = starts[number % RULES]
        fields = {"interval_seconds": 60, "start_at": start_at, "target": TARGET}
        yield fields | {"payload": PAYLOAD} | more


def at_once(count: int, at: datetime) -> Iterator[Fields]:
    """Schedules that are all due at one instant."""
    for _ in range(count):
        yield {
            "interval_seconds": 3600,
            "start_at": at.isoformat(),
            "target": TARGET,
            "payload": PAYLOAD,
        }


def overdue(count: int) -> Iterator[Fields]:
    """One-shots that are due as soon as they are made."""
    past = (datetime.now(UTC) - MINUTE).isoformat()
    for _ in range(count):
        yield {"once_at": past, "target": TARGET, "payload": PAYLOAD}


def make(bed: Bed, schedules: Iterator[Fields]) -> int:
    """Stores schedules as an app does, and says how many."""
    return bed.run(create_bulk(acting(bed.store, DEFAULT, limits=LIMITS), schedules))


class Leader:
    """The real scheduler, leading all shards, at a time that is set."""

    def __init__(self, bed: Bed, now: datetime) -> None:
        self._bed, self.now = bed, now
        settings = wiring.Settings(database=bed.url)
        self.store = bed.run(wiring.open_store(settings, moment=lambda: self.now))
        node = new_id()
        bed.run(
            self.store.nodes.join(
                SYSTEM, node, name="leader", roles=["scheduler"], ttl_seconds=LEASE_SECONDS
            )
        )
        leadership = Leadership(self.store, lambda: node, is_trusted=lambda: True)
        self.scheduler = Scheduler(
            self.store,
            leadership,
            RaiseErrors(),
            monotonic=lambda: self.now.timestamp(),
        )
        bed.run(self.scheduler.hold())

    def plan_minute(self) -> int:
        """Lets a minute pass, and plans what there is to plan; how many schedules moved on."""
        self.now += MINUTE

        async def work() -> int:
            moved = 0
            while some := await self.scheduler.plan_due():
                moved += some
            return moved

        return self._bed.run(work())

    def close(self) -> None:
        self._bed.run(self.scheduler.leadership.give_up())
        self._bed.run(self.store.close())


class RaiseErrors(Observer):
    """Turns an error of the scheduler into a failure of the benchmark."""

    def error_occurred(self, activity: str, error: Exception) -> None:
        raise AssertionError(f"{activity} failed") from error


def soon(seconds: float) -> datetime:
    """A whole second from now, roughly so far ahead."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)


async def until(moment: datetime) -> None:
    """Waits for an instant."""
    await asyncio.sleep(max((moment - datetime.now(UTC)).total_seconds(), 0.0))


def leaders(bed: Bed) -> set[object]:
    """Who leads; None among them if a shard is led by nobody who is alive."""
    return {shard.node for shard in bed.run(bed.store.shards.list(SYSTEM))}


def is_planned(bed: Bed, until: datetime) -> bool:
    """Whether nothing has to be looked at any more before an instant."""
    coming = bed.run(bed.store.schedules.next_look_at(SYSTEM, range(SHARDS)))
    return coming is None or coming > until
