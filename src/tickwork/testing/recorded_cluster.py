"""Runs nodes that record their plans, and reads the history of a whole database.

For demonstrations and tests with real processes: start nodes with `run_recorded_node`, disturb
them, and give what `read_database_history` returns to `tickwork.testing.checkers`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from tickwork import wiring
from tickwork.core.model import Scope
from tickwork.core.schedule.model import ScheduleOrder, ScheduleSelection
from tickwork.core.schedule.next_slot import AHEAD_SECONDS
from tickwork.core.schedule.plan import plan
from tickwork.core.when import just_before
from tickwork.facade.app import Tickwork, engine_of
from tickwork.service import node
from tickwork.service.process_lifecycle import run_until_stopped
from tickwork.service.scheduler import scheduler
from tickwork.store.contract import Store
from tickwork.testing.checkers import History, WatchedSchedule
from tickwork.testing.recorder import PlanLog, read_history, read_plans

PAGE = 1_000
"""Number of schedules read at a time."""


def run_recorded_node(
    app: Tickwork,
    plan_file: Path,
    *,
    lease_seconds: float = node.TTL_SECONDS,
    ahead_seconds: float = AHEAD_SECONDS,
    drain_seconds: float | None = None,
) -> None:
    """Runs the app as one node until SIGTERM, and records its plans in a file.

    A shorter lease and planning horizon make faults shorter. They apply to the whole process.
    """
    node.Node = partial(node.Node, ttl_seconds=lease_seconds)  # type: ignore[assignment, misc]
    setattr(scheduler, "plan", partial(plan, ahead_seconds=ahead_seconds))  # noqa: B010

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        store = cast("Any", await engine_of(app).open())
        store.schedules = PlanLog(store.schedules, plan_file)
        async with app.running(drain_seconds=drain_seconds):
            yield

    run_until_stopped(running)


async def read_database_history(
    database: str, *, until: datetime, plan_files: Iterable[Path], tenant: str = "default"
) -> History:
    """Returns the history of a tenant's schedules, each from its `start_at` to `until`.

    `tickwork.testing.recorder.record` must have been called before the first slot.
    """
    store = await wiring.open_store(wiring.Settings(database=database))
    try:
        schedules = await _watched_schedules(store, Scope(tenant), until)
        return await read_history(store, database, schedules, read_plans(plan_files))
    finally:
        await store.close()


async def _watched_schedules(store: Store, scope: Scope, until: datetime) -> list[WatchedSchedule]:
    found: list[WatchedSchedule] = []
    selection = ScheduleSelection(order=ScheduleOrder.CREATED)
    while page := await store.schedules.list(scope, selection, PAGE):
        for schedule in page:
            rule = schedule.definition.rule
            since = just_before(rule.start_at or schedule.created_at)
            found.append(WatchedSchedule(id=schedule.id, rule=rule, since=since, until=until))
        selection = ScheduleSelection(order=ScheduleOrder.CREATED, after=page[-1].id)
    return found
