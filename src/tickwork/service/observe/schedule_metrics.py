"""What becomes of slots, in numbers to be read, and what a scheduler has to say to people.

```
  planning ── left out, and why ────────────────────────────┐
  worker ──── a message's first end that is on record ──────┼──▶ SlotNumbers
  reaper ──── it expired, and nobody had begun with it ─────┘
```

A slot is counted where its outcome is known, and once: one that is planned may be withdrawn and
planned again, or be too late when it is claimed. What an operation records (a pause, a deletion) is
in the record only.

The numbers of slots and of the scheduler for Prometheus, read when somebody asks for them.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tickwork.core.model import Message, SettleResult
from tickwork.core.schedule.firing import FiringResult, FiringStatus
from tickwork.core.schedule.plan import Plan
from tickwork.ops.schedules.change import Moved
from tickwork.service.observe.log_events import format_value

if TYPE_CHECKING:
    from tickwork.service.worker.settle import FinishedMessage

LATENESS_SECONDS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""The upper bounds of the histogram; slots that were claimable when they were due are in the
first, what is later than the last has a place of its own."""

FIRED = "fired"
CATCH_UP = "catch_up"
EXPIRED = "expired"

_log = logging.getLogger("tickwork")


class SchedulerObserver(Protocol):
    """Told of everything; must be quick, and must not raise."""

    def planned(self, plans: Sequence[Plan], now: datetime) -> None:
        """These plans were carried out, at this time."""

    def led(self, shards: int, lost: int) -> None:
        """So many shards are led; so many were lost, ever."""

    def passed(self, lag_seconds: float, overdue_seconds: float) -> None:
        """What came first was looked at so long after its time; and of what is left the oldest
        is so long overdue."""

    def stalled(self, shard: int, overdue_seconds: float) -> None:
        """A shard, whoever leads it, has work that nobody does (`shard.stalled`)."""

    def jumped(self, seconds: float) -> None:
        """The database's clock was set, by so much."""

    def stood_still(self, seconds: float) -> None:
        """It was no jump, as far as we can know: this machine stood still for so long."""

    def shifted(self, schedules: int) -> None:
        """So many intervals followed the database's clock, so that their spacing stays."""

    def parked(self, tenant: str, schedule_id: UUID, error: str) -> None:
        """A schedule that cannot be planned stands aside."""

    def rezoned(
        self, shard: int, versions: tuple[str, str], moved: int, first: Sequence[Moved]
    ) -> None:
        """So many schedules of a shard have another next slot under new zone data; the first few
        of them, and the versions before and after."""

    def not_rezoned(self, tenant: str, schedule_id: UUID, error: str) -> None:
        """A schedule cannot be computed under new zone data, and stays as it is."""

    def outdated(self, own: str, newer: str) -> None:
        """The zone data of this node is older than what a shard was planned under."""


class ScheduleCounters:
    """Counts, for whoever shows them, and says in the log `tickwork` what a person should know."""

    def __init__(self) -> None:
        self.slots: Counter[str] = Counter()
        """By what became of them: fired, catch_up (late, as the policy says), or why not."""
        self.lateness = [0] * (len(LATENESS_SECONDS) + 1)
        self.lateness_seconds = 0.0
        self.shards_held = self.shards_lost = self.stalls = self.jumps = self.parks = 0
        self.rezones = self.shifts = 0
        self.planning_lag_seconds = self.oldest_overdue_seconds = 0.0

    def planned(self, plans: Sequence[Plan], now: datetime) -> None:  # noqa: ARG002
        for plan in plans:
            for skip in plan.skips:
                self.slots[skip.reason] += skip.count

    def settled(self, ends: Sequence[FinishedMessage], result: SettleResult) -> None:
        """These ends are stored, but for those that the result names. Of a slot the first one
        counts that is on record; extra runs are no slots."""
        first = [
            end
            for end in ends
            if end.ending.firing is not None and not (end.message.attempts or end.message.run)
        ]
        if result.refused or result.duplicates:
            odd = {*result.refused, *result.duplicates}
            first = [end for end in first if end.ending.claim not in odd]
        for end in first:
            if end.ending.firing is not None:
                self._ended(end.message, end.ending.firing)

    def expired(self, slots: int) -> None:
        """So many slots expired before anybody began with them."""
        if slots:
            self.slots[EXPIRED] += slots

    def _ended(self, message: Message, firing: FiringResult) -> None:
        if firing.status is FiringStatus.SKIPPED:
            self.slots[firing.reason or str(firing.status)] += 1
            return
        if firing.status is FiringStatus.EXPIRED:
            self.slots[EXPIRED] += 1
            return
        self.slots[CATCH_UP if message.catch_up else FIRED] += 1
        # One that was given back became visible again: then only when it was stored is known.
        visible_at = message.visible_at if message.claim == 1 else message.sent_at
        due_at, claimable_at = message.due_at or visible_at, max(message.sent_at, visible_at)
        if claimable_at <= due_at:
            self.lateness[0] += 1
            return
        late = (claimable_at - due_at).total_seconds()
        self.lateness[bisect_left(LATENESS_SECONDS, late)] += 1
        self.lateness_seconds += late

    def led(self, shards: int, lost: int) -> None:
        if lost > self.shards_lost:
            _log.warning("lost shards=%d: led by others now", lost - self.shards_lost)
        if shards > self.shards_held > 0:  # What it begins with is nobody's news.
            more = shards - self.shards_held  # Of the dead, or of nobody: the rows do not say.
            _log.info("leads shards=%d now, %d more than before", shards, more)
        self.shards_held, self.shards_lost = shards, lost

    def passed(self, lag_seconds: float, overdue_seconds: float) -> None:
        self.planning_lag_seconds, self.oldest_overdue_seconds = lag_seconds, overdue_seconds

    def stalled(self, shard: int, overdue_seconds: float) -> None:
        self.stalls += 1
        _log.error("shard.stalled shard=%d overdue_seconds=%.0f", shard, overdue_seconds)

    def jumped(self, seconds: float) -> None:
        self.jumps += 1
        _log.warning("the database's clock went %+.1f seconds beyond our own", seconds)

    def stood_still(self, seconds: float) -> None:
        text = "intervals stay where they are: as far as we can know this machine stood still"
        _log.warning("%s for %.1f seconds", text, seconds)

    def shifted(self, schedules: int) -> None:
        self.shifts += schedules
        _log.warning("moved schedules=%d with the database's clock: intervals only", schedules)

    def parked(self, tenant: str, schedule_id: UUID, error: str) -> None:
        self.parks += 1
        _log.error("parked schedule=%s tenant=%s: %s", schedule_id, tenant, error)

    def rezoned(
        self, shard: int, versions: tuple[str, str], moved: int, first: Sequence[Moved]
    ) -> None:
        self.rezones += moved
        told = ", ".join(f"{format_value(each.name or each.id)} {_change(each)}" for each in first)
        more = "" if moved == len(first) else f", and {moved - len(first)} more"
        text = "new zone data %s after %s: shard=%d moved=%d: %s%s"
        _log.warning(text, versions[1], versions[0], shard, moved, told, more)

    def not_rezoned(self, tenant: str, schedule_id: UUID, error: str) -> None:
        text = "new zone data cannot do schedule=%s tenant=%s, which stays as it is: %s"
        _log.error(text, schedule_id, tenant, error)

    def outdated(self, own: str, newer: str) -> None:
        text = "the zone data of this node is %s, others have %s already; update this one, too"
        _log.warning(text, own, newer)


def _change(moved: Moved) -> str:
    return f"{_shown(moved.before)} -> {_shown(moved.after)}"


def _shown(at: datetime | None) -> str:
    return "none" if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"


class ScheduleMetrics(Collector):
    """`ScheduleCounters` as Prometheus metrics: slots, and shards unless it leads nothing
    (`is_leading`) of what it leads."""

    def __init__(self, numbers: ScheduleCounters, *, is_leading: bool) -> None:
        self._numbers, self._is_leading = numbers, is_leading

    def collect(self) -> Iterator[Metric]:
        slots = CounterMetricFamily(
            "tickwork_schedule_slots", "Slots by what became of them", labels=["outcome"]
        )
        for outcome, count in sorted(self._numbers.slots.items()):
            slots.add_metric([outcome], count)
        yield slots
        yield _lateness(self._numbers)
        if self._is_leading:
            yield from self._led()

    def _led(self) -> Iterator[Metric]:
        numbers = self._numbers
        for name, told, value in (
            ("tickwork_shards_held", "Shards that this node leads", numbers.shards_held),
            (
                "tickwork_planning_lag_seconds",
                "How late what came first was looked at",
                numbers.planning_lag_seconds,
            ),
            (
                "tickwork_oldest_overdue_seconds",
                "How long the oldest schedule that is due has waited for its leader",
                numbers.oldest_overdue_seconds,
            ),
        ):
            yield GaugeMetricFamily(name, told, value=value)
        for name, told, total in (
            ("tickwork_shards_lost", "Shards that were lost to another node", numbers.shards_lost),
            ("tickwork_shard_stalls", "Times that a shard was found stalled", numbers.stalls),
            ("tickwork_clock_jumps", "Jumps of the database's clock", numbers.jumps),
            ("tickwork_schedules_parked", "Schedules that could not be planned", numbers.parks),
            (
                "tickwork_schedules_shifted",
                "Intervals that were moved because the database's clock was set",
                numbers.shifts,
            ),
            (
                "tickwork_schedules_rezoned",
                "Schedules whose next slot moved because of new zone data",
                numbers.rezones,
            ),
        ):
            yield CounterMetricFamily(name, told, value=total)


def _lateness(numbers: ScheduleCounters) -> HistogramMetricFamily:
    total, buckets = 0, list[tuple[str, float]]()
    bounds = [*map(str, LATENESS_SECONDS), "+Inf"]
    for bound, count in zip(bounds, [*numbers.lateness], strict=True):
        total += count
        buckets.append((bound, total))
    return HistogramMetricFamily(
        "tickwork_slot_lateness_seconds",
        "How long after it was due a slot that fired became claimable",
        buckets=buckets,
        sum_value=numbers.lateness_seconds,
    )
