"""Prometheus metrics of schedules: the outcomes and lateness of slots, and the scheduler's state.

```
  planning ── a slot that does not fire, and why ──────────┐
  worker ──── the first recorded outcome of its message ───┼──▶ ScheduleMetrics
  reaper ──── its message expired before it was claimed ───┘
```

A slot is counted once, where its outcome becomes known: a planned slot may be withdrawn and planned
again, or be too late when it is claimed. Slots that an operation records (a pause, a deletion) are
not counted; they are in the firing history only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tickwork.core.model import Message, Reaped, SettleResult, StoredQueue
from tickwork.core.schedule.firing import FiringResult, FiringStatus
from tickwork.core.schedule.plan import Plan
from tickwork.service.observe import Observer

if TYPE_CHECKING:
    from tickwork.core.answers.schedule import MovedSchedule
    from tickwork.service.worker.settle import FinishedMessage

LATENESS_SECONDS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of the histogram's buckets. Slots that were claimable when due are in the first."""

FIRED = "fired"
CATCH_UP = "catch_up"
EXPIRED = "expired"


class ScheduleMetrics(Observer, Collector):
    """Counts slots and the scheduler's events; `collect` is called by a Prometheus registry.

    A node that leads no schedules (`is_leading=False`) exposes the metrics of slots only.
    """

    def __init__(self, *, is_leading: bool = True) -> None:
        self._is_leading = is_leading
        self.slots: Counter[str] = Counter()
        """By outcome: fired, catch_up (late, as the policy allows), or why it did not fire."""
        self.lateness = [0] * (len(LATENESS_SECONDS) + 1)
        self.lateness_seconds = 0.0
        self.shards_owned = self.shards_lost = 0
        self.stalls = self.clock_jumps = 0
        self.parked = 0
        self.moved_by_tzdata = self.moved_by_clock = 0
        self.planning_lag_seconds = self.oldest_overdue_seconds = 0.0

    # Slots

    def schedules_planned(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            for skip in plan.skips:
                self.slots[skip.reason] += skip.count

    def messages_settled(
        self,
        queue: StoredQueue,  # noqa: ARG002
        finished: Sequence[FinishedMessage],
        result: SettleResult,
    ) -> None:
        # The first recorded outcome of a slot counts. Extra runs are no slots.
        not_stored = {*result.refused, *result.duplicates}
        for slot in finished:
            if not slot.ending.effects or slot.message.attempts or slot.message.run:
                continue
            firing = slot.ending.effect(FiringResult)
            if firing is None:
                continue
            if not not_stored or slot.ending.claim not in not_stored:
                self._count_slot(slot.message, firing)

    def claims_reaped(self, reaped: Reaped) -> None:
        if reaped.expired_slots:
            self.slots[EXPIRED] += reaped.expired_slots

    def _count_slot(self, message: Message, firing: FiringResult) -> None:
        if firing.status is FiringStatus.SKIPPED:
            self.slots[firing.reason or str(firing.status)] += 1
            return
        if firing.status is FiringStatus.EXPIRED:
            self.slots[EXPIRED] += 1
            return
        self.slots[CATCH_UP if message.catch_up else FIRED] += 1
        # A released message became visible again, so only the time it was stored is known.
        visible_at = message.visible_at if message.claim == 1 else message.sent_at
        due_at, claimable_at = message.due_at or visible_at, max(message.sent_at, visible_at)
        if claimable_at <= due_at:
            self.lateness[0] += 1
            return
        late = (claimable_at - due_at).total_seconds()
        self.lateness[bisect_left(LATENESS_SECONDS, late)] += 1
        self.lateness_seconds += late

    # The scheduler

    def shards_led(self, shards: int, lost: int) -> None:
        self.shards_owned, self.shards_lost = shards, lost

    def planning_lag(
        self,
        lag_seconds: float,
        overdue_seconds: float,
        statement_seconds: float,  # noqa: ARG002
    ) -> None:
        self.planning_lag_seconds, self.oldest_overdue_seconds = lag_seconds, overdue_seconds

    def shard_stalled(self, shard: int, overdue_seconds: float) -> None:  # noqa: ARG002
        self.stalls += 1

    def clock_jumped(self, seconds: float) -> None:  # noqa: ARG002
        self.clock_jumps += 1

    def intervals_moved(self, schedules: int) -> None:
        self.moved_by_clock += schedules

    def schedule_parked(self, tenant: str, schedule_id: UUID, error: str) -> None:  # noqa: ARG002
        self.parked += 1

    def tzdata_applied(
        self,
        shard: int,  # noqa: ARG002
        versions: tuple[str, str],  # noqa: ARG002
        moved: int,
        first: Sequence[MovedSchedule],  # noqa: ARG002
    ) -> None:
        self.moved_by_tzdata += moved

    # Prometheus

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        slots = CounterMetricFamily(
            "tickwork_schedule_slots", "Slots by outcome", labels=["outcome"]
        )
        for outcome, count in sorted(self.slots.items()):
            slots.add_metric([outcome], count)
        yield slots
        yield self._collect_lateness()
        if self._is_leading:
            yield from self._collect_scheduler()

    def _collect_lateness(self) -> HistogramMetricFamily:
        total, buckets = 0, list[tuple[str, float]]()
        bounds = [*map(str, LATENESS_SECONDS), "+Inf"]
        for bound, count in zip(bounds, [*self.lateness], strict=True):
            total += count
            buckets.append((bound, total))
        return HistogramMetricFamily(
            "tickwork_slot_lateness_seconds",
            "Seconds between a slot's due time and the time its message became claimable",
            buckets=buckets,
            sum_value=self.lateness_seconds,
        )

    def _collect_scheduler(self) -> Iterator[Metric]:
        for name, text, value in (
            ("tickwork_shards_held", "Shards that this node leads", self.shards_owned),
            (
                "tickwork_planning_lag_seconds",
                "Seconds the last planning was late",
                self.planning_lag_seconds,
            ),
            (
                "tickwork_oldest_overdue_seconds",
                "Seconds the oldest due schedule has waited to be planned",
                self.oldest_overdue_seconds,
            ),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        for name, text, total in (
            ("tickwork_shards_lost", "Shards lost to another node", self.shards_lost),
            ("tickwork_shard_stalls", "Times a shard was found stalled", self.stalls),
            ("tickwork_clock_jumps", "Jumps of the database's clock", self.clock_jumps),
            ("tickwork_schedules_parked", "Schedules that could not be planned", self.parked),
            (
                "tickwork_schedules_shifted",
                "Interval schedules moved because the database's clock was set",
                self.moved_by_clock,
            ),
            (
                "tickwork_schedules_rezoned",
                "Schedules whose next slot moved because of new tzdata",
                self.moved_by_tzdata,
            ),
        ):
            yield CounterMetricFamily(name, text, value=total)
