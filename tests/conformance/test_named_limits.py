"""Named limits: what queues and endpoints share, they get together."""

import asyncio
from typing import Any

import pytest

from tests.conformance.acts import (
    ack,
    make_queue,
    make_tenants,
    pull,
    release,
    retry,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, SYSTEM, Message, Scope
from tickwork.core.queue.named_limit import FULL_SECONDS, NamedLimit
from tickwork.errors import NotFound, TooMany
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def put(
    store: Store, name: str = "partner", *, scope: Scope = DEFAULT, **numbers: float
) -> None:
    await store.limits.put(scope, NamedLimit(name=name, **numbers))  # type: ignore[arg-type]


async def make(store: Store, *queues: str, messages: int = 20, **settings: Any) -> None:
    """Queues with messages that share a limit."""
    for queue in queues:
        await make_queue(store, queue, limit="partner", **settings)
        await send_many(store, messages, queue=queue)


async def test_limits_are_put_listed_and_deleted(store: Store) -> None:
    (one,) = await make_tenants(store, "one")
    await put(store, "b", rate=2.5, period_seconds=60.0)
    await put(store, "a", concurrency=3)
    await put(store, "a", scope=one, concurrency=4)
    await put(store, "a", scope=SYSTEM, rate=7.0)
    first, second = await store.limits.list(DEFAULT)
    assert first == NamedLimit(name="a", concurrency=3)
    assert second == NamedLimit(name="b", rate=2.5, period_seconds=60.0)
    assert await store.limits.get(one, "a") == NamedLimit(name="a", concurrency=4)
    assert await store.limits.list(SYSTEM) == (NamedLimit(name="a", rate=7.0),)
    await put(store, "a", rate=1.0)
    assert await store.limits.get(DEFAULT, "a") == NamedLimit(name="a", rate=1.0)
    await store.limits.delete(DEFAULT, "a")
    for name in ("a", "unknown", "", "\ud800"):
        with pytest.raises(NotFound):
            await store.limits.get(DEFAULT, name)
        with pytest.raises(NotFound):
            await store.limits.delete(DEFAULT, name)
    assert await store.limits.get(one, "a") == NamedLimit(name="a", concurrency=4)
    for unknown in ("nobody", "\ud800"):
        with pytest.raises(NotFound):
            await put(store, scope=Scope(unknown), rate=1.0)
        assert await store.limits.list(Scope(unknown)) == ()


async def test_a_tenant_has_a_maximum_number_of_limits(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.store.nouns.limits.LIMITS_MAX", 1)
    await put(store, "a", rate=1.0)
    await put(store, "a", rate=2.0)
    with pytest.raises(TooMany):
        await put(store, "b", rate=1.0)
    assert len(await store.limits.list(DEFAULT)) == 1


async def test_queues_share_the_rate_of_a_limit(store: Store, clock: VirtualClock) -> None:
    await put(store, rate=300.0, period_seconds=60.0)
    await make(store, "a", "b")
    assert len(await pull(store, queue="a", limit=3)) == 3
    assert len(await pull(store, queue="b")) == 2
    assert await pull(store, queue="a") == await pull(store, queue="b") == ()
    clock.advance(seconds=0.4)
    assert len(await pull(store, queue="b", limit=1)) == 1
    assert len(await pull(store, queue="a")) == 1
    await make_queue(store, "free")
    await send_many(store, 20, queue="free")
    assert len(await pull(store, queue="free", limit=20)) == 20


async def take(store: Store, message: Message, name: str = "partner") -> float:
    return await store.limits.take(DEFAULT, name, message.current_claim)


async def delivered(store: Store, number: int) -> list[Message]:
    """Claimed messages of a queue without a limit, as those that go to endpoints."""
    await make_queue(store, "to-endpoints")
    await send_many(store, number, queue="to-endpoints")
    return [*await pull(store, queue="to-endpoints", limit=number)]


async def test_deliveries_and_queues_share_the_rate_of_a_limit(
    store: Store, clock: VirtualClock
) -> None:
    await put(store, rate=2.0)
    await make(store, "a")
    (message,) = await delivered(store, 1)
    assert await take(store, message) == 0
    assert len(await pull(store, queue="a")) == 1
    assert await take(store, message) == 0.5
    clock.advance(seconds=0.5)
    assert await take(store, message) == 0
    assert await pull(store, queue="a") == ()
    assert await take(store, message, "unknown") == 0


async def test_deliveries_and_queues_share_the_concurrency_of_a_limit(store: Store) -> None:
    await put(store, concurrency=3)
    await make(store, "a")
    first, second, third = await delivered(store, 3)
    assert [await take(store, message) for message in (first, second, second)] == [0, 0, 0]
    (claimed,) = await pull(store, queue="a", limit=20)
    assert await take(store, third) == FULL_SECONDS
    await settle(store, ack(claimed))
    assert await take(store, third) == 0
    assert await pull(store, queue="a") == ()
    for ended in (ack(first), retry(second), release(third)):
        await settle(store, ended)
    assert len(await pull(store, queue="a", limit=20)) == 3


async def test_a_message_that_is_pushed_counts_once(store: Store) -> None:
    await put(store, concurrency=1)
    await make(store, "a")
    (message,) = await pull(store, queue="a", limit=20)
    assert await take(store, message) == 0
    assert await pull(store, queue="a") == ()
    await settle(store, ack(message))
    assert len(await pull(store, queue="a", limit=20)) == 1


async def test_queues_share_the_concurrency_of_a_limit(store: Store) -> None:
    await put(store, concurrency=5)
    await make(store, "a", "b")
    first = await pull(store, queue="a", limit=4)
    (second,) = await pull(store, queue="b")
    assert (len(first), await pull(store, queue="a")) == (4, ())
    await settle(store, ack(first[0]), retry(first[1]), release(first[2]))
    assert len(await pull(store, queue="b")) == 3
    assert await pull(store, queue="a") == ()
    await settle(store, ack(second))
    assert len(await pull(store, queue="a")) == 1


async def test_claims_from_before_count_when_a_queue_gets_its_limit(store: Store) -> None:
    await put(store, concurrency=5)
    await make_queue(store, "a")
    await send_many(store, 20, queue="a")
    assert len(await pull(store, queue="a", limit=4)) == 4
    await make_queue(store, "a", limit="partner")
    assert len(await pull(store, queue="a")) == 1


async def test_a_queue_keeps_its_own_limits_besides(store: Store, clock: VirtualClock) -> None:
    await put(store, rate=10.0, concurrency=6)
    await make(store, "a", rate_per_second=3)
    await make(store, "b", tenant_claimed_max=2)
    assert len(await pull(store, queue="a")) == 3
    assert len(await pull(store, queue="b")) == 2
    clock.advance(seconds=1)
    assert len(await pull(store, queue="a")) == 1
    assert await pull(store, queue="a") == ()


async def test_a_name_without_a_limit_does_not_limit(store: Store) -> None:
    await make(store, "a")
    assert len(await pull(store, queue="a", limit=5)) == 5
    await put(store, concurrency=7)
    assert len(await pull(store, queue="a")) == 2
    await store.limits.delete(DEFAULT, "partner")
    assert len(await pull(store, queue="a", limit=20)) == 13


async def test_each_tenant_and_the_system_have_limits_of_their_own(store: Store) -> None:
    (one,) = await make_tenants(store, "one")
    await put(store, concurrency=1)
    await put(store, scope=SYSTEM, concurrency=3)
    await make(store, "mine")
    await make_queue(store, "theirs", scope=one, limit="partner")
    await make_queue(store, "ours", scope=SYSTEM, limit="partner")
    for _ in range(5):
        await send(store, queue="theirs", scope=one)
        await send(store, queue="ours", scope=one)
    assert len(await pull(store, queue="mine")) == 1
    assert len(await pull(store, queue="theirs", scope=one)) == 5
    assert len(await pull(store, queue="ours", scope=SYSTEM)) == 3


async def test_concurrent_claims_never_exceed_a_shared_limit(store: Store) -> None:
    await put(store, concurrency=10)
    await make(store, "a", "b", "c")
    found = await asyncio.gather(
        *(pull(store, queue=queue, limit=4) for queue in ("a", "b", "c") for _ in range(4))
    )
    assert sum(map(len, found)) == 10
