"""Mutations: each switches one safeguard off by a small change from outside."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from tests.mutants import scenarios
from tests.mutants.cluster import Cluster
from tests.stores.home import KINDS, Kind
from tickwork.core.model import Scope, Settlement, SettleResult
from tickwork.core.schedule import shards as sharing
from tickwork.core.schedule.change import Change, Decision
from tickwork.core.schedule.model import Schedule
from tickwork.core.schedule.plan import Plan, PlanResult
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.withdraw import Withdrawn, WithdrawScope
from tickwork.store.postgres.engine.sql import SQL as POSTGRES
from tickwork.store.postgres.schedules import shards as postgres_shards
from tickwork.store.sqlite.engine.sql import SQL as SQLITE
from tickwork.store.sqlite.schedules import shards as sqlite_shards

Patch = pytest.MonkeyPatch
Twist = Callable[[Any], Any]


def _nothing(_: Patch) -> None: ...


class Mutant(NamedTuple):
    """A safeguard that is off, the scenario in which it matters, and the checker that sees it."""

    name: str
    caught_by: str
    story: Callable[[Cluster], Any]
    patch: Callable[[Patch], None] = _nothing
    twist: Twist = lambda store: store
    kinds: Sequence[Kind] = KINDS

    @property
    def first_kind(self) -> Kind:
        """The store it is tried on first; in a soak it is tried on all others. A safeguard in front
        of a store is off for all stores; one inside a store is tried where two can write at once.
        """
        is_in_front = self.patch in (_nothing, _not_rewound)
        return "sqlite" if is_in_front else "postgres"


class Through:
    """One noun of a store, with a part replaced."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Replanning(Through):
    """Writes other plans than the given ones."""

    def __init__(self, inner: Any, other: Callable[[Plan], Plan]) -> None:
        super().__init__(inner)
        self._other = other

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        result: PlanResult = await self.inner.plan(scope, grants, [*map(self._other, plans)])
        return result


class Believing(Through):
    """Plans under the current token of a shard instead of the granted one."""

    def __init__(self, store: Any) -> None:
        super().__init__(store.schedules)
        self._shards = store.shards

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        tokens = {state.shard: state.token for state in await self._shards.list(scope)}
        as_it_is = [Grant(grant.shard, tokens[grant.shard]) for grant in grants]
        result: PlanResult = await self.inner.plan(scope, as_it_is, plans)
        return result


class Unrecorded(Through):
    """Settles messages of slots without a record."""

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        endings = tuple(structs.replace(ending, effects=()) for ending in settlement.endings)
        result: SettleResult = await self.inner.settle(scope, Settlement(endings))
        return result


def replanning(other: Callable[[Plan], Plan]) -> Twist:
    def twist(store: Any) -> Any:
        store.schedules = Replanning(store.schedules, other)
        return store

    return twist


def believing(store: Any) -> Any:
    store.schedules = Believing(store)
    return store


def unrecorded(store: Any) -> Any:
    store.messages = Unrecorded(store.messages)
    return store


def saying(
    postgres: dict[str, Sequence[tuple[str, str]]], sqlite: dict[str, Sequence[tuple[str, str]]]
) -> Callable[[Patch], None]:
    """Statements with a part of their text replaced."""

    def patch(monkeypatch: Patch) -> None:
        for statements, changes in ((POSTGRES, postgres), (SQLITE, sqlite)):
            for name, replaced in changes.items():
                text = getattr(statements, name)
                for old, new in replaced:
                    assert old in text, f"{name} does not say {old!r} any more"
                    text = text.replace(old, new)
                monkeypatch.setattr(statements, name, text)

    return patch


def sharing_out(share_out: Callable[..., sharing.ShardMoves]) -> Callable[[Patch], None]:
    def patch(monkeypatch: Patch) -> None:
        monkeypatch.setattr(sharing, "balance_shards", share_out)

    return patch


def both(
    first: Callable[[Patch], None], second: Callable[[Patch], None]
) -> Callable[[Patch], None]:
    """A safeguard that exists in two places."""

    def patch(monkeypatch: Patch) -> None:
        first(monkeypatch)
        second(monkeypatch)

    return patch


_balance_shards = sharing.balance_shards


def _as_if_alone(node: Any, _living: Any, held: Any, **facts: Any) -> sharing.ShardMoves:
    share = _balance_shards(node, {}, held, **facts)
    return structs.replace(share, take=share.take[: len(share.take) // 2])


def _as_if_all_lived(monkeypatch: Patch) -> None:
    def hold_shards(node: Any, living: Any, shards: Any, **at: Any) -> sharing.ShardWrites:
        facts = [*shards]
        leaders = dict.fromkeys(fact.leader for fact in facts if fact.leader is not None)
        return sharing.hold_shards(node, {**leaders, **living}, facts, **at)

    for module in (postgres_shards, sqlite_shards):
        monkeypatch.setattr(module, "hold_shards", hold_shards)


def _not_advanced(plan: Plan) -> Plan:
    if not plan.fires:
        return plan
    slot = plan.next_slot
    return structs.replace(plan, then_slot=slot, then_due_at=slot, look_at=slot)


def _at_once(plan: Plan) -> Plan:
    fires = tuple(
        structs.replace(fire, visible_at=plan.next_slot.replace(year=2000)) for fire in plan.fires
    )
    return structs.replace(plan, fires=fires)


def _not_rewound(monkeypatch: Patch) -> None:
    """Hides withdrawn slots from `decide`."""
    from tickwork.store.postgres.schedules.change import Changer as PostgresChanger
    from tickwork.store.sqlite.schedules.change import Changer as SqliteChanger

    for changer in (PostgresChanger, SqliteChanger):
        change = changer.change

        async def forgetful(
            self: Any,
            scope: Scope,
            schedule_id: Any,
            withdraw: WithdrawScope,
            decide: Decision,
            change: Any = change,
        ) -> Schedule:
            def decided(schedule: Schedule, _: Sequence[Withdrawn], now: Any) -> Change | None:
                return decide(schedule, (), now)

            result: Schedule = await change(self, scope, schedule_id, withdraw, decided)
            return result

        monkeypatch.setattr(changer, "change", forgetful)


UNTOKENED = [("AND token = given.token AND", "AND")]
UNLOCKED = [("FOR SHARE", "")]
UNSURE = [("WHERE id = given.id FOR NO KEY UPDATE", "WHERE id <> id")]
TAKEN_BACK = [("AND state <> 'claimed' AND claim = 0", ""), ("other.claim > 0", "false")]

MUTANTS = (
    Mutant(
        "the token is not compared",
        "stale_writes",
        scenarios.take_over,
        saying({"plan": UNTOKENED}, {}),
        kinds=("postgres",),
    ),
    Mutant(
        "the token is read where it should be compared",
        "stale_writes",
        scenarios.take_over,
        twist=believing,
    ),
    Mutant(
        "the token is compared but not locked",
        "stale_writes",
        scenarios.taken_in_mid_write,
        saying({"plan": UNLOCKED}, {}),
        kinds=("postgres",),
    ),
    Mutant(
        "the token does not rise on a take-over",
        "decreasing_tokens",
        scenarios.take_over,
        saying(
            {"move_shards": [("greatest(s.token + 1, $9::bigint)", "greatest(s.token, $9)")]},
            {"take_shards": [("max(token + 1, ?4)", "max(token, ?4)")]},
        ),
    ),
    Mutant(
        "a lease is renewed by name only",
        "shards_taken_from_live_nodes",
        scenarios.take_over,
        saying(
            {"heartbeat": [("WHERE id = $2 AND expires_at > now", "WHERE id = $2")]},
            {"heartbeat": [("WHERE id = ?2 AND expires_at > ?1", "WHERE id = ?2")]},
        ),
    ),
    Mutant(
        "a lease that is being renewed counts as over",
        "shards_taken_from_live_nodes",
        scenarios.renewed_in_mid_take,
        saying({"move_shards": UNSURE}, {}),
        kinds=("postgres",),
    ),
    Mutant(
        "shards are taken from the living",
        "shards_taken_from_live_nodes",
        scenarios.joining,
        both(sharing_out(_as_if_alone), saying({"move_shards": UNSURE}, {})),
    ),
    Mutant(
        "shards of the dead are left to them",
        "not_recovered",
        scenarios.take_over,
        _as_if_all_lived,
    ),
    Mutant(
        "a schedule moves on whatever its version",
        "slots_outside_rule",
        scenarios.changed_meanwhile,
        saying(
            {
                "plan": [
                    ("AND version = given.version AND", "AND"),
                    ("(s.version, s.next_slot, s.status)", "(s.next_slot, s.status)"),
                    ("(found.version, found.next_slot,", "(found.next_slot,"),
                ]
            },
            {"schedules_to_plan": [("s.version = plan.version AND", "")]},
        ),
    ),
    Mutant(
        "a schedule moves on whatever its next slot",
        "duplicate_slots",
        scenarios.lost_answer,
        saying(
            {
                "plan": [
                    ("AND next_slot = given.next_slot AND", "AND"),
                    ("(s.version, s.next_slot, s.status)", "(s.version, s.status)"),
                    ("(found.version, found.next_slot,", "(found.version,"),
                ]
            },
            {"schedules_to_plan": [("AND s.next_slot = plan.next_slot", "")]},
        ),
    ),
    Mutant(
        "messages are stored and the schedule stays",
        "duplicate_slots",
        scenarios.quiet,
        twist=replanning(_not_advanced),
    ),
    Mutant(
        "the schedule moves on without messages",
        "uncovered_slots",
        scenarios.quiet,
        twist=replanning(lambda plan: structs.replace(plan, fires=())),
    ),
    Mutant(
        "skipped slots are not recorded",
        "uncovered_slots",
        scenarios.outage,
        twist=replanning(lambda plan: structs.replace(plan, skips=())),
    ),
    Mutant(
        "slots are taken back and the schedule is not rewound",
        "uncovered_slots",
        scenarios.paused,
        _not_rewound,
    ),
    Mutant(
        "claimed slots are taken back, too",
        "uncovered_slots",
        scenarios.paused,
        saying(
            {
                "withdrawable_slots": TAKEN_BACK,
                "count_withdrawable_slots": TAKEN_BACK,
                "delete_withdrawn": [("AND m.state <> 'claimed' AND m.claim = 0", "")],
            },
            {"withdrawable_slots": [("AND claim = 0", ""), ("other.claim > 0 OR", "")]},
        ),
    ),
    Mutant(
        "slots are visible at once",
        "early_firings",
        scenarios.quiet,
        twist=replanning(_at_once),
    ),
    Mutant(
        "the end of a slot is not recorded",
        "lost_messages",
        scenarios.quiet,
        twist=unrecorded,
    ),
)
