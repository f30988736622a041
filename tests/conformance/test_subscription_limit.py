"""The maximum number of subscriptions of a tenant, lowered for these tests."""

import pytest

from tests.conformance.acts import make_queue, make_tenants
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.tenant_limits import COUNTED
from tickwork.errors import TooMany
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

MAX = 3


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    few = COUNTED["subscriptions_max"]._replace(most=MAX, default=MAX)
    monkeypatch.setitem(COUNTED, "subscriptions_max", few)


async def test_exceeding_the_maximum_is_refused(store: Store) -> None:
    await make_queue(store)
    for number in range(MAX):
        await store.subscriptions.put(DEFAULT, f"type-{number}", "work")
    before = await store.subscriptions.list(DEFAULT)
    with pytest.raises(TooMany, match=f"has {MAX} subscriptions and may have {MAX}; delete some$"):
        await store.subscriptions.put(DEFAULT, "more", "work")
    assert await store.subscriptions.list(DEFAULT) == before


async def test_an_existing_subscription_can_be_put_again(store: Store) -> None:
    await make_queue(store)
    for number in range(MAX):
        await store.subscriptions.put(DEFAULT, f"type-{number}", "work")
    again = await store.subscriptions.put(DEFAULT, "type-0", "work")
    assert again in await store.subscriptions.list(DEFAULT)
    assert await store.subscriptions.delete(DEFAULT, "type-0", "work")
    await store.subscriptions.put(DEFAULT, "more", "work")
    assert len(await store.subscriptions.list(DEFAULT)) == MAX


async def test_every_tenant_and_the_system_have_their_own_limit(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    for scope in (*await make_tenants(store, "one", "two"), SYSTEM):
        for number in range(MAX):
            await store.subscriptions.put(scope, f"type-{number}", "work")
        with pytest.raises(TooMany):
            await store.subscriptions.put(scope, "more", "work")
