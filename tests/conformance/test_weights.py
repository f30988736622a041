"""Weights: tenants get shares by weight, none starves, and suspended tenants get nothing."""

from collections import Counter

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    claim,
    claim_one,
    counts,
    die,
    ids,
    join,
    make_queue,
    pull,
    send,
    send_many,
    settle,
)
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import SYSTEM, Counts, Scope, SettleResult, Tenant
from tickwork.store.contract import Store


async def put_tenant(store: Store, name: str, *, weight: int = 1, suspended: bool = False) -> Scope:
    await store.tenants.put(SYSTEM, Tenant(id=name, weight=weight, suspended=suspended))
    return Scope(name)


async def shares(store: Store, *, limit: int, messages: int) -> Counter[str]:
    """The tenants of the next messages, claimed a few at a time."""
    served: Counter[str] = Counter()
    while served.total() < messages:
        found = await pull(store, scope=SYSTEM, limit=min(limit, messages - served.total()))
        assert found, "everybody has enough"
        served.update(message.tenant for message in found)
    return served


def assert_within(served: Counter[str], weights: dict[str, int], *, tolerance: float) -> None:
    total = sum(weights.values())
    for name, weight in weights.items():
        share = served.total() * weight / total
        assert abs(served[name] - share) <= tolerance * share, (name, served)


@pytest.mark.parametrize(
    ("weights", "limit", "messages"),
    [
        pytest.param({"a": 1, "b": 2, "c": 5}, 100, 10_000, marks=pytest.mark.soak),
        ({"a": 1, "b": 2, "c": 5}, 7, 1_400),
        ({"a": 1, "b": 1_000}, 500, 10_010),
        ({f"tenant-{number:02}": number % 3 + 1 for number in range(30)}, 8, 1_200),
    ],
    ids=["thousands", "odd limit", "far apart", "many tenants"],
)
async def test_shares_follow_weights_within_five_percent(
    store: Store, weights: dict[str, int], limit: int, messages: int
) -> None:
    await make_queue(store, scope=SYSTEM)
    for name, weight in weights.items():
        scope = await put_tenant(store, name, weight=weight)
        await send_many(store, messages * weight // sum(weights.values()) + limit, scope=scope)
    served = await shares(store, limit=limit, messages=messages)
    assert_within(served, weights, tolerance=0.05)


async def test_a_changed_weight_applies_to_the_next_claim(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    for name in ("a", "b"):
        await send_many(store, 500, scope=await put_tenant(store, name))
    assert_within(await shares(store, limit=10, messages=200), {"a": 1, "b": 1}, tolerance=0.05)
    await put_tenant(store, "b", weight=3)

    async def is_seen() -> bool:
        found = await pull(store, scope=SYSTEM, limit=8)
        return Counter(message.tenant for message in found) == {"a": 2, "b": 6}

    await eventually(is_seen, what="shares of 1 and 3")


async def test_a_weight_leaves_no_capacity_unused(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    rich, poor = await put_tenant(store, "rich"), await put_tenant(store, "poor", weight=50)
    await send_many(store, 100, scope=rich)
    await send_many(store, 3, scope=poor)
    found = await pull(store, scope=SYSTEM, limit=60)
    assert Counter(message.tenant for message in found) == {"rich": 57, "poor": 3}


@pytest.mark.parametrize("weight", [1, 5])
async def test_a_quiet_tenant_is_served_in_the_next_round_beside_very_many_tenants(
    store: Store, clock: VirtualClock, weight: int
) -> None:
    await make_queue(store, scope=SYSTEM)
    loud, quiet = await put_tenant(store, "loud", weight=weight), await put_tenant(store, "quiet")
    await send_many(store, 20_000, scope=loud)
    assert len(await pull(store, scope=SYSTEM, limit=10)) == 10
    clock.advance(seconds=60)
    message = await send(store, scope=quiet, priority=0)
    assert message.id in ids(await pull(store, scope=SYSTEM, limit=10))


async def test_a_weight_does_not_affect_a_tenants_own_claims(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    scope = await put_tenant(store, "heavy", weight=1_000)
    sent = await send_many(store, 5, scope=scope)
    assert ids(await pull(store, scope=scope, limit=3)) == ids(sent[:3])


async def test_messages_of_a_suspended_tenant_are_not_claimed(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    gone, other = await put_tenant(store, "gone"), await put_tenant(store, "other")
    await send_many(store, 5, scope=gone)
    mine = await send_many(store, 5, scope=other)
    assert len(await pull(store, scope=gone, limit=1)) == 1
    await put_tenant(store, "gone", suspended=True)
    assert await pull(store, scope=gone) == ()
    assert ids(await pull(store, scope=SYSTEM)) == ids(mine)
    assert await pull(store, scope=SYSTEM) == ()
    assert await counts(store, scope=gone) == Counts(ready=4, claimed=1)


async def test_a_suspended_tenants_own_queue_is_not_claimed_from(store: Store) -> None:
    scope = await put_tenant(store, "gone", suspended=True)
    await make_queue(store, scope=scope)
    sent = await send(store, scope=scope)
    assert await claim(store, await join(store), scope=scope) == ()
    await put_tenant(store, "gone")
    assert ids(await claim(store, await join(store), scope=scope)) == [sent.id]


async def test_a_suspended_tenant_can_send_and_settle(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    scope = await put_tenant(store, "gone")
    await send(store, scope=scope)
    (message,) = await pull(store, scope=scope)
    await put_tenant(store, "gone", suspended=True)
    await send(store, scope=scope)
    assert await settle(store, ack(message), scope=scope) == SettleResult()
    assert await counts(store, scope=scope) == Counts(ready=1)


async def test_suspects_of_a_suspended_tenant_are_not_claimed(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    first, second = await put_tenant(store, "first"), await put_tenant(store, "second")
    for scope in (first, second):
        await send(store, scope=scope)
        for _ in range(2):
            await claim_one(store, scope=scope)
            await die(store, clock)
    await put_tenant(store, "first", suspended=True)
    node = await join(store)
    assert await claim(store, node, scope=first, separate=True) == ()
    (message,) = await claim(store, node, scope=SYSTEM, separate=True)
    assert message.tenant == "second"
    assert await claim(store, node, scope=SYSTEM, separate=True) == ()


async def test_a_suspension_applies_to_other_processes(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    scope = await put_tenant(store, "gone")
    await send_many(store, ALL, scope=scope)
    other = await home.open(clock)
    try:
        assert len(await pull(other, scope=SYSTEM, limit=1)) == 1
        await put_tenant(store, "gone", suspended=True)

        async def is_known() -> bool:
            return await pull(other, scope=SYSTEM, limit=1) == ()

        await eventually(is_known, what="nothing more of a suspended tenant")
        assert (await other.queues.counts(SYSTEM, WORK)).ready > 0
    finally:
        await other.close()
