"""A fleet of nodes that lead many schedules on one database, and a check of every slot.

Contract: `prepare` stores schedules of all kinds and starts the history; `start` adds a node;
`judge` waits until everything that was due when it was called has ended, and returns what is wrong.
"""

import sys
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import msgspec
from msgspec import structs

from tests.conformance.schedule_acts import new_schedule, pause, resume, update
from tests.faults import tables
from tests.faults.programs import skewed_clock, statements
from tests.faults.programs.leader import POINTS, PROGRAM, QUEUE, Orders
from tests.kit.process import Arm, Child, ChildFailed, Children
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings
from tickwork.core.schedule.model import (
    SCHEDULES_AT_ONCE_MAX,
    NewSchedule,
    OverlapPolicy,
    ScheduleStatus,
)
from tickwork.core.when import just_before
from tickwork.store.contract import Store
from tickwork.testing.checkers import History, WatchedSchedule, find_violations
from tickwork.testing.recorder import overdue, read_history, read_plans, record

LAST_PASS_SECONDS_MAX = 2.0
PASSES_MAX = 3
STATEMENTS_MAX = 20
LEFT_SHOWN_MAX = 5
BOUND_SECONDS = 180.0
READS_MAX = 5
"""Far more than anything takes here; a passing test does not wait for it."""

SCHEDULES = 200

SORTS: tuple[dict[str, Any], ...] = (
    {"interval_seconds": 1},
    {"interval_seconds": 2},
    {"interval_seconds": 3, "jitter_seconds": 1},
    {"cron_expr": "*/2 * * * * *"},
    {"interval_seconds": 2, "overlap": OverlapPolicy.SKIP},
    {"interval_seconds": 2, "overlap": OverlapPolicy.BUFFER_ALL},
    {"interval_seconds": 1, "overlap": OverlapPolicy.BUFFER_ONE},
    {"interval_seconds": 1, "missed": {"policy": "skip", "grace_seconds": 1}},
    {"interval_seconds": 1, "missed": {"policy": "fire_most_recent", "grace_seconds": 1}},
    {"interval_seconds": 1, "missed": {"policy": "fire_late", "cap": 2, "grace_seconds": 0}},
)
"""Settings by which a leader differs."""

ONCE_SECONDS = (2, 4, 6, 8)
DELAYS = 10
DELAY: dict[str, Any] = {"interval_seconds": 1, "interval_mode": "fixed_delay"}
"""How many slots these have depends on how long each one takes, so they are not checked one by one.
"""

_OPEN = (
    "SELECT schedule_id, slot, state, claim, attempts, lost, holder, visible_at "
    "FROM tickwork_messages WHERE schedule_id IS NOT NULL AND slot <= {}"
)
_UNPLANNED = (
    "SELECT id, next_slot, look_at, bucket FROM tickwork_schedules "
    "WHERE status = 'active' AND next_slot <= {}"
)


class Fleet:
    """Nodes on one database; the seed is printed on stderr, which pytest shows if a test fails."""

    def __init__(self, url: str, children: Children, folder: Path, *, seed: int = 0) -> None:
        self.url, self._children, self._folder = url, children, folder
        self.chance = Random(seed)
        sys.stderr.write(f"seed {seed}\n")
        self._plans: list[Path] = []
        self.schedules: list[NewSchedule] = []
        self._delayed: list[NewSchedule] = []
        self._changed: set[UUID] = set()
        self.kills = self.changes = 0

    async def prepare(self, store: Store, count: int = SCHEDULES) -> None:
        """Stores schedules of all kinds and starts the history."""
        await store.queues.put(DEFAULT, QUEUE, QueueSettings())
        clock = VirtualClock(await store.now())
        self.schedules = [
            new_schedule(clock, queue=QUEUE, **SORTS[number % len(SORTS)])
            for number in range(count)
        ]
        for seconds in ONCE_SECONDS:
            at = (clock.now() + timedelta(seconds=seconds)).isoformat()
            self.schedules.append(new_schedule(clock, queue=QUEUE, once_at=at))
        self._delayed = [new_schedule(clock, queue=QUEUE, **DELAY) for _ in range(DELAYS)]
        await record(self.url)
        rest = iter([*self.schedules, *self._delayed])
        while some := [*islice(rest, SCHEDULES_AT_ONCE_MAX)]:
            await store.schedules.create(DEFAULT, some)

    def start(
        self, *arms: Arm, url: str | None = None, clock_seconds: float = 0.0, **orders: Any
    ) -> Child:
        """Starts one more node, optionally through another URL or with skewed clocks."""
        name = f"leader-{len(self._plans)}"
        path = self._folder / f"{name}.plans"
        path.touch()
        self._plans.append(path)
        words = msgspec.json.encode(Orders(**orders)).decode()
        program = (skewed_clock.PROGRAM, str(clock_seconds)) if clock_seconds else (PROGRAM,)
        return self._children.spawn(
            *program, url or self.url, path, name, words, arms=arms, is_fresh=bool(clock_seconds)
        )

    async def started(self, *arms: Arm, **orders: Any) -> Child:
        """Starts one more node and waits until it leads something."""
        child = self.start(*arms, **orders)
        await leads(child)
        return child

    async def kill(self, child: Child) -> None:
        """Kills at a point of its work, before a statement (if it has points there), or at any
        moment."""
        assert child.returncode is None, child.stderr()
        point = self.chance.choice((None, *POINTS, statements.POINT))
        if point is not None:
            passes_max = STATEMENTS_MAX if point == statements.POINT else PASSES_MAX
            child.arm(point, "kill", after=self.chance.randrange(passes_max))
            with suppress(ChildFailed):  # There is nothing to plan just now.
                await child.wait(LAST_PASS_SECONDS_MAX)
        child.kill9()
        self.kills += 1

    async def change(self, store: Store, count: int) -> None:
        """Changes schedules while they are planned, in ways that keep their slots."""
        for choice in self.chance.sample(self.schedules, count):
            schedule = await store.schedules.get(DEFAULT, choice.id)
            if self.chance.random() < 0.5:
                await update(store, schedule, priority=self.chance.randrange(1, 9))
            elif schedule.status is ScheduleStatus.ACTIVE:
                await resume(store, await pause(store, schedule))
            self._changed.add(choice.id)
            self.changes += 1

    async def history(self, store: Store, until: datetime) -> History:
        """What was observed up to an instant."""
        watched = [_watched(schedule, until) for schedule in self.schedules]
        history = await read_history(store, self.url, watched, read_plans(self._plans))
        return structs.replace(history, changed=frozenset(self._changed))

    async def judge(self, store: Store) -> tuple[str, ...]:
        """What is wrong, after everything due now has ended."""
        until = await store.now()
        await drained(store, self.url, until)
        await self._delayed_go_on(store, until)
        history = await self.history(store, until)
        for _ in range(READS_MAX):
            if not history.shards_without_leader:
                break
            # On a slow machine a lease may expire, and start again, between the two reads.
            await drained(store, self.url, until)
            history = await self.history(store, until)
        slots = sum(len(schedule.slots) for schedule in history.schedules)
        sys.stderr.write(
            f"{self.kills} kills, {self.changes} changes, {slots} slots due, "
            f"{len(history.stored)} messages, {len(history.withdrawn)} taken back, "
            f"{len(history.handed_over)} hand-overs, {len(history.firings)} records\n"
        )
        return find_violations(history)

    async def _delayed_go_on(self, store: Store, after: datetime) -> None:
        """Each outcome sets the next slot: a chain that is broken once stays broken."""

        async def go_on() -> bool:
            ids = [schedule.id for schedule in self._delayed]
            found = [await store.schedules.get(DEFAULT, id_) for id_ in ids]
            return all(
                schedule.last_slot is not None and schedule.last_slot > after for schedule in found
            )

        await eventually(go_on, timeout_seconds=BOUND_SECONDS, what="fixed delays to go on")


def _watched(new: NewSchedule, until: datetime) -> WatchedSchedule:
    assert new.next_slot is not None
    return WatchedSchedule(
        id=new.id, rule=new.definition.rule, since=just_before(new.next_slot), until=until
    )


async def leads(child: Child) -> UUID:
    """Waits until a node leads something; returns its id."""

    def led() -> list[Any]:
        return [event for event in child.events("held") if event.facts["shards"]]

    await eventually(lambda: led() or child.returncode is not None, timeout_seconds=BOUND_SECONDS)
    assert led(), child.stderr()
    return UUID(str(led()[-1].facts["node"]))


async def drained(store: Store, url: str, until: datetime) -> None:
    """Waits until everything up to an instant is planned and has ended, and every shard is led."""
    at = f"'{until.isoformat()}'"
    if tables.is_sqlite(url):
        at = str(int(until.timestamp() * 1e6))
    left: list[object] = []

    async def is_drained() -> bool:
        async with tables.looking(url) as look:
            left[:] = [*await look(_UNPLANNED.format(at)), *await look(_OPEN.format(at))]
        left.extend(await overdue(store))
        left.extend(shard for shard in await store.shards.list(SYSTEM) if shard.node is None)
        return not left

    try:
        await eventually(is_drained, timeout_seconds=BOUND_SECONDS)
    except TimeoutError:
        raise AssertionError(f"{len(left)} are left: {left[:LEFT_SHOWN_MAX]}") from None
