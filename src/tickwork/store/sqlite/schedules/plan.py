"""Planning on SQLite: what has to be looked at, and plans carried out, each behind its fence.

Nobody else writes while plans are carried out, so that a token that is right when they begin is
right when they commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.limits import EXCERPT_LENGTH_MAX, check_limit, check_system
from tickwork.core.model import Scope
from tickwork.core.schedule.model import SHARDS, ScheduleStatus, read_terms
from tickwork.core.schedule.plan import DueSchedule, Plan, PlanResult
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.slot_outcome import LaterSlots
from tickwork.core.schedule.tzdata_change import WaitingSchedule
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
    make,
    making,
)
from tickwork.store.sqlite.schedules.slot_outcome import begin_next_run, end_schedule

NEWER_MAX = 1_000
"""As far as later slots are counted."""

_FIRST_LOOK = (-(2**62), b"")
_ACTIVE = str(ScheduleStatus.ACTIVE)

Key = tuple[str, bytes]
"""The tenant of a schedule and its id."""


class _Step(NamedTuple):
    """A plan, made ready to be written."""

    shard: int
    fence: tuple[str, bytes, int, int]
    then: tuple[Any, ...]
    status: str
    error: str | None
    source: str
    fires: list[SlotMessage]
    skips: list[SkipValues]


class Planner:
    """What leaders do with schedules."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._swept = 0

    async def due(self, scope: Scope, shards: Sequence[int], limit: int) -> tuple[DueSchedule, ...]:
        check_system(scope)
        check_limit(limit)
        asked = _asked(shards)
        if not asked:
            return ()
        statement = for_rows(SQL.due_schedules, len(asked))

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
        values = (shard, *behind, limit)
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.schedules_of_shard, values).fetchall()
        )
        return read_waiting(found)

    async def next_look_at(self, scope: Scope, shards: Sequence[int]) -> datetime | None:
        check_system(scope)
        values = (rows.as_json(_asked(shards)),)
        row = await self._database.read(
            lambda transaction: transaction.execute(SQL.next_look_at, values).fetchone()
        )
        return optional_time(row[0])

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        check_system(scope)
        if not plans:
            return PlanResult()
        tokens = {grant.shard: grant.token for grant in grants}
        steps = [_step(plan) for plan in plans]
        written = sum(1 + len(plan.fires) + len(plan.skips) for plan in plans)
        return await self._database.write(
            lambda transaction: _carry_out(transaction, tokens, steps), rows=written
        )

    async def newer_due(
        self, scope: Scope, slots: Sequence[tuple[str, UUID, datetime]]
    ) -> tuple[LaterSlots, ...]:
        check_system(scope)
        asked = [(tenant, id_.bytes, to_microseconds(slot)) for tenant, id_, slot in slots]

        def work(transaction: Transaction) -> tuple[LaterSlots, ...]:
            rest = (transaction.now, NEWER_MAX)
            return tuple(
                LaterSlots(*transaction.execute(SQL.newer_due, (*each, *rest)).fetchone())
                for each in asked
            )

        return await self._database.read(work)

    async def sweep(self, scope: Scope, limit: int) -> int:
        check_system(scope)
        check_limit(limit)

        def work(transaction: Transaction) -> tuple[int, int]:
            values = (self._swept, limit)
            waiting = transaction.execute(SQL.waiting_schedules, values).fetchall()
            set_free = [(place, terms) for place, terms, has_run in waiting if not has_run]
            for place, terms in set_free:
                _set_free(transaction, place, terms)
            return len(set_free), waiting[-1][0] if len(waiting) == limit else 0

        swept, self._swept = await self._database.write(work)
        return swept


def _asked(shards: Sequence[int]) -> list[int]:
    return sorted({shard for shard in shards if 0 <= shard < SHARDS})


def _step(plan: Plan) -> _Step:
    fires = [making(fire) for fire in plan.fires]
    then_slot = optional_microseconds(plan.then_slot)
    then_due_at = then_slot
    if plan.then_due_at is not plan.then_slot:
        then_due_at = optional_microseconds(plan.then_due_at)
    look_at = optional_microseconds(plan.look_at)
    return _Step(
        plan.shard,
        (plan.tenant, plan.id.bytes, plan.version, to_microseconds(plan.next_slot)),
        (then_slot, then_due_at, look_at, len(fires), fires[-1].slot if fires else None),
        str(plan.status),
        plan.error,
        str(plan.id),
        fires,
        [skip_values(skip) for skip in plan.skips],
    )


def _carry_out(
    transaction: Transaction, tokens: dict[int, int], steps: Sequence[_Step]
) -> PlanResult:
    held = dict(transaction.execute(SQL.shard_tokens).fetchall())
    is_led = {shard for shard, token in tokens.items() if held.get(shard) == token}
    led = {place: step for place, step in enumerate(steps) if step.shard in is_led}
    done: dict[int, SourceSchedule] = {}
    no_queue: list[int] = []
    for place, (*origin, has_queue) in _as_planned(transaction, led).items():
        if has_queue or not steps[place].fires:
            done[place] = SourceSchedule(*origin)
        else:
            no_queue.append(place)
    moving = [(origin.place, steps[place]) for place, origin in done.items()]
    _move_on(transaction, moving)
    firing = [
        SlotMessages(origin, steps[place].source, steps[place].fires)
        for place, origin in done.items()
    ]
    make(transaction, [each for each in firing if each.slots])
    record_skips(
        transaction,
        [(step.fence[:2], skip) for _, step in moving for skip in step.skips],
        {step.fence[:2]: step.error[:EXCERPT_LENGTH_MAX] for _, step in moving if step.error},
    )
    return PlanResult(
        done=tuple(sorted(done)),
        lost=tuple(place for place in range(len(steps)) if place not in led),
        stale=tuple(place for place in led if place not in done and place not in no_queue),
        no_queue=tuple(sorted(no_queue)),
    )


def _as_planned(transaction: Transaction, led: Mapping[int, _Step]) -> dict[int, rows.Row]:
    """The rows of the schedules that still stand as their plans were made from, by plan."""
    # Of two plans for one schedule the first counts: the other was made from what was before it.
    places: dict[Key, int] = {}
    for place, step in led.items():
        places.setdefault(step.fence[:2], place)
    found: list[rows.Row] = []
    for some in in_chunks([led[place].fence for place in places.values()]):
        statement = for_rows(SQL.schedules_to_plan, len(some))
        found += transaction.execute(statement, tuple(chain.from_iterable(some))).fetchall()
    return {places[row[1:3]]: row for row in found}


def _move_on(transaction: Transaction, steps: Sequence[tuple[int, _Step]]) -> None:
    """Makes schedules stand as their plans say."""
    going_on: list[tuple[Any, ...]] = []
    for place, step in steps:
        if step.status == _ACTIVE:
            going_on.append((place, *step.then))
        else:
            values = (place, *step.then, step.status, step.error, transaction.now)
            transaction.execute(SQL.end_planning, values)
    for some in in_chunks(going_on):
        statement = for_rows(SQL.advance_schedules, len(some))
        transaction.execute(statement, tuple(chain.from_iterable(some)))


def _set_free(transaction: Transaction, place: int, terms: str | None) -> None:
    """Lets a schedule go on that waits for the end of a run that is not there."""
    after_seconds = read_terms(terms).delay_seconds
    if after_seconds is None:
        end_schedule(transaction, place, ScheduleStatus.COMPLETED)
    else:
        begin_next_run(transaction, place, after_seconds)
