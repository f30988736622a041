"""Nodes: one lease for all claims of a process, and what happens to them when it expires."""

from datetime import timedelta

import pytest
from msgspec import structs

from tests.conformance.acts import (
    ALL,
    TTL_SECONDS,
    WORK,
    ack,
    claim,
    claim_one,
    counts,
    dead,
    die,
    ids,
    join,
    kill_holders,
    letters,
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
from tests.stores.home import KINDS
from tickwork.core.model import (
    DEFAULT,
    LOST_CLAIMS_ALONE,
    LOST_CLAIMS_MAX,
    LOST_CLAIMS_SEPARATE,
    REASON_WORKER_LOST,
    SYSTEM,
    Counts,
    QueuePermits,
    Reaped,
    SettleResult,
    State,
    StoredNode,
    Tenant,
)
from tickwork.errors import NodeExpired
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def test_a_node_is_stored_as_it_joined(store: Store, clock: VirtualClock) -> None:
    node_id = new_id()
    joined = await store.nodes.join(
        SYSTEM, node_id, name="host-1", roles=["api", "worker"], ttl_seconds=15
    )
    assert joined == StoredNode(
        node_id,
        "host-1",
        ("api", "worker"),
        clock.now(),
        clock.now() + timedelta(seconds=15),
    )
    assert await store.nodes.list(SYSTEM) == (joined,)


async def test_a_heartbeat_renews_the_lease_from_now(store: Store, clock: VirtualClock) -> None:
    node_id = await join(store, ttl_seconds=15)
    (joined,) = await store.nodes.list(SYSTEM)
    clock.advance(seconds=10)
    renewed = await store.nodes.heartbeat(SYSTEM, node_id, 20)
    assert renewed == structs.replace(joined, expires_at=clock.now() + timedelta(seconds=20))
    clock.advance(seconds=19)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()


async def test_an_expired_lease_is_not_renewed_even_before_the_reaper_ran(
    store: Store, clock: VirtualClock
) -> None:
    node_id = await join(store, ttl_seconds=15)
    clock.advance(seconds=15)
    with pytest.raises(NodeExpired, match=str(node_id)):
        await store.nodes.heartbeat(SYSTEM, node_id, 15)
    with pytest.raises(NodeExpired):
        await store.nodes.join(SYSTEM, node_id, name="again", roles=["worker"], ttl_seconds=15)
    assert [node.id for node in await store.nodes.list(SYSTEM)] == [node_id]


async def test_a_reaped_node_is_unknown(store: Store, clock: VirtualClock) -> None:
    node_id = await join(store)
    await die(store, clock)
    assert await store.nodes.list(SYSTEM) == ()
    with pytest.raises(NodeExpired):
        await store.nodes.heartbeat(SYSTEM, node_id, 15)


async def test_a_node_that_never_joined_has_no_lease(store: Store) -> None:
    with pytest.raises(NodeExpired):
        await store.nodes.heartbeat(SYSTEM, new_id(), 15)
    assert await store.nodes.leave(SYSTEM, new_id()) == 0


async def test_joining_again_is_a_heartbeat(store: Store, clock: VirtualClock) -> None:
    """The response to the first join may have been lost."""
    node_id = await join(store, ttl_seconds=15)
    (first,) = await store.nodes.list(SYSTEM)
    clock.advance(seconds=5)
    again = await store.nodes.join(SYSTEM, node_id, name="node", roles=["worker"], ttl_seconds=15)
    assert again == structs.replace(first, expires_at=clock.now() + timedelta(seconds=15))
    assert await store.nodes.list(SYSTEM) == (again,)


async def test_nodes_are_listed_in_the_order_they_joined(store: Store, clock: VirtualClock) -> None:
    joined = []
    for _ in range(3):
        joined.append(await join(store))
        clock.advance(seconds=1)
    await store.nodes.leave(SYSTEM, joined.pop(1))
    assert [node.id for node in await store.nodes.list(SYSTEM)] == joined


async def test_claims_are_counted_by_holder(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 5)
    first, second = await join(store), await join(store)
    assert await store.nodes.claims(SYSTEM) == {}
    await claim(store, first, limit=2)
    await claim(store, second, limit=1)
    assert await store.nodes.claims(SYSTEM) == {first: 2, second: 1}
    await store.nodes.leave(SYSTEM, first)
    assert await store.nodes.claims(SYSTEM) == {second: 1}


async def test_a_process_can_join_again_under_a_new_id(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    await claim_one(store)
    await die(store, clock)
    again = await claim_one(store, await join(store))
    assert await settle(store, ack(again)) == SettleResult()


async def test_a_heartbeat_keeps_all_claims_of_a_node(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send_many(store, 3)
    node = await join(store)
    messages = await claim(store, node)
    for _ in range(10):
        clock.advance(seconds=TTL_SECONDS - 1)
        await store.nodes.heartbeat(SYSTEM, node, TTL_SECONDS)
        assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    assert await settle(store, *(ack(message) for message in messages)) == SettleResult()


async def test_an_expired_node_costs_a_message_a_claim_and_no_attempt(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent = await send(store)
    before = await store.messages.get(DEFAULT, WORK, sent.id)
    node = await join(store)
    await claim_one(store, node)
    clock.advance(seconds=TTL_SECONDS)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(nodes=(node,), released=1)
    after = await store.messages.get(DEFAULT, WORK, sent.id)
    assert after == structs.replace(before, claim=1, lost=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()


async def test_reaping_a_node_releases_only_its_own_claims(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send_many(store, 6)
    doomed, living = await join(store), await join(store)
    lost = await claim(store, doomed, limit=2)
    kept = await claim(store, living, limit=2)
    pulled = await pull(store, limit=2, lease_seconds=600)
    clock.advance(seconds=TTL_SECONDS - 1)
    await store.nodes.heartbeat(SYSTEM, living, TTL_SECONDS)
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(nodes=(doomed,), released=2)
    assert [node.id for node in await store.nodes.list(SYSTEM)] == [living]
    assert sorted(ids(await store.messages.peek(DEFAULT, WORK, ALL))) == sorted(ids(lost))
    assert await settle(store, *map(ack, [*kept, *pulled])) == SettleResult()


async def test_leaving_releases_claims_without_counting_a_loss(store: Store) -> None:
    await make_queue(store)
    sent = await send_many(store, 3)
    before = await store.messages.peek(DEFAULT, WORK, ALL)
    node = await join(store)
    await claim(store, node)
    assert await store.nodes.leave(SYSTEM, node) == 3
    after = await store.messages.peek(DEFAULT, WORK, ALL)
    assert after == tuple(structs.replace(message, claim=1) for message in before)
    assert ids(after) == ids(sent)
    assert await store.nodes.leave(SYSTEM, node) == 0


async def test_a_node_that_left_claims_nothing(store: Store) -> None:
    await make_queue(store)
    await send(store)
    node = await join(store)
    await store.nodes.leave(SYSTEM, node)
    with pytest.raises(NodeExpired):
        await claim(store, node)
    assert await store.nodes.list(SYSTEM) == ()


async def test_a_node_releases_claims_it_does_not_know(store: Store) -> None:
    """A claim whose response was lost gave messages to a node that never received them."""
    await make_queue(store)
    await send_many(store, 5)
    node, other = await join(store), await join(store)
    known = await claim(store, node, limit=2)
    lost = await claim(store, node, limit=2)
    (others,) = await claim(store, other)
    assert await store.nodes.give_back_unknown(SYSTEM, node, ids(known)) == 2
    back = await store.messages.peek(DEFAULT, WORK, ALL)
    assert ids(back) == ids(lost)
    assert {(message.attempts, message.lost, message.state) for message in back} == {
        (0, 0, State.READY)
    }
    assert await store.nodes.give_back_unknown(SYSTEM, node, ids(known)) == 0
    assert await settle(store, *map(ack, [*known, others])) == SettleResult()


async def test_a_node_that_knows_no_claims_releases_all(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 2)
    node = await join(store)
    await claim(store, node)
    assert await store.nodes.give_back_unknown(SYSTEM, node, []) == 2
    assert len(await claim(store, node)) == 2


async def test_after_two_lost_claims_a_message_is_claimed_only_with_other_suspects(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent = await send_many(store, 3)
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    ordinary = await send(store)
    node = await join(store)
    assert ids(await claim(store, node)) == [ordinary.id]
    assert await claim(store, node) == ()
    found = [await claim(store, node, separate=True, limit=2) for _ in range(3)]
    assert [ids(messages) for messages in found] == [ids(sent[:2]), ids(sent[2:]), []]
    assert {message.lost for message in found[0]} == {LOST_CLAIMS_SEPARATE}


async def test_after_three_lost_claims_a_message_is_claimed_alone(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent = await send_many(store, 2)
    await kill_holders(store, clock, LOST_CLAIMS_ALONE)
    later = await send_many(store, 2)
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    node = await join(store)
    # Those that may share a worker come first: there may be many of them.
    found = [await claim(store, node, separate=True) for _ in range(4)]
    assert [ids(messages) for messages in found] == [ids(later), [sent[0].id], [sent[1].id], []]


async def test_a_message_that_must_run_alone_is_not_claimed_with_others(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    deadlier, *others = await send_many(store, 3)
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    assert ids(await claim(store, await join(store), separate=True, limit=1)) == [deadlier.id]
    await die(store, clock)
    node = await join(store)
    found = [await claim(store, node, separate=True) for _ in range(3)]
    assert [ids(messages) for messages in found] == [ids(others), [deadlier.id], []]


async def test_only_suspects_of_one_tenant_are_claimed_together(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    for scope in (one, two, one):
        await send(store, scope=scope)
    for _ in range(LOST_CLAIMS_SEPARATE):
        assert len(await claim(store, await join(store), scope=SYSTEM)) == 3
        await die(store, clock)
    node = await join(store)
    found = [await claim(store, node, scope=SYSTEM, separate=True) for _ in range(3)]
    assert [[message.tenant for message in some] for some in found] == [["one", "one"], ["two"], []]


async def test_a_message_with_four_lost_claims_is_dead(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    sent = await send(store)
    await kill_holders(store, clock, LOST_CLAIMS_MAX - 1)
    node = await join(store)
    (last,) = await claim(store, node, separate=True)
    assert last.claim == LOST_CLAIMS_MAX == 4
    clock.advance(seconds=TTL_SECONDS)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(nodes=(node,), dead=1)
    (letter,) = await letters(store)
    assert (letter.message_id, letter.reason) == (sent.id, REASON_WORKER_LOST)
    assert letter.attempts == 0
    assert await counts(store) == Counts(dead=1)


async def test_messages_claimed_beside_a_deadly_one_lose_no_attempt(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    killer, *neighbours = await send_many(store, 5)
    await kill_holders(store, clock, LOST_CLAIMS_ALONE)
    node = await join(store)
    (first,) = await claim(store, node, separate=True)
    assert first.id == killer.id
    await die(store, clock)
    assert [letter.message_id for letter in await letters(store)] == [killer.id]
    node = await join(store)
    for neighbour in neighbours:
        (message,) = await claim(store, node, separate=True)
        assert (message.id, message.attempts) == (neighbour.id, 0)
        assert await settle(store, ack(message)) == SettleResult()


async def test_a_pull_claim_can_ask_for_suspects(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    sent = await send(store)
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    assert await pull(store) == ()
    assert ids(await pull(store, separate=True)) == [sent.id]


async def test_a_suspect_waits_for_its_delay_like_any_message(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    await store.queues.pause(DEFAULT, WORK)
    assert await pull(store, separate=True) == ()
    await store.queues.resume(DEFAULT, WORK)
    (message,) = await pull(store, separate=True)
    await settle(store, release(message, delay_seconds=60))
    assert await pull(store, separate=True) == ()
    clock.advance(seconds=60)
    (again,) = await pull(store, separate=True)
    assert (again.lost, again.attempts) == (LOST_CLAIMS_SEPARATE, 0)


async def test_a_message_whose_attempt_ended_is_no_longer_a_suspect(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)
    await kill_holders(store, clock, LOST_CLAIMS_ALONE)
    await settle(store, retry(await pull_one(store, separate=True), delay_seconds=0))
    assert await pull(store, separate=True) == ()
    (again,) = await pull(store)
    assert (again.lost, again.attempts) == (0, 1)


async def test_only_queues_with_claimable_suspects_are_reported(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    queues = [await store.queues.get(DEFAULT, name) for name in (WORK, "other")]

    async def with_suspects() -> list[str]:
        found = await store.messages.suspects(SYSTEM, [queue.id for queue in queues])
        return [queue.name for queue in queues if queue.id in found]

    await send(store, expires_after_seconds=1_000)
    await send(store, queue="other")
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE - 1)
    assert await with_suspects() == []
    await kill_holders(store, clock, 1)
    assert await with_suspects() == [WORK]
    await store.queues.pause(DEFAULT, WORK)
    assert await with_suspects() == []
    await store.queues.resume(DEFAULT, WORK)
    message = await pull_one(store, separate=True)
    assert await with_suspects() == []
    await settle(store, release(message, delay_seconds=60))
    assert await with_suspects() == []
    clock.advance(seconds=60)
    assert await with_suspects() == [WORK]
    await store.tenants.put(SYSTEM, Tenant(id="default", suspended=True))
    assert await with_suspects() == []
    await store.tenants.put(SYSTEM, Tenant(id="default"))
    assert await with_suspects() == [WORK]
    clock.advance(seconds=1_000)
    assert await with_suspects() == []
    assert await store.messages.suspects(SYSTEM, []) == frozenset()


async def test_a_suspect_is_settled_like_any_message(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send_many(store, 2)
    await kill_holders(store, clock, LOST_CLAIMS_SEPARATE)
    node = await join(store)
    one, two = await claim(store, node, separate=True)
    assert await settle(store, ack(one), dead(two, reason="poison")) == SettleResult()
    assert await counts(store) == Counts(dead=1)


@pytest.mark.parametrize("home", KINDS, indirect=True)
async def test_the_permits_of_a_node_are_stored_until_it_leaves(store: Store) -> None:
    permits = (QueuePermits("mail", 10), QueuePermits("bulk", 250, is_auto=True, is_batch=True))
    joined = await store.nodes.join(
        SYSTEM, new_id(), name="n", roles=["worker"], ttl_seconds=15, permits=permits
    )
    assert joined.permits == permits
    assert (await store.nodes.heartbeat(SYSTEM, joined.id, 15)).permits == permits
    assert [node.permits for node in await store.nodes.list(SYSTEM)] == [permits]
    await store.nodes.leave(SYSTEM, joined.id)
    assert await store.nodes.list(SYSTEM) == ()
