"""A cluster that moves only when a test steps it: real leaders, a real database, virtual time.

A `Cluster` is one database with its history; a `Leader` is the scheduler role of a node, with a
store of its own. A hook before each write of a plan lets a scenario happen between a decision and
its write, where a leader may be frozen for any time.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from tests.conformance.acts import ALL, make_queue, pull
from tests.conformance.schedule_acts import create
from tests.stores.clock import START, VirtualClock
from tests.stores.home import Home
from tickwork.core.message import decide
from tickwork.core.message.outcome import Succeeded
from tickwork.core.model import SYSTEM, Message, QueueSettings, Scope, Settlement
from tickwork.core.schedule.model import Schedule
from tickwork.core.schedule.plan import Plan, PlanResult
from tickwork.core.schedule.shards import Grant
from tickwork.core.when import just_before
from tickwork.errors import NodeExpired
from tickwork.service.observe import Observer
from tickwork.service.scheduler.leadership import Leadership
from tickwork.service.scheduler.scheduler import Scheduler
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.testing.checkers import History, WatchedSchedule
from tickwork.testing.recorder import PlanLog, read_history, read_plans, record

TTL_SECONDS = 15.0
STEP_SECONDS = 5

Twist = Callable[[Any], Any]
"""Wraps a store so that it does something wrong."""

Meanwhile = Callable[[], Awaitable[object]]


class Plans(PlanLog):
    """The log, with a hook between a decision and its write."""

    meanwhile: Meanwhile | None = None
    repeat_after: Meanwhile | None = None
    """If set, the response to the next plan is lost: after this call, it is repeated."""

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        result = await super().plan(scope, grants, plans)
        repeat_after, self.repeat_after = self.repeat_after, None
        if repeat_after is not None:
            await repeat_after()
            result = await super().plan(scope, grants, plans)
        return result


class RaiseErrors(Observer):
    """Raises every reported error."""

    def error_occurred(self, activity: str, error: Exception) -> None:  # noqa: ARG002
        raise error


class Leader:
    """The scheduler role of one node."""

    def __init__(self, store: Store, plans: Plans, clock: VirtualClock) -> None:
        self.store, self.plans, self.node = store, plans, new_id()
        self._clock = clock
        self.scheduler = Scheduler(
            store,
            Leadership(store, lambda: self.node, is_trusted=lambda: True),
            RaiseErrors(),
            monotonic=self._seconds,
        )

    async def join(self) -> None:
        await self.store.nodes.join(
            SYSTEM, self.node, name="leader", roles=["scheduler"], ttl_seconds=TTL_SECONDS
        )

    async def beat(self) -> None:
        """Renews its lease; joins under a new identity if it expired."""
        try:
            await self.store.nodes.heartbeat(SYSTEM, self.node, TTL_SECONDS)
        except NodeExpired:
            self.scheduler.forget_node(self.node)
            self.node = new_id()
            await self.join()

    async def step(self) -> None:
        """What it does in a second."""
        await self.beat()
        await self.scheduler.hold()
        await self.scheduler.plan_due()

    def _seconds(self) -> float:
        return (self._clock.now() - START).total_seconds()


class Cluster:
    """One database, its leaders, and what is observed of them."""

    def __init__(
        self, home: Home, folder: Path, clock: VirtualClock, store: Store, twist: Twist
    ) -> None:
        self.home, self.clock, self.store = home, clock, store
        self._folder, self._twist = folder, twist
        self._opened: list[tuple[Plans, Store]] = []
        self._logs: list[Path] = []
        self.watched: list[WatchedSchedule] = []

    async def schedule(self, **fields: Any) -> Schedule:
        """Adds a schedule whose slots will be checked."""
        made = await create(self.store, self.clock, **fields)
        assert made.next_slot is not None
        self.watch(made, since=just_before(made.next_slot))
        return made

    def watch(self, schedule: Schedule, *, since: datetime) -> None:
        """Observed from an instant on, up to the end of the scenario."""
        rule = schedule.definition.rule
        self.watched.append(WatchedSchedule(id=schedule.id, rule=rule, since=since, until=since))

    async def leader(self) -> Leader:
        """One more node, which has joined and leads nothing yet."""
        own = self._twist(await self.home.open(self.clock))
        path = self._folder / f"{len(self._logs)}.plans"
        self._logs.append(path)
        own.schedules = plans = Plans(own.schedules, path)
        self._opened.append((plans, own))
        leader = Leader(own, plans, self.clock)
        await leader.join()
        return leader

    async def claim(self) -> tuple[Message, ...]:
        return await pull(self.store, limit=ALL)

    async def handle(self, messages: Sequence[Message] | None = None) -> None:
        """Claims all messages and settles them as succeeded."""
        found = await self.claim() if messages is None else messages
        endings = [
            decide.settle(message, Succeeded(), QueueSettings(), took_seconds=0.0)
            for message in found
        ]
        if endings:
            await self.store.messages.settle(SYSTEM, Settlement(tuple(endings)))

    async def run(self, *leaders: Leader, seconds: int) -> None:
        """Advances the time and lets every leader do its work."""
        for _ in range(0, seconds, STEP_SECONDS):
            for leader in leaders:
                await leader.step()
            await self.handle()
            self.clock.advance(seconds=STEP_SECONDS)

    async def history(self) -> History:
        """Everything observed up to now."""
        watched = [structs.replace(schedule, until=self.clock.now()) for schedule in self.watched]
        return await read_history(self.store, self.home.url, watched, read_plans(self._logs))

    async def close(self) -> None:
        for log, store in self._opened:
            log.close()
            await store.close()


@asynccontextmanager
async def made(home: Home, folder: Path, twist: Twist) -> AsyncIterator[Cluster]:
    """A cluster with a queue, on an empty database."""
    clock = VirtualClock()
    store = twist(await home.open(clock))
    cluster = Cluster(home, folder, clock, store, twist)
    try:
        await make_queue(store)
        await record(home.url)
        yield cluster
    finally:
        await cluster.close()
        await store.close()
