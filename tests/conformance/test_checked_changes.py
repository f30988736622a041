"""Changes that the caller checks: it sees the stored version in the transaction, and may refuse."""

import asyncio

import pytest

from tests.conformance.acts import make_queue
from tests.conformance.endpoint_acts import make_endpoint
from tests.stores.home import KINDS, Home
from tickwork.core.delivery.endpoint import Endpoint, EndpointSettings
from tickwork.core.model import DEFAULT, QueueSettings, StoredQueue
from tickwork.errors import NotFound, PreconditionFailed
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def test_of_concurrent_changes_of_one_version_exactly_one_is_stored(home: Home) -> None:
    stores = [await home.open() for _ in range(3)]
    first = stores[0]
    await make_queue(first)
    endpoint = await make_endpoint(first)

    async def change_queue(store: Store, number: int) -> None:
        def check(known: StoredQueue | None) -> None:
            if known is None or known.settings != QueueSettings():
                raise PreconditionFailed("queue", "work")

        await store.queues.put(DEFAULT, "work", QueueSettings(max_retries=number), check=check)

    async def change_endpoint(store: Store, number: int) -> None:
        def check(known: Endpoint) -> None:
            if known.settings != endpoint.settings:
                raise PreconditionFailed("endpoint", known.name)

        settings = EndpointSettings(url=f"https://{number}.example", types=("*",))
        await store.endpoints.update(DEFAULT, endpoint.id, settings, check=check)

    for change in (change_queue, change_endpoint):
        tried = await asyncio.gather(
            *(change(store, 10 + number) for store in stores for number in range(4)),
            return_exceptions=True,
        )
        assert [result for result in tried if not isinstance(result, PreconditionFailed)] == [None]
    for store in stores:
        await store.close()


async def test_a_refused_change_changes_nothing(store: Store) -> None:
    def refuse(_: object) -> None:
        raise PreconditionFailed("it", "that")

    await make_queue(store)
    endpoint = await make_endpoint(store)
    settings = EndpointSettings(url="https://new.example", types=("*",))
    for change in (
        store.queues.put(DEFAULT, "work", QueueSettings(max_retries=9), check=refuse),
        store.queues.put(DEFAULT, "new", QueueSettings(), check=refuse),
        store.queues.delete(DEFAULT, "work", check=refuse),
        store.endpoints.update(DEFAULT, endpoint.id, settings, check=refuse),
        store.endpoints.delete(DEFAULT, endpoint.id, check=refuse),
    ):
        with pytest.raises(PreconditionFailed):
            await change
    assert (await store.queues.get(DEFAULT, "work")).settings == QueueSettings()
    assert await store.endpoints.get(DEFAULT, endpoint.id) == endpoint
    with pytest.raises(NotFound):
        await store.queues.get(DEFAULT, "new")
