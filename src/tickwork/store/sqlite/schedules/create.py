"""Creates schedules on SQLite: all or none, each once, within the limits of the tenant."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.answers.ids import ENCODER
from tickwork.core.model import Scope
from tickwork.core.options.tenant import OWNER_SCHEDULES_MAX
from tickwork.core.schedule.model import NewSchedule, Schedule, check_owner
from tickwork.core.tenant_limits import (
    check_owner_counts,
    check_same_schedule,
    check_schedule_count,
    check_schedules,
    is_active,
    limit_bulk,
    spend_rate,
)
from tickwork.errors import Conflict
from tickwork.store.ids import own_tenant
from tickwork.store.shared.row_hints import SharedValues
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import (
    SQL,
    for_rows,
    from_microseconds,
    in_chunks,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.queue_rows import find_queue, is_storable
from tickwork.store.sqlite.messages.rows import Row
from tickwork.store.sqlite.schedules.rows import common_values, own_values, read_schedule
from tickwork.store.sqlite.schedules.slot_outcome import wake_leaders

BULK_SCHEDULES = 2_500
"""Number of schedules in one transaction. It blocks other writers for about 0.1 seconds."""

SCHEDULES_PER_TURN = 100
"""Number of schedules to validate before the event loop gets a turn."""

_Common = SharedValues[tuple[Any, ...]]


class Creator:
    """Stores new schedules."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, scope: Scope, new: Sequence[NewSchedule]) -> tuple[Schedule, ...]:
        check_schedules(new)
        check_owner(scope, new)
        if not new:
            return ()
        tenant = own_tenant(scope)
        _, made = await self._database.change(
            lambda transaction: _create(transaction, tenant, new), rows=len(new)
        )
        return made

    async def create_bulk(self, scope: Scope, new: Iterable[NewSchedule]) -> int:
        tenant, made = own_tenant(scope), 0
        if scope.owner is not None:
            check_owner(scope, new := tuple(new))
        limits = await self._database.read(lambda transaction: _limits(transaction, tenant))
        source = iter(limit_bulk(tenant, limits[2], new))
        alike: _Common = SharedValues(common_values)
        piece = await _next_piece(source, alike)
        while piece:
            storing = asyncio.create_task(self._store_piece(tenant, piece))
            try:
                # Prepares the next chunk while the writer thread stores this one.
                piece = await _next_piece(source, alike)
            finally:
                made += await storing
        return made

    async def _store_piece(self, tenant: str, piece: Sequence[_PreparedSchedule]) -> int:
        return await self._database.change(
            lambda transaction: _store(transaction, tenant, piece), rows=len(piece)
        )


class _PreparedSchedule(NamedTuple):
    """A new schedule and its column values, prepared outside the writer thread."""

    new: NewSchedule
    own: tuple[Any, ...]
    common: tuple[Any, ...]


def _prepare(new: Iterable[NewSchedule], alike: _Common) -> list[_PreparedSchedule]:
    return [
        _PreparedSchedule(schedule, own_values(schedule), alike.of(schedule)) for schedule in new
    ]


async def _next_piece(source: Iterator[NewSchedule], alike: _Common) -> list[_PreparedSchedule]:
    piece: list[_PreparedSchedule] = []
    while chunk := tuple(islice(source, min(SCHEDULES_PER_TURN, BULK_SCHEDULES - len(piece)))):
        check_schedules(chunk)
        piece += _prepare(chunk, alike)
        await asyncio.sleep(0)
    return piece


def _create(
    transaction: Transaction, tenant: str, new: Sequence[NewSchedule]
) -> tuple[int, tuple[Schedule, ...]]:
    """How many schedules are new, and all of them."""
    ids: list[UUID] = []
    new_ones: dict[UUID, NewSchedule] = {}
    keyed: dict[tuple[str | None, str], NewSchedule] = {}
    for schedule in new:
        first = _find_repeated(transaction, tenant, schedule) or new_ones.get(schedule.id)
        if first is None and schedule.idempotency_key is not None:
            first = keyed.setdefault((schedule.owner, schedule.idempotency_key), schedule)
        if first is None or first is schedule:
            new_ones[schedule.id] = first = schedule
        check_same_schedule(schedule, first)
        ids.append(first.id)
    _store(transaction, tenant, _prepare(new_ones.values(), SharedValues(common_values)))
    return len(new_ones), tuple(_get(transaction, tenant, schedule_id) for schedule_id in ids)


def _find_repeated(transaction: Transaction, tenant: str, new: NewSchedule) -> Schedule | None:
    """The existing schedule that this one repeats, by its idempotency key or its id."""
    row = None
    if new.idempotency_key is not None:
        values = (tenant, new.idempotency_key, new.owner or "")
        row = transaction.execute(SQL.schedules_of_keys, values).fetchone()
    if row is None:
        row = transaction.execute(SQL.get_tenant_schedule, (tenant, new.id.bytes)).fetchone()
    return None if row is None else read_schedule(row).schedule


def _get(transaction: Transaction, tenant: str, schedule_id: UUID) -> Schedule:
    values = (tenant, schedule_id.bytes)
    return read_schedule(transaction.execute(SQL.get_tenant_schedule, values).fetchone()).schedule


def _store(transaction: Transaction, tenant: str, ready: Sequence[_PreparedSchedule]) -> int:
    """Stores the schedules whose ids are new; returns how many."""
    if not ready:
        return 0
    scope, new = Scope(tenant), [prepared.new for prepared in ready]
    queues = {
        name: find_queue(transaction, scope, name).id
        for name in dict.fromkeys(schedule.definition.queue for schedule in new)
    }
    values = [(queues[schedule.definition.queue], *own, *common) for schedule, own, common in ready]
    made = 0
    try:
        for chunk in in_chunks(values):
            made += transaction.execute(
                for_rows(SQL.create_schedules, len(chunk)),
                (tenant, transaction.now, *chain.from_iterable(chunk)),
            ).rowcount
    except sqlite3.IntegrityError as error:
        raise _conflict(new, error) from error
    if made:
        owners = {schedule.owner for schedule in new if is_active(schedule.status)}
        check_number_now(transaction, tenant, owners)
    _check_rate(transaction, tenant, made)
    soonest = min(
        (schedule.look_at for schedule in new if schedule.look_at is not None), default=None
    )
    wake_leaders(transaction, None if soonest is None else to_microseconds(soonest))
    return made


def _conflict(new: Sequence[NewSchedule], error: sqlite3.IntegrityError) -> Exception:
    """The error for a violated constraint."""
    if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
        return error
    if "tickwork_schedules_key" in str(error):
        return Conflict("an idempotency_key is already in use")
    names = sorted({schedule.name for schedule in new if schedule.name is not None})
    return Conflict(f"a name is already in use: {', '.join(names[:5])}")


def _limits(transaction: Transaction, tenant: str) -> Row:
    """A tenant's maximum of schedules, that of each owner, its creation rate per second, and until
    when that is used up."""
    if not is_storable(tenant):
        return (None, None, None, None)
    row = transaction.execute(SQL.schedule_limits, (tenant,)).fetchone()
    return row or (None, None, None, None)


def check_number_now(transaction: Transaction, tenant: str, owners: Collection[str | None]) -> None:
    """`TooMany` if the tenant, or one of these owners, now has more schedules than its maximum."""
    schedules_max, owner_schedules_max, *_ = _limits(transaction, tenant)
    if schedules_max is not None:
        (there,) = transaction.execute(SQL.count_schedules, (tenant,)).fetchone()
        check_schedule_count(tenant, there, schedules_max)
    named = [owner for owner in owners if owner is not None]
    if owner_schedules_max is not None and named:
        values = (tenant, ENCODER.encode(named).decode(), OWNER_SCHEDULES_MAX + 1)
        counted = transaction.execute(SQL.count_owner_schedules, values).fetchall()
        check_owner_counts(tenant, dict(counted), owner_schedules_max)


def _check_rate(transaction: Transaction, tenant: str, made: int) -> None:
    """`TooMany` if the tenant exceeded its creation rate."""
    *_, per_second, spent_until = _limits(transaction, tenant)
    if per_second is not None:
        now = from_microseconds(transaction.now)
        spent: datetime | None = None if spent_until is None else from_microseconds(spent_until)
        until = spend_rate(tenant, "schedules_per_second", per_second, spent, now, made)
        transaction.execute(SQL.spend_schedule_rate, (tenant, to_microseconds(until)))
