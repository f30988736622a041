"""Quotas of tenants: what callers may send, and how many messages run at a time."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.acts import (
    ack,
    claim,
    ids,
    join,
    make_queue,
    pull,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Home
from tickwork.core.model import DEFAULT, SYSTEM, Scope, Tenant
from tickwork.errors import InvalidInput, TooMany
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

ONE, TWO = Scope("one"), Scope("two")


async def limit(store: Store, **quotas: float) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="one", **quotas))  # type: ignore[arg-type]


async def test_a_tenant_without_quotas_may_send_anything(store: Store) -> None:
    assert (await store.tenants.quota(DEFAULT)).is_none
    await store.tenants.admit(DEFAULT, 10**6, 10**9)
    await store.tenants.admit(Scope("nobody"), 10**6, 10**9)


async def test_a_rate_of_sends_is_one_second_at_once_and_then_the_rate(
    store: Store, clock: VirtualClock
) -> None:
    await limit(store, messages_per_second=4)
    await store.tenants.admit(ONE, 3, 0)
    with pytest.raises(TooMany, match="may create 4 messages a second") as refused:
        await store.tenants.admit(ONE, 2, 0)
    assert (refused.value.limit, refused.value.retry_after_seconds) == ("messages_per_second", 0.25)
    await store.tenants.admit(ONE, 1, 0)
    clock.advance(seconds=0.25)
    await store.tenants.admit(ONE, 1, 0)
    with pytest.raises(TooMany):
        await store.tenants.admit(ONE, 1, 0)
    with pytest.raises(TooMany, match="try 4 at a time") as never:
        await store.tenants.admit(ONE, 5, 0)
    assert never.value.retry_after_seconds is None
    await store.tenants.admit(DEFAULT, 100, 0)


async def test_a_body_and_a_backlog_have_a_quota(store: Store) -> None:
    await limit(store, payload_bytes_max=10, backlog_max=3)
    await make_queue(store, scope=ONE)
    await store.tenants.admit(ONE, 1, 10)
    with pytest.raises(TooMany, match="bodies of 10 bytes, and this one has 11") as large:
        await store.tenants.admit(ONE, 1, 11)
    assert large.value.limit == "payload_bytes_max"
    sent = await send_many(store, 2, scope=ONE)
    await store.tenants.admit(ONE, 1, 0)
    with pytest.raises(TooMany, match="may have 3 messages") as full:
        await store.tenants.admit(ONE, 2, 0)
    assert full.value.limit == "backlog_max"
    (first, *_) = await pull(store, scope=ONE)
    with pytest.raises(TooMany):
        await store.tenants.admit(ONE, 2, 0)
    await settle(store, ack(first), scope=ONE)
    await store.tenants.admit(ONE, 2, 0)
    assert len(sent) == 2


async def test_a_tenant_never_has_more_claims_than_its_quota_in_all_queues(store: Store) -> None:
    await limit(store, claimed_max=3)
    await make_queue(store, "a", scope=ONE)
    await make_queue(store, "b", scope=SYSTEM)
    await send_many(store, 4, queue="a", scope=ONE)
    of_one = await send_many(store, 4, queue="b", scope=ONE)
    of_two = await send_many(store, 4, queue="b", scope=DEFAULT)
    first = await pull(store, queue="a", limit=2, scope=ONE)
    assert len(first) == 2
    worker = await join(store)
    both = await claim(store, worker, queue="b", limit=8, scope=SYSTEM)
    assert sorted(ids(both)) == sorted(ids([of_one[0], *of_two]))
    assert await pull(store, queue="a", scope=ONE) == ()
    await settle(store, ack(first[0]), scope=ONE)
    assert len(await pull(store, queue="a", scope=ONE)) == 1
    assert await claim(store, worker, queue="b", limit=8, scope=SYSTEM) == ()


async def test_a_quota_for_claims_counts_those_that_are_there_already(store: Store) -> None:
    await limit(store)
    await make_queue(store, scope=ONE)
    await send_many(store, 5, scope=ONE)
    assert len(await pull(store, limit=2, scope=ONE)) == 2
    await limit(store, claimed_max=3)
    assert len(await pull(store, limit=5, scope=ONE)) == 1
    await limit(store)
    assert len(await pull(store, limit=5, scope=ONE)) == 2


async def test_concurrent_claims_of_several_queues_keep_the_quota(home: Home) -> None:
    stores = [await home.open() for _ in range(3)]
    await limit(stores[0], claimed_max=4)
    for name in ("a", "b", "c"):
        await make_queue(stores[0], name, scope=ONE)
        await send_many(stores[0], 4, queue=name, scope=ONE)
    claimed = await asyncio.gather(
        *(
            pull(store, queue=name, limit=2, scope=ONE)
            for store in stores
            for name in ("a", "b", "c")
        )
    )
    assert sum(map(len, claimed)) == 4
    for store in stores:
        await store.close()


async def test_a_cached_quota_costs_no_statement(home: Home) -> None:
    store = await home.open()
    await limit(store)
    await store.tenants.admit(ONE, 100, 0)
    await store.close()
    await store.tenants.admit(ONE, 100, 0)  # A closed store can still read its cache.


async def test_a_changed_quota_holds_at_once_in_its_own_process(home: Home) -> None:
    store = await home.open()
    await limit(store)
    await store.tenants.admit(ONE, 100, 0)
    await limit(store, messages_per_second=1)
    with pytest.raises(TooMany):
        await store.tenants.admit(ONE, 2, 0)
    await store.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages_per_second", 0), ("messages_per_second", 1e9), ("payload_bytes_max", -1),
        ("payload_bytes_max", 128_001), ("backlog_max", -1), ("claimed_max", 0),
    ],
)  # fmt: skip
async def test_a_wrong_quota_is_refused(store: Store, field: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: must be from"):
        await limit(store, **{field: value})


async def test_a_daily_quota_of_emails_is_exact_and_starts_again_at_midnight_utc(
    store: Store, clock: VirtualClock
) -> None:
    await limit(store, emails_per_day=7)
    days = await asyncio.gather(*(store.tenants.take_emails(ONE, 1) for _ in range(20)))
    (today,) = {day for day in days if day is not None}
    assert len([day for day in days if day is not None]) == 7
    assert today == int(clock.now().timestamp() // 86_400)
    await store.tenants.return_emails(ONE, 2, today)
    assert await store.tenants.take_emails(ONE, 3) is None
    assert await store.tenants.take_emails(ONE, 2) == today
    assert await store.tenants.take_emails(ONE, 1) is None
    clock.advance(seconds=86_400 - clock.now().timestamp() % 86_400 - 0.001)
    assert await store.tenants.take_emails(ONE, 1) is None
    clock.advance(seconds=0.001)
    assert await store.tenants.take_emails(ONE, 5) == today + 1
    await store.tenants.return_emails(ONE, 5, today)
    assert await store.tenants.take_emails(ONE, 3) is None
    assert await store.tenants.take_emails(ONE, 2) == today + 1


async def test_a_tenant_without_a_quota_of_emails_has_none_to_take(store: Store) -> None:
    await limit(store)
    assert await store.tenants.take_emails(ONE, 1) is None
    assert await store.tenants.take_emails(TWO, 1) is None


async def test_a_changed_quota_of_emails_counts_what_was_sent(store: Store) -> None:
    await limit(store, emails_per_day=2)
    assert await store.tenants.take_emails(ONE, 2) is not None
    await limit(store, emails_per_day=3)
    assert await store.tenants.take_emails(ONE, 2) is None
    assert await store.tenants.take_emails(ONE, 1) is not None
