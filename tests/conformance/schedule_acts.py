"""Helpers for conformance tests of schedules."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import structs

from tests.conformance.acts import ALL, WORK, pull
from tests.stores.clock import VirtualClock
from tickwork.core import when
from tickwork.core.limits import TTL_SECONDS_MAX
from tickwork.core.message import decide
from tickwork.core.message.outcome import Outcome, Succeeded
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    Message,
    QueueSettings,
    Scope,
    Settlement,
    SettleResult,
)
from tickwork.core.schedule import change as changing
from tickwork.core.schedule.change import Decision
from tickwork.core.schedule.firing import FiringRecord
from tickwork.core.schedule.model import (
    SHARDS,
    Definition,
    NewSchedule,
    OverlapPolicy,
    Schedule,
    bucket_of,
    read_rule,
    rule_text,
    shard_of,
)
from tickwork.core.schedule.next_slot import look_at
from tickwork.core.schedule.plan import DueSchedule, Fire, Plan, PlanResult, plan
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

MINUTE = timedelta(minutes=1)
EVERY_MINUTE: dict[str, Any] = {"interval_seconds": 60}
PASSES_MAX = 1_000
ALL_SHARDS = tuple(range(SHARDS))


def rule_of(clock: VirtualClock, schedule_id: UUID, **fields: Any) -> when.Rule:
    """The rule of a schedule created now; its calendar, if it has one, is empty."""
    named = fields.get("calendar")
    calendars = {} if named is None else {named: frozenset[Any]()}
    rule = when.parse(
        fields,
        created_at=clock.now(),
        seed=str(schedule_id),
        calendars=calendars,
        limits=when.Limits(min_interval_seconds=1),
    )
    return read_rule(rule_text(rule), schedule_id)


def new_schedule(
    clock: VirtualClock, *, schedule_id: UUID | None = None, **fields: Any
) -> NewSchedule:
    """A schedule for the queue `work` that fires every minute unless a timing is given.

    Arguments that `Definition` and `NewSchedule` know go there, the others into the rule.
    """
    schedule_id = schedule_id or new_id()
    own = {field: fields.pop(field) for field in _OWN if field in fields}
    said = {field: fields.pop(field) for field in _SAID if field in fields}
    timing = (
        fields if any(field in when.TIMING_FIELDS for field in fields) else EVERY_MINUTE | fields
    )
    rule = rule_of(clock, schedule_id, **timing)
    definition = Definition(rule=rule, **{"queue": WORK, "body": b'{"n":1}'} | said)
    slot = when.first_slot(rule, clock.now())
    assert slot is not None
    first = {
        "next_slot": slot,
        "due_at": when.due_at(rule, slot),
        "look_at": look_at(rule, definition.overlap, slot),
    }
    return NewSchedule(id=schedule_id, definition=definition, **first | own)


_OWN = {*NewSchedule.__struct_fields__} - {"definition", "id"}
_SAID = {*Definition.__struct_fields__} - {"rule"}


async def create(
    store: Store, clock: VirtualClock, *, scope: Scope = DEFAULT, **fields: Any
) -> Schedule:
    """Creates one schedule."""
    (made,) = await store.schedules.create(scope, [new_schedule(clock, **fields)])
    return made


async def again(store: Store, schedule: Schedule) -> Schedule:
    """The schedule as it is now."""
    return await store.schedules.get(Scope(schedule.tenant), schedule.id)


class Leader(NamedTuple):
    """A node that leads some shards."""

    node: UUID
    grants: tuple[Grant, ...]

    @property
    def shards(self) -> list[int]:
        return [grant.shard for grant in self.grants]

    def without(self, shard: int) -> "Leader":
        return self._replace(grants=tuple(grant for grant in self.grants if grant.shard != shard))

    def mistaken(self, shard: int) -> "Leader":
        """The same leader with another token for a shard."""
        wrong = (
            structs.replace(grant, token=grant.token - 1) if grant.shard == shard else grant
            for grant in self.grants
        )
        return self._replace(grants=tuple(wrong))


async def join_scheduler(store: Store, *, ttl_seconds: float = TTL_SECONDS_MAX) -> UUID:
    node = new_id()
    await store.nodes.join(
        SYSTEM, node, name="leader", roles=["scheduler"], ttl_seconds=ttl_seconds
    )
    return node


async def lead(store: Store, *, ttl_seconds: float = TTL_SECONDS_MAX) -> Leader:
    """A node that takes all free shards."""
    node = await join_scheduler(store, ttl_seconds=ttl_seconds)
    return Leader(node, await store.shards.hold(SYSTEM, node))


async def look(store: Store, leader: Leader, *, limit: int = ALL) -> list[DueSchedule]:
    """The schedules that are due for the leader."""
    return list(await store.schedules.due(SYSTEM, leader.shards, limit))


async def planned(store: Store, clock: VirtualClock, leader: Leader) -> list[Plan]:
    """The leader's plans, without carrying them out."""
    return [plan(schedule, clock.now()) for schedule in await look(store, leader)]


async def write(store: Store, leader: Leader, plans: Sequence[Plan]) -> PlanResult:
    return await store.schedules.plan(SYSTEM, leader.grants, plans)


async def plan_all(store: Store, clock: VirtualClock, leader: Leader) -> None:
    """Plans until nothing is due."""
    for _ in range(PASSES_MAX):
        plans = await planned(store, clock, leader)
        if not plans:
            return
        result = await write(store, leader, plans)
        assert len(result.done) == len(plans), result
    raise AssertionError("there is always more to plan")


async def plan_now(store: Store, clock: VirtualClock) -> None:
    """Plans everything that is due, with a leader for that moment."""
    leader = await lead(store)
    assert len(leader.grants) == SHARDS, "somebody else leads"
    await plan_all(store, clock, leader)
    await store.nodes.leave(SYSTEM, leader.node)


async def created_due(
    store: Store, clock: VirtualClock, *, after_seconds: float = 60, **fields: Any
) -> Schedule:
    """A schedule whose slots up to now are planned: by default its first one is due."""
    made = await create(store, clock, **fields)
    clock.advance(seconds=after_seconds)
    await plan_now(store, clock)
    return await again(store, made)


async def one_plan(
    store: Store, clock: VirtualClock, **fields: Any
) -> tuple[Schedule, Leader, Plan]:
    """A schedule, its leader, and the leader's plan for its first slot, in a minute."""
    made = await create(store, clock, **fields)
    clock.advance(seconds=30)
    leader = await lead(store)
    (decided,) = await planned(store, clock, leader)
    return made, leader, decided


async def messages(store: Store, schedule: Schedule) -> list[Message]:
    """Its messages, by slot and run."""
    found = await store.schedules.messages(Scope(schedule.tenant), schedule.id, ALL)
    return list(found)


async def slots(store: Store, schedule: Schedule) -> list[datetime | None]:
    """The slots of its messages."""
    return [message.slot for message in await messages(store, schedule)]


async def firings(store: Store, schedule: Schedule) -> list[FiringRecord]:
    """Its firings, oldest first."""
    found = await store.firings.list(Scope(schedule.tenant), schedule.id, ALL)
    return [*reversed(found)]


async def records(store: Store, schedule: Schedule) -> list[tuple[str, str | None, int]]:
    """Its firings in short: status, reason and number of slots."""
    return [
        (firing.status, firing.reason, firing.count) for firing in await firings(store, schedule)
    ]


async def change(
    store: Store, schedule: Schedule, withdraw: WithdrawScope, decide_: Decision
) -> Schedule:
    return await store.schedules.change(Scope(schedule.tenant), schedule.id, withdraw, decide_)


async def pause(store: Store, schedule: Schedule) -> Schedule:
    return await change(store, schedule, WithdrawScope.UNCLAIMED, changing.pause)


async def resume(store: Store, schedule: Schedule) -> Schedule:
    decide_ = changing.resume(schedule.definition.rule)
    return await change(store, schedule, WithdrawScope.NOTHING, decide_)


async def delete(store: Store, schedule: Schedule) -> Schedule:
    return await change(store, schedule, WithdrawScope.ALL, changing.delete)


async def update(
    store: Store, schedule: Schedule, rule: when.Rule | None = None, **said: Any
) -> Schedule:
    """Updates the rule or fields of the definition."""
    old = schedule.definition
    new = structs.replace(old, rule=rule or old.rule, **said)
    decide_ = changing.update(new, schedule.name, old.rule, new.rule)
    return await change(store, schedule, WithdrawScope.NOT_DUE, decide_)


async def trigger(store: Store, schedule: Schedule) -> Schedule:
    return await change(store, schedule, WithdrawScope.NOTHING, changing.trigger)


async def end(
    store: Store, message: Message, outcome: Outcome | None = None, *, max_retries: int = 3
) -> SettleResult:
    """Settles the message with a handler's outcome; by default success."""
    settings = QueueSettings(max_retries=max_retries)
    ending = decide.settle(message, outcome or Succeeded(), settings, took_seconds=0.0)
    return await store.messages.settle(SYSTEM, Settlement((ending,)))


async def end_next(store: Store, outcome: Outcome | None = None, **fields: Any) -> Message:
    """Claims the only claimable message and settles it."""
    (message,) = await pull(store)
    await end(store, message, outcome, **fields)
    return message


def fire_at(slot: datetime, **fields: Any) -> Fire:
    return Fire(**{"slot": slot, "due_at": slot, "visible_at": slot} | fields)


def shard_of_schedule(schedule: Schedule | NewSchedule) -> int:
    return shard_of(bucket_of(schedule.id))


def in_shard(shard: int) -> UUID:
    """An id that belongs to a shard."""
    for _ in range(SHARDS * 100):
        if shard_of(bucket_of(found := new_id())) == shard:
            return found
    raise AssertionError(f"no id in shard {shard}")


ONE_AT_A_TIME: dict[str, Any] = {"overlap": OverlapPolicy.SKIP}
