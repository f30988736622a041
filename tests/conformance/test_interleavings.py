"""Two transactions at once, each stopped at its critical point: no order breaks a promise.

On PostgreSQL, where transactions really overlap. Each docstring names the lock, fence or second
statement that the law depends on; without it the test fails.
"""

import asyncio

import pytest

from tests.conformance.acts import (
    ALL,
    TTL_SECONDS,
    WORK,
    ack,
    claim,
    counts,
    ids,
    join,
    make_queue,
    new,
    send,
    send_many,
    settle,
)
from tests.conformance.barriers import (
    CLAIM,
    SEND,
    barrier,
    done_or_waiting,
    rival,
)
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Reaped, SettleResult
from tickwork.errors import Conflict, NodeExpired, NotFound
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)


# the rival itself


async def test_a_rival_sees_waiting_connections_that_are_opened_after_its_first_look(
    home: Home,
) -> None:
    """Otherwise a test whose store opens a connection late waits for ever."""
    statement = "SELECT pg_advisory_xact_lock(1)"
    async with rival(home.url) as first:
        await first.does(statement)
        assert not await first.is_waited_for()
        async with rival(home.url) as late:
            waiting = asyncio.create_task(late.does(statement))
            assert not await done_or_waiting(waiting, first)
            await first.commits()
            await waiting


# claim and claim


async def test_a_claim_skips_rows_that_another_claim_has_locked(home: Home, store: Store) -> None:
    """SKIP LOCKED: the second claim neither returns the same message nor waits for it."""
    await make_queue(store)
    first, second = await send_many(store, 2)
    node = await join(store)
    async with rival(home.url) as other:
        await other.does(
            "UPDATE tickwork_messages SET state = 'claimed', claim = 1, holder = $1 WHERE id = $2",
            await join(store),
            first.id,
        )
        claiming = asyncio.create_task(claim(store, node, limit=1))
        assert await done_or_waiting(claiming, other), "the claim waits for the other one"
        assert ids(await claiming) == [second.id]
        await other.commits()
    assert await claim(store, node) == ()


async def test_a_separate_claim_skips_locked_rows_too(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """SKIP LOCKED, also in the separate statement for suspects."""
    await make_queue(store)
    first, second = await send_many(store, 2)
    for _ in range(2):
        await claim(store, await join(store))
        clock.advance(seconds=TTL_SECONDS)
        await store.reaper.reap(SYSTEM, ALL)
    async with rival(home.url) as other:
        await other.does("SELECT FROM tickwork_messages WHERE id = $1 FOR UPDATE", first.id)
        claiming = asyncio.create_task(claim(store, await join(store), separate=True))
        assert await done_or_waiting(claiming, other), "the claim waits for the other one"
        assert ids(await claiming) == [second.id]


# claim and the expiry of its node


async def test_a_node_in_the_middle_of_a_claim_is_not_reaped(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """The claim locks its node (FOR KEY SHARE): otherwise a reaped node would keep the message."""
    await make_queue(store)
    sent = await send(store)
    node = await join(store)
    async with barrier(home.url, before=CLAIM) as held:
        claiming = asyncio.create_task(claim(store, node))
        await held.reached()
        clock.advance(seconds=TTL_SECONDS)
        reaping = asyncio.create_task(store.reaper.reap(SYSTEM, ALL))
        assert await held.is_passed_by(reaping), "the reaper waits for the claim"
        assert await reaping == Reaped()
        await held.opens()
        assert ids(await claiming) == [sent.id]
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(nodes=(node,), released=1)
    assert await counts(store) == Counts(ready=1)


async def test_a_node_that_is_being_reaped_claims_nothing(home: Home, store: Store) -> None:
    """The claim reads its node's row and waits for the transaction that deletes it."""
    await make_queue(store)
    await send(store)
    node = await join(store)
    async with rival(home.url) as reaper:
        await reaper.does("SELECT FROM tickwork_nodes WHERE id = $1 FOR UPDATE", node)
        claiming = asyncio.create_task(claim(store, node))
        assert not await done_or_waiting(claiming, reaper), "the claim did not wait"
        await reaper.does("DELETE FROM tickwork_nodes WHERE id = $1", node)
        await reaper.commits()
        with pytest.raises(NodeExpired):
            await claiming
    assert await counts(store) == Counts(ready=1)


async def test_a_node_that_is_being_reaped_claims_no_suspects_either(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """The same lock, in the separate statement for suspects."""
    await make_queue(store)
    await send(store)
    for _ in range(2):
        await claim(store, await join(store))
        clock.advance(seconds=TTL_SECONDS)
        await store.reaper.reap(SYSTEM, ALL)
    node = await join(store)
    async with rival(home.url) as reaper:
        await reaper.does("SELECT FROM tickwork_nodes WHERE id = $1 FOR UPDATE", node)
        claiming = asyncio.create_task(claim(store, node, separate=True))
        assert not await done_or_waiting(claiming, reaper), "the claim did not wait"
        await reaper.does("DELETE FROM tickwork_nodes WHERE id = $1", node)
        await reaper.commits()
        with pytest.raises(NodeExpired):
            await claiming


async def test_leaving_waits_for_a_running_claim_and_releases_its_messages(
    home: Home, store: Store
) -> None:
    """The node is locked (FOR UPDATE) before its claims are looked up."""
    await make_queue(store)
    await send(store)
    node = await join(store)
    async with barrier(home.url, before=CLAIM) as held:
        claiming = asyncio.create_task(claim(store, node))
        await held.reached()
        leaving = asyncio.create_task(store.nodes.leave(SYSTEM, node))
        await eventually(held.somebody_waits_for_who_is_held)
        await held.opens()
        (message,) = await claiming
        assert await leaving == 1
    assert await counts(store) == Counts(ready=1)
    assert await settle(store, ack(message)) == SettleResult(refused=(message.current_claim,))


async def test_a_node_that_is_being_renewed_is_not_reaped(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """The reaper skips a locked node and reads it again once it has the lock."""
    node = await join(store)
    clock.advance(seconds=TTL_SECONDS)
    async with rival(home.url) as heartbeat:
        await heartbeat.does(
            "UPDATE tickwork_nodes SET expires_at = expires_at + interval '1 minute'"
        )
        reaping = asyncio.create_task(store.reaper.reap(SYSTEM, ALL))
        assert await done_or_waiting(reaping, heartbeat), "the reaper waits for a heartbeat"
        assert await reaping == Reaped()
        await heartbeat.commits()
    assert (await store.nodes.heartbeat(SYSTEM, node, TTL_SECONDS)).id == node


# send, claim, delete


async def test_a_message_is_claimable_only_after_its_send_has_committed(
    home: Home, store: Store
) -> None:
    """Not earlier, and not lost either, if claims have moved past its position meanwhile."""
    await make_queue(store)
    node = await join(store)
    early = new()
    async with barrier(home.url, before=f"{SEND} WHEN (NEW.id = '{early.id}')") as held:
        sending_early = asyncio.create_task(store.messages.send(DEFAULT, WORK, early))
        await held.reached()
        late = await send(store)
        assert ids(await claim(store, node)) == [late.id]
        await held.opens()
        await sending_early
    assert ids(await claim(store, node)) == [early.id]


async def test_a_repeat_during_the_first_send_is_one_message(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """The id is unique: the repeat waits for the first send and then does nothing."""
    await make_queue(store)
    message = new()
    other = await home.open(clock)
    try:
        async with rival(home.url) as first:
            queue = await store.queues.get(DEFAULT, WORK)
            await first.does(
                "INSERT INTO tickwork_messages (tenant, queue_id, id, visible_at, sent_at, body) "
                "VALUES ('default', $1, $2, $3, $3, $4)",
                queue.id,
                message.id,
                clock.now(),
                message.body,
            )
            repeating = asyncio.create_task(other.messages.send(DEFAULT, WORK, message))
            assert not await done_or_waiting(repeating, first)
            await first.commits()
            await repeating
    finally:
        await other.close()
    assert await counts(store) == Counts(ready=1)


async def test_a_queue_is_not_deleted_during_a_send(home: Home, store: Store) -> None:
    """The send locks its queue (FOR KEY SHARE); the delete looks for messages after taking the
    lock."""
    await make_queue(store)
    async with barrier(home.url, before=SEND) as held:
        sending_one = asyncio.create_task(send(store))
        await held.reached()
        deleting = asyncio.create_task(store.queues.delete(DEFAULT, WORK))
        await eventually(held.somebody_waits_for_who_is_held)
        await held.opens()
        await sending_one
        with pytest.raises(Conflict):
            await deleting
    assert await counts(store) == Counts(ready=1)


async def test_a_send_into_a_queue_that_is_being_deleted_is_refused(
    home: Home, store: Store
) -> None:
    """The send waits for the queue's row and finds it deleted."""
    queue_id = await make_queue(store)
    async with rival(home.url) as deleting:
        await deleting.does("SELECT FROM tickwork_queues WHERE id = $1 FOR UPDATE", queue_id)
        await deleting.does("DELETE FROM tickwork_queues WHERE id = $1", queue_id)
        sending_one = asyncio.create_task(send(store))
        assert not await done_or_waiting(sending_one, deleting)
        await deleting.commits()
        with pytest.raises(NotFound):
            await sending_one
    await make_queue(store)
    assert await counts(store) == Counts()


@pytest.mark.parametrize("what", ["purge", "delete"])
async def test_a_message_that_is_being_claimed_is_neither_purged_nor_deleted(
    home: Home, store: Store, what: str
) -> None:
    """The state is checked again once the row is unlocked."""
    await make_queue(store)
    sent = await send(store)
    node = await join(store)
    async with barrier(home.url, before=CLAIM) as held:
        claiming = asyncio.create_task(claim(store, node))
        await held.reached()
        removing: asyncio.Task[int] = asyncio.create_task(
            store.queues.purge(DEFAULT, WORK)
            if what == "purge"
            else store.messages.delete(DEFAULT, WORK, sent.id)
        )
        await eventually(held.somebody_waits_for_who_is_held)
        await held.opens()
        (message,) = await claiming
        assert not await removing
    assert await settle(store, ack(message)) == SettleResult()


async def test_a_message_that_is_being_claimed_does_not_expire(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """SKIP LOCKED, and the state is checked again, for expiry and for retention."""
    await make_queue(store, retention_seconds=60)
    await send(store, expires_after_seconds=70)
    node = await join(store, ttl_seconds=600)
    clock.advance(seconds=60)
    async with barrier(home.url, before=CLAIM) as held:
        claiming = asyncio.create_task(claim(store, node))
        await held.reached()
        clock.advance(seconds=60)
        reaping = asyncio.create_task(store.reaper.reap(SYSTEM, ALL))
        assert await held.is_passed_by(reaping), "the reaper waits for the claim"
        assert await reaping == Reaped()
        await held.opens()
        (message,) = await claiming
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    assert await settle(store, ack(message)) == SettleResult()
