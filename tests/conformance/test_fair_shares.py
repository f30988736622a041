"""Fairness between tenants: a small tenant waits at most one round, and no capacity is unused."""

from collections import Counter

import pytest

from tests.conformance.acts import (
    ALL,
    ids,
    make_queue,
    make_tenants,
    pull,
    send,
    send_many,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import SYSTEM
from tickwork.store.contract import Store


async def test_a_quiet_tenants_message_is_in_the_next_claim(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    loud, quiet = await make_tenants(store, "loud", "quiet")
    await send_many(store, 1_000, scope=loud)
    assert len(await pull(store, scope=SYSTEM, limit=10)) == 10
    clock.advance(seconds=60)
    message = await send(store, scope=quiet)
    assert message.id in ids(await pull(store, scope=SYSTEM, limit=10))


async def test_many_priorities_do_not_make_a_tenants_share_larger(
    store: Store,
) -> None:
    await make_queue(store, scope=SYSTEM)
    loud, quiet = await make_tenants(store, "loud", "quiet")
    for priority in range(10):
        await send_many(store, 20, scope=loud, priority=priority)
    message = await send(store, scope=quiet, priority=0)
    assert message.id in ids(await pull(store, scope=SYSTEM, limit=10))


async def test_tenants_with_large_backlogs_get_equal_shares(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    for scope in await make_tenants(store, "a", "b", "c", "d"):
        await send_many(store, 50, scope=scope)
    found = await pull(store, scope=SYSTEM, limit=40)
    assert Counter(message.tenant for message in found) == dict.fromkeys("abcd", 10)


async def test_unused_shares_go_to_other_tenants(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    rich, poor = await make_tenants(store, "rich", "poor")
    await send_many(store, 50, scope=rich)
    await send_many(store, 2, scope=poor)
    found = await pull(store, scope=SYSTEM, limit=20)
    assert Counter(message.tenant for message in found) == {"rich": 18, "poor": 2}


@pytest.mark.parametrize("limit", [1, 3, 10])
async def test_every_tenant_has_a_turn_before_any_tenant_has_a_second(
    store: Store, limit: int
) -> None:
    await make_queue(store, scope=SYSTEM)
    names = [f"tenant-{number:02}" for number in range(12)]
    for scope in await make_tenants(store, *names):
        await send_many(store, 5, scope=scope)
    served: Counter[str] = Counter()
    for _ in range(-(-len(names) // limit)):
        found = await pull(store, scope=SYSTEM, limit=limit)
        served.update(message.tenant for message in found)
    assert set(served) == set(names)
    assert max(served.values()) <= 2


async def test_messages_of_one_tenant_stay_in_order(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, scope=SYSTEM)
    one, other = await make_tenants(store, "one", "other")
    sent: dict[str, list[object]] = {"one": [], "other": []}
    for priority in (9, 4, 4):
        for scope in (one, other):
            assert scope.tenant is not None
            message = await send(store, scope=scope, priority=priority)
            sent[scope.tenant].append(message.id)
        clock.advance(seconds=1)
    found = await pull(store, scope=SYSTEM, limit=ALL)
    for tenant, expected in sent.items():
        assert [message.id for message in found if message.tenant == tenant] == expected


async def test_no_tenant_starves_if_there_are_more_tenants_than_one_query_returns(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("shared.fair_shares", "sqlite.messages.claim", "postgres.messages.claim"):
        monkeypatch.setattr(f"tickwork.store.{module}.LANES_MAX", 3)
    await make_queue(store, scope=SYSTEM)
    *loud, quiet = await make_tenants(store, *"abcdefgh")
    for scope in loud:
        await send_many(store, 50, scope=scope)
    message = await send(store, scope=quiet)
    found = [ids(await pull(store, scope=SYSTEM, limit=2)) for _ in range(12)]
    assert message.id in [message_id for batch in found for message_id in batch]
