"""Quotas of tenants for how many queues, endpoints, subscriptions, sessions and schedules of one
owner they may have. They are exact: nobody gets one more by asking at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from tests.conformance.acts import make_queue
from tests.conformance.endpoint_acts import make_endpoint
from tests.conformance.schedule_acts import new_schedule
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.access import Permission
from tickwork.core.api_key import NewApiKey
from tickwork.core.model import SYSTEM, QueueSettings, Scope, Tenant
from tickwork.core.options.tenant import OWNER_SCHEDULES_MAX
from tickwork.core.schedule import change
from tickwork.core.schedule.model import NewSchedule, Schedule, ScheduleStatus
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.core.tenant_limits import COUNTED
from tickwork.errors import InvalidInput, TooMany
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

ONE, TWO = Scope("one"), Scope("two")
KEY = NewApiKey(id="k1", name="ci", scopes=(Permission.READ,), secret_hash=b"1" * 32)

Make = Callable[[Store, Scope, int], Awaitable[object]]


async def limit(store: Store, **quotas: int | None) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="one", **quotas))  # type: ignore[arg-type]


async def begin(store: Store) -> None:
    """Two tenants, each with the queue `work` and a key."""
    for scope in (ONE, TWO):
        await store.tenants.put(SYSTEM, Tenant(id=str(scope.tenant)))
        await make_queue(store, scope=scope)
        await store.keys.create(scope, structs.replace(KEY, id=f"key{scope.tenant}"))


async def queue(store: Store, scope: Scope, number: int) -> object:
    return await store.queues.put(scope, f"queue-{number}", QueueSettings())


async def endpoint(store: Store, scope: Scope, number: int) -> object:
    return await make_endpoint(store, f"endpoint-{number}", scope=scope)


async def subscription(store: Store, scope: Scope, number: int) -> object:
    return await store.subscriptions.put(scope, f"type-{number}", "work")


def session_id(scope: Scope, number: int) -> bytes:
    return f"{scope.tenant} {number}".encode()


async def session(store: Store, scope: Scope, number: int, **options: bool) -> object:
    return await store.sessions.start(
        SYSTEM,
        session_id(scope, number),
        tenant=str(scope.tenant),
        key_id=f"key{scope.tenant}",
        secret_hash=b"1" * 32,
        seconds=3_600,
        **options,
    )


MAKERS: dict[str, tuple[Make, int]] = {
    "queues_max": (queue, 1),
    "endpoints_max": (endpoint, 0),
    "subscriptions_max": (subscription, 0),
    "sessions_max": (session, 0),
}
"""How to make one more of what a quota counts, and how many there are at the beginning."""


@pytest.mark.parametrize("name", COUNTED)
async def test_a_tenant_has_as_many_as_its_quota_and_not_one_more(store: Store, name: str) -> None:
    make, there = MAKERS[name]
    await begin(store)
    await limit(store, **{name: there + 3})
    made = await asyncio.gather(
        *(make(store, ONE, number) for number in range(10)), return_exceptions=True
    )
    refused = [error for error in made if isinstance(error, BaseException)]
    assert len(refused) == 7
    noun, most = COUNTED[name].noun, there + 3
    for error in refused:
        assert isinstance(error, TooMany)
        assert error.limit == name
        assert f"tenant one has {most} {noun} and may have {most}; " in str(error)
        assert str(error).endswith(f", or raise its {name}")
    await make(store, TWO, 1)
    await limit(store, **{name: there + 4})
    await make(store, ONE, 100)
    await limit(store, **{name: 0})
    with pytest.raises(TooMany, match=f"has {there + 4} {noun} and may have 0"):
        await make(store, ONE, 101)


@pytest.mark.parametrize("name", ["queues_max", "endpoints_max", "subscriptions_max"])
async def test_what_is_there_already_can_be_put_again_at_the_limit(store: Store, name: str) -> None:
    make, _ = MAKERS[name]
    await begin(store)
    first = await make(store, ONE, 1)
    await limit(store, **{name: 0})
    if name == "endpoints_max":
        assert await store.endpoints.create(ONE, first) == first  # type: ignore[arg-type]
    else:
        await make(store, ONE, 1)
    await limit(store)
    await make(store, ONE, 2)


@pytest.mark.parametrize("name", COUNTED)
async def test_a_quota_may_not_exceed_what_can_be_counted(store: Store, name: str) -> None:
    for wrong in (-1, COUNTED[name].most + 1):
        with pytest.raises(InvalidInput, match=f"{name}: must be from 0 to"):
            await limit(store, **{name: wrong})


async def test_a_session_that_has_ended_makes_room(store: Store, clock: VirtualClock) -> None:
    await begin(store)
    await limit(store, sessions_max=2)
    await session(store, ONE, 1)
    await session(store, ONE, 2)
    with pytest.raises(TooMany, match="sign in with end_others"):
        await session(store, ONE, 3)
    await session(store, ONE, 3, ends_others=True)
    assert await store.sessions.find(SYSTEM, session_id(ONE, 1)) is None
    await store.sessions.end(SYSTEM, session_id(ONE, 3))
    await session(store, ONE, 4)
    clock.advance(seconds=1_800)
    await session(store, ONE, 5)
    clock.advance(seconds=1_801)
    await session(store, ONE, 6)
    with pytest.raises(TooMany):
        await session(store, ONE, 7)
    await store.keys.revoke(ONE, "keyone")
    await store.keys.create(ONE, structs.replace(KEY, id="another"))
    await session(store, ONE, 8)


def owned(clock: VirtualClock, owner: str | None, **fields: Any) -> NewSchedule:
    return structs.replace(new_schedule(clock, **fields), owner=owner)


async def test_each_owner_has_its_own_number_of_schedules(
    store: Store, clock: VirtualClock
) -> None:
    await begin(store)
    await limit(store, owner_schedules_max=3)
    made = await asyncio.gather(
        *(store.schedules.create(ONE, [owned(clock, "ada")]) for _ in range(8)),
        return_exceptions=True,
    )
    refused = [error for error in made if isinstance(error, BaseException)]
    assert len(refused) == 5
    for error in refused:
        assert isinstance(error, TooMany)
        assert error.limit == "owner_schedules_max"
        assert "owner ada would have 4 schedules" in str(error)
        assert "each owner of tenant one may have 3; delete some or raise its" in str(error)
    # Other owners, schedules without one and other tenants are not concerned.
    await store.schedules.create(ONE, [owned(clock, "bob"), owned(clock, None)])
    await store.schedules.create(TWO, [owned(clock, "ada") for _ in range(4)])
    many = [owned(clock, "bob"), owned(clock, "bob"), owned(clock, "bob"), owned(clock, "eve")]
    with pytest.raises(TooMany, match="owner bob would have 4"):
        await store.schedules.create(ONE, many)
    with pytest.raises(TooMany, match="owner bob would have 4"):
        await store.schedules.create_bulk(ONE, many)
    assert await store.schedules.count(ONE) == 5


async def test_a_schedule_that_is_over_makes_room_for_its_owner(
    store: Store, clock: VirtualClock
) -> None:
    await begin(store)
    await limit(store, owner_schedules_max=1)
    over = owned(clock, "ada", status=ScheduleStatus.COMPLETED)
    (first,) = await store.schedules.create(ONE, [over])
    (second,) = await store.schedules.create(ONE, [owned(clock, "ada")])
    # A new end makes the first one active again: then there are two.
    with pytest.raises(TooMany, match="owner ada would have 2"):
        await revive(store, first)
    rule = second.definition.rule
    await store.schedules.change(ONE, second.id, WithdrawScope.ALL, change.delete_with_rule(rule))
    assert (await revive(store, first)).status is ScheduleStatus.ACTIVE
    with pytest.raises(TooMany):
        await store.schedules.create(ONE, [owned(clock, "ada")])


async def revive(store: Store, schedule: Schedule) -> Schedule:
    rule = schedule.definition.rule
    later = structs.replace(rule, anchor=rule.anchor + timedelta(seconds=1))
    definition = structs.replace(schedule.definition, rule=later)
    decide = change.update(definition, schedule.name, rule, later)
    return await store.schedules.change(ONE, schedule.id, WithdrawScope.NOT_DUE, decide)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("owner_schedules_max", -1),
        ("owner_schedules_max", OWNER_SCHEDULES_MAX + 1),
        ("owner_min_interval_seconds", 0),
        ("requests_per_second", 0),
    ],
)
async def test_a_wrong_quota_is_refused(store: Store, field: str, wrong: int) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: must be from"):
        await limit(store, **{field: wrong})
