"""Schedulers with running loops, in real time: changes wake them, and a shutdown hands over at
once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.acts import make_queue
from tests.kit.schedules import StoreSchedules
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.app.message import Message
from tickwork.clock import monotonic
from tickwork.core import when
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.core.schedule.model import SHARDS, Schedule, ScheduleStatus
from tickwork.facade.app import Tickwork
from tickwork.service.node import Node
from tickwork.service.observe import Observer
from tickwork.service.scheduler import tzdata
from tickwork.service.scheduler.leadership import Leadership
from tickwork.service.scheduler.scheduler import Scheduler
from tickwork.store.contract import Store

SOON_SECONDS = 30.0
"""A bound, not a measure."""

LIMITS = when.Limits(min_interval_seconds=1)
TARGET = {"type": "queue", "queue": "work"}


@pytest.fixture
async def live(home: Home) -> AsyncIterator[Store]:
    """A store under the database's own clock, with a queue."""
    store = await home.open()
    await make_queue(store)
    yield store
    await store.close()


class Errors(Observer):
    """Records the errors that are reported."""

    def __init__(self) -> None:
        self.seen: list[Exception] = []

    def error_occurred(self, activity: str, error: Exception) -> None:  # noqa: ARG002
        self.seen.append(error)


@asynccontextmanager
async def leading(
    home: Home, store: Store, *, zones: str | None = None
) -> AsyncIterator[Scheduler]:
    """A scheduler at work, with a node of its own."""
    node = Node(home.open, name="leader", roles=["scheduler"])
    leadership = Leadership(
        store, lambda: node.id, is_trusted=lambda: monotonic() < node.trusted_until, tzdata=zones
    )
    errors = Errors()
    scheduler = Scheduler(store, leadership, errors)
    await node.start()
    await scheduler.start()
    try:
        yield scheduler
    finally:
        await scheduler.stop()
        await node.stop()
    assert errors.seen == []


def schedules_of(store: Store) -> StoreSchedules:
    async def opened() -> Store:
        return store

    return StoreSchedules(opened, DEFAULT, lambda: LIMITS)


async def until_fired(store: Store, schedule: Schedule, number: int = 1) -> Schedule:
    async def fired() -> bool:
        found = await store.schedules.get(Scope(schedule.tenant), schedule.id)
        return found.fired >= number

    await eventually(fired, timeout_seconds=SOON_SECONDS, what=f"{number} fired")
    return await store.schedules.get(Scope(schedule.tenant), schedule.id)


async def until_held(scheduler: Scheduler, number: int) -> None:
    await eventually(
        lambda: scheduler.leadership.shard_count == number,
        timeout_seconds=SOON_SECONDS,
        what=f"{number} shards",
    )


async def test_a_schedule_made_while_the_leader_sleeps_is_planned_soon(
    home: Home, live: Store
) -> None:
    async with leading(home, live) as scheduler:
        await until_held(scheduler, SHARDS)
        made = await schedules_of(live).create(interval_seconds=1, target=TARGET)
        now = await until_fired(live, made)
        assert now.last_slot is not None
        (message, *_) = await live.schedules.messages(DEFAULT, made.id, 10)
        assert message.due_at == made.next_slot
        assert message.sent_at - made.created_at < timedelta(seconds=SOON_SECONDS)


async def test_a_leader_notes_its_zone_data_beside_its_work(
    home: Home, live: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tzdata, "LOOK_SECONDS", 0.02)
    await schedules_of(live).create(cron_expr="0 9 * * *", target=TARGET, timezone="Asia/Tokyo")
    for version in ("2000a", "2000b"):
        async with leading(home, live, zones=version):

            async def is_noted(version: str = version) -> bool:
                return {shard.tzdata for shard in await live.shards.list(SYSTEM)} == {version}

            await eventually(is_noted, timeout_seconds=SOON_SECONDS, what=f"{version} noted")


async def test_a_leader_that_stops_hands_over_at_once(home: Home, live: Store) -> None:
    """Within the time to live, which the heir would have to wait for otherwise."""
    other = await home.open()
    async with leading(home, other) as heir:
        async with leading(home, live) as first:
            await until_held(first, SHARDS // 2)
            await until_held(heir, SHARDS // 2)
        assert first.leadership.shard_count == 0
        began = monotonic()
        await until_held(heir, SHARDS)
        assert monotonic() - began < 10, "not by waiting for a lease to run out"
        made = await schedules_of(live).create(interval_seconds=1, target=TARGET)
        await until_fired(live, made)
    await other.close()


async def test_a_stopped_scheduler_leads_nothing(home: Home, live: Store) -> None:
    async with leading(home, live) as scheduler:
        await until_held(scheduler, SHARDS)
    assert {shard.node for shard in await live.shards.list(SYSTEM)} == {None}


async def test_a_single_slot_in_the_past_fires_at_once(home: Home, live: Store) -> None:
    async with leading(home, live) as scheduler:
        await until_held(scheduler, SHARDS)
        past = (await live.now() - timedelta(days=1)).isoformat()
        made = await schedules_of(live).create(once_at=past, target=TARGET)
        await until_fired(live, made)


async def test_an_app_that_runs_plans_and_handles_with_one_node(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path / 'work.db'}")
    app.queue("work")
    got: list[Any] = []

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        got.append(message._stored)

    async with app._engine.running() as worker:
        store = await app._engine.open()
        assert worker.scheduler is not None
        await until_held(worker.scheduler, SHARDS)
        (node,) = await store.nodes.list(SYSTEM)
        assert {*node.roles} == {"scheduler", "worker"}
        soon = (await store.now() + timedelta(seconds=0.1)).isoformat()
        schedules = schedules_of(store)
        made = await schedules.create(once_at=soon, target=TARGET, payload={"n": 1})

        async def is_completed() -> bool:
            return (await schedules.get(made.id)).status is ScheduleStatus.COMPLETED

        await eventually(is_completed, timeout_seconds=SOON_SECONDS)
        assert [(message.schedule_id, message.slot) for message in got] == [
            (made.id, made.next_slot)
        ]
        (firing,) = await schedules.firings(made.id)
        assert firing.finished_at is not None
        assert firing.finished_at >= firing.due_at


@pytest.mark.parametrize(
    ("roles", "expected"),
    [("worker", {"worker"}), ("scheduler", {"scheduler"}), ("api,worker", {"worker"})],
)
async def test_a_process_does_what_its_roles_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, roles: str, expected: set[str]
) -> None:
    monkeypatch.setenv("TICKWORK_ROLES", roles)
    app = Tickwork(f"sqlite:///{tmp_path / 'work.db'}")
    app.queue("work")

    @app.on("work")
    async def handle(_: Message[Any]) -> None: ...

    async with app._engine.running() as worker:
        (node,) = await (await app._engine.open()).nodes.list(SYSTEM)
        assert {*node.roles} == expected
        assert (worker.scheduler is not None) == ("scheduler" in expected)
        assert bool(worker.consumers) == ("worker" in expected)
