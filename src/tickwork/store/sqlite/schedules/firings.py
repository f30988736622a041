"""Firings on SQLite: recorded with a settlement or a plan, read by schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec

from tickwork.core.limits import check_limit
from tickwork.core.model import Scope
from tickwork.core.schedule.firing import (
    SPREAD_MAX,
    FiringRecord,
    FiringResult,
    FiringStatus,
    PlannedSlot,
)
from tickwork.core.schedule.model import Schedule, read_rule
from tickwork.core.schedule.plan import Skip
from tickwork.store.ids import new_id
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import (
    SQL,
    for_rows,
    from_microseconds,
    in_chunks,
    microseconds,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.queue_rows import is_storable, tenants_of
from tickwork.store.sqlite.schedules.rows import read_schedule

SkipValues = tuple[int, int | None, int, str, int]
"""A range of slots that did not fire: first slot, last slot if there are several, count, reason,
run."""

NO_ERRORS: Mapping[tuple[str, bytes], str] = MappingProxyType({})

ATTEMPT = 4
"""Position of the attempt number in a recorded slot."""

_AFTER_ALL = (2**62, b"")


class SqliteFirings:
    """Firings: what happened to slots."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self,
        scope: Scope,
        schedule_id: UUID,
        limit: int,
        *,
        status: FiringStatus | None = None,
        before: tuple[datetime, UUID] | None = None,
    ) -> tuple[FiringRecord, ...]:
        check_limit(limit)
        until = _AFTER_ALL if before is None else (to_microseconds(before[0]), before[1].bytes)
        values = (limit, *until, status and str(status))
        found = await self._read(scope, schedule_id, (SQL.list_firings,), values)
        newest_first = sorted(found, key=_ended, reverse=True)
        return tuple(rows.firing(row) for row in newest_first[:limit])

    async def of_slot(
        self, scope: Scope, schedule_id: UUID, at: datetime
    ) -> tuple[FiringRecord, ...]:
        statements = (SQL.firings_of_slot, SQL.skipped_runs_covering)
        found = await self._read(scope, schedule_id, statements, (to_microseconds(at),))
        return tuple(rows.firing(row) for row in sorted(found, key=_ended))

    async def succeeded(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> frozenset[datetime]:
        values = (to_microseconds(since), to_microseconds(until))
        found = await self._read(scope, schedule_id, (SQL.succeeded_slots,), values)
        return frozenset(from_microseconds(slot) for (slot,) in found)

    async def unfinished(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> frozenset[datetime]:
        values = (to_microseconds(since), to_microseconds(until))
        found = await self._read(scope, schedule_id, (SQL.unfinished_slots,), values)
        return frozenset(from_microseconds(slot) for (slot,) in found)

    async def last_due(
        self, scope: Scope, schedules: Sequence[Schedule], until: datetime
    ) -> dict[UUID, datetime]:
        def work(transaction: Transaction) -> dict[UUID, datetime]:
            found: dict[UUID, datetime] = {}
            for schedule in schedules:
                if scope.tenant in (None, schedule.tenant):
                    asked = (schedule.tenant, schedule.id.bytes, to_microseconds(until))
                    (slot,) = transaction.execute(SQL.last_due_slots, asked).fetchone()
                    if slot is not None:
                        found[schedule.id] = from_microseconds(slot)
            return found

        return await self._database.read(work)

    async def planned(
        self, scope: Scope, now: datetime, limit: int, *, owner: str | None = None
    ) -> tuple[PlannedSlot, ...]:
        check_limit(limit)
        wanted = owner or scope.owner
        if not all(text is None or is_storable(text) for text in (scope.tenant, wanted)):
            return ()

        def work(transaction: Transaction) -> list[rows.Row]:
            found: list[rows.Row] = []
            for tenant in tenants_of(transaction, scope):
                values = (tenant, to_microseconds(now), wanted, limit)
                found += transaction.execute(SQL.planned_slots, values)
            return found

        return _soonest(await self._database.read(work))[:limit]

    async def planned_of(
        self, scope: Scope, schedules: Sequence[Schedule], now: datetime
    ) -> tuple[PlannedSlot, ...]:
        own = [schedule for schedule in schedules if scope.tenant in (None, schedule.tenant)]
        times = (to_microseconds(now), to_microseconds(now - SPREAD_MAX))

        def work(transaction: Transaction) -> list[rows.Row]:
            found: list[rows.Row] = []
            for schedule in own:
                values = (schedule.tenant, schedule.id.bytes, *times)
                found += transaction.execute(SQL.planned_slots_of, values)
            return found

        return _soonest(await self._database.read(work))

    async def _read(
        self,
        scope: Scope,
        schedule_id: UUID,
        statements: Sequence[str],
        values: tuple[Any, ...],
    ) -> Sequence[rows.Row]:
        """The rows that statements find for the scope's tenant, or for the system in all."""
        if scope.tenant is not None and not is_storable(scope.tenant):
            return []

        def work(transaction: Transaction) -> list[rows.Row]:
            found: list[rows.Row] = []
            if scope.owner is not None and not _owns(transaction, scope, schedule_id):
                return found
            for tenant in tenants_of(transaction, scope):
                for statement in statements:
                    asked = (tenant, schedule_id.bytes, *values)
                    found += transaction.execute(statement, asked).fetchall()
            return found

        return await self._database.read(work)


def _soonest(found: Sequence[rows.Row]) -> tuple[PlannedSlot, ...]:
    slots = [
        PlannedSlot(
            tenant,
            (schedule_id := UUID(bytes=id_)),
            name,
            read_rule(rule, schedule_id).timezone,
            from_microseconds(slot),
            from_microseconds(due_at),
        )
        for tenant, id_, name, rule, slot, due_at in found
    ]
    return tuple(sorted(slots, key=lambda slot: slot.due_at))


def _owns(transaction: Transaction, scope: Scope, schedule_id: UUID) -> bool:
    """Whether a schedule belongs to the owner of a scope."""
    values = (scope.tenant, schedule_id.bytes)
    row = transaction.execute(SQL.get_tenant_schedule, values).fetchone()
    return row is not None and read_schedule(row).schedule.owner == scope.owner


def record(transaction: Transaction, attempts: Sequence[tuple[rows.Row, FiringResult]]) -> None:
    """Records attempts at slots, each slot with the columns of `claimed_slots`."""
    now = transaction.now
    _write(
        transaction,
        [
            (
                *(slot if firing.is_attempt else _unseen(slot)), new_id().bytes,
                str(firing.status), firing.reason,
                now - microseconds(firing.took_seconds), now, firing.result_code, firing.excerpt,
                _channels(firing), 1, None,
            )
            for slot, firing in attempts
        ],
    )  # fmt: skip


def _unseen(slot: rows.Row) -> rows.Row:
    """A slot whose message ended without another attempt."""
    return (*slot[:ATTEMPT], slot[ATTEMPT] - 1, *slot[ATTEMPT + 1 :])


def skip_values(skip: Skip) -> SkipValues:
    """A range of skipped slots, prepared for writing."""
    first = to_microseconds(skip.first)
    last = to_microseconds(skip.last) if skip.count > 1 else None
    return first, last, skip.count, skip.reason, skip.run


def record_skips(
    transaction: Transaction,
    skips: Sequence[tuple[tuple[str, bytes], SkipValues]],
    errors: Mapping[tuple[str, bytes], str] = NO_ERRORS,
) -> None:
    """Records ranges of slots that did not fire, with the error if they could not be planned."""
    now, skipped = transaction.now, str(FiringStatus.SKIPPED)
    _write(
        transaction,
        [
            (*key, first, run, 0, first, 0, new_id().bytes, skipped, reason, now, now, None,
             errors.get(key), "[]", count, last)
            for key, (first, last, count, reason, run) in skips
        ],
    )  # fmt: skip


def _write(transaction: Transaction, found: Sequence[tuple[Any, ...]]) -> None:
    for some in in_chunks(found):
        statement = for_rows(SQL.record_firings, len(some))
        transaction.execute(statement, tuple(chain.from_iterable(some)))


def _channels(firing: FiringResult) -> str:
    return msgspec.json.encode(firing.channels).decode() if firing.channels else "[]"


def _ended(row: rows.Row) -> tuple[int, bytes]:
    id_, finished_at = row[0], row[10]
    return finished_at, id_
