"""Tenant caps: a tenant never has more claims in a queue than the queue allows."""

import asyncio
from collections.abc import Callable

import pytest

from tests.conformance.acts import (
    ALL,
    ack,
    claim,
    claim_one,
    counts,
    dead,
    die,
    ids,
    join,
    kill_holders,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    release,
    retry,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import LOST_CLAIMS_SEPARATE, SYSTEM, Counts, Ending, Message
from tickwork.store.contract import Store

CAP = 3


async def test_a_tenant_never_has_more_claims_than_its_cap(store: Store) -> None:
    await make_queue(store, tenant_claimed_max=CAP)
    sent = await send_many(store, 10)
    assert ids(await pull(store, limit=2)) == ids(sent[:2])
    assert ids(await pull(store)) == [sent[2].id]
    assert await pull(store) == ()
    assert await counts(store) == Counts(ready=7, claimed=CAP)


@pytest.mark.parametrize("fate", [ack, retry, release, dead])
async def test_a_settled_message_frees_a_claim_of_the_cap(
    store: Store, fate: Callable[[Message], Ending]
) -> None:
    await make_queue(store, tenant_claimed_max=CAP)
    await send_many(store, 10)
    first, *_ = await pull(store)
    await settle(store, fate(first))
    assert len(await pull(store)) == 1
    assert await pull(store) == ()


@pytest.mark.parametrize("way", ["death", "leave", "lease"])
async def test_a_released_message_frees_a_claim_of_the_cap(
    store: Store, clock: VirtualClock, way: str
) -> None:
    await make_queue(store, tenant_claimed_max=CAP)
    await send_many(store, 10)
    node = await join(store)
    if way == "lease":
        assert len(await pull(store, lease_seconds=1)) == CAP
        clock.advance(seconds=1)
        await store.reaper.reap(SYSTEM, ALL)
    else:
        assert len(await claim(store, node)) == CAP
        if way == "death":
            await die(store, clock)
        else:
            await store.nodes.leave(SYSTEM, node)
    assert len(await pull(store)) == CAP


async def test_push_pull_and_separate_claims_share_one_cap(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, tenant_claimed_max=CAP)
    await send(store)
    for _ in range(2):
        await claim_one(store)
        await die(store, clock)
    await send_many(store, 10)
    node = await join(store)
    assert len(await claim(store, node, limit=1)) == 1
    assert len(await pull(store, limit=2)) == 2
    assert await claim(store, node, separate=True) == ()
    await store.nodes.leave(SYSTEM, node)
    again = await join(store)
    assert len(await claim(store, again, separate=True)) == 1
    assert await claim(store, again) == ()


async def test_separate_claims_stay_within_the_cap(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send_many(store, 10)
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    await make_queue(store, tenant_claimed_max=CAP)
    await send(store)
    node = await join(store)
    assert len(await claim(store, node)) == 1
    assert len(await claim(store, node, separate=True)) == CAP - 1
    assert await claim(store, node, separate=True) == ()


async def test_each_tenant_has_its_own_cap(store: Store) -> None:
    await make_queue(store, scope=SYSTEM, tenant_claimed_max=CAP)
    one, two = await make_tenants(store, "one", "two")
    for scope in (one, two):
        await send_many(store, 10, scope=scope)
    assert len(await pull(store, scope=one)) == CAP
    assert {message.tenant for message in await pull(store, scope=SYSTEM)} == {"two"}
    assert await pull(store, scope=SYSTEM) == ()
    assert await counts(store, scope=two) == Counts(ready=7, claimed=CAP)


async def test_a_tenant_at_its_cap_does_not_block_other_tenants(store: Store) -> None:
    await make_queue(store, scope=SYSTEM, tenant_claimed_max=CAP)
    busy, *others = await make_tenants(store, "busy", "b", "c", "d")
    await send_many(store, 100, scope=busy, priority=9)
    assert len(await pull(store, scope=busy)) == CAP
    for scope in others:
        await send_many(store, 2, scope=scope)
    assert len(await pull(store, scope=SYSTEM, limit=6)) == 6


async def test_each_queue_counts_its_claims_separately(store: Store) -> None:
    for queue in ("one", "two"):
        await make_queue(store, queue, tenant_claimed_max=CAP)
        await send_many(store, 5, queue=queue)
        assert len(await pull(store, queue=queue)) == CAP


async def test_a_changed_cap_applies_to_the_next_claim(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 20)
    held = await pull(store, limit=5)
    await make_queue(store, tenant_claimed_max=CAP)
    assert await pull(store) == ()
    await settle(store, *map(ack, held[:2]))
    assert await pull(store) == ()
    await settle(store, ack(held[2]))
    assert len(await pull(store)) == 1
    await make_queue(store, tenant_claimed_max=10)
    assert len(await pull(store)) == 7
    await make_queue(store)
    assert len(await pull(store)) == 7


async def test_a_blocked_message_is_not_claimed_under_a_cap(store: Store) -> None:
    await make_queue(store, tenant_claimed_max=2)
    for _ in range(3):
        await send(store, key="a")
    (message,) = await pull(store)
    assert await counts(store) == Counts(claimed=1, blocked=2)
    await settle(store, ack(message))
    assert (await pull_one(store)).key == "a"


async def test_concurrent_claims_never_exceed_the_cap(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM, tenant_claimed_max=5)
    for scope in await make_tenants(store, "one", "two"):
        await send_many(store, 100, scope=scope)
    other = await home.open(clock)
    try:
        answers = await asyncio.gather(
            *(pull((store, other)[number % 2], scope=SYSTEM, limit=4) for number in range(30))
        )
        tenants = [message.tenant for answer in answers for message in answer]
        assert (tenants.count("one"), tenants.count("two")) == (5, 5)
        assert await counts(store, scope=SYSTEM) == Counts(ready=190, claimed=10)
    finally:
        await other.close()


async def test_the_cap_holds_while_messages_are_sent_and_settled(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, tenant_claimed_max=CAP)
    await send_many(store, 60)
    other = await home.open(clock)
    in_hand, done = 0, 0

    async def work(own: Store) -> None:
        nonlocal in_hand, done
        while done < 60:
            found = await pull(own, limit=2)
            in_hand += len(found)
            assert in_hand <= CAP
            assert (await counts(own)).claimed <= CAP
            # Before the ack: after it, others may claim what it freed.
            in_hand -= len(found)
            done += len(found)
            await settle(own, *map(ack, found))

    try:
        await asyncio.gather(*(work(own) for own in (store, other) * 3))
        assert await counts(store) == Counts()
    finally:
        await other.close()
