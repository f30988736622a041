"""The leader's work: turning slots that come up into messages, in bulk, and ahead of their time.

```
   ┌──▶ hold ──▶ due: what has to be looked at ──▶ decide (pure) ──▶ plan: one fenced statement ─┐
   │             ▲                                                                               │
   │             └────────────────────────── while there is more ◀───────────────────────────────┤
   └── until the next look, a wake-up, or the next hold ◀────────────────────────────────────────┘
```

Shards are worked off in two lanes, so that one is decided here while the other is written there; no
lane reads what another is writing. What cannot be decided is parked, and its shard goes on.
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
from tickwork.errors import StoreError, StoreUnavailable
from tickwork.service.loop import ReportError, Step, catch, catch_async, run_forever
from tickwork.service.node import TTL_SECONDS
from tickwork.service.observe.schedule_metrics import SchedulerObserver
from tickwork.service.scheduler.calendars import CalendarCache
from tickwork.service.scheduler.database_clock import DatabaseClock
from tickwork.service.scheduler.leadership import HOLD_SECONDS, Leadership
from tickwork.service.scheduler.tzdata import TzdataUpdater
from tickwork.store.contract import Store, Watch
from tickwork.store.ids import SCHEDULES_TOPIC

DUE_BATCH_MAX = 500
PLANNING_GROUPS = 2

LOOK_SECONDS_MAX = 2.0
"""We look by ourselves at least so often: a wake-up is only a hint."""

LOOK_SECONDS_MIN = 0.01
"""However often we are woken, there is a breath between two looks."""

HOLD_SECONDS_MIN = 0.25
"""However often we are woken, we do not ask more often than this what is ours."""

CATCH_UP_PER_SECOND = 1_000
"""So many catch-ups become visible in a second, so that they do not crowd out what is on time."""

SWEEP_SECONDS = 5.0
SWEEP_BATCH_MAX = 500

STALLED_SECONDS = 30.0
"""After so long it is told that a shard has work that nobody does."""

JUMPS_MAX = 10
"""So often we look whether the clock was set, and others may have seen it first; then later."""

AWAY_SECONDS = 1.0
"""So long we wait for a database that is away."""

NO_QUEUE = "its queue is gone: make it again, or give the schedule another one, and resume it"


class Scheduler:
    """Plans the schedules of the shards that this node leads."""

    def __init__(
        self,
        store: Store,
        leadership: Leadership,
        observer: SchedulerObserver,
        *,
        tell: ReportError,
        monotonic: Callable[[], float] = since_boot,
        ttl_seconds: float = TTL_SECONDS,
    ) -> None:
        self._store, self.leadership, self._observer = store, leadership, observer
        self._tell, self._monotonic, self._ttl_seconds = tell, monotonic, ttl_seconds
        self._clock = DatabaseClock(store, self._jumped, monotonic)
        self._zones: TzdataUpdater | None = None
        if leadership.zones is not None:
            self._zones = TzdataUpdater(
                store, leadership, observer, version=leadership.zones, monotonic=monotonic
            )
        self._has_warned_outdated = False
        self._stalled: set[int] = set()
        self._behind: dict[int, datetime] = {}
        self._days = CalendarCache(store)
        self._pace = _CatchUpPacer()
        self._held_at = self._hold_at = float("-inf")
        self._coming: datetime | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._open = AsyncExitStack()

    # Running

    async def start(self) -> None:
        """Begins to lead; its node must have joined."""
        async with AsyncExitStack() as opening:
            watching = self._store.wakeups.watch([SCHEDULES_TOPIC])
            watch = await opening.enter_async_context(watching)
            self._open = opening.pop_all()
        steps: dict[str, Step] = {
            "scheduler": partial(self._step, watch),
            "sweeper": self._keep,
        }
        if self._zones is not None:
            steps["zones"] = self._zones.keep
        for name, step in steps.items():
            self._tasks.append(asyncio.create_task(run_forever(name, step, tell=self._tell)))

    async def stop(self) -> bool:
        """Gives up what it leads, at once; False if the database is away: to be tried again. One
        that has not begun leads nothing."""
        if not self._tasks:
            return True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        is_given_up = False
        with suppress(StoreError):
            await self.leadership.give_up()
            is_given_up = True
        self._observer.led(self.leadership.held, self.leadership.lost)
        await self._open.aclose()
        return is_given_up

    def forget(self, node: UUID) -> None:
        """The node lost this identity, and all that it led."""
        self.leadership.forget(node)
        self._hold_at = float("-inf")

    async def _step(self, watch: Watch) -> float:
        try:
            if self._monotonic() >= self._hold_at:
                await self.hold()
            await self.plan_due()
            wait = await self._idle_seconds()
        except StoreUnavailable as error:
            self._tell("scheduler", error)
            return AWAY_SECONDS
        if await watch.wait(min(wait, max(self._hold_at - self._monotonic(), 0.0))):
            self._hold_at = min(self._hold_at, self._held_at + HOLD_SECONDS_MIN)
        return LOOK_SECONDS_MIN

    async def hold(self) -> None:
        """Takes what is ours to lead, and gives up what is not."""
        self._held_at = self._monotonic()
        self._hold_at = self._held_at + HOLD_SECONDS
        await self._read_clock()
        moved = self.leadership.moved
        await self.leadership.hold(self._clock.known)
        if self.leadership.moved > moved:
            self._observer.shifted(self.leadership.moved - moved)
        if not self.leadership.held or self.leadership.is_behind:
            self._hold_at = self._held_at + HOLD_SECONDS_MIN
        self._observer.led(self.leadership.held, self.leadership.lost)
        own, newer = self.leadership.zones, self.leadership.newer_tzdata
        if own is not None and newer is not None and not self._has_warned_outdated:
            self._observer.outdated(own, newer)
            self._has_warned_outdated = True

    async def _read_clock(self) -> None:
        """Looks for jumps, and lets all know of what was seen: before anything is taken, so that
        nobody has to ask whether a shard was taken before or after one."""
        for _ in range(JUMPS_MAX):
            await self._clock.now()
            jump = self._clock.jump
            if jump is None:
                return
            # A jump ahead that leases live through cannot be told from a machine that stood still.
            is_sure = not 0 < jump.seconds <= self._ttl_seconds
            shards, ttl = self._store.shards, self._ttl_seconds
            if is_sure and await shards.set_clock(SYSTEM, jump, ttl):
                continue
            if not is_sure or (await shards.clock(SYSTEM)).clock == jump.known:
                self._observer.stood_still(jump.seconds)
                self._clock.dismiss()

    def _jumped(self, seconds: float) -> None:
        self._pace = _CatchUpPacer()  # Whose turn was next is a time of before.
        self._observer.jumped(seconds)

    async def _idle_seconds(self) -> float:
        """Until the next look is due; says on the way how far behind we are."""
        shards = [grant.shard for grant in self.leadership.grants]
        if not shards:
            self._coming = None
            return HOLD_SECONDS_MIN
        now = await self._clock.now()
        if self._clock.jump is not None:
            self._hold_at = float("-inf")
        lag = _overdue_seconds(self._coming, now)
        self._coming = await self._store.schedules.next_look_at(SYSTEM, shards)
        self._observer.passed(lag, _overdue_seconds(self._coming, now))
        if self._coming is None:
            return LOOK_SECONDS_MAX
        return min(max((self._coming - now).total_seconds(), 0.0), LOOK_SECONDS_MAX)

    # Planning

    async def plan_due(self) -> int:
        """Plans what has to be looked at, for as long as nothing else is to be done; how many
        schedules that were."""
        shards = [grant.shard for grant in self.leadership.grants]
        until = max(self._hold_at, self._monotonic() + HOLD_SECONDS_MIN)
        lanes = [frozenset(shards[lane::PLANNING_GROUPS]) for lane in range(PLANNING_GROUPS)]
        ends = await asyncio.gather(
            *(self._plan_group(lane, until) for lane in lanes if lane), return_exceptions=True
        )
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return sum(end for end in ends if isinstance(end, int))

    async def _plan_group(self, shards: frozenset[int], until: float) -> int:
        looked_at = 0
        while grants := [each for each in self.leadership.grants if each.shard in shards]:
            own = [grant.shard for grant in grants]
            dues = await self._store.schedules.due(SYSTEM, own, DUE_BATCH_MAX)
            moved = await self._plan(grants, dues) if dues else 0
            looked_at += moved
            if len(dues) < DUE_BATCH_MAX or not moved or self._monotonic() >= until:
                break
        return looked_at

    async def _plan(self, grants: Sequence[Grant], dues: Sequence[DueSchedule]) -> int:
        """Decides and writes; how many schedules moved on."""
        now = await self._clock.now()
        if self._clock.jump is not None or any(each.clock != self._clock.known for each in grants):
            self._hold_at = float("-inf")  # The clock was set: that has to be followed first.
            return 0
        await self._days.read(dues)
        return await self._write(grants, self._decided(dues, now), now)

    async def _write(self, grants: Sequence[Grant], plans: Sequence[Plan], now: datetime) -> int:
        """Carries out; how many schedules moved on. One that the database will not have is found
        by halving, and parked: that it can be parked shows that nothing else is wrong."""
        if not self.leadership.grants:  # Deciding took a while, and trust has run out.
            return 0
        result = await catch_async(self._store.schedules.plan(SYSTEM, grants, plans))
        if isinstance(result, Exception):
            is_aside = len(plans) == 1 and plans[0].error is not None
            if isinstance(result, StoreUnavailable) or is_aside:
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
        done = [plans[place] for place in result.done]
        self._observer.planned(done, now)
        for each in done:
            if each.error is not None:
                self._observer.parked(each.tenant, each.id, each.error)
        if result.lost:
            self.leadership.drop_shards(plans[place].shard for place in result.lost)
            self._hold_at = float("-inf")
        moved = len(result.done)
        if result.no_queue:
            set_aside = [park_instead(plans[place], NO_QUEUE) for place in result.no_queue]
            moved += await self._write(grants, set_aside, now)
        return moved

    def _decided(self, dues: Sequence[DueSchedule], now: datetime) -> list[Plan]:
        """A plan for each; only if one cannot be made they are looked at one by one."""
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
        decided = plan(due if due.rule.calendar is None else self._days.with_holidays(due), now)
        if due.next_slot <= now and any(fire.catch_up for fire in decided.fires):
            return structs.replace(decided, fires=self._pace.paced(decided.fires, now))
        return decided

    # Order

    async def _keep(self) -> float:
        if self.leadership.grants:
            await self.sweep()
        await self._look_for_stalls()
        return SWEEP_SECONDS

    async def sweep(self) -> None:
        """Goes on with schedules that wait for a run that is not there any more."""
        while await self._store.schedules.sweep(SYSTEM, SWEEP_BATCH_MAX) >= SWEEP_BATCH_MAX:
            pass

    async def _look_for_stalls(self) -> None:
        """Looks at all shards, whoever leads them: a leader that stands still cannot tell. But
        while a backlog is worked off, each look finds another schedule first: then it is for the
        leader to tell it, once; others tell of what has not moved since they last looked."""
        now = await self._clock.now()
        limit = now - timedelta(seconds=STALLED_SECONDS)
        behind = dict(await self._store.shards.behind(SYSTEM, limit))
        own = {grant.shard for grant in self.leadership.grants}
        for shard, since in behind.items():
            is_new = shard not in self._stalled
            if shard not in own and not (is_new and self._behind.get(shard) == since):
                continue
            overdue = _overdue_seconds(since, now)
            self._observer.stalled(shard, overdue)
            if is_new:
                stall = shard_stalled_event(shard, since, overdue)
                await self._store.messages.tell(Scope(SYSTEM_TENANT), stall)
                self._stalled.add(shard)
        self._stalled &= behind.keys()
        self._behind = behind


class _CatchUpPacer:
    """When catch-ups become visible: one after the other, not all at once."""

    _BETWEEN = timedelta(seconds=1) / CATCH_UP_PER_SECOND

    def __init__(self) -> None:
        self._next: datetime | None = None

    def paced(self, fires: Iterable[Fire], now: datetime) -> tuple[Fire, ...]:
        """The same, the catch-ups among them each at its turn."""
        return tuple(
            structs.replace(fire, visible_at=self._turn(now)) if fire.catch_up else fire
            for fire in fires
        )

    def _turn(self, now: datetime) -> datetime:
        turn = now if self._next is None else max(now, self._next)
        self._next = turn + self._BETWEEN
        return turn


def _error_text(error: Exception) -> str:
    return clean_error(f"{type(error).__name__}: {error}")


def _overdue_seconds(coming: datetime | None, now: datetime) -> float:
    return 0.0 if coming is None else max((now - coming).total_seconds(), 0.0)
