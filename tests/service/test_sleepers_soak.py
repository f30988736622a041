"""Very many sleeping runs and alarms: they survive a restart, take no permit, and wake in time."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import ClassVar

import pytest

from tests.kit.tuned import tuned
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Entity, Step, Tickwork
from tickwork.clock import now
from tickwork.core.entity.call import queue_of
from tickwork.core.model import SYSTEM
from tickwork.core.workflow.queue import runs_queue

SLEEPERS = 100_000
WOKEN = 10_000
"""Number of sleepers that wake at one time."""

AHEAD_SECONDS = 300.0
"""Seconds from the start of those that wake until they do."""

LATE_SECONDS_MAX = 1.0
WITHIN_SECONDS_MAX = 5.0
MEMORY_MIB_MAX = 200.0
TOGETHER = 1_000
WAIT_SECONDS = 3_600.0


class Sleeper(Entity):
    """Notes how late its alarms were."""

    late: ClassVar[list[float]]
    at: ClassVar[datetime]

    async def wake_at(self, at: str) -> None:
        await self.set_alarm(datetime.fromisoformat(at))

    async def alarm(self, info: object) -> None:  # noqa: ARG002  what a handler is given
        type(self).late.append((now() - self.at).total_seconds())


class Bed:
    """An app with a workflow and an entity that sleep."""

    def __init__(self, url: str) -> None:
        self.app, self.late, self.at = Tickwork(url, name="sleepers"), list[float](), now()
        self.app.entities.register(Sleeper)

        @self.app.workflow()
        async def nap(step: Step, params: str) -> None:
            await step.sleep_until("nap", datetime.fromisoformat(params))
            self.late.append((now() - self.at).total_seconds())

        self.nap = nap

    async def start_runs(self, count: int, until: datetime) -> None:
        for _ in range(0, count, TOGETHER):
            await self.app.workflows.start_many(self.nap, [until.isoformat()] * TOGETHER)

    async def set_alarms(self, first: int, count: int, until: datetime) -> None:
        for at in range(first, first + count, TOGETHER):
            keys = map(str, range(at, at + TOGETHER))
            text = until.isoformat()
            await asyncio.gather(*(self.app.entity(Sleeper, key).wake_at(text) for key in keys))

    async def until_asleep(self, queue: str, count: int) -> None:
        store = await self.app._engine.open()

        async def are_asleep() -> bool:
            found = await store.queues.counts(SYSTEM, queue)
            return (found.delayed, found.ready, found.claimed) == (count, 0, 0)

        await eventually(are_asleep, timeout_seconds=WAIT_SECONDS, what=f"{count} in {queue}")


@asynccontextmanager
async def running(url: str) -> AsyncIterator[Bed]:
    bed = Bed(url)
    with tuned():
        async with bed.app.running(roles="worker"):
            yield bed
    await bed.app.close()


def memory_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["runs", "alarms"])
async def test_a_hundred_thousand_sleepers_survive_a_restart_and_wake_in_time(
    home: Home, kind: str
) -> None:
    tomorrow, before = now() + timedelta(days=1), memory_mib()
    queue = runs_queue("nap") if kind == "runs" else queue_of("Sleeper")
    Sleeper.late = []
    async with running(home.url) as bed:
        if kind == "runs":
            await bed.start_runs(SLEEPERS - WOKEN, tomorrow)
        else:
            await bed.set_alarms(0, SLEEPERS - WOKEN, tomorrow)
        await bed.until_asleep(queue, SLEEPERS - WOKEN)
        at = now() + timedelta(seconds=AHEAD_SECONDS)
        if kind == "runs":
            await bed.start_runs(WOKEN, at)
        else:
            await bed.set_alarms(SLEEPERS - WOKEN, WOKEN, at)
        await bed.until_asleep(queue, SLEEPERS)
        assert now() < at
    assert memory_mib() - before < MEMORY_MIB_MAX
    async with running(home.url) as bed:
        bed.at = Sleeper.at = at
        late = bed.late if kind == "runs" else Sleeper.late
        await eventually(lambda: len(late) == WOKEN, timeout_seconds=WAIT_SECONDS, what="all awake")
        await bed.until_asleep(queue, SLEEPERS - WOKEN)
    late.sort()
    p99 = late[len(late) * 99 // 100]
    text = f"{kind}: p99 {p99:.2f} s late, the last {late[-1]:.2f} s"
    assert late[0] >= 0
    if kind == "alarms":
        assert late[-1] <= WITHIN_SECONDS_MAX, text
    else:
        assert p99 <= LATE_SECONDS_MAX, text
