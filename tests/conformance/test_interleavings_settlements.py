"""Two transactions at once around a settlement: settlements, the reaper, duplicates.

On PostgreSQL, where transactions really overlap. Each docstring names what the law depends on;
without it the test fails.
"""

import asyncio

import pytest

from tests.conformance.acts import (
    ALL,
    ENDS,
    TTL_SECONDS,
    WORK,
    ack,
    claim_one,
    counts,
    ids,
    join,
    kill_holders,
    letters,
    make_queue,
    pull,
    pull_one,
    send,
    send_many,
    sending,
    settle,
)
from tests.conformance.barriers import (
    ACK,
    GIVE_BACK,
    barrier,
    done_or_waiting,
    rival,
)
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import (
    DEFAULT,
    LOST_CLAIMS_MAX,
    SYSTEM,
    Counts,
    Ending,
    Fate,
    Reaped,
    SettleResult,
)
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)


# settle and reap


@pytest.mark.parametrize("fate", ENDS)
async def test_a_settlement_during_the_reapers_release_is_refused(
    home: Home, store: Store, clock: VirtualClock, fate: Fate
) -> None:
    """The fence is checked again once the row is unlocked: the claim has another holder by then."""
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    message = await claim_one(store)
    clock.advance(seconds=TTL_SECONDS)
    async with barrier(home.url, before=GIVE_BACK) as held:
        reaping = asyncio.create_task(store.reaper.reap(SYSTEM, ALL))
        await held.reached()
        ending = Ending(
            claim=message.current_claim, fate=fate, reason="late", sends=(sending("next"),)
        )
        settling = asyncio.create_task(settle(store, ending))
        await eventually(held.somebody_waits_for_who_is_held)
        await held.opens()
        assert (await reaping).released == 1
        assert await settling == SettleResult(refused=(message.current_claim,))
    assert await counts(store) == Counts(ready=1)
    assert await counts(store, "next") == Counts()
    (back,) = await store.messages.peek(DEFAULT, WORK, ALL)
    assert (back.attempts, back.lost) == (0, 1)


@pytest.mark.parametrize("deaths", [0, LOST_CLAIMS_MAX - 1])
async def test_a_message_acked_while_its_node_is_reaped_stays_acked(
    home: Home, store: Store, clock: VirtualClock, deaths: int
) -> None:
    """Neither released nor made a dead letter: the reaper's statements check the fence, too."""
    await make_queue(store)
    await send(store)
    await kill_holders(store, clock, deaths)
    node = await join(store)
    message = await claim_one(store, node, separate=deaths > 0)
    clock.advance(seconds=TTL_SECONDS)
    async with barrier(home.url, before=ACK) as held:
        acking = asyncio.create_task(settle(store, ack(message)))
        await held.reached()
        reaping = asyncio.create_task(store.reaper.reap(SYSTEM, ALL))
        await eventually(held.somebody_waits_for_who_is_held)
        await held.opens()
        assert await acking == SettleResult()
        assert await reaping == Reaped(nodes=(node,))
    assert await counts(store) == Counts()
    assert await letters(store) == ()


async def test_the_reaper_skips_a_lease_that_is_being_settled(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """SKIP LOCKED: a slow settlement does not block the reaper."""
    await make_queue(store)
    await send_many(store, 2)
    first, second = await pull(store, lease_seconds=1)
    clock.advance(seconds=1)
    async with rival(home.url) as other:
        await other.does("SELECT FROM tickwork_messages WHERE id = $1 FOR UPDATE", first.id)
        reaping = asyncio.create_task(store.reaper.reap(SYSTEM, ALL))
        assert await done_or_waiting(reaping, other), "the reaper waits"
        assert await reaping == Reaped(released=1)
    assert ids(await store.messages.peek(DEFAULT, WORK, ALL)) == [second.id]


# settle and settle


@pytest.mark.parametrize("fate", ENDS)
async def test_a_lease_that_is_being_extended_can_be_settled(
    home: Home, store: Store, fate: Fate
) -> None:
    """A row that moved meanwhile is looked up again: its claim is still valid."""
    await make_queue(store)
    await send(store)
    message = await pull_one(store)
    async with rival(home.url) as extending:
        await extending.does(
            "UPDATE tickwork_messages SET lease_until = lease_until + interval '1 s'"
        )
        ending = Ending(claim=message.current_claim, fate=fate, reason="done")
        settling = asyncio.create_task(settle(store, ending))
        assert not await done_or_waiting(settling, extending)
        await extending.commits()
        assert await settling == SettleResult()


async def test_of_two_settlements_in_two_processes_one_counts(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """The second waits for the row and finds it deleted."""
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    message = await pull_one(store)
    other = await home.open(clock)
    try:
        async with barrier(home.url, before=ACK) as held:
            first = asyncio.create_task(settle(store, ack(message, sending("next"))))
            await held.reached()
            second = asyncio.create_task(settle(other, ack(message, sending("next"))))
            await eventually(held.somebody_waits_for_who_is_held)
            await held.opens()
            assert await first == SettleResult()
            assert await second == SettleResult(refused=(message.current_claim,))
    finally:
        await other.close()
    assert await counts(store, "next") == Counts(ready=1)


async def test_of_two_duplicates_in_two_processes_one_counts(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """The event is unique: the second waits for the first to commit and is then the duplicate."""
    await make_queue(store)
    await make_queue(store, "next")
    for _ in range(2):
        await send(store, event_id="paid-1")
    one, two = await pull(store)
    other = await home.open(clock)
    try:
        async with barrier(home.url, before="INSERT ON tickwork_messages FOR EACH ROW") as held:
            first = asyncio.create_task(settle(store, ack(one, sending("next"))))
            await held.reached()
            second = asyncio.create_task(settle(other, ack(two, sending("next"))))
            await eventually(held.somebody_waits_for_who_is_held)
            await held.opens()
            assert await first == SettleResult()
            assert await second == SettleResult(duplicates=(two.current_claim,))
    finally:
        await other.close()
    assert await counts(store) == Counts()
    assert await counts(store, "next") == Counts(ready=1)
