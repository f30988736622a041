"""Requests with an idempotency key: carried out once, answered again for a day."""

import pytest

from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, SYSTEM, Scope, Tenant
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", ["sqlite", "postgres"], indirect=True)

A, B = b"a" * 16, b"b" * 16


async def test_one_of_two_requests_with_a_key_is_carried_out(store: Store) -> None:
    seed = new_id()
    first = await store.requests.begin(DEFAULT, "k", A, seed)
    assert (first.is_own, first.seed) == (True, seed)
    second = await store.requests.begin(DEFAULT, "k", A, new_id())
    assert (second.is_own, second.seed, second.answer) == (False, seed, None)
    await store.requests.finish(DEFAULT, "k", seed, b"{}")
    third = await store.requests.begin(DEFAULT, "k", B, new_id())
    assert (third.is_own, third.answer, third.fingerprint) == (False, b"{}", A)


async def test_a_request_that_failed_is_forgotten(store: Store) -> None:
    first = await store.requests.begin(DEFAULT, "k", A, new_id())
    await store.requests.forget(DEFAULT, "k", first.seed)
    assert (await store.requests.begin(DEFAULT, "k", B, new_id())).is_own
    await store.requests.forget(DEFAULT, "k", first.seed)
    assert not (await store.requests.begin(DEFAULT, "k", B, new_id())).is_own


async def test_an_abandoned_request_is_taken_over_with_its_ids(
    store: Store, clock: VirtualClock
) -> None:
    first = await store.requests.begin(DEFAULT, "k", A, new_id())
    clock.advance(seconds=61)
    assert not (await store.requests.begin(DEFAULT, "k", B, new_id())).is_own
    again = await store.requests.begin(DEFAULT, "k", A, new_id())
    assert (again.is_own, again.seed) == (True, first.seed)


async def test_an_answer_is_kept_for_a_day(store: Store, clock: VirtualClock) -> None:
    first = await store.requests.begin(DEFAULT, "k", A, new_id())
    await store.requests.finish(DEFAULT, "k", first.seed, b"1")
    clock.advance(seconds=86_399)
    await store.pruner.prune(SYSTEM, 100)
    assert (await store.requests.begin(DEFAULT, "k", A, new_id())).answer == b"1"
    clock.advance(seconds=1)
    later = await store.requests.begin(DEFAULT, "k", B, new_id())
    assert (later.is_own, later.seed == first.seed) == (True, False)


async def test_keys_of_two_tenants_are_apart(store: Store) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="acme"))
    assert (await store.requests.begin(DEFAULT, "k", A, new_id())).is_own
    assert (await store.requests.begin(Scope("acme"), "k", A, new_id())).is_own
