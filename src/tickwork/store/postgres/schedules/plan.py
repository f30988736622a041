"""The operations of leaders on PostgreSQL: find due schedules, plan, sweep.

A plan is one statement that commits by itself. It locks the rows of its shards (`FOR SHARE`), so
that no other node takes them, and advances a schedule only if it is unchanged since the plan was
made. Ordered slots need their keys first: they use a separate transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import check_limit, check_system
from tickwork.core.message.subscription import FiredSlots
from tickwork.core.model import Scope
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule.model import ordering_key, read_rule, read_terms
from tickwork.core.schedule.plan import DueSchedule, Plan, PlanResult
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.slot_outcome import LaterSlots
from tickwork.core.schedule.tzdata_change import WaitingSchedule
from tickwork.store.ids import SCHEDULES_TOPIC, Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.keys import Key, Keys
from tickwork.store.postgres.messages.send import Group
from tickwork.store.postgres.schedules.firings import skip_columns
from tickwork.store.postgres.schedules.rows import OVERLAPS
from tickwork.store.postgres.schedules.slot_copies import SlotCopies
from tickwork.store.postgres.schedules.slot_messages import fire_columns, unless_usual
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.shard_layout import ShardLayout

LOOKED_AT_MORE = 4
"""Number of extra schedules to read per shard."""

LOOKED_AT_FACTOR = 2
"""Factor of a shard's share that is read. With it one query suffices unless a shard is far
behind."""

_START = ("", UUID(int=0))
_FIRST_LOOK = (datetime.min.replace(tzinfo=UTC), UUID(int=0))


class _Outcome(NamedTuple):
    """Results of plans by their index."""

    done: dict[int, Any]
    led: set[int]
    keyed: dict[int, UUID]
    no_queue: set[int]
    now: datetime | None
    copies: tuple[Group, ...] = ()


class Planner:
    """Finds due schedules and carries out plans."""

    def __init__(
        self,
        database: Database,
        moment: Moment,
        wakeups: PostgresWakeups,
        counters: Counters,
        copies: SlotCopies,
        layout: ShardLayout,
    ) -> None:
        self._database = database
        self._moment = moment
        self._layout = layout
        self._wakeups = wakeups
        self._counters = counters
        self._copies = copies
        self._keys = Keys(moment)
        self._swept: tuple[str, UUID] = _START

    async def due(self, scope: Scope, shards: Sequence[int], limit: int) -> tuple[DueSchedule, ...]:
        check_system(scope)
        check_limit(limit)
        wanted = self._layout.existing(shards)
        if not wanted:
            return ()
        part = min(limit, LOOKED_AT_FACTOR * -(-limit // len(wanted)) + LOOKED_AT_MORE)
        found = await self._look(wanted, limit, part)
        seen = Counter(row[2] for row in found)
        if part < limit and max(seen.values(), default=0) >= part:
            # A shard may have more schedules that are due sooner than those of the others.
            found = await self._look(wanted, limit, limit)
        return tuple(_due(row) for row in found)

    async def _look(self, shards: Sequence[int], limit: int, part: int) -> list[Any]:
        statement = self._layout.fit(SQL.due_schedules)
        return await self._database.run(
            lambda connection: connection.fetch(statement, self._moment(), shards, limit, part)
        )

    async def of_shard(
        self, scope: Scope, shard: int, limit: int, *, after: tuple[datetime, UUID] | None = None
    ) -> tuple[WaitingSchedule, ...]:
        check_system(scope)
        check_limit(limit)
        values = (shard, *(after or _FIRST_LOOK), limit)
        statement = self._layout.fit(SQL.schedules_of_shard)
        found = await self._database.run(lambda connection: connection.fetch(statement, *values))
        return tuple(_of_shard(row) for row in found)

    async def next_look_at(self, scope: Scope, shards: Sequence[int]) -> datetime | None:
        check_system(scope)
        wanted = self._layout.existing(shards)
        statement = self._layout.fit(SQL.next_look_at)
        at: datetime | None = await self._database.run(
            lambda connection: connection.fetchval(statement, wanted)
        )
        return at

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        check_system(scope)
        if not plans:
            return PlanResult()
        tokens = {grant.shard: grant.token for grant in grants}
        led = [index for index, plan in enumerate(plans) if plan.shard in tokens]
        # Every transaction locks rows in the order of their keys, so that none deadlock.
        led.sort(key=lambda index: (plans[index].tenant, plans[index].id))
        chosen = [plans[index] for index in led]
        outcome = _Outcome({}, set(), {}, set(), None)
        if chosen:
            firing = {plan.tenant for plan in chosen if plan.fires}
            has_subscribers = await self._copies.has_subscribers(firing)
            # Copies are stored by further statements.
            run = self._database.transact if has_subscribers else self._database.run
            # A repeat is safe: a schedule that was advanced has changed, and its plan is refused.
            outcome = await run(
                lambda connection: self._write(
                    connection, tokens, chosen, has_subscribers=has_subscribers
                )
            )
            if outcome.keyed:
                outcome = await self._plan_keyed(
                    tokens, chosen, outcome, has_subscribers=has_subscribers
                )
        self._after_commit(chosen, outcome)
        return _result(plans, led, outcome)

    async def _plan_keyed(
        self,
        tokens: dict[int, int],
        chosen: Sequence[Plan],
        before: _Outcome,
        *,
        has_subscribers: bool,
    ) -> _Outcome:
        """Carries out plans with ordered slots."""
        numbers = sorted(before.keyed)
        plans = [chosen[number] for number in numbers]
        keys = [
            Key(plan.tenant, before.keyed[number], ordering_key(plan.id))
            for number, plan in zip(numbers, plans, strict=True)
        ]

        async def work(connection: Connection) -> _Outcome:
            of_fires = [key for key, plan in zip(keys, plans, strict=True) for _ in plan.fires]
            positions = await self._keys.reserve(connection, of_fires)
            outcome = await self._write(
                connection,
                tokens,
                plans,
                states=[position.state for position in positions],
                positions=[position.position for position in positions],
                has_subscribers=has_subscribers,
            )
            if len(outcome.done) < len(plans):
                # Keys may have been created for plans that were refused.
                await self._keys.unblock(connection, set(keys))
            return outcome

        after = await self._database.transact(work)
        return _Outcome(
            before.done | {numbers[number]: row for number, row in after.done.items()},
            before.led - ({plan.shard for plan in plans} - after.led),
            {},
            before.no_queue.union(numbers[number] for number in after.no_queue),
            before.now or after.now,
            before.copies + after.copies,
        )

    async def _write(
        self,
        connection: Connection,
        tokens: dict[int, int],
        plans: Sequence[Plan],
        *,
        has_subscribers: bool,
        states: Sequence[str] | None = None,
        positions: Sequence[int | None] | None = None,
    ) -> _Outcome:
        shards = sorted({plan.shard for plan in plans})
        fires = [fire for plan in plans for fire in plan.fires]
        skips = [skip for plan in plans for skip in plan.skips]
        new_slots = fire_columns(fires)
        found = await connection.fetch(
            self._layout.fit(SQL.plan),
            self._moment(),
            shards,
            [tokens[shard] for shard in shards],
            *_plan_columns(plans),
            *new_slots,
            states,
            positions,
            *skip_columns(skips),
            states is not None,
        )
        outcome = _Outcome({}, set(), {}, set(), None)
        for row in found:
            result, number = row[0], row[1]
            if result == "done":
                outcome.done[number - 1] = row
            elif result == "led":
                outcome.led.add(number)
            elif result == "keyed":
                outcome.keyed[number - 1] = row[2]
            else:
                outcome.no_queue.add(number - 1)
        outcome = outcome._replace(now=found[0][4] if found else None)
        if not has_subscribers:
            return outcome
        backlog, ids = BacklogChange(), iter(new_slots[0])
        ids_by_plan = [[*islice(ids, len(plan.fires))] for plan in plans]
        fired = [
            FiredSlots(plans[number].tenant, row[2], row[3], ids_by_plan[number])
            for number, row in outcome.done.items()
            if ids_by_plan[number]
        ]
        copies: list[Group] = []
        if fired and outcome.now is not None:
            copies = await self._copies.store(connection, fired, outcome.now, backlog)
            await change_backlog(connection, backlog)
        return outcome._replace(copies=tuple(copies))

    def _after_commit(self, plans: Sequence[Plan], outcome: _Outcome) -> None:
        """Counts messages and wakes consumers."""
        if outcome.copies:
            self._copies.after_commit(outcome.copies)
        ready: set[UUID] = set()
        for number, row in outcome.done.items():
            plan = plans[number]
            if not plan.fires:
                continue
            source = public_id(Prefix.SCHEDULE, plan.id)
            key = CounterKey(row[2], plan.tenant, CounterName.SENT, row[3], source)
            self._counters.add(key, len(plan.fires))
            if row[2] not in ready and any(fire.visible_at <= row[4] for fire in plan.fires):
                ready.add(row[2])
        if ready:
            self._wakeups.notify(ready)

    async def newer_due(
        self, scope: Scope, slots: Sequence[tuple[str, UUID, datetime]]
    ) -> tuple[LaterSlots, ...]:
        check_system(scope)
        if not slots:
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.newer_due,
                self._moment(),
                [tenant for tenant, _, _ in slots],
                [schedule_id for _, schedule_id, _ in slots],
                [slot for _, _, slot in slots],
            )
        )
        return tuple(LaterSlots(*row) for row in found)

    async def sweep(self, scope: Scope, limit: int) -> int:
        """Examines up to `limit` waiting schedules, continuing where the last call stopped."""
        check_system(scope)
        check_limit(limit)
        waiting = await self._waiting(limit)
        if not waiting and self._swept != _START:
            self._swept = _START
            waiting = await self._waiting(limit)
        left = [row for row in waiting if row["is_left"]]
        if len(waiting) == limit:
            self._swept = waiting[-1]["tenant"], waiting[-1]["id"]
        else:
            self._swept = _START
        if not left:
            return 0
        swept = await self._database.run(
            lambda connection: connection.fetch(
                SQL.sweep_schedules,
                self._moment(),
                [row["tenant"] for row in left],
                [row["id"] for row in left],
                [row["version"] for row in left],
                [read_terms(row["terms"]).delay_seconds for row in left],
            )
        )
        if swept:
            self._wakeups.notify([SCHEDULES_TOPIC])
        return len(swept)

    async def _waiting(self, limit: int) -> list[Any]:
        return await self._database.run(
            lambda connection: connection.fetch(SQL.waiting_schedules, *self._swept, limit)
        )


def _plan_columns(plans: Sequence[Plan]) -> list[list[Any]]:
    first_fires, last_fires = _ranges([len(plan.fires) for plan in plans])
    first_skips, last_skips = _ranges([len(plan.skips) for plan in plans])
    return [
        [plan.tenant for plan in plans],
        [plan.id for plan in plans],
        [plan.shard for plan in plans],
        [plan.version for plan in plans],
        [plan.next_slot for plan in plans],
        [plan.status for plan in plans],
        [plan.then_slot for plan in plans],
        [unless_usual(plan.then_due_at, plan.then_slot) for plan in plans],
        [plan.look_at for plan in plans],
        [plan.error for plan in plans],
        first_fires,
        last_fires,
        first_skips,
        last_skips,
    ]


def _ranges(counts: Iterable[int]) -> tuple[list[int], list[int]]:
    """The first and last index of each run of items, from 1."""
    first: list[int] = []
    last: list[int] = []
    index = 0
    for count in counts:
        first.append(index + 1)
        index += count
        last.append(index)
    return first, last


def _due(row: Any) -> DueSchedule:
    tenant, id_, shard, version, next_slot, rule, shift, overlap, fired, *more = row
    unfinished, calendar, expires = more
    return DueSchedule(
        tenant=tenant,
        id=id_,
        shard=shard,
        version=version,
        next_slot=next_slot,
        rule=read_rule(rule, id_, shift),
        overlap=OVERLAPS[overlap],
        fired=fired,
        unfinished=unfinished,
        calendar_version=calendar,
        expires_after_seconds=expires,
    )


def _of_shard(row: Any) -> WaitingSchedule:
    tenant, id_, name, next_slot, look_at, last_slot, updated_at, fired, rule = row
    return WaitingSchedule(
        tenant=tenant,
        id=id_,
        name=name,
        next_slot=next_slot,
        look_at=look_at,
        last_slot=last_slot,
        updated_at=updated_at,
        fired=fired,
        rule=read_rule(rule, id_),
    )


def _result(plans: Sequence[Plan], led: Sequence[int], outcome: _Outcome) -> PlanResult:
    numbers = {index: number for number, index in enumerate(led)}
    done: list[int] = []
    lost: list[int] = []
    stale: list[int] = []
    no_queue: list[int] = []
    for index, plan in enumerate(plans):
        number = numbers.get(index)
        if number in outcome.done:
            done.append(index)
        elif number is None or plan.shard not in outcome.led:
            lost.append(index)
        elif number in outcome.no_queue:
            no_queue.append(index)
        else:
            stale.append(index)
    return PlanResult(tuple(done), tuple(lost), tuple(stale), tuple(no_queue))
