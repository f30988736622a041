"""Deletes records past their retention, each kind in one short transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import structs

from tickwork.core.audit import AUDIT_RETENTION_SECONDS
from tickwork.core.delivery.endpoint import PUBLISHED_RETENTION_SECONDS
from tickwork.core.entity.call import RESULT_RETENTION_SECONDS
from tickwork.core.limits import check_limit, check_system
from tickwork.core.message.dead_letter import DEAD_LETTER_RETENTION_SECONDS, StoredDeadLetter
from tickwork.core.message.history import EndedRecord
from tickwork.core.message.progress import PROGRESS_KEPT_SECONDS
from tickwork.core.model import EVENT_RETENTION_SECONDS, Pruned, Scope
from tickwork.core.operation import OPERATION_RETENTION_SECONDS
from tickwork.core.queue.performance import KEPT_SECONDS, Width
from tickwork.core.queue.stats import COUNTER_RETENTION_SECONDS, CounterName
from tickwork.core.request import REQUEST_RETENTION_SECONDS
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS, FiringRecord
from tickwork.core.schedule.model import DELETED_KEPT_SECONDS
from tickwork.core.stream import STREAM_RETENTION_SECONDS
from tickwork.core.types.declared import TYPES_KEPT_SECONDS
from tickwork.core.usage import USAGE_KEPT_SECONDS
from tickwork.store.nouns.dead_letters import read_dead_letter
from tickwork.store.nouns.firings import read_firing
from tickwork.store.nouns.history import read_ended
from tickwork.store.nouns.hot_paths import HotPaths, MessageKind
from tickwork.store.shared.archive import (
    ARCHIVE_BATCH_MAX,
    DEAD_LETTERS,
    FIRINGS,
    HISTORY,
    Archive,
    hour_of,
)
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import Native, Noun, Port, Statement, Steps, read_clock, reads, writes

NOT_COUNTED = {
    Statement("prune_requests"): REQUEST_RETENTION_SECONDS,
    Statement("prune_sessions"): 0,
    Statement("prune_entity_results"): RESULT_RETENTION_SECONDS,
    Statement("prune_audit"): AUDIT_RETENTION_SECONDS,
    Statement("prune_stream"): STREAM_RETENTION_SECONDS,
    Statement("prune_published"): PUBLISHED_RETENTION_SECONDS,
    Statement("prune_types"): TYPES_KEPT_SECONDS,
    Statement("prune_minutes"): KEPT_SECONDS[Width.MINUTE],
    Statement("prune_hours"): KEPT_SECONDS[Width.HOUR],
    Statement("prune_usage"): USAGE_KEPT_SECONDS,
    Statement("prune_operations"): OPERATION_RETENTION_SECONDS,
}
"""Seconds that records are kept which the result does not name, by what deletes them."""

COUNTED = {
    "events": (Statement("prune_events"), EVENT_RETENTION_SECONDS),
    "progress": (Statement("prune_progress"), PROGRESS_KEPT_SECONDS),
    "schedules": (Statement("prune_schedules"), DELETED_KEPT_SECONDS),
    "counters": (Statement("prune_counters"), COUNTER_RETENTION_SECONDS),
}
"""What deletes records, and seconds that they are kept, by their field of the result."""

_FIRINGS = Statement("prune_firings")
_TAKE_FIRINGS = Statement("take_firings", FiringRecord)
_HISTORY = Statement("prune_history")
_OLD_HISTORY = Statement("old_history", EndedRecord)
_DELETE_HISTORY = Statement("delete_history")
_LETTERS = Statement("prune_dead_letters", queue_id=Kind.ID)
_TAKE_LETTERS = Statement("take_dead_letters", StoredDeadLetter)

CHUNKS_ARCHIVED_MAX = 100
"""Maximum number of chunks of the history in one file: they are in memory with their records."""


class Pruner(Noun, ABC):
    """Deletes records. Those that are archived come last, because that may fail."""

    def __init__(self, port: Port, paths: HotPaths) -> None:
        super().__init__(port)
        self._paths = paths

    async def prune(self, scope: Scope, limit: int, *, archive: Archive | None = None) -> Pruned:
        check_system(scope)
        check_limit(limit)
        now = await self._now()
        for statement, kept_seconds in NOT_COUNTED.items():
            await self._delete(statement, now - timedelta(seconds=kept_seconds), limit)
        counts = dict(await self._prune_parts(now, limit))
        for field, (statement, kept_seconds) in COUNTED.items():
            until = now - timedelta(seconds=kept_seconds)
            counts[field] = await self._delete(statement, until, limit)
        return structs.replace(
            Pruned(**counts),
            firings=await self._prune_firings(now, limit, archive),
            dead_letters=await self._prune_dead_letters(now, limit, archive),
            history=await self._prune_history(now, limit, archive),
        )

    @abstractmethod
    async def _prune_parts(self, now: datetime, limit: int) -> Mapping[str, int]:
        """Deletes records that have rows of their own, such as items, and what only this store
        has. Returns their numbers."""

    @abstractmethod
    def _write(self, write: Callable[[], None]) -> Native:
        """Writes to the archive in the transaction."""

    @reads
    def _now(self) -> Steps[datetime]:
        return (yield from read_clock())

    @writes(repeatable=False, is_single=True)
    def _delete(self, statement: Statement, until: datetime, limit: int) -> Steps[int]:
        return (yield from statement.execute(until, limit))

    async def _prune_firings(self, now: datetime, limit: int, archive: Archive | None) -> int:
        if archive is not None:
            return await self._archive_firings(hour_of(now), limit, archive)
        return await self._delete(_FIRINGS, now - timedelta(seconds=FIRINGS_KEPT_SECONDS), limit)

    @writes(repeatable=False)
    def _archive_firings(self, hour: datetime, limit: int, archive: Archive) -> Steps[int]:
        until = hour - timedelta(seconds=FIRINGS_KEPT_SECONDS)
        if taken := (yield from _TAKE_FIRINGS.fetch(until, limit)):
            yield self._write(lambda: archive.write(FIRINGS, hour, map(read_firing, taken)))
        return len(taken)

    async def _prune_history(self, now: datetime, limit: int, archive: Archive | None) -> int:
        """Deletes chunks of the history; returns how many."""
        if archive is not None:
            return await self._archive_history(now, min(limit, CHUNKS_ARCHIVED_MAX), archive)
        return await self._delete(_HISTORY, now, limit)

    @writes(repeatable=False)
    def _archive_history(self, now: datetime, limit: int, archive: Archive) -> Steps[int]:
        rows: list[dict[str, Any]] = [
            dict(row) for row in (yield from _OLD_HISTORY.fetch(now, limit))
        ]
        places = [*{row.pop("place") for row in rows}]
        if rows:
            records = [*map(read_ended, rows)]
            yield self._write(lambda: archive.write(HISTORY, hour_of(now), records))
            yield from _DELETE_HISTORY.execute(places)
        return len(places)

    @writes(repeatable=False)
    def _prune_dead_letters(self, now: datetime, limit: int, archive: Archive | None) -> Steps[int]:
        kept = timedelta(seconds=DEAD_LETTER_RETENTION_SECONDS)
        if archive is None:
            gone = yield from _LETTERS.fetch(now - kept, limit)
        else:
            hour = hour_of(now)
            gone = yield from _TAKE_LETTERS.fetch(hour - kept, min(limit, ARCHIVE_BATCH_MAX))
            if gone:
                letters = map(read_dead_letter, gone)
                yield self._write(lambda: archive.write(DEAD_LETTERS, hour, letters))
        by_queue: dict[UUID, list[MessageKind]] = {}
        for row in gone:
            kind = (row["tenant"], row["type"], row["source"])
            by_queue.setdefault(row["queue_id"], []).append(kind)
        for queue_id, kinds in by_queue.items():
            yield from self._paths.count(queue_id, CounterName.PRUNED, kinds)
        return len(gone)
