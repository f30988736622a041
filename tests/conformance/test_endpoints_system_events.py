"""Endpoints receive the system events that they name exactly."""

import asyncio
from uuid import UUID

import msgspec
import pytest

from tests.conformance.acts import (
    ALL,
    dead,
    kill_all,
    make_queue,
    make_tenants,
    pull_one,
    send,
    settle,
)
from tests.conformance.endpoint_acts import (
    attempt,
    claimed,
    claimed_one,
    deliveries,
    end,
    make_endpoint,
    publish,
    the_delivery,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE, read_endpoint_envelope
from tickwork.core.message.system_events import shard_stalled_event
from tickwork.core.model import DEFAULT, SYSTEM, Fate
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def received(store: Store) -> list[tuple[UUID, str]]:
    """The endpoints that are to receive an event, with its type."""
    found = await deliveries(store)
    return sorted((delivery.endpoint_id, delivery.type) for delivery in found)


async def test_an_endpoint_receives_a_system_event_that_it_names(store: Store) -> None:
    await make_queue(store)
    named = await make_endpoint(store, types=("order.*", "message.dead"))
    sent = await send(store, type="paid")
    await settle(store, dead(await pull_one(store), reason="permanent", error="no such user"))
    delivery = await the_delivery(store)
    assert (delivery.endpoint_id, delivery.type) == (named.id, "message.dead")
    message = await claimed_one(store)
    event = msgspec.to_builtins(read_endpoint_envelope(message.body).event)
    assert event.keys() == {"type", "timestamp", "data"}
    assert event["type"] == "message.dead"
    assert event["data"]["message_id"] == public_id(Prefix.MESSAGE, sent.id)
    assert event["data"]["error"] == "no such user"
    await attempt(store, message)
    assert (await the_delivery(store)).delivered_at is not None


@pytest.mark.parametrize("types", ["*", "message.*", "message.dead*", "order.paid"])
async def test_a_pattern_of_an_endpoint_matches_no_system_event(store: Store, types: str) -> None:
    await make_queue(store)
    await make_endpoint(store, types=(types,))
    await send(store)
    await kill_all(store)
    assert await deliveries(store) == ()


async def test_a_system_event_reaches_endpoints_without_an_owner_and_of_its_tenant_only(
    store: Store,
) -> None:
    (one,) = await make_tenants(store, "one")
    await make_queue(store)
    mine = await make_endpoint(store, "mine", types=("message.dead",))
    await make_endpoint(store, "owned", types=("message.dead",), owner="anna")
    await make_endpoint(store, "theirs", scope=one, types=("message.dead",))
    await send(store)
    await kill_all(store)
    assert await received(store) == [(mine.id, "message.dead")]
    assert await deliveries(store, scope=one) == ()


async def test_every_dead_letter_of_a_settlement_makes_a_delivery_for_every_endpoint(
    store: Store,
) -> None:
    await make_queue(store)
    plain = await make_endpoint(store, "plain", types=("message.dead",))
    ordered = await make_endpoint(store, "ordered", types=("message.dead",), ordered=True)
    for _ in range(30):
        await send(store)
    await kill_all(store)
    expected = sorted([(plain.id, "message.dead"), (ordered.id, "message.dead")] * 30)
    assert await received(store) == expected
    # Of an ordered endpoint one at a time.
    assert len(await claimed(store)) == 31


async def test_an_event_without_a_queue_reaches_endpoints_once(
    store: Store, clock: VirtualClock
) -> None:
    named = await make_endpoint(store, types=("shard.stalled",))
    event = shard_stalled_event(7, clock.now(), 31.0)
    assert await store.messages.notify(DEFAULT, event) == 1
    assert await store.messages.notify(DEFAULT, event) == 0
    assert await received(store) == [(named.id, "shard.stalled")]


async def test_the_health_of_an_endpoint_is_told_to_others_and_not_to_itself(store: Store) -> None:
    types = ("order.*", "endpoint.failing", "endpoint.disabled")
    down = await make_endpoint(store, "down", types=types)
    await publish(store)
    other = await make_endpoint(store, "other", types=types[1:], ordered=True)
    for _ in range(5):
        await attempt(store, await claimed_one(store), code=500)
    assert (await store.endpoints.get(DEFAULT, down.id)).health.failures_in_row == 5
    assert await received(store) == sorted(
        [(down.id, "order.paid"), (other.id, "endpoint.failing")]
    )


async def test_a_system_event_that_cannot_be_delivered_publishes_nothing(store: Store) -> None:
    """A death of a delivery is told once, to its endpoint too; the death of that is not."""
    await make_endpoint(store, types=("order.*", "message.dead"))
    await publish(store)
    for expected in (["message.dead", "order.paid"], ["message.dead", "order.paid"]):
        for message in await claimed(store):
            await end(store, message, Fate.DEAD, reason="permanent")
        assert sorted(delivery.type for delivery in await deliveries(store)) == expected
    assert await claimed(store) == ()


async def test_expired_messages_are_told_to_endpoints(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    named = await make_endpoint(store, types=("message.dead",), ordered=True)
    for _ in range(3):
        await send(store, expires_after_seconds=60)
    clock.advance(seconds=61)
    await store.reaper.reap(SYSTEM, ALL)
    assert await received(store) == [(named.id, "message.dead")] * 3


async def test_without_the_queue_of_deliveries_a_message_dies_all_the_same(store: Store) -> None:
    await make_queue(store)
    await make_endpoint(store, types=("message.dead",))
    await store.queues.delete(SYSTEM, ENDPOINTS_QUEUE)
    await send(store)
    assert len(await kill_all(store)) == 1
    assert await deliveries(store) == ()


async def test_deaths_and_events_for_an_ordered_endpoint_do_not_block_each_other(
    store: Store,
) -> None:
    await make_endpoint(store, types=("order.*", "message.dead"), ordered=True)
    for number in range(4):
        await make_queue(store, f"work{number}")
        for _ in range(5):
            await send(store, queue=f"work{number}", key="k")

    async def kill(queue: str) -> None:
        for _ in range(5):
            await kill_all(store, queue=queue)

    async def announce() -> None:
        for _ in range(10):
            await publish(store)

    async def deliver() -> None:
        for _ in range(10):
            for message in await claimed(store):
                await attempt(store, message)

    await asyncio.gather(*(kill(f"work{n}") for n in range(4)), announce(), deliver())
    while held := await claimed(store):
        for message in held:
            await attempt(store, message)
    found = await deliveries(store)
    assert len(found) == 30
    assert all(delivery.delivered_at is not None for delivery in found)
