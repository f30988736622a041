"""When the next message becomes visible, and when the next lease expires."""

from datetime import datetime, timedelta

from tests.conformance.acts import (
    ack,
    claim_one,
    join,
    make_queue,
    make_tenants,
    pull_one,
    release,
    retry,
    send,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.store.contract import Store


async def next_seconds(
    store: Store, clock: VirtualClock, scope: Scope = DEFAULT, queue: str = "work"
) -> float | None:
    """Seconds until the next message becomes visible."""
    return _until(await store.messages.next_visible_at(scope, queue), clock)


async def next_expiry(store: Store, clock: VirtualClock) -> float | None:
    return _until(await store.reaper.next_expiry(SYSTEM), clock)


def _until(at: datetime | None, clock: VirtualClock) -> float | None:
    return None if at is None else (at - clock.now()) / timedelta(seconds=1)


async def test_next_visible_at_is_the_earliest_future_time(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    assert await next_seconds(store, clock) is None
    await send(store)
    assert await next_seconds(store, clock) is None
    await send(store, delay_seconds=60, priority=9)
    await send(store, delay_seconds=30.5)
    await send(store, delay_seconds=90, priority=0)
    assert await next_seconds(store, clock) == 30.5
    clock.advance(seconds=30.5)
    assert await next_seconds(store, clock) == 29.5
    clock.advance(seconds=60)
    assert await next_seconds(store, clock) is None


async def test_a_queue_has_ready_messages_until_they_are_claimed(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    queues = [await store.queues.get(DEFAULT, name) for name in ("work", "other")]

    async def with_ready() -> list[str]:
        found = await store.messages.with_ready(SYSTEM, [queue.id for queue in queues])
        return [queue.name for queue in queues if queue.id in found]

    assert await with_ready() == []
    await send(store, queue="other", delay_seconds=60)
    assert await with_ready() == ["other"]
    await send(store)
    assert await with_ready() == ["work", "other"]
    message = await pull_one(store)
    assert await with_ready() == ["other"]
    await settle(store, retry(message, delay_seconds=7))
    assert await with_ready() == ["work", "other"]


async def test_next_visible_at_includes_delayed_retries(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    message = await pull_one(store)
    assert await next_seconds(store, clock) is None
    await settle(store, retry(message, delay_seconds=7))
    assert await next_seconds(store, clock) == 7
    clock.advance(seconds=7)
    await settle(store, release(await pull_one(store), delay_seconds=3))
    assert await next_seconds(store, clock) == 3
    clock.advance(seconds=3)
    await settle(store, ack(await pull_one(store)))
    assert await next_seconds(store, clock) is None


async def test_next_visible_at_ignores_blocked_messages(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store, key="a", delay_seconds=60)
    await send(store, key="a", delay_seconds=10)
    assert await next_seconds(store, clock) == 60


async def test_next_visible_at_is_per_tenant_and_for_the_system_over_all(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    await send(store, scope=one, delay_seconds=20)
    await send(store, scope=two, delay_seconds=10)
    assert await next_seconds(store, clock, one) == 20
    assert await next_seconds(store, clock, two) == 10
    assert await next_seconds(store, clock, SYSTEM) == 10
    assert await next_seconds(store, clock) is None


async def test_next_expiry_is_the_earliest_of_nodes_leases_and_messages(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    assert await next_expiry(store, clock) is None
    await send(store, expires_after_seconds=60)
    assert await next_expiry(store, clock) == 60
    await pull_one(store, lease_seconds=40)
    assert await next_expiry(store, clock) == 40
    await join(store, ttl_seconds=20)
    assert await next_expiry(store, clock) == 20
    clock.advance(seconds=20)
    assert await next_expiry(store, clock) == 20
    clock.advance(seconds=40)
    assert await next_expiry(store, clock) is None


async def test_a_claim_of_a_node_expires_with_its_node(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store, expires_after_seconds=10)
    await claim_one(store, await join(store, ttl_seconds=30))
    assert await next_expiry(store, clock) == 30
