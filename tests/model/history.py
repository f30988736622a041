"""What the model keeps of the past: firings, counters, and their retention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar
from uuid import UUID

from tests.model.queues import bounded, queue_counts
from tests.model.state import Now, Tables, letter_order
from tickwork.core.limits import check_limit, check_system
from tickwork.core.message.batch import BATCH_RETENTION_SECONDS
from tickwork.core.message.dead_letter import DEAD_LETTER_RETENTION_SECONDS
from tickwork.core.message.progress import PROGRESS_KEPT_SECONDS
from tickwork.core.model import EVENT_RETENTION_SECONDS, Pruned, Scope, StoredQueue
from tickwork.core.queue.stats import (
    COUNTER_RETENTION_SECONDS,
    RECENT_KINDS_SECONDS,
    RECENT_MINUTES,
    CounterName,
    DeadCount,
    MinuteCount,
    QueueStats,
    TypeCount,
    Waiting,
)
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS, FiringRecord

K = TypeVar("K")
V = TypeVar("V")


class MemoryFirings:
    """Firings: what happened to slots."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def list(self, scope: Scope, schedule_id: UUID, limit: int) -> tuple[FiringRecord, ...]:
        check_limit(limit)
        own = [
            firing
            for firing in self._tables.firings
            if firing.schedule_id == schedule_id
            and (scope.is_system or firing.tenant == scope.tenant)
        ]
        own.sort(key=lambda firing: (firing.finished_at, firing.id), reverse=True)
        return tuple(own[:limit])


class MemoryStats:
    """Queue statistics."""

    def __init__(self, tables: Tables, now: Now) -> None:
        self._tables, self._now = tables, now

    async def flush(self, scope: Scope) -> None:
        check_system(scope)
        self._flush()

    async def queue(self, scope: Scope, name: str, *, at_most: int | None = None) -> QueueStats:
        return self._read(scope, self._tables.queue(scope, name), at_most)

    async def queues(
        self, scope: Scope, queues: Sequence[StoredQueue], *, at_most: int | None = None
    ) -> tuple[QueueStats, ...]:
        return tuple(
            self._read(Scope(queue.tenant) if scope.is_system else scope, queue, at_most)
            for queue in queues
        )

    async def waiting(
        self, scope: Scope, queue_ids: Sequence[UUID], *, at_most: int
    ) -> tuple[Waiting, ...]:
        check_system(scope)
        found = [self._read(scope, self._tables.queues[id_], at_most) for id_ in queue_ids]
        return tuple(Waiting(stats.counts.ready, stats.oldest_age_seconds) for stats in found)

    def _read(self, scope: Scope, queue: StoredQueue, at_most: int | None) -> QueueStats:
        self._flush()
        ready = [row for row in self._tables.rows(scope, queue) if row.is_ready(self._now())]
        late = sum(row.is_ready(self._now() - timedelta(seconds=60)) for row in ready)
        oldest = min((row.message.visible_at for row in ready), default=None)
        return QueueStats(
            counts=bounded(queue_counts(self._tables, self._now, scope, queue), at_most),
            late=min(late, late if at_most is None else at_most),
            oldest_age_seconds=None if oldest is None else (self._now() - oldest).total_seconds(),
            minutes=self._minutes(scope, queue),
            kinds=self._kinds(scope, queue),
            dead=self._dead(scope, queue),
        )

    def _flush(self) -> None:
        minute = self._now().replace(second=0, microsecond=0)
        for tally, messages in self._tables.counted.items():
            known = self._tables.tallies.get((minute, tally), 0)
            self._tables.tallies[minute, tally] = known + messages
        self._tables.counted.clear()

    def _minutes(self, scope: Scope, queue: StoredQueue) -> tuple[MinuteCount, ...]:
        begin = self._now() - timedelta(minutes=RECENT_MINUTES)
        sums: Counter[tuple[datetime, CounterName]] = Counter()
        for (minute, (queue_id, tenant, passing, _, _)), messages in self._tables.tallies.items():
            if queue_id == queue.id and minute > begin and scope.tenant in (None, tenant):
                sums[minute, passing] += messages
        return tuple(MinuteCount(*what, messages) for what, messages in sorted(sums.items()))

    def _dead(self, scope: Scope, queue: StoredQueue) -> tuple[DeadCount, ...]:
        begin = self._now() - timedelta(days=1)
        sums: Counter[str] = Counter()
        for (minute, (queue_id, tenant, passing, *kind)), messages in self._tables.tallies.items():
            is_recent = queue_id == queue.id and minute > begin and scope.tenant in (None, tenant)
            if is_recent and passing is CounterName.DEAD:
                sums[kind[0]] += messages
        return tuple(
            DeadCount(reason or None, messages) for reason, messages in sorted(sums.items())
        )

    def _kinds(self, scope: Scope, queue: StoredQueue) -> tuple[TypeCount, ...]:
        begin = self._now() - timedelta(seconds=RECENT_KINDS_SECONDS)
        sums: Counter[tuple[str, str, CounterName]] = Counter()
        for (minute, (queue_id, tenant, passing, *kind)), messages in self._tables.tallies.items():
            if queue_id == queue.id and minute > begin and scope.tenant in (None, tenant):
                sums[kind[0], kind[1], passing] += messages
        return tuple(
            TypeCount(type_ or None, source or None, passing, messages)
            for (type_, source, passing), messages in sorted(sums.items())
        )


class MemoryPruner:
    """Deletes rows past their retention."""

    def __init__(self, tables: Tables, now: Now) -> None:
        self._tables, self._now = tables, now

    async def prune(self, scope: Scope, limit: int) -> Pruned:
        check_system(scope)
        check_limit(limit)
        return Pruned(
            dead_letters=self._prune_letters(limit),
            events=self._prune_events(limit),
            progress=self._prune_progress(limit),
            batches=self._prune_batches(limit),
            firings=self._prune_firings(limit),
            counters=self._prune_tallies(limit),
        )

    def _prune_letters(self, limit: int) -> int:
        letters = sorted(self._tables.letters.values(), key=letter_order)
        old = [
            letter
            for letter in letters
            if self._is_old(letter.failed_at, DEAD_LETTER_RETENTION_SECONDS)
        ]
        for letter in old[:limit]:
            self._tables.tally(CounterName.PRUNED, letter)
            del self._tables.letters[letter.id]
        return len(old[:limit])

    def _prune_events(self, limit: int) -> int:
        done = sorted(self._tables.events_done.items(), key=lambda pair: pair[1])
        old = [event for event, done_at in done if self._is_old(done_at, EVENT_RETENTION_SECONDS)]
        return _drop(self._tables.events_done, old[:limit])

    def _prune_progress(self, limit: int) -> int:
        recorded = sorted(self._tables.progress.items(), key=lambda pair: pair[1][1])
        old = [row for row, (_, at) in recorded if self._is_old(at, PROGRESS_KEPT_SECONDS)]
        return _drop(self._tables.progress, old[:limit])

    def _prune_batches(self, limit: int) -> int:
        old = [
            name
            for name, batch in self._tables.batches.items()
            if batch.completed_at is not None
            and self._is_old(batch.completed_at, BATCH_RETENTION_SECONDS)
        ][:limit]
        _drop(self._tables.items, [name for name in self._tables.items if name[:2] in old])
        return _drop(self._tables.batches, old)

    def _prune_firings(self, limit: int) -> int:
        firings = sorted(self._tables.firings, key=_finished_at)
        old = [
            firing for firing in firings if self._is_old(_finished_at(firing), FIRINGS_KEPT_SECONDS)
        ][:limit]
        self._tables.firings = [firing for firing in firings if firing not in old]
        return len(old)

    def _prune_tallies(self, limit: int) -> int:
        old = [
            tally
            for tally in self._tables.tallies
            if self._is_old(tally[0], COUNTER_RETENTION_SECONDS)
        ]
        return _drop(self._tables.tallies, sorted(old)[:limit])

    def _is_old(self, since: datetime, kept_seconds: float) -> bool:
        return since + timedelta(seconds=kept_seconds) <= self._now()


def _drop(table: dict[K, V], names: list[K]) -> int:
    for name in names:
        del table[name]
    return len(names)


def _finished_at(firing: FiringRecord) -> datetime:
    assert firing.finished_at is not None
    return firing.finished_at
