"""The reaper: releases claims of dead holders and expires messages and batches."""

import asyncio

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    claim,
    claim_one,
    counts,
    ids,
    join,
    letters,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    retry,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, REASON_EXPIRED, SYSTEM, Counts, Reaped
from tickwork.store.contract import Store

DAY_SECONDS = 86_400


async def test_a_pass_without_expired_rows_reaps_nothing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send_many(store, 3)
    await claim(store, await join(store), limit=1)
    await pull(store, limit=1)
    clock.advance(seconds=10)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    assert await counts(store) == Counts(ready=1, claimed=2)


async def test_a_message_past_its_own_expiry_becomes_a_dead_letter(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent = await send(store, expires_after_seconds=60)
    await send(store)
    clock.advance(seconds=59)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)
    (letter,) = await letters(store)
    assert (letter.message_id, letter.reason) == (sent.id, REASON_EXPIRED)
    assert (letter.attempts, letter.failed_at) == (0, clock.now())
    assert await counts(store) == Counts(ready=1, dead=1)


async def test_a_messages_own_expiry_counts_from_when_it_becomes_visible(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store, delay_seconds=100, expires_after_seconds=60)
    clock.advance(seconds=159)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)


async def test_a_claimed_message_does_not_expire(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store, expires_after_seconds=60)
    message = await pull_one(store, lease_seconds=1_000)
    clock.advance(seconds=100)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    await settle(store, retry(message, error="busy"))
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)
    (letter,) = await letters(store)
    assert (letter.reason, letter.attempts, letter.error) == (REASON_EXPIRED, 1, "busy")


async def test_no_attempt_starts_after_a_messages_own_expiry(
    store: Store, clock: VirtualClock
) -> None:
    """Even if no reaper ran: yesterday's reminder is not sent today."""
    await make_queue(store)
    await send(store, expires_after_seconds=60)
    clock.advance(seconds=59)
    assert len(await pull(store, lease_seconds=0)) == 1
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(released=1)
    clock.advance(seconds=1)
    assert await pull(store) == ()
    assert await claim(store, await join(store)) == ()


async def test_a_message_older_than_the_retention_becomes_a_dead_letter(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, retention_seconds=DAY_SECONDS)
    await make_queue(store, "patient", retention_seconds=14 * DAY_SECONDS)
    sent = await send(store)
    await send(store, queue="patient")
    clock.advance(seconds=DAY_SECONDS - 1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)
    (letter,) = await letters(store)
    assert (letter.message_id, letter.reason) == (sent.id, REASON_EXPIRED)
    assert letter.attempts == 0
    assert await counts(store, "patient") == Counts(ready=1)


async def test_retention_counts_from_when_a_message_becomes_visible(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, retention_seconds=DAY_SECONDS)
    await send(store, delay_seconds=DAY_SECONDS)
    await send(store)
    (message,) = await pull(store, limit=1)
    clock.advance(seconds=DAY_SECONDS)
    await settle(store, retry(message))
    clock.advance(seconds=DAY_SECONDS - 1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped()
    clock.advance(seconds=1)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=2)


async def test_messages_of_every_tenant_and_priority_expire(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM, retention_seconds=60)
    for scope in await make_tenants(store, "one", "two"):
        for priority in (0, 4, 9):
            await send(store, scope=scope, priority=priority)
    clock.advance(seconds=60)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=6)
    assert await counts(store, scope=SYSTEM) == Counts(dead=6)


async def test_messages_in_a_paused_queue_expire_too(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, retention_seconds=60)
    await send(store)
    await store.queues.pause(DEFAULT, WORK)
    clock.advance(seconds=60)
    assert await store.reaper.reap(SYSTEM, ALL) == Reaped(dead=1)


@pytest.mark.parametrize("what", ["expiry", "retention", "lease"])
async def test_a_pass_reaps_at_most_its_limit_and_the_next_one_continues(
    store: Store, clock: VirtualClock, what: str
) -> None:
    await make_queue(store, retention_seconds=600)
    await send_many(store, 7, expires_after_seconds=60 if what == "expiry" else None)
    if what == "lease":
        assert len(await pull(store, lease_seconds=60)) == 7
    clock.advance(seconds=600 if what == "retention" else 60)
    ended = []
    for _ in range(4):
        reaped = await store.reaper.reap(SYSTEM, 3)
        ended.append(reaped.released if what == "lease" else reaped.dead)
    assert ended == [3, 3, 1, 0]


async def test_two_concurrent_reapers_reap_each_row_once(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    other = await home.open(clock)
    try:
        await send_many(store, 30)
        nodes = [await join(store) for _ in range(5)]
        for node in nodes:
            assert len(await claim(store, node, limit=2)) == 2
        assert len(await pull(store, limit=10, lease_seconds=1)) == 10
        await send_many(store, 10, expires_after_seconds=1)
        clock.advance(seconds=100)
        passes = await asyncio.gather(
            *(one_store.reaper.reap(SYSTEM, ALL) for one_store in (store, other, store, other))
        )
        assert sorted(id_ for pass_ in passes for id_ in pass_.nodes) == sorted(nodes)
        assert sum(pass_.released for pass_ in passes) == 20
        assert sum(pass_.dead for pass_ in passes) == 10
        assert await counts(store) == Counts(ready=30, dead=10)
        lost = {message.lost for message in await store.messages.peek(DEFAULT, WORK, ALL)}
        assert lost == {0, 1}
    finally:
        await other.close()


async def test_a_message_released_by_the_reaper_is_claimable_at_once(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    sent = await send(store)
    await claim_one(store)
    clock.advance(seconds=60)
    assert await pull(store) == ()
    await store.reaper.reap(SYSTEM, ALL)
    assert ids(await pull(store)) == [sent.id]
