"""New schedules on PostgreSQL: a few in one transaction, many by binary COPY.

The transaction locks the target queues, so that none is deleted. If the tenant has
limits, it locks the tenant's row, so that concurrent transactions agree on the number of schedules.

Schedules of a bulk create differ in few columns. asyncpg would encode the equal values again for
each row; here they are encoded once, and a row is joined from the shared part and its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime, timedelta
from itertools import islice
from struct import Struct
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from tickwork.core.limits import is_name
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
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import SCHEDULES_TOPIC, Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.postgres.schedules import rows as schedule_rows
from tickwork.store.shared.columns import (
    NEW_SCHEDULE_COMMON,
    NEW_SCHEDULE_OWN,
    Kind,
    common_values,
    own_values,
)
from tickwork.store.shared.row_hints import SharedValues

_COPIED = (
    *(name for name, _ in NEW_SCHEDULE_OWN),
    "tenant",
    "queue_id",
    *(name for name, _ in NEW_SCHEDULE_COMMON),
)

TIMES = ("created_at", "updated_at", "changed_at")
"""Columns that have a default, unless a time is given."""

ROWS_AT_ONCE = 250
"""Number of schedules sent before other tasks get a turn."""

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"

_COUNT, _LENGTH = Struct("!h"), Struct("!i")
_SMALL, _INTEGER, _TIME, _FLOAT = (Struct(f"!i{code}") for code in "hiqd")
_ID = Struct("!i16s")


class ScheduleColumns:
    """Encodes the schedules of a tenant. `queue_id` returns the id of a queue."""

    def __init__(self, tenant: str, queue_id: Callable[[str], UUID]) -> None:
        self._tenant, self._queue_id = tenant, queue_id
        self._common = SharedValues(self._encode)

    def row(self, new: NewSchedule) -> bytes:
        """One row without its first field, the number of columns."""
        own = zip(_OWN_ENCODERS, own_values(new), strict=True)
        return b"".join([*(encode(value) for encode, value in own), self._common.of(new)])

    def _encode(self, new: NewSchedule) -> bytes:
        common = zip(_COMMON_ENCODERS, common_values(new), strict=True)
        return b"".join(
            (
                _text(self._tenant),
                _bytes(self._queue_id(new.definition.queue).bytes),
                *(encode(value) for encode, value in common),
            )
        )


def copy_columns(now: datetime | None) -> tuple[str, ...]:
    """The columns of `copy_rows`."""
    return _COPIED if now is None else (*_COPIED, *TIMES)


async def copy_rows(rows: Sequence[bytes], now: datetime | None) -> AsyncIterator[bytes]:
    """The COPY data of some rows. Without a time the table's default applies."""
    begin, end = (
        _COUNT.pack(len(copy_columns(now))),
        b"" if now is None else _time(now) * len(TIMES),
    )
    yield _SIGNATURE
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield b"".join((begin, (end + begin).join(rows[start : start + ROWS_AT_ONCE]), end))
    yield _END


def _text(text: str | None) -> bytes:
    return _NULL if text is None else _bytes(text.encode())


def _bytes(data: bytes | None) -> bytes:
    return _NULL if data is None else _LENGTH.pack(len(data)) + data


def _time(at: datetime | None) -> bytes:
    return _NULL if at is None else _TIME.pack(8, (at - _EPOCH) // _MICROSECOND)


def _id(value: UUID) -> bytes:
    return _ID.pack(16, value.bytes)


def _packed(layout: Struct) -> Callable[[Any], bytes]:
    """An encoder of numbers."""
    length, pack = layout.size - _LENGTH.size, layout.pack
    return lambda value: _NULL if value is None else pack(length, value)


_ENCODERS: dict[Kind, Callable[[Any], bytes]] = {
    Kind.TEXT: _text,
    Kind.BYTES: _bytes,
    Kind.TIME: _time,
    Kind.ID: _id,
    Kind.SMALL: _packed(_SMALL),
    Kind.INTEGER: _packed(_INTEGER),
    Kind.FLOAT: _packed(_FLOAT),
}
_OWN_ENCODERS = tuple(_ENCODERS[kind] for _, kind in NEW_SCHEDULE_OWN)
_COMMON_ENCODERS = tuple(_ENCODERS[kind] for _, kind in NEW_SCHEDULE_COMMON)

PIECE_SCHEDULES = 10_000
"""Maximum number of schedules copied in one transaction."""

SCHEDULES_PER_TURN = 100
"""Number of schedules encoded before other tasks get a turn."""

Row = tuple[object, ...]


class _Piece(NamedTuple):
    """Schedules, their rows for COPY, and the ids of their queues."""

    schedules: list[NewSchedule]
    rows: list[bytes]
    queue_ids: dict[str, UUID]

    @property
    def room(self) -> int:
        return PIECE_SCHEDULES - len(self.schedules)


class Creator:
    """Stores new schedules."""

    def __init__(
        self, database: Database, moment: Moment, queues: PostgresQueues, wakeups: PostgresWakeups
    ) -> None:
        self._database, self._moment = database, moment
        self._queues, self._wakeups = queues, wakeups

    async def create(self, scope: Scope, new: Sequence[NewSchedule]) -> tuple[Schedule, ...]:
        check_schedules(new)
        check_owner(scope, new)
        if not new:
            return ()
        try:
            made = await self._create(scope, new)
        except _QueueGone:
            # A cached queue was deleted. Another queue of that name may exist.
            made = await self._create(scope, new)
        self._wake(new)
        return made

    async def _create(self, scope: Scope, new: Sequence[NewSchedule]) -> tuple[Schedule, ...]:
        tenant = own_tenant(scope)
        names = {schedule.definition.queue for schedule in new}
        queue_ids = {name: await self._queue_id(tenant, name) for name in names}
        # In a fixed order, so that concurrent transactions do not deadlock.
        ordered = sorted(new, key=_order)
        rows = _rows(tenant, ordered, queue_ids)

        async def work(connection: Connection) -> tuple[int, tuple[Schedule, ...]]:
            limits = await self._lock(connection, tenant, queue_ids)
            stored = await connection.fetch(
                SQL.create_schedules, self._moment(), *schedule_rows.columns(rows, len(rows[0]))
            )
            await self._count(connection, tenant, limits, _active(new, stored), len(stored))
            found = await connection.fetch(
                SQL.schedules_of_keys,
                tenant,
                [schedule.id for schedule in new],
                [
                    schedule.idempotency_key
                    for schedule in new
                    if schedule.idempotency_key is not None
                ],
            )
            known = schedule_rows.schedules(found)
            return len(stored), _as_made(new, known, {row["id"] for row in stored})

        _, made = await self._database.change(work)
        return made

    async def create_bulk(self, scope: Scope, new: Iterable[NewSchedule]) -> int:
        tenant = own_tenant(scope)
        if scope.owner is not None:
            check_owner(scope, new := tuple(new))
        source, stored = iter(limit_bulk(tenant, await self._rate(tenant), new)), 0
        queue_ids: dict[str, UUID] = {}
        rows = ScheduleColumns(tenant, queue_ids.__getitem__)
        piece = await self._next_piece(tenant, source, queue_ids, rows)
        while piece.schedules:
            storing = asyncio.create_task(self._store_piece(tenant, piece))
            try:
                # Encodes the next piece while the server stores this one.
                following = await self._next_piece(tenant, source, queue_ids, rows)
            finally:
                stored += await storing
            piece = following
        if stored:
            self._wakeups.notify([SCHEDULES_TOPIC])
        return stored

    async def _rate(self, tenant: str) -> float | None:
        if not is_name(tenant):
            return None
        row = await self._database.run(
            lambda connection: connection.fetchrow(SQL.get_tenant, tenant)
        )
        return None if row is None else row["schedules_per_second"]

    async def _next_piece(
        self,
        tenant: str,
        source: Iterator[NewSchedule],
        queue_ids: dict[str, UUID],
        rows: ScheduleColumns,
    ) -> _Piece:
        piece = _Piece([], [], {})
        while some := tuple(islice(source, min(SCHEDULES_PER_TURN, piece.room))):
            check_schedules(some)
            for name in {schedule.definition.queue for schedule in some}:
                if name not in queue_ids:
                    queue_ids[name] = await self._queue_id(tenant, name)
                piece.queue_ids[name] = queue_ids[name]
            piece.schedules.extend(some)
            piece.rows.extend(map(rows.row, some))
            await asyncio.sleep(0)
        return piece

    async def _store_piece(self, tenant: str, piece: _Piece) -> int:
        async def copied(connection: Connection) -> int:
            limits = await self._lock(connection, tenant, piece.queue_ids)
            now, many = self._moment(), len(piece.rows)
            await connection.copy_to_table(
                "tickwork_schedules",
                source=copy_rows(piece.rows, now),
                columns=copy_columns(now),
                format="binary",
            )
            await self._count(connection, tenant, limits, _active(piece.schedules), many)
            return many

        async def inserted(connection: Connection) -> int:
            limits = await self._lock(connection, tenant, piece.queue_ids)
            rows = _rows(tenant, piece.schedules, piece.queue_ids)
            stored = await connection.fetch(
                SQL.create_schedules, self._moment(), *schedule_rows.columns(rows, len(rows[0]))
            )
            active = _active(piece.schedules, stored)
            await self._count(connection, tenant, limits, active, len(stored))
            left = {schedule.id for schedule in piece.schedules} - {row["id"] for row in stored}
            known = await connection.fetch(SQL.schedules_of_keys, tenant, list(left), [])
            if unknown := left - {row["id"] for row in known}:
                names = sorted(
                    str(schedule.name) for schedule in piece.schedules if schedule.id in unknown
                )
                raise Conflict(f"the name {names[0]} is in use; take another one")
            return len(stored)

        try:
            return await self._database.change(copied, repeatable=False)
        except asyncpg.UniqueViolationError:
            # Some exist already. The slower INSERT skips them.
            return await self._database.change(inserted)

    async def _queue_id(self, tenant: str, name: str) -> UUID:
        if not is_name(tenant):
            raise NotFound("tenant", tenant)
        return await self._queues.id_of(Scope(tenant), name)

    async def _lock(
        self, connection: Connection, tenant: str, queue_ids: Mapping[str, UUID]
    ) -> asyncpg.Record | None:
        """Locks the queues, and the tenant if it has limits; returns the limits."""
        limits = await connection.fetchrow(SQL.schedule_limits, tenant, self._moment())
        locked = await connection.fetch(SQL.lock_queues, list(queue_ids.values()))
        if gone := set(queue_ids.values()) - {row["id"] for row in locked}:
            self._queues.forget(gone)
            names = [name for name, queue_id in queue_ids.items() if queue_id in gone]
            raise _QueueGone("queue", ", ".join(sorted(names)))
        return limits

    async def _count(
        self,
        connection: Connection,
        tenant: str,
        limits: asyncpg.Record | None,
        active: Collection[NewSchedule],
        made: int,
    ) -> None:
        """Counts the stored schedules, of which some are active; `TooMany` if the tenant exceeds
        its number or rate, or an owner its number."""
        if active:
            await connection.execute(SQL.add_schedule_counts, [tenant], [len(active)])
        if limits is None or not made:
            return
        await check_number(connection, limits, {schedule.owner for schedule in active})
        if (rate := limits["schedules_per_second"]) is not None:
            spent = spend_rate(
                tenant, "schedules_per_second", rate,
                limits["schedules_spent_until"], limits["now"], made,
            )  # fmt: skip
            await connection.execute(SQL.spend_schedule_rate, tenant, spent)

    def _wake(self, new: Sequence[NewSchedule]) -> None:
        """Wakes leaders. They decide themselves whether it is urgent."""
        if any(schedule.look_at is not None for schedule in new):
            self._wakeups.notify([SCHEDULES_TOPIC])


async def check_number(
    connection: Connection, limits: asyncpg.Record, owners: Collection[str | None]
) -> None:
    """Raises `TooMany` if a tenant, whose limits are locked, or one of these owners has too many
    schedules."""
    tenant, maximum = limits["id"], limits["schedules_max"]
    if maximum is not None:
        number = await connection.fetchval(SQL.count_schedules, tenant)
        check_schedule_count(tenant, number, maximum)
    named = [owner for owner in owners if owner is not None]
    if limits["owner_schedules_max"] is not None and named:
        counted = await connection.fetch(
            SQL.count_owner_schedules, tenant, named, OWNER_SCHEDULES_MAX + 1
        )
        check_owner_counts(tenant, dict(map(tuple, counted)), limits["owner_schedules_max"])


def _active(
    new: Iterable[NewSchedule], stored: Iterable[asyncpg.Record] | None = None
) -> list[NewSchedule]:
    """Those of new schedules, or of those that were stored, that may fire."""
    ids = None if stored is None else {row["id"] for row in stored}
    return [
        schedule
        for schedule in new
        if is_active(schedule.status) and (ids is None or schedule.id in ids)
    ]


def _order(new: NewSchedule) -> tuple[str, str, str, UUID]:
    return str(new.owner), str(new.idempotency_key), str(new.name), new.id


class _QueueGone(NotFound):
    """A cached queue no longer exists."""


def _rows(tenant: str, new: Iterable[NewSchedule], queue_ids: Mapping[str, UUID]) -> list[Row]:
    return [
        schedule_rows.new_row(tenant, queue_ids[schedule.definition.queue], schedule)
        for schedule in new
    ]


def _as_made(
    new: Sequence[NewSchedule], known: Sequence[Schedule], stored: set[UUID]
) -> tuple[Schedule, ...]:
    """The created schedules; `Conflict` if another schedule is in the way."""
    by_id = {schedule.id: schedule for schedule in known}
    by_key = {
        (schedule.owner, schedule.idempotency_key): schedule
        for schedule in known
        if schedule.idempotency_key
    }
    made: list[Schedule] = []
    for schedule in new:
        key = schedule.idempotency_key
        is_by_id = key is None or schedule.id in stored
        found = by_id.get(schedule.id) if is_by_id else by_key.get((schedule.owner, str(key)))
        if found is None:
            raise Conflict(f"the name {schedule.name} is in use; take another one, or update it")
        check_same_schedule(schedule, found)
        made.append(found)
    return tuple(made)
