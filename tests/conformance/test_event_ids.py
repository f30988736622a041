"""Event ids: the ack of a second message with the same event id is a duplicate."""

import asyncio
from collections.abc import Callable

import pytest

from tests.conformance.acts import (
    ack,
    counts,
    dead,
    ids,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    release,
    retry,
    send,
    sending,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import SYSTEM, Counts, Ending, SettleResult
from tickwork.store.contract import Store


async def test_the_second_ack_of_an_event_is_a_duplicate(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    for _ in range(2):
        await send(store, event_id="paid-1")
    one, two = await pull(store)
    first, second = sending("next"), sending("next")
    assert await settle(store, ack(one, first)) == SettleResult()
    assert await settle(store, ack(two, second)) == SettleResult(duplicates=(two.current_claim,))
    assert await counts(store) == Counts()
    assert ids(await pull(store, queue="next")) == [first.message.id]


async def test_an_event_is_remembered_after_its_message_is_gone(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store, event_id="paid-1")
    await settle(store, ack(await pull_one(store)))
    clock.advance(seconds=14 * 86_400)
    await send(store, event_id="paid-1")
    other = await home.open(clock)
    try:
        assert await pull(other) == ()
        assert await counts(other) == Counts()
    finally:
        await other.close()


async def test_two_duplicates_in_flight_have_one_winner(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    for number in range(10):
        for _ in range(2):
            await send(store, event_id=f"paid-{number}")
        one, two = await pull(store)
        answers = await asyncio.gather(
            settle(store, ack(one, sending("next"))), settle(store, ack(two, sending("next")))
        )
        assert sorted(len(answer.duplicates) for answer in answers) == [0, 1]
    assert await counts(store) == Counts()
    assert await counts(store, "next") == Counts(ready=10)


async def test_two_duplicates_in_one_settlement_have_one_winner(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    for _ in range(3):
        await send(store, event_id="paid-1")
    endings = [ack(message, sending("next")) for message in await pull(store)]
    result = await settle(store, *endings)
    assert not result.refused
    assert len(result.duplicates) == 2
    winner = {ending.claim for ending in endings} - set(result.duplicates)
    (sent,) = await pull(store, queue="next")
    assert [e.sends[0].message.id for e in endings if e.claim in winner] == [sent.id]
    assert await counts(store) == Counts()


@pytest.mark.parametrize("key", [None, "k"])
async def test_of_two_duplicates_in_one_settlement_the_first_wins(
    store: Store, key: str | None
) -> None:
    await make_queue(store)
    await send(store, event_id="e")
    await send(store, event_id="e")
    if key is not None:
        await send(store, key=key)
    first, second, *others = await pull(store)
    result = await settle(store, ack(second), ack(first), *map(ack, others))
    assert (result.refused, result.duplicates) == ((), (first.current_claim,))


async def test_messages_without_an_event_id_are_never_duplicates(store: Store) -> None:
    await make_queue(store)
    for _ in range(3):
        await send(store)
    assert await settle(store, *(ack(message) for message in await pull(store))) == SettleResult()


async def test_events_are_remembered_per_queue(store: Store) -> None:
    for queue in ("one", "two"):
        await make_queue(store, queue)
        await send(store, queue=queue, event_id="paid-1")
        message = await pull_one(store, queue=queue)
        assert await settle(store, ack(message)) == SettleResult()


async def test_events_are_remembered_per_tenant(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    for scope in await make_tenants(store, "one", "two"):
        await send(store, scope=scope, event_id="paid-1")
        message = await pull_one(store, scope=scope)
        assert await settle(store, ack(message), scope=scope) == SettleResult()


@pytest.mark.parametrize("fate", [retry, release, dead])
async def test_only_an_ack_marks_an_event_as_done(
    store: Store, fate: Callable[..., Ending]
) -> None:
    await make_queue(store)
    for _ in range(2):
        await send(store, event_id="paid-1")
    one, two = await pull(store)
    assert await settle(store, fate(one, reason="not yet", delay_seconds=60)) == SettleResult()
    assert await settle(store, ack(two)) == SettleResult()


async def test_a_refused_ack_does_not_mark_an_event_as_done(store: Store) -> None:
    await make_queue(store)
    for _ in range(2):
        await send(store, event_id="paid-1")
    one, two = await pull(store)
    await settle(store, release(one, delay_seconds=60))
    assert await settle(store, ack(one)) == SettleResult(refused=(one.current_claim,))
    assert await settle(store, ack(two)) == SettleResult()


async def test_a_duplicate_can_still_be_retried(store: Store) -> None:
    await make_queue(store)
    for _ in range(2):
        await send(store, event_id="paid-1")
    one, two = await pull(store)
    assert await settle(store, ack(one), retry(two)) == SettleResult()
    assert await counts(store) == Counts(ready=1)
