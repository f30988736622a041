"""The leader's work: turns slots that come due into messages, in bulk and ahead of time.

```
   ┌──▶ hold ──▶ due: schedules to plan ──▶ decide (pure) ──▶ plan: one fenced statement ──┐
   │             ▲                                                                         │
   │             └─────────────────────── while there are more ◀───────────────────────────┤
   └── until the next due time, a wake-up, or the next hold ◀──────────────────────────────┘
```

Shards are planned in two groups, so that one group is decided here while the other is written in
the database; no group reads what another is writing. A schedule that cannot be decided is parked,
and its shard continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from msgspec import structs

from tickwork.clock import since_boot
from tickwork.core.message.decide import clean_error
from tickwork.core.message.system_events import SYSTEM_TENANT, shard_stalled_event
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.schedule.plan import (
    DueSchedule,
    Fire,
    Plan,
    PlanResult,
    park,
    park_instead,
    plan,
)
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.widen import widen
from tickwork.errors import StoreError, StoreUnavailable
from tickwork.service.loop import Step, catch, catch_async, run_forever
from tickwork.service.node import TTL_SECONDS
from tickwork.service.observe import Observer
from tickwork.service.scheduler.calendars import CalendarCache
from tickwork.service.scheduler.database_clock import DatabaseClock
from tickwork.service.scheduler.leadership import HOLD_SECONDS, HoldTimes, Leadership
from tickwork.service.scheduler.tzdata import TzdataUpdater
from tickwork.store.cluster_contract import Watch
from tickwork.store.contract import Store
from tickwork.store.ids import SCHEDULES_TOPIC

DUE_BATCH_MAX = 500
"""Maximum number of schedules planned in one statement."""

PLANNING_GROUPS = 2
"""Number of groups of shards that are planned concurrently."""

LOOK_SECONDS_MAX = 2.0
"""Maximum number of seconds between two queries for due schedules; wake-ups are only hints."""

LOOK_SECONDS_MIN = 0.01
"""Minimum number of seconds between two queries, however many wake-ups arrive."""

HOLD_SECONDS_MIN = 0.25
"""Minimum number of seconds between two holds, however many wake-ups arrive."""

CATCH_UP_PER_SECOND = 1_000
"""Maximum number of catch-up messages that become visible per second, so that they do not crowd
out messages that are on time."""

SWEEP_SECONDS = 5.0
"""Seconds between two sweeps."""

SWEEP_BATCH_MAX = 500
"""Maximum number of schedules in one sweep statement."""

STALLED_SECONDS = 30.0
"""Seconds of overdue work after which a shard counts as stalled."""

CLOCK_CHECKS_MAX = 10
"""Maximum number of attempts to record a clock jump in one hold, as other nodes may record one
first; the rest is left for the next hold."""

UNAVAILABLE_SECONDS = 1.0
"""Seconds to wait while the database is unavailable."""

NO_QUEUE = "its queue does not exist; create it, or give the schedule another queue, and resume it"


class Scheduler:
    """Plans the schedules of the shards that this node leads."""

    def __init__(
        self,
        store: Store,
        leadership: Leadership,
        observer: Observer,
        *,
        monotonic: Callable[[], float] = since_boot,
        ttl_seconds: float = TTL_SECONDS,
    ) -> None:
        self._store = store
        self.leadership = leadership
        self._observer = observer
        self._monotonic, self._ttl_seconds = monotonic, ttl_seconds
        self.hold_times = HoldTimes(monotonic)
        self._clock = DatabaseClock(store, self._on_clock_jump, monotonic)
        self._tzdata: TzdataUpdater | None = None
        if leadership.tzdata is not None:
            self._tzdata = TzdataUpdater(
                store, leadership, observer, version=leadership.tzdata, monotonic=monotonic
            )
        self._has_warned_outdated = False
        self._stalled: set[int] = set()
        self._behind: dict[int, datetime] = {}
        self._calendars = CalendarCache(store)
        self._pacer = _CatchUpPacer()
        self._last_hold_at = self._hold_at = float("-inf")
        self._widened_seconds = 0
        self._next_look_at: datetime | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._open = AsyncExitStack()

    # Running

    async def start(self) -> None:
        """Starts the loops. The node must have joined."""
        async with AsyncExitStack() as opening:
            watching = self._store.wakeups.watch([SCHEDULES_TOPIC])
            watch = await opening.enter_async_context(watching)
            self._open = opening.pop_all()
        steps: dict[str, Step] = {
            "scheduler": partial(self._step, watch),
            "sweeper": self._sweep_and_check,
        }
        if self._tzdata is not None:
            steps["zones"] = self._tzdata.update_shards
        for name, step in steps.items():
            loop = run_forever(name, step, report=self._observer.error_occurred)
            self._tasks.append(asyncio.create_task(loop))

    async def stop(self) -> bool:
        """Gives up all shards. Returns False if the database is unavailable and the caller must
        retry."""
        if not self._tasks:
            return True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        is_given_up = False
        with suppress(StoreError):
            await self.leadership.give_up()
            is_given_up = True
        self._observer.shards_led(self.leadership.shard_count, self.leadership.lost)
        await self._open.aclose()
        return is_given_up

    def forget_node(self, node: UUID) -> None:
        """The node lost this identity and all shards led under it."""
        self.leadership.forget_node(node)
        self._hold_at = float("-inf")

    async def _step(self, watch: Watch) -> float:
        try:
            if self._monotonic() >= self._hold_at:
                await self.hold()
            await self.plan_due()
            wait = await self._idle_seconds()
        except StoreUnavailable as error:
            self._observer.error_occurred("scheduler", error)
            return UNAVAILABLE_SECONDS
        if await watch.wait(min(wait, max(self._hold_at - self._monotonic(), 0.0))):
            self._hold_at = min(self._hold_at, self._last_hold_at + HOLD_SECONDS_MIN)
        return LOOK_SECONDS_MIN

    async def hold(self) -> None:
        """Takes this node's share of the shards, and gives up what exceeds it."""
        self._last_hold_at = self._monotonic()
        self._hold_at = self._last_hold_at + HOLD_SECONDS
        moved = self.leadership.moved
        with self.hold_times.measured():
            await self._read_clock()
            await self.read_windows()
            await self.leadership.hold(self._clock.known)
        if self.leadership.moved > moved:
            self._observer.intervals_moved(self.leadership.moved - moved)
        if not self.leadership.shard_count or self.leadership.has_more_to_move:
            self._hold_at = self._last_hold_at + HOLD_SECONDS_MIN
        self._observer.shards_led(self.leadership.shard_count, self.leadership.lost)
        own, newer = self.leadership.tzdata, self.leadership.newer_tzdata
        if own is not None and newer is not None and not self._has_warned_outdated:
            self._observer.tzdata_outdated(own, newer)
            self._has_warned_outdated = True

    async def read_windows(self) -> None:
        """Reads whether the operator widened the fire windows."""
        self._widened_seconds = await self._store.nodes.widened_seconds(SYSTEM)

    async def _read_clock(self) -> None:
        """Checks for clock jumps and records them, before any shard is taken: so no node has to
        find out whether a shard was taken before or after a jump."""
        for _ in range(CLOCK_CHECKS_MAX):
            await self._clock.now()
            jump = self._clock.jump
            if jump is None:
                return
            # A short forward jump looks the same as a suspended machine.
            is_sure = not 0 < jump.seconds <= self._ttl_seconds
            shards, ttl = self._store.shards, self._ttl_seconds
            if is_sure and await shards.set_clock(SYSTEM, jump, ttl):
                continue
            if not is_sure or (await shards.clock(SYSTEM)).clock == jump.known:
                self._observer.clock_jump_dismissed(jump.seconds)
                self._clock.dismiss()

    def _on_clock_jump(self, seconds: float) -> None:
        self._pacer = _CatchUpPacer()  # The old one counts in times before the jump.
        self._observer.clock_jumped(seconds)

    async def _idle_seconds(self) -> float:
        """Seconds until the next schedule must be planned. Also reports the planning lag."""
        shards = [grant.shard for grant in self.leadership.grants]
        if not shards:
            self._next_look_at = None
            return HOLD_SECONDS_MIN
        asked = self._monotonic()
        now = await self._clock.now()
        if self._clock.jump is not None:
            self._hold_at = float("-inf")
        lag = _overdue_seconds(self._next_look_at, now)
        self._next_look_at = await self._store.schedules.next_look_at(SYSTEM, shards)
        statement_seconds = (self._monotonic() - asked) / 2
        overdue = _overdue_seconds(self._next_look_at, now)
        self._observer.planning_lag(lag, overdue, statement_seconds)
        if self._next_look_at is None:
            return LOOK_SECONDS_MAX
        return min(max((self._next_look_at - now).total_seconds(), 0.0), LOOK_SECONDS_MAX)

    # Planning

    async def plan_due(self) -> int:
        """Plans due schedules until there are no more, or the next hold is due. Returns the number
        of schedules planned."""
        shards = [grant.shard for grant in self.leadership.grants]
        until = max(self._hold_at, self._monotonic() + HOLD_SECONDS_MIN)
        groups = [frozenset(shards[number::PLANNING_GROUPS]) for number in range(PLANNING_GROUPS)]
        results = await asyncio.gather(
            *(self._plan_group(group, until) for group in groups if group), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return sum(result for result in results if isinstance(result, int))

    async def _plan_group(self, shards: frozenset[int], until: float) -> int:
        planned = 0
        while grants := [grant for grant in self.leadership.grants if grant.shard in shards]:
            own = [grant.shard for grant in grants]
            dues = await self._store.schedules.due(SYSTEM, own, DUE_BATCH_MAX)
            moved = await self._plan(grants, dues) if dues else 0
            planned += moved
            if len(dues) < DUE_BATCH_MAX or not moved or self._monotonic() >= until:
                break
        return planned

    async def _plan(self, grants: Sequence[Grant], dues: Sequence[DueSchedule]) -> int:
        """Decides and writes plans; returns the number of schedules that advanced."""
        now = await self._clock.now()
        if self._clock.jump is not None or any(
            grant.clock != self._clock.known for grant in grants
        ):
            self._hold_at = float("-inf")  # The clock was set: move intervals first.
            return 0
        await self._calendars.load(dues)
        return await self._write(grants, self._decided(dues, now), now)

    async def _write(self, grants: Sequence[Grant], plans: Sequence[Plan], now: datetime) -> int:
        """Writes plans; returns the number of schedules that advanced. A plan that the database
        rejects is found by bisection and parked: if it can be parked, nothing else is wrong."""
        if not self.leadership.grants:  # The lease was no longer trusted after deciding.
            return 0
        result = await catch_async(self._store.schedules.plan(SYSTEM, grants, plans))
        if isinstance(result, Exception):
            is_parked = len(plans) == 1 and plans[0].error is not None
            if isinstance(result, StoreUnavailable) or is_parked:
                raise result
            if len(plans) == 1:
                return await self._write(grants, [park_instead(plans[0], _error_text(result))], now)
            half = len(plans) // 2
            moved = await self._write(grants, plans[:half], now)
            return moved + await self._write(grants, plans[half:], now)
        return await self._written(grants, plans, result, now)

    async def _written(
        self, grants: Sequence[Grant], plans: Sequence[Plan], result: PlanResult, now: datetime
    ) -> int:
        done = [plans[index] for index in result.done]
        self._observer.schedules_planned(done)
        for done_plan in done:
            if done_plan.error is not None:
                self._observer.schedule_parked(done_plan.tenant, done_plan.id, done_plan.error)
        if result.lost:
            self.leadership.drop_shards(plans[index].shard for index in result.lost)
            self._hold_at = float("-inf")
        moved = len(result.done)
        if result.no_queue:
            parked = [park_instead(plans[index], NO_QUEUE) for index in result.no_queue]
            moved += await self._write(grants, parked, now)
        return moved

    def _decided(self, dues: Sequence[DueSchedule], now: datetime) -> list[Plan]:
        """One plan per schedule. Only if one fails, each is decided separately."""
        decided = catch(lambda: [self._decide(due, now) for due in dues])
        if isinstance(decided, list):
            return decided
        return [self._decided_or_parked(due, now) for due in dues]

    def _decided_or_parked(self, due: DueSchedule, now: datetime) -> Plan:
        decided = catch(lambda: self._decide(due, now))
        if isinstance(decided, Exception):
            return park(due, _error_text(decided))
        return decided

    def _decide(self, due: DueSchedule, now: datetime) -> Plan:
        if due.rule.calendar is not None:
            due = self._calendars.with_holidays(due)
        decided = plan(due, now)
        if self._widened_seconds:
            decided = widen(decided, due.rule, self._widened_seconds)
        if due.next_slot <= now and any(fire.catch_up for fire in decided.fires):
            return structs.replace(decided, fires=self._pacer.pace(decided.fires, now))
        return decided

    # Sweeping and stall checks

    async def _sweep_and_check(self) -> float:
        if self.leadership.grants:
            await self.sweep()
        await self._check_stalls()
        return SWEEP_SECONDS

    async def sweep(self) -> None:
        """Continues schedules that wait for a run that no longer exists."""
        while await self._store.schedules.sweep(SYSTEM, SWEEP_BATCH_MAX) >= SWEEP_BATCH_MAX:
            pass

    async def _check_stalls(self) -> None:
        """Checks all shards, also those of other leaders: a stuck leader cannot report itself.
        While a leader works off a backlog, each check finds another oldest schedule. So only the
        leader reports such a shard; other nodes report one that has not moved since their last
        check."""
        now = await self._clock.now()
        limit = now - timedelta(seconds=STALLED_SECONDS)
        behind = dict(await self._store.shards.behind(SYSTEM, limit))
        own = {grant.shard for grant in self.leadership.grants}
        for shard, since in behind.items():
            is_new = shard not in self._stalled
            if shard not in own and not (is_new and self._behind.get(shard) == since):
                continue
            overdue = _overdue_seconds(since, now)
            self._observer.shard_stalled(shard, overdue)
            if is_new:
                stall = shard_stalled_event(shard, since, overdue)
                await self._store.messages.notify(Scope(SYSTEM_TENANT), stall)
                self._stalled.add(shard)
        self._stalled &= behind.keys()
        self._behind = behind


class _CatchUpPacer:
    """Spreads the visible times of catch-up messages, so that not all become visible at once."""

    _BETWEEN = timedelta(seconds=1) / CATCH_UP_PER_SECOND

    def __init__(self) -> None:
        self._next: datetime | None = None

    def pace(self, fires: Iterable[Fire], now: datetime) -> tuple[Fire, ...]:
        """The same fires, each catch-up with its own visible time."""
        return tuple(
            structs.replace(fire, visible_at=self._next_time(now)) if fire.catch_up else fire
            for fire in fires
        )

    def _next_time(self, now: datetime) -> datetime:
        time = now if self._next is None else max(now, self._next)
        self._next = time + self._BETWEEN
        return time


def _error_text(error: Exception) -> str:
    return clean_error(f"{type(error).__name__}: {error}")


def _overdue_seconds(due: datetime | None, now: datetime) -> float:
    return 0.0 if due is None else max((now - due).total_seconds(), 0.0)
