"""A stale claim changes nothing: neither its ending nor its sends happen."""

import asyncio

import pytest
from msgspec import structs

from tests.conformance.acts import (
    ALL,
    ENDS,
    WORK,
    ack,
    claim_one,
    counts,
    dead,
    die,
    ids,
    join,
    letters,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    release,
    retry,
    send,
    send_many,
    sending,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    Claim,
    Counts,
    Ending,
    Fate,
    Message,
    Scope,
    SettleResult,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

FATES = pytest.mark.parametrize("fate", ENDS)


def ending(held: Claim, fate: Fate) -> Ending:
    """An ending with every kind of effect, if it counted."""
    return Ending(
        claim=held,
        fate=fate,
        delay_seconds=5,
        reason="stale",
        error="stale",
        sends=(sending("next"),),
    )


async def assert_refused(
    store: Store, held: Claim, fate: Fate, *, scope: Scope = DEFAULT, seen_by: Scope = DEFAULT
) -> None:
    """Asserts that the ending is refused and that nothing changed."""

    async def picture() -> list[object]:
        return [
            await counts(store, WORK, scope=seen_by),
            await counts(store, "next", scope=seen_by),
            await letters(store, scope=seen_by),
            await store.messages.peek(seen_by, WORK, ALL),
        ]

    before = await picture()
    assert await settle(store, ending(held, fate), scope=scope) == SettleResult(refused=(held,))
    assert await picture() == before


async def lost_and_claimed_anew(store: Store, clock: VirtualClock) -> tuple[Message, Message]:
    """A message whose first holder died, and the same message claimed by another."""
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    lost = await claim_one(store)
    await die(store, clock)
    return lost, await claim_one(store)


@FATES
async def test_a_reaped_nodes_settlement_is_refused(
    store: Store, clock: VirtualClock, fate: Fate
) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    lost = await claim_one(store)
    await die(store, clock)
    await assert_refused(store, lost.current_claim, fate)


@FATES
async def test_a_settlement_of_an_earlier_claim_is_refused(
    store: Store, clock: VirtualClock, fate: Fate
) -> None:
    lost, current = await lost_and_claimed_anew(store, clock)
    await assert_refused(store, lost.current_claim, fate)
    assert await store.messages.get(DEFAULT, WORK, current.id) == current
    assert await settle(store, ack(current)) == SettleResult()


@FATES
async def test_a_settlement_with_another_holder_is_refused(store: Store, fate: Fate) -> None:
    """A database restored from an older copy may give out the same number twice."""
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    message = await claim_one(store)
    await assert_refused(store, structs.replace(message.current_claim, holder=new_id()), fate)
    assert await store.messages.get(DEFAULT, WORK, message.id) == message


@FATES
async def test_a_settlement_with_another_claim_number_is_refused(store: Store, fate: Fate) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    await settle(store, retry(await pull_one(store)))
    held = (await pull_one(store)).current_claim
    for step in (-1, 1):
        await assert_refused(store, structs.replace(held, number=held.number + step), fate)


@FATES
async def test_a_settlement_of_another_tenant_is_refused(store: Store, fate: Fate) -> None:
    await make_queue(store, scope=SYSTEM)
    await make_queue(store, "next", scope=SYSTEM)
    owner, stranger = await make_tenants(store, "owner", "stranger")
    await send(store, scope=owner)
    message = await pull_one(store, scope=owner)
    await assert_refused(store, message.current_claim, fate, scope=stranger, seen_by=SYSTEM)
    # A forged tenant does not help either.
    pretended = structs.replace(message.current_claim, tenant="stranger")
    await assert_refused(store, pretended, fate, scope=stranger, seen_by=SYSTEM)
    assert await settle(store, ack(message), scope=owner) == SettleResult()


@FATES
async def test_a_settlement_of_an_unknown_message_is_refused(store: Store, fate: Fate) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await assert_refused(store, Claim("default", new_id(), 1, new_id()), fate)


async def test_a_claim_is_settled_once(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    for first in ENDS:
        await send(store)
        held = (await pull_one(store)).current_claim
        ended = Ending(claim=held, fate=first, reason="first", delay_seconds=60)
        assert await settle(store, ended) == SettleResult()
        for fate in ENDS:
            await assert_refused(store, held, fate)


async def test_of_two_endings_of_one_claim_in_one_settlement_the_first_counts(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    message = await pull_one(store)
    first, second = sending("next"), sending("next")
    result = await settle(
        store, retry(message, error="first", sends=(first,)), ack(message, second)
    )
    assert result == SettleResult(refused=(message.current_claim,))
    (back,) = await store.messages.peek(DEFAULT, WORK, ALL)
    assert (back.attempts, back.last_error) == (1, "first")
    assert ids(await pull(store, queue="next")) == [first.message.id]


async def test_of_two_concurrent_endings_of_one_claim_one_counts(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send_many(store, 10)
    for message in await pull(store):
        answers = await asyncio.gather(
            settle(store, ack(message, sending("next"))),
            settle(store, retry(message, sends=(sending("next"),))),
            settle(store, dead(message, reason="dead", sends=(sending("next"),))),
        )
        assert sorted(len(answer.refused) for answer in answers) == [0, 1, 1]
    assert await counts(store, "next") == Counts(ready=10)


async def test_of_a_stale_and_a_current_claim_settled_together_the_current_one_counts(
    store: Store, clock: VirtualClock
) -> None:
    """Both in one process, which joined again after it was reaped."""
    lost, current = await lost_and_claimed_anew(store, clock)
    stale, fresh = sending("next"), sending("next")
    late, timely = await asyncio.gather(
        settle(store, ack(lost, stale)), settle(store, ack(current, fresh))
    )
    assert late == SettleResult(refused=(lost.current_claim,))
    assert timely == SettleResult()
    assert ids(await pull(store, queue="next")) == [fresh.message.id]


async def test_a_refused_ending_does_not_affect_others_of_its_settlement(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    lost = await claim_one(store)
    await die(store, clock)
    current = await claim_one(store)
    await send_many(store, 3)
    one, two, three = await pull(store)
    result = await settle(
        store,
        ack(one, sending("next")),
        ack(lost, sending("next")),
        release(two),
        dead(three, reason="permanent"),
    )
    assert result == SettleResult(refused=(lost.current_claim,))
    assert await counts(store) == Counts(ready=1, claimed=1, dead=1)
    assert await counts(store, "next") == Counts(ready=1)
    assert await settle(store, ack(current)) == SettleResult()


async def test_a_settlement_of_a_released_message_is_refused(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    node = await join(store)
    message = await claim_one(store, node)
    assert await store.nodes.leave(SYSTEM, node) == 1
    await assert_refused(store, message.current_claim, Fate.ACK)


async def test_an_expired_claim_can_be_settled_until_it_is_taken_over(
    store: Store, clock: VirtualClock
) -> None:
    """No one else has claimed the message, so the result may count."""
    await make_queue(store)
    await send_many(store, 2)
    (pulled,) = await pull(store, limit=1, lease_seconds=1)
    claimed = await claim_one(store)
    clock.advance(seconds=100)
    assert await settle(store, ack(pulled), ack(claimed)) == SettleResult()
    assert await counts(store) == Counts()
