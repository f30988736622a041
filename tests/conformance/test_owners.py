"""Owners: one user of a tenant reaches only that user's schedules, and has names of its own."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from tests.conformance.acts import ALL, make_queue
from tests.conformance.schedule_acts import new_schedule, plan_now
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, SYSTEM, Scope, Tenant
from tickwork.core.schedule.model import Schedule, ScheduleOrder, ScheduleSelection
from tickwork.core.schedule.withdraw import WithdrawScope
from tickwork.errors import Conflict, Forbidden, NotFound
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

ADA, BOB = Scope("default", "ada"), Scope("default", "bob")


async def made(
    store: Store,
    clock: VirtualClock,
    owner: str | None = None,
    scope: Scope = DEFAULT,
    **given: Any,
) -> Schedule:
    new = structs.replace(new_schedule(clock, **given), owner=owner)
    (schedule,) = await store.schedules.create(scope, [new])
    return schedule


async def ids(store: Store, scope: Scope, **selection: Any) -> list[Any]:
    found = await store.schedules.list(scope, ScheduleSelection(**selection), ALL)
    return [schedule.id for schedule in found]


async def test_an_owner_reaches_only_its_own_schedules(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    own = await made(store, clock, "ada", ADA, name="mine")
    others = [await made(store, clock, owner, name="theirs") for owner in (None, "bob")]
    assert await store.schedules.get(ADA, own.id) == own
    assert await store.schedules.find(ADA, "mine") == own
    assert await store.schedules.find(ADA, "theirs") is None
    for order in ScheduleOrder:
        assert await ids(store, ADA, order=order) == [own.id]
        assert set(await ids(store, DEFAULT, order=order)) == {own.id, *(o.id for o in others)}
    assert await ids(store, ADA, owner="bob") == []
    clock.advance(seconds=3_600)
    await plan_now(store, clock)
    since, until = clock.now() - timedelta(days=1), clock.now() + timedelta(days=1)
    for other in others:
        for use in (
            store.schedules.get(ADA, other.id),
            store.schedules.messages(ADA, other.id, ALL),
            store.schedules.list(ADA, ScheduleSelection(after=other.id), ALL),
            store.schedules.change(ADA, other.id, WithdrawScope.NOTHING, _never),
        ):
            with pytest.raises(NotFound):
                await use
        assert await store.firings.list(ADA, other.id, ALL) == ()
        assert await store.firings.of_slot(ADA, other.id, since) == ()
        assert await store.firings.unfinished(ADA, other.id, since, until) == frozenset()
        assert await store.firings.unfinished(DEFAULT, other.id, since, until)
    assert await store.firings.unfinished(ADA, own.id, since, until)


def _never(*_: object) -> None:
    pytest.fail("a change of another owner's schedule is not decided")


async def test_an_owner_creates_no_schedules_of_others(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    for owner in (None, "bob"):
        with pytest.raises(Forbidden):
            await made(store, clock, owner, ADA)
        with pytest.raises(Forbidden):
            new = structs.replace(new_schedule(clock), owner=owner)
            await store.schedules.create_bulk(ADA, iter([new]))
    assert await ids(store, DEFAULT) == []


async def test_names_are_unique_per_owner(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    of_ada = await made(store, clock, "ada", ADA, name="daily")
    assert await store.schedules.find(DEFAULT, "daily") == of_ada
    of_bob = await made(store, clock, "bob", name="daily")
    with pytest.raises(Conflict, match="owners"):
        await store.schedules.find(DEFAULT, "daily")
    of_nobody = await made(store, clock, name="daily")
    assert await store.schedules.find(DEFAULT, "daily") == of_nobody
    assert await store.schedules.find(ADA, "daily") == of_ada
    assert await store.schedules.find(BOB, "daily") == of_bob
    for owner in (None, "ada", "bob"):
        with pytest.raises(Conflict):
            await made(store, clock, owner, name="daily")


async def test_pages_by_name_have_each_owners_schedule_once(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    owners = [None, "ada", "bob", "eve"]
    names = ["daily", "weekly", None]
    all_made = [await made(store, clock, owner, name=name) for name in names for owner in owners]
    wanted = ScheduleSelection(order=ScheduleOrder.NAME)
    for size in (1, 2, 3, 5):
        seen: list[Any] = []
        page = await store.schedules.list(DEFAULT, wanted, size)
        while page:
            seen += [schedule.id for schedule in page]
            after = structs.replace(wanted, after=page[-1].id)
            page = await store.schedules.list(DEFAULT, after, size)
        assert seen == [schedule.id for schedule in all_made]


async def test_idempotency_keys_are_unique_per_owner(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    fields: dict[str, Any] = {"idempotency_key": "order-1", "fingerprint": b"1"}
    of_ada = await made(store, clock, "ada", ADA, **fields)
    of_bob = await made(store, clock, "bob", BOB, **fields)
    of_nobody = await made(store, clock, **fields)
    assert len({of_ada.id, of_bob.id, of_nobody.id}) == 3
    assert (await made(store, clock, "ada", ADA, **fields)).id == of_ada.id
    assert (await made(store, clock, "bob", **fields)).id == of_bob.id
    assert (await made(store, clock, **fields)).id == of_nobody.id
    both = [
        structs.replace(new_schedule(clock, **fields), owner=owner)
        for owner in ("ada", None, "ada")
    ]
    again = await store.schedules.create(DEFAULT, both)
    assert [schedule.id for schedule in again] == [of_ada.id, of_nobody.id, of_ada.id]
    assert [key.id for key in await store.schedules.of_keys(ADA, ["order-1"])] == [of_ada.id]
    assert len(await store.schedules.of_keys(DEFAULT, ["order-1"])) == 3
    with pytest.raises(Conflict, match="different contents"):
        await made(store, clock, "ada", ADA, idempotency_key="order-1", fingerprint=b"2")


async def test_tenants_are_listed_in_pages(store: Store) -> None:
    others = [Tenant(id="b", owner_targets=("queue:work", "email")), Tenant(id="a", weight=7)]
    for other in others:
        await store.tenants.put(SYSTEM, other)
    listed = (others[1], others[0], Tenant(id="default"))
    assert await store.tenants.list(SYSTEM, ALL) == listed
    assert await store.tenants.list(SYSTEM, 1, after="a") == (others[0],)
    assert await store.tenants.list(DEFAULT, ALL) == listed[2:]
    assert await store.tenants.get(SYSTEM, "b") == others[0]
