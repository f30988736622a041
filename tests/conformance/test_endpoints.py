"""Endpoints: names, settings, publishing, enabling and deleting."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tests.conformance.acts import (
    WORK,
    ack,
    counts,
    letters,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    send_many,
    settle,
)
from tests.conformance.endpoint_acts import (
    attempt,
    claimed,
    claimed_one,
    deliveries,
    end,
    ids,
    make_deliveries_queue,
    make_endpoint,
    new_endpoint,
    new_event,
    publish,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    HEALTHY,
    DeliveryStatus,
    EndpointSettings,
    EndpointWait,
    read_endpoint_envelope,
    secrets_owner,
)
from tickwork.core.model import DEFAULT, SYSTEM, ContentType, Counts, Fate, Message, Scope, Send
from tickwork.core.tenant_limits import COUNTED
from tickwork.errors import Conflict, InvalidInput, NotFound, TooMany
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def waiting(store: Store) -> int:
    counted = await counts(store, queue=ENDPOINTS_QUEUE, scope=SYSTEM)
    return counted.ready + counted.delayed + counted.blocked


async def test_an_endpoint_is_found_by_its_name_and_its_id(
    store: Store, clock: VirtualClock
) -> None:
    made = await make_endpoint(store, "shop", headers={"X-Team": "a"}, ordered=True)
    assert (made.tenant, made.health, made.disabled_at) == ("default", HEALTHY, None)
    assert made.created_at == made.updated_at == clock.now()
    for scope in (DEFAULT, SYSTEM):
        assert await store.endpoints.get(scope, "shop") == made
        assert await store.endpoints.get(scope, made.id) == made
    for unknown in ("other", new_id(), "\ud800", ""):
        with pytest.raises(NotFound):
            await store.endpoints.get(DEFAULT, unknown)


async def test_a_repeated_create_returns_the_endpoint_and_another_of_its_name_is_refused(
    store: Store,
) -> None:
    await make_deliveries_queue(store)
    first = await new_endpoint(store)
    made = await store.endpoints.create(DEFAULT, first)
    assert await store.endpoints.create(DEFAULT, first) == made
    for other in (
        await new_endpoint(store),
        msgspec.structs.replace(first, name="other"),
        msgspec.structs.replace(first, settings=EndpointSettings(url="https://b", types=("*",))),
    ):
        with pytest.raises(Conflict):
            await store.endpoints.create(DEFAULT, other)
    assert await store.endpoints.list(DEFAULT, 10) == (made,)


async def test_a_tenant_has_a_maximum_number_of_endpoints(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COUNTED, "endpoints_max", COUNTED["endpoints_max"]._replace(default=2))
    made = [await make_endpoint(store, name) for name in ("a", "b")]
    with pytest.raises(TooMany, match="2 endpoints"):
        await make_endpoint(store, "c")
    assert await store.endpoints.create(DEFAULT, made[0]) == made[0]
    await store.endpoints.delete(DEFAULT, made[0].id)
    await make_endpoint(store, "c")


async def test_endpoints_are_listed_by_name_and_belong_to_their_tenant(store: Store) -> None:
    one, other = await make_tenants(store, "one", "other")
    made = [await make_endpoint(store, name, scope=one) for name in ("b", "c", "a")]
    by_name = sorted(made, key=lambda endpoint: endpoint.name)
    assert await store.endpoints.list(one, 10) == (*by_name,)
    assert await store.endpoints.list(one, 1, after="a") == (by_name[1],)
    assert await store.endpoints.list(other, 10) == ()
    for verb in (
        store.endpoints.get(other, made[0].id),
        store.endpoints.update(other, made[0].id, made[0].settings),
        store.endpoints.disable(other, made[0].id, "no"),
        store.endpoints.enable(other, made[0].id),
        store.endpoints.delete(other, made[0].id),
        store.endpoints.get(other, "a"),
    ):
        with pytest.raises(NotFound):
            await verb
    await make_endpoint(store, "a", scope=other)
    with pytest.raises(NotFound):
        await make_endpoint(store, "a", scope=Scope("unknown"))


async def test_an_update_replaces_the_settings(store: Store, clock: VirtualClock) -> None:
    made = await make_endpoint(store)
    clock.advance(seconds=5)
    settings = EndpointSettings(url="https://b.example", types=("*",), rate_per_second=2.5)
    updated = await store.endpoints.update(DEFAULT, made.id, settings)
    assert (updated.settings, updated.updated_at) == (settings, clock.now())
    assert updated.created_at == made.created_at
    assert await store.endpoints.get(DEFAULT, made.id) == updated


async def test_an_event_makes_one_delivery_for_each_endpoint_that_receives_its_type(
    store: Store, clock: VirtualClock
) -> None:
    exact = await make_endpoint(store, "exact", types=("order.paid",))
    prefix = await make_endpoint(store, "prefix", types=("user.*", "order.*"))
    every = await make_endpoint(store, "every", types=("*",), ordered=True)
    await make_endpoint(store, "none", types=("order.paid.late", "orders"))
    event = new_event(event_id="evt-1", source="shop", priority=6, correlation_id="story")
    published = await store.endpoints.publish(DEFAULT, event, None)
    assert (published.event_id, published.queues, published.endpoints) == ("evt-1", 0, 3)
    found = {delivery.endpoint_id: delivery for delivery in await deliveries(store)}
    assert found.keys() == {exact.id, prefix.id, every.id}
    one = found[exact.id]
    assert (one.status, one.attempts, one.event_id) == (DeliveryStatus.WAITING, 0, "evt-1")
    assert (one.type, one.published_at, one.message_id) == ("order.paid", clock.now(), one.id)
    for message in await claimed(store):
        envelope = read_endpoint_envelope(message.body)
        assert envelope.delivery == message.id == found[envelope.endpoint].id
        timestamp = clock.now().isoformat().replace("+00:00", "Z")
        assert envelope.event == {
            "type": "order.paid", "timestamp": timestamp, "data": {"order": 17},
        }  # fmt: skip
        assert message.key == (every.id.hex if envelope.endpoint == every.id else None)
        assert (message.type, message.source, message.priority) == ("order.paid", "shop", 6)
        assert (message.event_id, message.correlation_id) == (None, "story")


async def test_an_event_reaches_endpoints_of_its_owner_and_those_without_one(store: Store) -> None:
    await make_endpoint(store, "unowned")
    for name in ("ann", "bob"):
        await make_endpoint(store, name, owner=name)
    names = {endpoint.id: endpoint.name for endpoint in await store.endpoints.list(DEFAULT, 10)}
    for owner, receivers in (
        (None, {"unowned"}),
        ("ann", {"unowned", "ann"}),
        ("eve", {"unowned"}),
    ):
        event = new_event(event_id=str(owner))
        published = await store.endpoints.publish(DEFAULT, event, owner)
        found = [
            delivery for delivery in await deliveries(store) if delivery.event_id == str(owner)
        ]
        assert {names[delivery.endpoint_id] for delivery in found} == receivers
        assert published.endpoints == len(receivers)


async def test_an_event_reaches_only_its_tenants_endpoints_and_the_queues_that_subscribe(
    store: Store,
) -> None:
    one, other = await make_tenants(store, "one", "other")
    await make_endpoint(store, scope=one)
    await make_endpoint(store, scope=other)
    await make_queue(store, scope=one)
    await store.subscriptions.put(one, "order.*", "work")
    published = await publish(store, scope=one)
    assert (published.queues, published.endpoints) == (1, 1)
    assert len(await deliveries(store, scope=one)) == 1
    assert await deliveries(store, scope=other) == ()
    copy = await pull_one(store, scope=one)
    assert (copy.type, copy.body) == ("order.paid", b'{"order":17}')


async def test_a_repeated_publish_makes_nothing_twice(store: Store) -> None:
    endpoint = await make_endpoint(store)
    event = new_event()
    first = await store.endpoints.publish(DEFAULT, event, None)
    assert not first.is_repeat
    again = structs.replace(first, is_repeat=True)
    assert await store.endpoints.publish(DEFAULT, event, None) == again
    (message,) = await claimed(store)
    await attempt(store, message)
    # Also when its message is done and forgotten; an endpoint that is new gets it.
    await make_endpoint(store, "new")
    assert (await store.endpoints.publish(DEFAULT, event, None)).endpoints == 2
    assert len(await deliveries(store, endpoint_id=endpoint.id)) == 1
    (message,) = await claimed(store)
    assert read_endpoint_envelope(message.body).endpoint != endpoint.id


async def test_a_repeated_publish_says_so_as_long_as_a_queue_knows_the_event(store: Store) -> None:
    await make_queue(store)
    await store.subscriptions.put(DEFAULT, "order.*", WORK)
    event, other = new_event(event_id="one"), new_event(event_id="two")

    async def is_repeat() -> bool:
        found = await store.endpoints.publish(DEFAULT, event, None)
        assert (found.queues, found.endpoints) == (1, 0)
        return bool(found.is_repeat)

    assert not await is_repeat()
    assert await is_repeat()  # Its copy waits.
    (message,) = await pull(store)
    await settle(store, ack(message))
    assert await is_repeat()  # Its copy was handled.
    assert not (await store.endpoints.publish(DEFAULT, other, None)).is_repeat


async def test_another_event_with_the_same_id_is_refused_and_reaches_nobody(store: Store) -> None:
    await make_endpoint(store)
    await make_endpoint(store, "refunds", types=("refund.*",))
    await make_queue(store)
    for name in ("refund.*", "gift.*"):
        await store.subscriptions.put(DEFAULT, name, WORK)
    event = new_event(event_id="one")
    await store.endpoints.publish(DEFAULT, event, None)
    body = msgspec.json.encode({"order": 18})
    for changed in ({"body": body}, {"type": "refund.made"}, {"type": "gift.made"}):
        other = structs.replace(event, **changed)
        with pytest.raises(Conflict, match="event_id 'one' was used for another event"):
            await store.endpoints.publish(DEFAULT, other, None)
    assert len(await deliveries(store)) == 1
    assert await counts(store) == Counts()


async def test_concurrent_publishers_of_one_event_make_each_delivery_once(store: Store) -> None:
    for name in ("a", "b", "c"):
        await make_endpoint(store, name, ordered=name == "b")
    event = new_event()
    await asyncio.gather(*(store.endpoints.publish(DEFAULT, event, None) for _ in range(8)))
    assert len(await deliveries(store)) == 3
    assert len(await claimed(store)) == 3


async def test_an_event_of_a_handler_is_published_if_its_ending_counts(store: Store) -> None:
    endpoint = await make_endpoint(store, owner="ann")
    await make_endpoint(store, "bob", owner="bob")
    await make_queue(store)
    await make_queue(store, "paid")
    await store.subscriptions.put(DEFAULT, "order.*", "paid")
    await send_many(store, 3)
    first, second, third = await pull(store)
    event = new_event(event_id="order-7")
    done = structs.replace(ack(first), sends=(Send(None, event, "ann"),))
    await settle(store, done)
    assert (await settle(store, done)).refused == (done.claim,)
    # A second handler publishes the same event, and a third one another with its id.
    await settle(store, structs.replace(ack(second), sends=(Send(None, event, "ann"),)))
    other = structs.replace(event, body=b'{"order":8}')
    with pytest.raises(Conflict, match="event_id 'order-7' was used for another event"):
        await settle(store, structs.replace(ack(third), sends=(Send(None, other, "ann"),)))
    assert [row.endpoint_id for row in await deliveries(store)] == [endpoint.id]
    (copy,) = await pull(store, queue="paid")
    assert (copy.body, copy.type, copy.event_id) == (event.body, "order.paid", "order-7")
    assert (await counts(store)).claimed == 1  # The third one is still to be settled.
    (message,) = await claimed(store)
    assert read_endpoint_envelope(message.body).endpoint == endpoint.id


async def test_concurrent_settlements_publish_the_same_events_once(
    store: Store,
) -> None:
    await make_endpoint(store, ordered=True)
    await make_queue(store)
    events = [new_event(event_id=f"order-{number}") for number in range(6)]
    await send_many(store, 8)
    messages = await pull(store)
    orders = [events, events[::-1]] * 4
    endings = [
        structs.replace(ack(message), sends=tuple(Send(None, event) for event in order))
        for message, order in zip(messages, orders, strict=True)
    ]
    settled = await asyncio.gather(*(settle(store, ending) for ending in endings))
    assert not any(result.refused for result in settled)
    assert len(await deliveries(store)) == len(events)


async def test_publishing_is_all_or_nothing(store: Store) -> None:
    await store.endpoints.create(DEFAULT, await new_endpoint(store))
    await make_queue(store)
    await store.subscriptions.put(DEFAULT, "order.*", "work")
    with pytest.raises(NotFound, match=ENDPOINTS_QUEUE):
        await publish(store)
    assert await deliveries(store) == ()
    assert await counts(store) == Counts()


async def test_a_full_subscriber_never_refuses_a_published_event(store: Store) -> None:
    await make_endpoint(store)
    await make_queue(store, backlog_bytes_max=128_000)
    await store.subscriptions.put(DEFAULT, "order.*", "work")
    body = b'"' + b"x" * 100_000 + b'"'
    for _ in range(2):
        assert (await publish(store, body=body)).queues == 1
    assert len(await deliveries(store)) == 2
    assert await waiting(store) == 2
    assert await counts(store) == Counts(ready=1, dead=1)
    (letter,) = await letters(store)
    assert letter.reason == "backlog_full"


async def test_an_event_without_the_queue_of_deliveries_is_refused_only_if_it_is_needed(
    store: Store,
) -> None:
    assert (await publish(store)).endpoints == 0
    await store.endpoints.create(DEFAULT, await new_endpoint(store))
    assert (await publish(store, "user.new")).endpoints == 0
    with pytest.raises(NotFound, match=ENDPOINTS_QUEUE):
        await publish(store)
    assert await deliveries(store) == ()
    await make_deliveries_queue(store)
    assert (await publish(store)).endpoints == 1


async def test_an_event_needs_a_type_and_json(store: Store) -> None:
    for fields in (
        {"type": None},
        {"body": b"not json"},
        {"body": b"\xff"},
        {"content_type": ContentType.TEXT},
    ):
        event = msgspec.structs.replace(new_event(), **fields)
        with pytest.raises(InvalidInput):
            await store.endpoints.publish(DEFAULT, event, None)


async def test_a_disabled_endpoint_keeps_what_is_published_and_its_first_reason(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    disabled = await store.endpoints.disable(DEFAULT, endpoint.id, "maintenance")
    assert (disabled.disabled_at, disabled.disabled_reason) == (clock.now(), "maintenance")
    at = clock.now()
    clock.advance(seconds=5)
    again = await store.endpoints.disable(DEFAULT, endpoint.id, "other")
    assert (again.disabled_at, again.disabled_reason) == (at, "maintenance")
    await publish(store)
    assert await waiting(store) == 1
    enabled = await store.endpoints.enable(DEFAULT, endpoint.id)
    assert (enabled.disabled_at, enabled.disabled_reason) == (None, None)


async def test_enabling_closes_the_breaker_and_makes_what_waits_visible_oldest_first(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    await make_endpoint(store, "other", types=("user.*",))
    published = []
    for _ in range(5):
        clock.advance(seconds=1)
        published.append((await publish(store)).event_id)
    await publish(store, "user.new")
    for message in await claimed(store):
        await attempt(store, message, code=500)
    for message in await claimed(store):
        await end(store, message, Fate.RELEASE, delay_seconds=900)
    opened = (await store.endpoints.get(DEFAULT, endpoint.id)).health
    assert opened.open_until is not None
    enabled = await store.endpoints.enable(DEFAULT, endpoint.id)
    assert enabled.health == HEALTHY
    assert enabled == await store.endpoints.get(DEFAULT, endpoint.id)
    clock.advance(seconds=1)
    messages = await claimed(store)
    assert_spaced(messages, 1 / 20)
    events = {delivery.id: delivery.event_id for delivery in await deliveries(store)}
    assert [events[claimed_message.id] for claimed_message in messages] == published


async def test_a_message_that_is_claimed_while_its_endpoint_is_enabled_does_not_wait(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    await store.endpoints.disable(DEFAULT, endpoint.id, "moving")
    await publish(store)
    message = await claimed_one(store)
    waits: dict[str, Any] = {"delay_seconds": 86_400.0, "effects": (EndpointWait(endpoint.id),)}
    await end(store, message, Fate.RELEASE, **waits)
    assert await claimed(store) == ()
    await store.endpoints.enable(DEFAULT, endpoint.id)
    message = await claimed_one(store)  # Its worker has read that the endpoint is disabled.
    await store.endpoints.disable(DEFAULT, endpoint.id, "moving")
    await store.endpoints.enable(DEFAULT, endpoint.id)
    await end(store, message, Fate.RELEASE, **waits)
    message = await claimed_one(store)
    await end(store, message, Fate.RELEASE, delay_seconds=86_400.0)
    assert await claimed(store) == ()
    clock.advance(seconds=86_400)
    assert (await claimed_one(store)).id == message.id


async def test_a_rotated_secret_sets_the_time_of_its_endpoint_in_one_transaction(
    store: Store, clock: VirtualClock
) -> None:
    endpoint, other = await make_endpoint(store), await make_endpoint(store, "other")
    owner, (stranger,) = secrets_owner(endpoint.id), await make_tenants(store, "stranger")

    async def rotate(value: bytes, scope: Scope = DEFAULT) -> None:
        await store.secrets.rotate(
            scope, owner, "signing", value, keep_seconds=60, endpoint_id=endpoint.id
        )

    def refuse() -> None:
        raise RuntimeError("no record")

    clock.advance(seconds=1)
    await rotate(b"of another tenant", stranger)
    with pytest.raises(RuntimeError):
        async with store.audit.joined(DEFAULT, refuse):
            await rotate(b"refused")
    assert await store.endpoints.get(DEFAULT, endpoint.id) == endpoint
    assert await store.secrets.get(DEFAULT, owner, "signing") == ()
    await rotate(b"new")
    changed = structs.replace(endpoint, updated_at=clock.now())
    assert await store.endpoints.get(DEFAULT, endpoint.id) == changed
    assert await store.endpoints.get(DEFAULT, other.id) == other
    assert await store.secrets.get(DEFAULT, owner, "signing") == (b"new",)


@pytest.mark.parametrize("rate", [0.5, 100])
async def test_what_a_disabled_endpoint_kept_comes_at_its_own_rate(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, rate: float
) -> None:
    # Also over the ends of chunks; a dead delivery leaves no gap. Each would come back by itself,
    # the newest first.
    monkeypatch.setattr("tickwork.store.nouns.endpoints.CHUNK_DELIVERIES", 3)
    endpoint = await make_endpoint(store, rate_per_second=rate)
    published = []
    for _ in range(9):
        clock.advance(seconds=1)
        published.append((await publish(store)).event_id)
    messages = await claimed(store)
    for index, message in enumerate(messages):
        fate = Fate.DEAD if index == 1 else Fate.RELEASE
        await end(store, message, fate, delay_seconds=0 if index == 1 else 10 - index)
    await store.endpoints.disable(DEFAULT, endpoint.id, "maintenance")
    await store.endpoints.enable(DEFAULT, endpoint.id)
    enabled_at = clock.now()
    assert len(await claimed(store)) == 1
    clock.advance(seconds=100)
    later = await claimed(store)
    assert_spaced(later, 1 / rate)
    assert later[0].visible_at == enabled_at + timedelta(seconds=1 / rate)
    events = {delivery.id: delivery.event_id for delivery in await deliveries(store)}
    assert [events[claimed_message.id] for claimed_message in later] == published[2:]


def assert_spaced(messages: Sequence[Message], seconds: float) -> None:
    at = [message.visible_at for message in messages]
    gaps = [(after - before).total_seconds() for before, after in pairwise(at)]
    assert gaps == pytest.approx([seconds] * len(gaps), abs=0.00001)


async def test_deleting_an_endpoint_deletes_its_secrets_and_what_waits_for_it(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store, ordered=True)
    other = await make_endpoint(store, "other")
    for _ in range(3):
        clock.advance(seconds=1)
        await publish(store)
    for owner in (endpoint.id, other.id):
        await store.secrets.put(DEFAULT, secrets_owner(owner), "signing", b"secret")
    (under_way,) = [message for message in await claimed(store) if message.key is not None]
    assert await store.endpoints.delete(DEFAULT, endpoint.id) == 2
    with pytest.raises(NotFound):
        await store.endpoints.get(DEFAULT, endpoint.id)
    with pytest.raises(NotFound):
        await store.endpoints.delete(DEFAULT, endpoint.id)
    assert await store.secrets.get(DEFAULT, secrets_owner(endpoint.id), "signing") == ()
    assert await store.secrets.get(DEFAULT, secrets_owner(other.id), "signing") == (b"secret",)
    await attempt(store, under_way)
    found = await deliveries(store, endpoint_id=endpoint.id)
    statuses = [delivery.status for delivery in found]
    assert statuses == [DeliveryStatus.DEAD, DeliveryStatus.DEAD, DeliveryStatus.DELIVERED]
    assert (await counts(store, queue=ENDPOINTS_QUEUE, scope=SYSTEM)) == Counts(claimed=3)
    assert len(ids(await deliveries(store, endpoint_id=other.id))) == 3
