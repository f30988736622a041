"""A node that leads schedules and handles what they fire, until it is killed or told to stop.

    python -m tests.faults.programs.leader URL PLANS NAME ORDERS

It is a real app, wired as always; only its lease and its horizon are shorter, so that a test sees
many of both. What it plans, and under which token, goes to the file PLANS.

Points: `started`; `holding` and `held` around the question what is ours; `planning` and `planned`
around a plan; with `is_slow` one before every statement, too, which costs it some time.
"""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import msgspec

from tests.faults.programs import statements
from tests.kit.points import reach
from tickwork import Tickwork
from tickwork.core.model import Scope
from tickwork.core.schedule.plan import Plan, PlanResult, plan
from tickwork.core.schedule.shards import Grant
from tickwork.service import node
from tickwork.service.process_lifecycle import run_until_stopped
from tickwork.service.scheduler import scheduler
from tickwork.store.postgres.engine.sql import SQL
from tickwork.testing.recorder import PlanLog

PROGRAM = "tests.faults.programs.leader"
POINTS = ("holding", "held", "planning", "planned")
QUEUE = "ticks"


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of node this is."""

    ttl_seconds: float = 1.0
    ahead_seconds: float = 1.0
    roles: tuple[str, ...] = ("scheduler", "worker")
    is_slow: bool = False
    says: dict[str, tuple[str, str]] = {}
    """Statements in which it says something else: a safeguard that is off."""


class Plans(PlanLog):
    """The log, with a point before and after each plan."""

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        reach("planning")
        result = await super().plan(scope, grants, plans)
        reach("planned")
        return result


class Shards:
    """A store's shards, with a point before and after each question."""

    def __init__(self, shards: Any) -> None:
        self._shards = shards

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shards, name)

    async def hold(self, scope: Scope, node_id: UUID) -> tuple[Grant, ...]:
        reach("holding")
        granted: tuple[Grant, ...] = await self._shards.hold(scope, node_id)
        reach("held", node=str(node_id), shards=len(granted))
        return granted


def shorten(orders: Orders) -> None:
    """A lease and a horizon as ordered."""
    node.Node = partial(node.Node, ttl_seconds=orders.ttl_seconds)  # type: ignore[assignment, misc]
    shorter = partial(plan, ahead_seconds=orders.ahead_seconds)
    setattr(scheduler, "plan", shorter)  # noqa: B010  it is not theirs to export
    for name, (old, new) in orders.says.items():
        assert old in getattr(SQL, name), f"{name} does not say {old!r} any more"
        setattr(SQL, name, getattr(SQL, name).replace(old, new))


def main(url: str, plans: str, name: str, orders_json: str) -> None:
    orders = msgspec.json.decode(orders_json, type=Orders)
    shorten(orders)
    if orders.is_slow:
        statements.stop_before_statements()
    os.environ["TICKWORK_ROLES"] = ",".join(orders.roles)
    app = Tickwork(url)
    app.queue(QUEUE)

    async def handle(message: Any) -> None: ...

    app.on(QUEUE)(handle)

    @asynccontextmanager
    async def working() -> AsyncIterator[None]:
        store = cast("Any", await app._engine.open())
        store.schedules = Plans(store.schedules, Path(plans))
        store.shards = Shards(store.shards)
        async with app.running(drain_seconds=2.0):
            yield

    run_until_stopped(working, on_started=lambda: reach("started", name=name))


if __name__ == "__main__":
    main(*sys.argv[1:])
