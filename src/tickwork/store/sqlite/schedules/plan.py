"""Plans schedules on SQLite: finds due schedules and carries out plans, each behind its fence.

No one else writes while plans are carried out, so a token that is valid at the start is valid at
the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import EXCERPT_LENGTH_MAX, check_limit, check_system
from tickwork.core.model import Scope
from tickwork.core.schedule.model import ScheduleStatus, read_terms
from tickwork.core.schedule.plan import DueSchedule, Plan, PlanResult
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.slot_outcome import LaterSlots
from tickwork.core.schedule.tzdata_change import WaitingSchedule
from tickwork.store.shared.shard_layout import ShardLayout
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, for_rows, in_chunks, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.schedules.firings import SkipValues, record_skips, skip_values
from tickwork.store.sqlite.schedules.rows import (
    optional_microseconds,
    optional_time,
    read_due,
    read_waiting,
)
from tickwork.store.sqlite.schedules.slot_messages import (
    SlotMessage,
    SlotMessages,
    SourceSchedule,
    prepare_slot,
    store_slot_messages,
)
from tickwork.store.sqlite.schedules.slot_outcome import end_schedule, set_next_run

_FIRST_LOOK = (-(2**62), b"")
_ACTIVE = str(ScheduleStatus.ACTIVE)

Key = tuple[str, bytes]
"""The tenant and the id of a schedule."""


class _PreparedPlan(NamedTuple):
    """A plan, prepared for writing."""

    shard: int
    fence: tuple[str, bytes, int, int]
    then: tuple[Any, ...]
    status: str
    error: str | None
    source: str
    fires: list[SlotMessage]
    skips: list[SkipValues]


class Planner:
    """The operations of leaders on schedules."""

    def __init__(self, database: Database, layout: ShardLayout) -> None:
        self._database, self._layout = database, layout
        self._sweep_cursor = 0

    async def due(self, scope: Scope, shards: Sequence[int], limit: int) -> tuple[DueSchedule, ...]:
        check_system(scope)
        check_limit(limit)
        asked = self._layout.existing(shards)
        if not asked:
            return ()
        statement = for_rows(self._layout.fit(SQL.due_schedules), len(asked))

        def work(transaction: Transaction) -> list[rows.Row]:
            now = transaction.now
            values = (*chain.from_iterable((shard, now) for shard in asked), limit)
            return transaction.execute(statement, values).fetchall()

        found = await self._database.read(work)
        found.sort(key=lambda row: row[0])
        return read_due(found)

    async def of_shard(
        self, scope: Scope, shard: int, limit: int, *, after: tuple[datetime, UUID] | None = None
    ) -> tuple[WaitingSchedule, ...]:
        check_system(scope)
        check_limit(limit)
        behind = _FIRST_LOOK if after is None else (to_microseconds(after[0]), after[1].bytes)
        values, statement = (shard, *behind, limit), self._layout.fit(SQL.schedules_of_shard)
        found = await self._database.read(
            lambda transaction: transaction.execute(statement, values).fetchall()
        )
        return read_waiting(found)

    async def next_look_at(self, scope: Scope, shards: Sequence[int]) -> datetime | None:
        check_system(scope)
        values = (rows.as_json(self._layout.existing(shards)),)
        statement = self._layout.fit(SQL.next_look_at)
        row = await self._database.read(
            lambda transaction: transaction.execute(statement, values).fetchone()
        )
        return optional_time(row[0])

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        check_system(scope)
        if not plans:
            return PlanResult()
        tokens = {grant.shard: grant.token for grant in grants}
        prepared = [_prepare(plan) for plan in plans]
        written = sum(1 + len(plan.fires) + len(plan.skips) for plan in plans)
        return await self._database.write(
            lambda transaction: _carry_out(transaction, tokens, prepared), rows=written
        )

    async def newer_due(
        self, scope: Scope, slots: Sequence[tuple[str, UUID, datetime]]
    ) -> tuple[LaterSlots, ...]:
        check_system(scope)
        asked = [(tenant, id_.bytes, to_microseconds(slot)) for tenant, id_, slot in slots]

        def work(transaction: Transaction) -> tuple[LaterSlots, ...]:
            rest = (transaction.now,)
            return tuple(
                LaterSlots(*transaction.execute(SQL.newer_due, (*values, *rest)).fetchone())
                for values in asked
            )

        return await self._database.read(work)

    async def sweep(self, scope: Scope, limit: int) -> int:
        check_system(scope)
        check_limit(limit)

        def work(transaction: Transaction) -> tuple[int, int]:
            values = (self._sweep_cursor, limit)
            waiting = transaction.execute(SQL.waiting_schedules, values).fetchall()
            stuck = [(rowid, terms) for rowid, terms, has_run in waiting if not has_run]
            for rowid, terms in stuck:
                _continue_after_lost_run(transaction, rowid, terms)
            return len(stuck), waiting[-1][0] if len(waiting) == limit else 0

        swept, self._sweep_cursor = await self._database.write(work)
        return swept


def _prepare(plan: Plan) -> _PreparedPlan:
    fires = [prepare_slot(fire) for fire in plan.fires]
    then_slot = optional_microseconds(plan.then_slot)
    then_due_at = then_slot
    if plan.then_due_at is not plan.then_slot:
        then_due_at = optional_microseconds(plan.then_due_at)
    look_at = optional_microseconds(plan.look_at)
    return _PreparedPlan(
        plan.shard,
        (plan.tenant, plan.id.bytes, plan.version, to_microseconds(plan.next_slot)),
        (then_slot, then_due_at, look_at, len(fires), fires[-1].slot if fires else None),
        str(plan.status),
        plan.error,
        public_id(Prefix.SCHEDULE, plan.id),
        fires,
        [skip_values(skip) for skip in plan.skips],
    )


def _carry_out(
    transaction: Transaction, tokens: dict[int, int], prepared: Sequence[_PreparedPlan]
) -> PlanResult:
    tokens_by_shard = dict(transaction.execute(SQL.shard_tokens).fetchall())
    led_shards = {shard for shard, token in tokens.items() if tokens_by_shard.get(shard) == token}
    led = {index: step for index, step in enumerate(prepared) if step.shard in led_shards}
    done: dict[int, SourceSchedule] = {}
    no_queue: list[int] = []
    for index, (*origin, has_queue) in _unchanged_schedules(transaction, led).items():
        if has_queue or not prepared[index].fires:
            done[index] = SourceSchedule(*origin)
        else:
            no_queue.append(index)
    moving = [(origin.rowid, prepared[index]) for index, origin in done.items()]
    _write_schedules(transaction, moving)
    firing = [
        SlotMessages(origin, prepared[index].source, prepared[index].fires)
        for index, origin in done.items()
    ]
    store_slot_messages(transaction, [messages for messages in firing if messages.slots])
    record_skips(
        transaction,
        [(step.fence[:2], skip) for _, step in moving for skip in step.skips],
        {step.fence[:2]: step.error[:EXCERPT_LENGTH_MAX] for _, step in moving if step.error},
    )
    return PlanResult(
        done=tuple(sorted(done)),
        lost=tuple(index for index in range(len(prepared)) if index not in led),
        stale=tuple(sorted(led.keys() - done.keys() - {*no_queue})),
        no_queue=tuple(sorted(no_queue)),
    )


def _unchanged_schedules(
    transaction: Transaction, led: Mapping[int, _PreparedPlan]
) -> dict[int, rows.Row]:
    """The rows of schedules that did not change since they were planned, by index of the plan."""
    # Of two plans for one schedule the first counts: the other one is stale after it.
    indexes: dict[Key, int] = {}
    for index, step in led.items():
        indexes.setdefault(step.fence[:2], index)
    found: list[rows.Row] = []
    for some in in_chunks([led[index].fence for index in indexes.values()]):
        statement = for_rows(SQL.schedules_to_plan, len(some))
        found += transaction.execute(statement, tuple(chain.from_iterable(some))).fetchall()
    return {indexes[row[1:3]]: row for row in found}


def _write_schedules(
    transaction: Transaction, prepared: Sequence[tuple[int, _PreparedPlan]]
) -> None:
    """Advances or concludes schedules as their plans say."""
    active: list[tuple[Any, ...]] = []
    for rowid, step in prepared:
        if step.status == _ACTIVE:
            active.append((rowid, *step.then))
        else:
            values = (rowid, *step.then, step.status, step.error, transaction.now)
            transaction.execute(SQL.end_planning, values)
    for some in in_chunks(active):
        statement = for_rows(SQL.advance_schedules, len(some))
        transaction.execute(statement, tuple(chain.from_iterable(some)))


def _continue_after_lost_run(transaction: Transaction, rowid: int, terms: str | None) -> None:
    """Continues a schedule that waits for a run whose message no longer exists."""
    after_seconds = read_terms(terms).delay_seconds
    if after_seconds is None:
        end_schedule(transaction, rowid, ScheduleStatus.COMPLETED)
    else:
        set_next_run(transaction, rowid, after_seconds)
