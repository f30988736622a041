"""Rate limits: in a second exactly as many messages are claimed as the queue's rate allows."""

import asyncio
from datetime import datetime
from random import Random

import pytest

from tests.conformance.acts import (
    ack,
    claim,
    claim_one,
    counts,
    die,
    ids,
    join,
    kill_holders,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    release,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import LOST_CLAIMS_SEPARATE, SYSTEM, Counts
from tickwork.core.queue.rate_limit import allowance, spend
from tickwork.errors import NodeExpired
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def test_a_second_allows_as_many_messages_as_the_rate(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, rate_per_second=5)
    await send_many(store, 50)
    assert len(await pull(store)) == 5
    assert await pull(store) == ()
    clock.advance(seconds=0.2)
    assert len(await pull(store)) == 1
    clock.advance(seconds=0.199)
    assert await pull(store) == ()
    clock.advance(seconds=0.001)
    assert len(await pull(store)) == 1
    clock.advance(seconds=3_600)
    assert len(await pull(store, limit=2)) == 2
    assert len(await pull(store)) == 3


async def test_a_rate_below_one_allows_one_message_at_a_time(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, rate_per_second=0.5)
    await send_many(store, 5)
    assert len(await pull(store)) == 1
    clock.advance(seconds=1.9)
    assert await pull(store) == ()
    clock.advance(seconds=0.1)
    assert len(await pull(store)) == 1
    clock.advance(seconds=600)
    assert len(await pull(store)) == 1


@pytest.mark.parametrize("rate", [0.3, 3, 7.5, 1_000, 999_999])
async def test_claims_return_exactly_what_the_rate_allows(
    store: Store, clock: VirtualClock, rate: float
) -> None:
    await make_queue(store, rate_per_second=rate)
    await send_many(store, 2_000)
    random, left = Random(7), 2_000
    spent_until: datetime | None = None
    for _ in range(30):
        clock.advance(seconds=random.choice([0, 0.01, 0.1, 0.4, 1, 5]))
        limit = random.choice([1, 3, 50])
        expected = min(limit, left, allowance(spent_until, clock.now(), rate))
        assert len(await pull(store, limit=limit)) == expected
        left -= expected
        if expected:
            spent_until = spend(spent_until, clock.now(), rate, expected)


async def test_all_tenants_and_kinds_of_claims_share_one_rate(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM, rate_per_second=4)
    one, two = await make_tenants(store, "one", "two")
    await send(store, scope=one)
    for _ in range(2):
        await claim_one(store, scope=one)
        await die(store, clock)
    for scope in (one, two):
        await send_many(store, 10, scope=scope)
    node = await join(store)
    assert len(await claim(store, node, scope=one, separate=True)) == 1
    assert len(await pull(store, scope=two, limit=1)) == 1
    assert len(await claim(store, node, scope=SYSTEM)) == 2
    for scope in (one, two, SYSTEM):
        assert await pull(store, scope=scope) == ()
        assert await claim(store, node, scope=scope, separate=True) == ()


async def test_separate_claims_stay_within_the_rate(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send_many(store, 10)
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    await make_queue(store, rate_per_second=4)
    node = await join(store)
    assert len(await claim(store, node, separate=True)) == 4
    assert await claim(store, node, separate=True) == ()


async def test_each_queue_has_its_own_rate(store: Store) -> None:
    for queue in ("one", "two"):
        await make_queue(store, queue, rate_per_second=4)
        await send_many(store, 5, queue=queue)
        assert len(await pull(store, queue=queue)) == 4


async def test_a_retried_message_counts_again(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, rate_per_second=2)
    await send_many(store, 5)
    await settle(store, *map(release, await pull(store)))
    assert await pull(store) == ()
    clock.advance(seconds=1)
    assert len(await pull(store)) == 2


async def test_duplicates_acked_without_running_count_too(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store, event_id="paid-1")
    await settle(store, ack(await pull_one(store)))
    await make_queue(store, rate_per_second=4)
    for _ in range(3):
        await send(store, event_id="paid-1", priority=9)
    await send_many(store, 5)
    assert len(await pull(store)) == 1
    assert await counts(store) == Counts(ready=4, claimed=1)
    clock.advance(seconds=1)
    assert len(await pull(store)) == 4


async def test_a_claim_on_an_empty_queue_uses_no_rate(store: Store) -> None:
    await make_queue(store, rate_per_second=2)
    for _ in range(3):
        assert await pull(store) == ()
    await send_many(store, 5)
    assert len(await pull(store)) == 2


async def test_a_changed_rate_applies_to_the_next_claim(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, rate_per_second=1)
    await send_many(store, 50)
    assert len(await pull(store)) == 1
    await make_queue(store, rate_per_second=10)
    assert await pull(store) == ()
    clock.advance(seconds=1)
    assert len(await pull(store)) == 10
    await make_queue(store)
    assert len(await pull(store)) == 39


async def test_a_claim_of_an_expired_node_fails_even_if_the_rate_is_used_up(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, rate_per_second=1)
    await send_many(store, 5)
    node = await join(store, ttl_seconds=0.1)
    assert len(await claim(store, node)) == 1
    clock.advance(seconds=0.1)
    for holder in (node, new_id()):
        with pytest.raises(NodeExpired):
            await claim(store, holder)


async def test_a_rate_and_a_cap_hold_together(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, rate_per_second=4, tenant_claimed_max=3)
    sent = await send_many(store, 20)
    first = await pull(store)
    assert ids(first) == ids(sent[:3])
    await settle(store, *map(ack, first))
    # What the cap withheld was not charged to the rate.
    second = await pull(store)
    assert len(second) == 1
    clock.advance(seconds=1)
    assert len(await pull(store)) == 2


async def test_concurrent_claims_never_exceed_the_rate(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, rate_per_second=8)
    await send_many(store, 100)
    other = await home.open(clock)
    try:
        for expected in (8, 0):
            answers = await asyncio.gather(
                *(pull((store, other)[number % 2], limit=3) for number in range(20))
            )
            assert sum(map(len, answers)) == expected
    finally:
        await other.close()
