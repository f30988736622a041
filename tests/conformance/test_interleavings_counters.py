"""Two transactions at once on keys, dead letters, batches, caps and duplicates.

On PostgreSQL, where transactions really overlap. Each docstring names what the law depends on;
without it the test fails.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    ack_all,
    claim,
    counts,
    create_batch,
    ids,
    join,
    kill_all,
    letters,
    make_queue,
    new,
    news,
    pull,
    pull_one,
    send,
    send_many,
    settle,
)
from tests.conformance.barriers import ACK, CLAIM, SEND, barrier, rival
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.batch import BatchStatus
from tickwork.core.message.dead_letter import Pace, Replayed, Selection
from tickwork.core.model import DEFAULT, SYSTEM, Counts, SettleResult
from tickwork.errors import Conflict
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

RESOLVE = "UPDATE ON tickwork_dead_letters FOR EACH ROW WHEN (NEW.resolution IS NOT NULL)"
COMPLETE = "UPDATE ON tickwork_batches FOR EACH ROW WHEN (NEW.completed_at IS NOT NULL)"
COUNT = "INSERT ON tickwork_batch_counts FOR EACH ROW"


@pytest.fixture
async def other(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """The same database, as another process sees it."""
    opened = await home.open(clock)
    yield opened
    await opened.close()


# send and ack of one key


async def test_a_message_sent_while_the_one_before_it_is_acked_is_not_stuck(
    home: Home, store: Store, other: Store
) -> None:
    """The key is locked after the message is deleted, and blocked messages are looked up after
    that."""
    await make_queue(store)
    await send(store, key="a")
    message = await pull_one(store)
    async with barrier(home.url, before=ACK) as held:
        acking = asyncio.create_task(settle(store, ack(message)))
        await held.reached()
        sending = asyncio.create_task(send(other, key="a"))
        await held.is_passed_by(sending)
        await held.opens()
        assert await acking == SettleResult()
        sent = await sending
    assert await counts(store) == Counts(ready=1)
    assert ids(await pull(store)) == [sent.id]


async def test_an_ack_waits_for_a_send_of_the_same_key(
    home: Home, store: Store, other: Store
) -> None:
    """The send locks its key until it commits: the ack then finds the message and unblocks it."""
    await make_queue(store)
    await send(store, key="a")
    message, behind = await pull_one(store), new(key="a")
    async with barrier(home.url, before=SEND) as held:
        sending = asyncio.create_task(other.messages.send(DEFAULT, WORK, behind))
        await held.reached()
        acking = asyncio.create_task(settle(store, ack(message)))
        await eventually(held.somebody_waits_for_who_is_held)
        await held.opens()
        await sending
        assert await acking == SettleResult()
    assert ids(await pull(store)) == [behind.id]


async def test_of_two_concurrent_first_messages_of_a_key_one_is_the_head(
    home: Home, store: Store, other: Store
) -> None:
    """The key's row is inserted once: the second send waits for the first and comes behind it."""
    await make_queue(store)
    first, second = new(key="a"), new(key="a", priority=9)
    async with barrier(home.url, before=f"{SEND} WHEN (NEW.id = '{first.id}')") as held:
        one = asyncio.create_task(store.messages.send(DEFAULT, WORK, first))
        await held.reached()
        two = asyncio.create_task(other.messages.send(DEFAULT, WORK, second))
        await eventually(held.somebody_waits_for_who_is_held)
        await held.opens()
        await asyncio.gather(one, two)
    assert await counts(store) == Counts(ready=1, blocked=1)
    assert await ack_all(store) == [first.id, second.id]


async def test_a_failed_send_leaves_no_key_blocked(home: Home, store: Store) -> None:
    """The key's row is written in the send's transaction and rolled back with it."""
    await make_queue(store)
    async with rival(home.url) as taken:
        lost = new(key="a")
        queue = await store.queues.get(DEFAULT, WORK)
        await taken.does(
            "INSERT INTO tickwork_keys (tenant, queue_id, key, last_place) "
            "VALUES ('default', $1, 'a', 1)",
            queue.id,
        )
        sending = asyncio.create_task(store.messages.send(DEFAULT, WORK, lost))
        await eventually(taken.is_waited_for)
    await sending
    assert ids(await pull(store)) == [lost.id]


# replay and replay


async def test_of_two_replays_of_a_dead_letter_one_sends(
    home: Home, store: Store, other: Store
) -> None:
    """The statement that resolves a dead letter checks that it is still open."""
    await make_queue(store)
    await send(store)
    (letter,) = await kill_all(store)

    def replay(own: Store) -> "asyncio.Task[tuple[Replayed, ...]]":
        selection = Selection(ids=(letter.id,))
        return asyncio.create_task(own.dead_letters.replay(DEFAULT, WORK, selection, Pace()))

    async with barrier(home.url, before=RESOLVE) as held:
        first = replay(store)
        await held.reached()
        second = replay(other)
        await held.is_passed_by(second)
        await held.opens()
        assert [len(await first), len(await second)] == [1, 0]
    assert await counts(store) == Counts(ready=1)


async def test_a_discard_skips_a_dead_letter_that_is_being_replayed(
    home: Home, store: Store, other: Store
) -> None:
    """The same fence, for a discard."""
    await make_queue(store)
    await send(store)
    await kill_all(store)
    async with barrier(home.url, before=RESOLVE) as held:
        replaying = asyncio.create_task(
            store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())
        )
        await held.reached()
        discarding = asyncio.create_task(other.dead_letters.discard(DEFAULT, WORK, Selection()))
        await held.is_passed_by(discarding)
        await held.opens()
        assert (len(await replaying), await discarding) == (1, 0)
    assert await letters(store) == ()


async def test_a_dead_letter_that_is_being_replayed_is_not_edited(
    home: Home, store: Store, other: Store
) -> None:
    """The edit waits for the row and finds it resolved: no edit is silently lost."""
    await make_queue(store)
    await send(store, body=b"old")
    (letter,) = await kill_all(store)
    async with barrier(home.url, before=RESOLVE) as held:
        replaying = asyncio.create_task(
            store.dead_letters.replay(DEFAULT, WORK, Selection(), Pace())
        )
        await held.reached()
        editing = asyncio.create_task(
            other.dead_letters.edit(DEFAULT, letter.id, b"new", letter.content_type)
        )
        await eventually(held.somebody_waits_for_who_is_held)
        await held.opens()
        await replaying
        with pytest.raises(Conflict):
            await editing
    assert (await pull_one(store)).body == b"old"


# the last items of a batch


async def test_two_concurrent_last_acks_complete_a_batch_once(
    home: Home, store: Store, other: Store
) -> None:
    """The last to commit sees that every item has ended; a compare-and-set sends one event."""
    await make_queue(store)
    await make_queue(store, "done")
    batch = await create_batch(store, news(2), completion_queue="done")
    one, two = await pull(store)
    async with barrier(home.url, before=COUNT) as held:
        acks = [
            asyncio.create_task(settle(own, ack(message)))
            for own, message in ((store, one), (other, two))
        ]
        await held.reached()
        await held.opens()
        await asyncio.gather(*acks)
    assert (await store.batches.get(DEFAULT, batch.id)).status is BatchStatus.COMPLETED
    assert await counts(store, "done") == Counts(ready=1)


async def test_the_reaper_during_the_last_ack_sends_no_second_event(
    home: Home, store: Store, other: Store
) -> None:
    """The event is sent in the transaction that sets `completed_at`."""
    await make_queue(store)
    await make_queue(store, "done")
    batch = await create_batch(store, news(1), completion_queue="done")
    message = await pull_one(store)
    async with barrier(home.url, before=COMPLETE) as held:
        acking = asyncio.create_task(settle(store, ack(message)))
        await held.reached()
        reaping = asyncio.create_task(other.reaper.reap(SYSTEM, ALL))
        await held.is_passed_by(reaping)
        await held.opens()
        await asyncio.gather(acking, reaping)
    assert (await store.batches.get(DEFAULT, batch.id)).status is BatchStatus.COMPLETED
    assert await counts(store, "done") == Counts(ready=1)


async def test_the_reaper_sends_the_completion_event_that_a_crash_left_out(
    home: Home, store: Store
) -> None:
    """All items ended, and the process died before it completed the batch."""
    await make_queue(store)
    await make_queue(store, "done")
    batch = await create_batch(store, news(1), completion_queue="done")
    message = await pull_one(store)
    async with rival(home.url) as fault:
        await fault.does(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'killed' USING ERRCODE = '57P01'; END $$"
        )
        await fault.does(f"CREATE TRIGGER fail BEFORE {COMPLETE} EXECUTE FUNCTION fail()")
        await fault.commits()
    await asyncio.gather(settle(store, ack(message)), return_exceptions=True)
    untold = await store.batches.get(DEFAULT, batch.id)
    assert (untold.status, untold.completed) == (BatchStatus.RUNNING, 1)
    async with rival(home.url) as mended:
        await mended.does("DROP FUNCTION fail CASCADE")
        await mended.commits()
    reaped = await store.reaper.reap(SYSTEM, ALL)
    assert reaped.batches == 1
    assert await counts(store, "done") == Counts(ready=1)
    assert (await store.reaper.reap(SYSTEM, ALL)).batches == 0


# claim and claim under a cap


async def test_a_claim_under_a_cap_waits_for_a_concurrent_one(
    home: Home, store: Store, other: Store
) -> None:
    """Claims of a queue with a cap lock the queue: each sees what the other claimed."""
    await make_queue(store, tenant_claimed_max=3)
    await send_many(store, 10)
    nodes = [await join(store) for _ in range(2)]
    async with barrier(home.url, before=CLAIM) as held:
        first = asyncio.create_task(claim(store, nodes[0], limit=2))
        await held.reached()
        second = asyncio.create_task(claim(other, nodes[1], limit=2))
        await eventually(held.somebody_waits_for_who_is_held)
        await held.opens()
        assert [len(await first), len(await second)] == [2, 1]
    assert await counts(store) == Counts(ready=7, claimed=3)


async def test_a_send_does_not_wait_for_a_claim_under_a_cap(
    home: Home, store: Store, other: Store
) -> None:
    """Sends can share the lock that a claim takes on the queue."""
    await make_queue(store, tenant_claimed_max=3)
    await send(store)
    node = await join(store)
    async with barrier(home.url, before=CLAIM) as held:
        claiming = asyncio.create_task(claim(store, node))
        await held.reached()
        sending = asyncio.create_task(send(other))
        assert await held.is_passed_by(sending), "the send waits for the claim"
        await held.opens()
        assert len(await claiming) == 1
    assert await counts(store) == Counts(ready=1, claimed=1)
