"""Queues that push to an endpoint, as a worker finds them."""

from datetime import timedelta

import pytest

from tests.conformance.acts import make_queue, make_tenants, pull_one, send
from tests.conformance.endpoint_acts import deliveries, make_endpoint, record
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.delivery.endpoint import Attempt, AttemptRecord, Endpoint
from tickwork.core.delivery.outcome import ErrorKind
from tickwork.core.delivery.push import PushQueue
from tickwork.core.model import DEFAULT, SYSTEM, Message
from tickwork.errors import InvalidInput
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def pushing(store: Store, limit: int = 10) -> dict[str, PushQueue]:
    found = await store.endpoints.pushing_queues(SYSTEM, limit)
    return {push_queue.queue.name: push_queue for push_queue in found}


def pushed(message: Message, endpoint: Endpoint, *, is_delivered: bool) -> AttemptRecord:
    kind = None if is_delivered else ErrorKind.HTTP
    return AttemptRecord(
        claim=message.current_claim,
        delivery_id=None,
        endpoint_id=endpoint.id,
        attempt=Attempt(number=1, at=message.visible_at, took_seconds=0.1, kind=kind),
    )


async def test_the_queues_of_all_tenants_that_push_are_found(store: Store) -> None:
    (one,) = await make_tenants(store, "one")
    await make_queue(store, "plain")
    await make_queue(store, "mine", push_to="shop")
    await make_queue(store, "theirs", scope=one, push_to="shop")
    await make_queue(store, "ours", scope=SYSTEM, push_to="shop")
    await make_endpoint(store, "shop")
    found = await pushing(store)
    ready = {name: (value.has_endpoint, value.is_ready) for name, value in found.items()}
    assert ready == {"mine": (True, True), "theirs": (False, False), "ours": (False, True)}
    assert found["theirs"].queue == await store.queues.get(one, "theirs")
    await make_queue(store, "mine")
    assert (await pushing(store)).keys() == {"theirs", "ours"}
    assert len(await pushing(store, 1)) == 1
    with pytest.raises(InvalidInput):
        await store.endpoints.pushing_queues(DEFAULT, 10)


async def test_a_disabled_endpoint_and_an_open_breaker_keep_a_queue_waiting(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, "work", push_to="shop")
    endpoint = await make_endpoint(store, "shop")
    await store.endpoints.disable(DEFAULT, endpoint.id, "they asked")
    found = (await pushing(store))["work"]
    assert (found.is_disabled, found.is_ready) == (True, False)
    await store.endpoints.enable(DEFAULT, endpoint.id)
    await send(store, queue="work")
    message = await pull_one(store, queue="work")
    for _ in range(5):
        assert await record(store, pushed(message, endpoint, is_delivered=False)) == (True,)
    found = (await pushing(store))["work"]
    assert (found.open_until, found.is_ready) == (clock.now() + timedelta(seconds=60), False)
    clock.advance(seconds=60)
    assert (await pushing(store))["work"].is_ready


async def test_an_attempt_without_a_delivery_changes_only_the_health(store: Store) -> None:
    await make_queue(store, "work", push_to="shop")
    endpoint = await make_endpoint(store, "shop")
    await send(store, queue="work")
    message = await pull_one(store, queue="work")
    failed = pushed(message, endpoint, is_delivered=False)
    assert await record(store, failed, failed) == (True, True)
    assert (await store.endpoints.get(DEFAULT, endpoint.id)).health.failures_in_row == 2
    assert await deliveries(store) == ()
    assert await record(store, pushed(message, endpoint, is_delivered=True)) == (True,)
    assert (await store.endpoints.get(DEFAULT, endpoint.id)).health.failures_in_row == 0
