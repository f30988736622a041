"""Claims: one holder per message, oldest visible first, with rising claim numbers."""

import asyncio
from datetime import datetime
from uuid import UUID

import pytest
from msgspec import structs

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
    kill_holders,
    make_queue,
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
from tickwork.core.model import DEFAULT, LOST_CLAIMS_SEPARATE, SYSTEM, Counts, State
from tickwork.errors import NodeExpired, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def test_a_claimed_message_is_the_stored_one_with_its_claim(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent = await send(store)
    stored = await store.messages.get(DEFAULT, WORK, sent.id)
    node = await join(store)
    clock.advance(seconds=3)
    claimed = await claim_one(store, node)
    assert claimed == structs.replace(
        stored, state=State.CLAIMED, claim=1, holder=node, claimed_at=clock.now()
    )
    clock.advance(seconds=3)
    assert await store.messages.get(DEFAULT, WORK, sent.id) == claimed


async def test_every_claim_tells_when_it_was_made_and_none_once_it_is_given_back(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, max_retries=10)
    sent = await send(store)

    async def claimed_at() -> datetime | None:
        return (await store.messages.get(DEFAULT, WORK, sent.id)).claimed_at

    assert await claimed_at() is None
    for give_back in (release, retry):
        clock.advance(seconds=1)
        pulled = await pull_one(store)
        assert pulled.claimed_at == clock.now() == await claimed_at()
        clock.advance(seconds=1)
        await settle(store, give_back(pulled))
        assert await claimed_at() is None
    await pull_one(store, lease_seconds=5)
    clock.advance(seconds=5)
    await store.reaper.reap(SYSTEM, ALL)
    assert await claimed_at() is None, "its pull lease expired"
    node = await join(store)
    assert (await claim_one(store, node)).claimed_at == clock.now() == await claimed_at()
    await store.nodes.give_back_unknown(SYSTEM, node, [])
    assert await claimed_at() is None, "the answer to its claim was lost"
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    assert await claimed_at() is None, "its worker died"
    separate = await claim_one(store, separate=True)
    assert separate.claimed_at == clock.now() == await claimed_at()


async def test_a_claim_on_an_empty_queue_returns_nothing(store: Store) -> None:
    await make_queue(store)
    assert await claim(store, await join(store)) == ()
    assert await pull(store) == ()


async def test_the_oldest_visible_message_is_claimed_first(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent = [await send(store, delay_seconds=delay) for delay in (5, 1, 4, 0, 3)]
    clock.advance(seconds=10)
    by_visibility = [sent[place].id for place in (3, 1, 4, 2, 0)]
    assert ids(await store.messages.peek(DEFAULT, WORK, ALL)) == by_visibility
    assert ids(await claim(store, await join(store))) == by_visibility


async def test_of_equally_old_messages_the_lowest_id_is_claimed_first(store: Store) -> None:
    await make_queue(store)
    sent = await send_many(store, 20)
    node = await join(store)
    found = [ids(await claim(store, node, limit=5)) for _ in range(4)]
    assert found == [ids(sent[start : start + 5]) for start in (0, 5, 10, 15)]


async def test_priority_nine_is_claimed_first_and_zero_last(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent: dict[int, UUID] = {}
    for priority in (4, 0, 9, 1, 8):
        sent[priority] = (await send(store, priority=priority)).id
        clock.advance(seconds=1)
    node = await join(store)
    assert ids(await claim(store, node, limit=2)) == [sent[9], sent[8]]
    assert ids(await claim(store, node)) == [sent[4], sent[1], sent[0]]


async def test_a_claim_returns_at_most_its_limit_and_the_next_one_the_rest(store: Store) -> None:
    await make_queue(store)
    sent = await send_many(store, 7)
    node = await join(store)
    found = [await claim(store, node, limit=3) for _ in range(4)]
    assert [len(messages) for messages in found] == [3, 3, 1, 0]
    assert sorted(id_ for messages in found for id_ in ids(messages)) == sorted(ids(sent))


async def test_concurrent_claims_never_return_one_message_twice(store: Store) -> None:
    await make_queue(store)
    sent = await send_many(store, 100)
    nodes = [await join(store) for _ in range(10)]
    found = await asyncio.gather(*(claim(store, node, limit=20) for node in nodes))
    handed_out = [id_ for messages in found for id_ in ids(messages)]
    assert len(handed_out) == len(set(handed_out))
    rest = await claim(store, nodes[0])
    assert sorted([*handed_out, *ids(rest)]) == sorted(ids(sent))


async def test_two_stores_on_one_database_never_claim_one_message_twice(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    other = await home.open(clock)
    try:
        await make_queue(store)
        sent = await send_many(store, 100)
        node, other_node = await join(store), await join(other)
        found = await asyncio.gather(
            *(claim(store, node, limit=9) for _ in range(6)),
            *(claim(other, other_node, limit=9) for _ in range(6)),
        )
        handed_out = [id_ for messages in found for id_ in ids(messages)]
        assert len(handed_out) == len(set(handed_out))
        rest = await claim(other, other_node)
        assert sorted([*handed_out, *ids(rest)]) == sorted(ids(sent))
    finally:
        await other.close()


async def test_every_claim_of_a_message_has_a_higher_number(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)
    numbers = []
    for how in ("retry", "release", "leave", "death", "lease"):
        node = await join(store)
        message = await (
            pull_one(store, lease_seconds=1) if how == "lease" else claim_one(store, node)
        )
        numbers.append(message.claim)
        if how == "retry":
            await settle(store, retry(message))
        elif how == "release":
            await settle(store, release(message))
        elif how == "leave":
            await store.nodes.leave(SYSTEM, node)
        else:
            await die(store, clock)
    numbers.append((await claim_one(store)).claim)
    assert numbers == [1, 2, 3, 4, 5, 6]


async def test_a_paused_queue_is_not_claimed_from_until_it_is_resumed(store: Store) -> None:
    await make_queue(store)
    await send(store)
    node = await join(store)
    await store.queues.pause(DEFAULT, WORK)
    assert await claim(store, node) == ()
    assert await pull(store) == ()
    await store.queues.resume(DEFAULT, WORK)
    assert len(await claim(store, node)) == 1


async def test_a_claimed_message_can_be_settled_while_its_queue_is_paused(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 2)
    first, second = await claim(store, await join(store))
    await store.queues.pause(DEFAULT, WORK)
    result = await settle(store, ack(first), retry(second))
    assert not result.refused
    assert await counts(store) == Counts(ready=1)


async def test_only_a_node_with_a_valid_lease_can_claim(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    node = await join(store, ttl_seconds=15)
    clock.advance(seconds=15)
    for holder in (node, new_id()):
        with pytest.raises(NodeExpired):
            await claim(store, holder)
    assert await counts(store) == Counts(ready=1)


async def test_a_claim_of_an_expired_node_fails_even_on_an_empty_queue(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    node = await join(store, ttl_seconds=15)
    clock.advance(seconds=14.999)
    assert await claim(store, node) == ()
    clock.advance(seconds=0.001)
    for separate in (False, True):
        with pytest.raises(NodeExpired):
            await claim(store, node, separate=separate)
    await store.queues.pause(DEFAULT, WORK)
    with pytest.raises(NodeExpired):
        await claim(store, node)


async def test_a_pull_claim_needs_no_node(store: Store) -> None:
    await make_queue(store)
    await send(store)
    holder = new_id()
    message = await claim_one(store, holder, lease_seconds=30)
    assert (message.claim, message.holder) == (1, holder)


async def test_a_claim_on_an_unknown_queue_is_refused(store: Store) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await claim(store, await join(store), queue="nowhere")
    with pytest.raises(NotFound, match="nowhere"):
        await pull(store, queue="nowhere")


async def test_a_released_message_is_claimed_in_its_old_order(
    store: Store, clock: VirtualClock
) -> None:
    """Also if claims have long moved past its position."""
    await make_queue(store)
    early = await send(store)
    node = await join(store)
    assert ids(await claim(store, node)) == [early.id]
    for _ in range(3):
        clock.advance(seconds=1)
        late = await send(store)
        assert ids(await pull(store)) == [late.id]
    waiting = await send(store)
    assert await store.nodes.leave(SYSTEM, node) == 1
    assert ids(await pull(store)) == [early.id, waiting.id]


async def test_a_message_of_higher_priority_overtakes_waiting_ones(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 3)
    assert len(await pull(store, limit=1)) == 1
    urgent = await send(store, priority=9)
    assert ids(await pull(store, limit=1)) == [urgent.id]


async def test_peeking_claims_nothing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    sent = await send_many(store, 3)
    await send(store, delay_seconds=1)
    found = await store.messages.peek(DEFAULT, WORK, 2)
    assert ids(found) == ids(sent[:2])
    assert {message.state for message in found} == {State.READY}
    assert await counts(store) == Counts(ready=3, delayed=1)
    assert len(await pull(store)) == 3
    assert await store.messages.peek(DEFAULT, WORK, ALL) == ()
    clock.advance(seconds=1)
    assert len(await store.messages.peek(DEFAULT, WORK, ALL)) == 1


async def test_a_separate_claim_returns_only_suspects(store: Store) -> None:
    await make_queue(store)
    await send(store)
    assert await claim(store, await join(store), separate=True) == ()
