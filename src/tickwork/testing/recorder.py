"""Records the history of schedules in a database, for the checkers.

`record` adds triggers to a database: every statement that stores or withdraws a slot's message,
transfers a shard or renews a lease is recorded in its own transaction, whoever runs it. `PlanLog`
records on the leader's side under which token it plans, before it asks the store, and what the
store answered. `read_history` combines both with the firing records and the current state. For
tests and demonstrations: it costs a row per message.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tickwork.core.model import SYSTEM, Scope
from tickwork.core.schedule.firing import FiringRecord, FiringStatus
from tickwork.core.schedule.model import SHARDS_MAX
from tickwork.core.schedule.plan import Plan, PlanResult
from tickwork.core.schedule.shards import Grant
from tickwork.core.when import due_at
from tickwork.store.contract import Store
from tickwork.testing.checkers import (
    HandOver,
    History,
    LeaseRenewal,
    PlanEntry,
    StoredSlot,
    WatchedSchedule,
)

PAGE = 1_000
"""Number of rows read at once."""

LOCKED_SECONDS_MAX = 60.0
"""Seconds to wait for a locked SQLite file."""

GRACE = timedelta(seconds=2)
"""Time after its due time before a schedule counts as overdue."""

_NOBODY = UUID(int=0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def record(database: str) -> None:
    """Starts recording in a database."""
    if database.startswith("postgresql://"):
        import asyncpg

        connection = await asyncpg.connect(database)
        try:
            await connection.execute(read_sql("record_postgres"))
        finally:
            await connection.close()
        return
    with closing(_open(database)) as file:
        file.executescript(read_sql("record_sqlite"))


class PlanLog:
    """Wraps a store's schedules and logs what is planned under which token."""

    def __init__(self, schedules: Any, path: Path) -> None:
        self._schedules = schedules
        self._file = path.open("ab", buffering=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._schedules, name)

    def close(self) -> None:
        """Closes the log."""
        self._file.close()

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        """Logs before and after planning: a leader may die in between."""
        tokens = {grant.shard: grant.token for grant in grants}
        self._write(tokens, plans, is_done=False)
        result: PlanResult = await self._schedules.plan(scope, grants, plans)
        self._write(tokens, [plans[index] for index in result.done], is_done=True)
        return result

    def _write(self, tokens: dict[int, int], plans: Sequence[Plan], *, is_done: bool) -> None:
        lines = [
            msgspec.json.encode(
                PlanEntry(schedule_id=plan.id, slot=fire.slot, token=token, is_done=is_done)
            )
            + b"\n"
            for plan in plans
            if (token := tokens.get(plan.shard)) is not None
            for fire in plan.fires
        ]
        self._file.write(b"".join(lines))


def read_plans(paths: Iterable[Path]) -> list[PlanEntry]:
    """Reads the logs of leaders, without incomplete last lines."""
    found: list[PlanEntry] = []
    for path in paths:
        for line in path.read_bytes().split(b"\n"):
            try:
                found.append(msgspec.json.decode(line, type=PlanEntry))
            except msgspec.DecodeError:
                continue
    return found


async def read_history(
    store: Store,
    database: str,
    schedules: Sequence[WatchedSchedule],
    planned: Sequence[PlanEntry] = (),
) -> History:
    """The recorded events and the current state."""
    rows = [_read_row(row) for row in await _rows(database, "read_history")]
    left = await _rows(database, "open_slots")
    firings = [_firing(row) for row in await _rows(database, "read_firings")]
    holdings = await store.shards.list(SYSTEM)
    return History(
        schedules=schedules,
        stored=[row.stored() for row in rows if row.what == "stored"],
        withdrawn=frozenset(row.message_id for row in rows if row.what == "withdrawn"),
        handed_over=[row.handed_over() for row in rows if row.what == "handed_over"],
        renewed=[
            LeaseRenewal(order=row.seq, node=row.node) for row in rows if row.what == "renewed"
        ],
        planned=planned,
        firings=firings,
        open_messages=frozenset(_uuid(row[0]) for row in left),
        overdue=await overdue(store),
        shards_without_leader=[holding.shard for holding in holdings if holding.node is None],
    )


async def overdue(store: Store) -> list[UUID]:
    """The schedules whose next slot should be a message by now. (Their planning time says little: a
    new schedule, or one whose run just finished, may be due for planning at once.)"""
    late = await store.schedules.due(SYSTEM, range(SHARDS_MAX), PAGE)
    latest = await store.now() - GRACE
    return [schedule.id for schedule in late if due_at(schedule.rule, schedule.next_slot) < latest]


def _firing(row: Sequence[Any]) -> FiringRecord:
    """A firing record with the fields that checkers need."""
    tenant, schedule_id, slot, run, attempt, status, reason, *rest = row
    due, started_at, finished_at, catch_up, count, last_slot = rest
    return FiringRecord(
        id=_NOBODY,
        tenant=tenant,
        schedule_id=_uuid(schedule_id),
        slot=_instant(slot),
        run=run,
        attempt=attempt,
        status=FiringStatus(status),
        reason=reason,
        due_at=_instant(due),
        started_at=_instant(started_at),
        finished_at=_instant(finished_at),
        result_code=None,
        excerpt=None,
        channels=(),
        catch_up=bool(catch_up),
        count=count,
        last_slot=None if last_slot is None else _instant(last_slot),
    )


class _Row(NamedTuple):
    """A recorded event; which fields are set depends on `what`."""

    seq: int
    what: str
    schedule_id: Any
    slot: Any
    run: Any
    message_id: Any
    shard: Any
    token: Any
    node: Any
    former: Any

    def stored(self) -> StoredSlot:
        return StoredSlot(
            order=self.seq,
            schedule_id=self.schedule_id,
            slot=self.slot,
            run=self.run,
            message_id=self.message_id,
            shard=self.shard,
            token=self.token,
        )

    def handed_over(self) -> HandOver:
        return HandOver(
            order=self.seq, shard=self.shard, token=self.token, node=self.node, former=self.former
        )


def _read_row(row: Sequence[Any]) -> _Row:
    found = _Row(*row)
    return found._replace(
        schedule_id=_optional_uuid(found.schedule_id),
        slot=None if found.slot is None else _instant(found.slot),
        message_id=_optional_uuid(found.message_id),
        node=_optional_uuid(found.node),
        former=_optional_uuid(found.former),
    )


def _optional_uuid(value: UUID | bytes | None) -> UUID | None:
    return None if value is None else _uuid(value)


async def _rows(database: str, statement: str) -> Sequence[Sequence[Any]]:
    if database.startswith("postgresql://"):
        import asyncpg

        connection = await asyncpg.connect(database)
        try:
            rows: Sequence[Any] = await connection.fetch(read_sql(statement))
        finally:
            await connection.close()
        return rows
    with closing(_open(database)) as file:
        return file.execute(read_sql(statement)).fetchall()


def _instant(value: datetime | int) -> datetime:
    return _EPOCH + timedelta(microseconds=value) if isinstance(value, int) else value


def _uuid(value: UUID | bytes) -> UUID:
    return UUID(bytes=value) if isinstance(value, bytes) else UUID(int=value.int)


def _open(database: str) -> sqlite3.Connection:
    from tickwork.store.sqlite.engine.file import locate

    return sqlite3.connect(locate(database), timeout=LOCKED_SECONDS_MAX)


def read_sql(name: str) -> str:
    """One of this package's SQL files."""
    return files("tickwork.testing").joinpath("sql", f"{name}.sql").read_text("utf-8")
