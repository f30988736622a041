"""Pull leases: a claim without a node that expires after its own duration."""

from datetime import timedelta

import pytest
from msgspec import structs

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    claim_one,
    counts,
    letters,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import (
    DEFAULT,
    REASON_MAX_RETRIES,
    SYSTEM,
    Counts,
    Reaped,
    SettleResult,
    State,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def test_a_lease_lasts_for_its_duration(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    await pull_one(store, lease_seconds=30)
    clock.advance(seconds=29.999)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    clock.advance(seconds=0.001)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(released=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()


async def test_an_expired_lease_counts_an_attempt(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    message = await pull_one(store, lease_seconds=30)
    clock.advance(seconds=45)
    await store.reaper.reap(SYSTEM, ALL)
    back = await store.messages.get(DEFAULT, WORK, message.id)
    assert (back.state, back.holder) == (State.READY, None)
    assert (back.attempts, back.lost, back.claim) == (1, 0, 1)
    assert back.visible_at == clock.now()
    assert back.last_error is not None
    assert "lease" in back.last_error


@pytest.mark.parametrize("max_retries", [0, 2])
async def test_after_its_last_attempt_a_message_is_dead(
    store: Store, clock: VirtualClock, max_retries: int
) -> None:
    await make_queue(store, max_retries=max_retries)
    sent = await send(store)
    for _ in range(max_retries):
        await pull_one(store, lease_seconds=1)
        clock.advance(seconds=1)
        assert await store.reaper.reap(SYSTEM, ALL) == Reaped(released=1)
    await pull_one(store, lease_seconds=1)
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)
    (letter,) = await letters(store)
    assert (letter.message_id, letter.reason) == (sent.id, REASON_MAX_RETRIES)
    assert letter.attempts == max_retries + 1
    assert await counts(store) == Counts(dead=1)


async def test_an_extension_counts_from_now(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    message = await pull_one(store, lease_seconds=30)
    clock.advance(seconds=20)
    assert await store.messages.extend(DEFAULT, message.current_claim, 30)
    clock.advance(seconds=29)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    assert await store.messages.get(DEFAULT, WORK, message.id) == message
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(released=1)


async def test_a_lease_may_be_shortened(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    message = await pull_one(store, lease_seconds=30)
    assert await store.messages.extend(DEFAULT, message.current_claim, 1)
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(released=1)


async def test_only_a_current_claim_can_be_extended(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send_many(store, 2)
    first, second = (await pull(store, lease_seconds=1, limit=2))[:2]
    held = second.current_claim
    for wrong in (
        structs.replace(held, number=2),
        structs.replace(held, holder=new_id()),
        structs.replace(held, id=new_id()),
    ):
        assert not await store.messages.extend(DEFAULT, wrong, 60)
    await settle(store, ack(first))
    assert not await store.messages.extend(DEFAULT, first.current_claim, 60)
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(released=1)
    assert not await store.messages.extend(DEFAULT, held, 60)


async def test_a_tenant_cannot_extend_another_tenants_lease(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    owner, stranger = await make_tenants(store, "owner", "stranger")
    await send(store, scope=owner)
    message = await pull_one(store, scope=owner, lease_seconds=10)
    assert not await store.messages.extend(stranger, message.current_claim, 60)
    clock.advance(seconds=9)
    assert await store.messages.extend(owner, message.current_claim, 10)
    assert await store.messages.extend(SYSTEM, message.current_claim, 10)


async def test_a_nodes_claim_has_no_lease_to_extend(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    assert not await store.messages.extend(DEFAULT, message.current_claim, 60)
    clock.advance(seconds=1)
    assert await settle(store, ack(message)) == SettleResult()


async def test_a_lease_of_zero_seconds_expires_at_once(store: Store) -> None:
    await make_queue(store)
    await send(store)
    message = await pull_one(store, lease_seconds=0)
    assert message.state is State.CLAIMED
    assert await pull(store) == ()
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(released=1)
    assert len(await pull(store)) == 1


async def test_an_expired_message_is_claimable_only_after_the_reaper_ran(
    store: Store, clock: VirtualClock
) -> None:
    """Only the reaper releases messages, so that only it counts the lost claim."""
    await make_queue(store)
    await send(store)
    await pull_one(store, lease_seconds=1)
    clock.advance(seconds=60)
    assert await pull(store) == ()
    assert await counts(store) == Counts(claimed=1)
    await store.reaper.reap(SYSTEM, ALL)
    again = await pull_one(store)
    assert again.visible_at == clock.now()
    assert again.sent_at == clock.now() - timedelta(seconds=61 - 1)
