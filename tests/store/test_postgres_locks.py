"""No deadlocks on PostgreSQL between operations on keys, messages and queues.

A caller does not see a deadlock: the server aborts one of the two transactions, and the store
retries it. So the tests read the server's own deadlock counter, after the connections are closed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    ack_all,
    counts,
    dead,
    letters,
    make_queue,
    news,
    pull,
    pull_one,
    send,
    sending,
    settle,
)
from tests.conformance.barriers import SEND, barrier, done_or_waiting, rival
from tests.conformance.endpoint_acts import claimed_one, end, make_endpoint, publish
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tests.stores.postgres_home import CLEANER
from tickwork.core.delivery.endpoint import EndpointWait
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Fate, NewMessage, SettleResult
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

TAKE_HELD = "DELETE ON tickwork_messages FOR EACH ROW WHEN (OLD.state = 'held')"
EXPIRE_HELD = (
    "UPDATE ON tickwork_messages FOR EACH ROW WHEN (OLD.state = 'held' AND NEW.state = 'claimed')"
)
KEYS = [f"key-{number}" for number in range(40)]
ROUNDS = 6
EXPIRY_SECONDS = 5

Removal = Callable[[Store, list[NewMessage]], Coroutine[Any, Any, Any]]


async def ask(url: str, statement: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval(statement))
    finally:
        await connection.close()


async def deadlocks(url: str) -> int:
    """Number of deadlocks; a connection reports its own when it is closed."""

    async def are_alone() -> bool:
        others = await ask(
            url,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid() "
            f"AND application_name <> '{CLEANER}'",
        )
        return others == 0

    await eventually(are_alone, what="the connections are gone")
    return await ask(
        url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )


async def keys_left(url: str) -> int:
    return await ask(url, "SELECT count(*) FROM tickwork_keys")


@asynccontextmanager
async def two_without_deadlocks(
    home: Home, clock: VirtualClock
) -> AsyncIterator[tuple[Store, Store]]:
    """Two processes, which must not have deadlocked."""
    before = await deadlocks(home.url)
    stores = [await home.open(clock) for _ in range(2)]
    try:
        yield stores[0], stores[1]
    finally:
        for store in stores:
            await store.close()
    assert await deadlocks(home.url) == before


async def test_this_test_detects_deadlocks(home: Home) -> None:
    before = await deadlocks(home.url)
    one, two = [await asyncpg.connect(home.url) for _ in range(2)]
    for connection in (one, two):
        await connection.execute("BEGIN")
    await one.execute("SELECT pg_advisory_xact_lock(1)")
    await two.execute("SELECT pg_advisory_xact_lock(2)")
    results = await asyncio.gather(
        one.execute("SELECT pg_advisory_xact_lock(2)"),
        two.execute("SELECT pg_advisory_xact_lock(1)"),
        return_exceptions=True,
    )
    assert any(isinstance(result, asyncpg.DeadlockDetectedError) for result in results)
    for connection in (one, two):
        await connection.close()
    assert await deadlocks(home.url) == before + 1


# Messages of one key: unblocking the next one while it is removed.


async def delete_all(store: Store, messages: list[NewMessage]) -> None:
    for message in messages:
        await store.messages.delete(DEFAULT, WORK, message.id)


REMOVALS: dict[str, Removal] = {
    "delete": delete_all,
    "purge": lambda store, _: store.queues.purge(DEFAULT, WORK),
    "expire": lambda store, _: store.reaper.reap(SYSTEM, ALL),
}


@pytest.mark.parametrize("way", REMOVALS)
async def test_an_ack_during_the_removal_of_a_blocked_message_does_not_deadlock(
    home: Home, clock: VirtualClock, way: str
) -> None:
    """Both lock the key before the message."""
    async with two_without_deadlocks(home, clock) as (store, other):
        await make_queue(store)
        head = await send(store, key="a")
        behind = news(3, key="a", expires_after_seconds=EXPIRY_SECONDS)
        await store.messages.send_batch(DEFAULT, WORK, behind)
        held = await pull_one(store, lease_seconds=60)
        assert held.id == head.id
        clock.advance(seconds=EXPIRY_SECONDS)
        before = EXPIRE_HELD if way == "expire" else TAKE_HELD
        async with barrier(home.url, before=before) as stopped:
            removing = asyncio.create_task(REMOVALS[way](other, behind))
            await stopped.reached()
            settling = asyncio.create_task(settle(store, ack(held)))
            await stopped.is_passed_by(settling)
            await stopped.opens()
            await removing
            assert await settling == SettleResult()
        dead_letters = len(await letters(store))
        assert dead_letters == (len(behind) if way == "expire" else 0)
        assert await counts(store) == Counts(dead=dead_letters)
    assert await keys_left(home.url) == 0


@pytest.mark.parametrize("way", REMOVALS)
async def test_many_acks_during_the_removal_of_blocked_messages_do_not_deadlock(
    home: Home, clock: VirtualClock, way: str
) -> None:
    async with two_without_deadlocks(home, clock) as (store, other):
        await make_queue(store)
        for _ in range(ROUNDS):
            heads = [new for key in KEYS for new in news(1, key=key)]
            behind = [
                new
                for key in reversed(KEYS)
                for new in news(2, key=key, expires_after_seconds=EXPIRY_SECONDS)
            ]
            await store.messages.send_bulk(DEFAULT, WORK, heads)
            await store.messages.send_bulk(DEFAULT, WORK, behind)
            held = await pull(store, lease_seconds=3_600)
            assert len(held) == len(KEYS)
            clock.advance(seconds=EXPIRY_SECONDS)
            half = len(behind) // 2
            await asyncio.gather(
                settle(store, *map(ack, held[::2])),
                settle(other, *(dead(message, reason="x") for message in held[1::2])),
                REMOVALS[way](other, behind[:half]),
                REMOVALS[way](store, behind[half:]),
            )
            await store.queues.purge(DEFAULT, WORK)
            left = await counts(store)
            assert (left.ready, left.blocked, left.claimed) == (0, 0, 0)
    assert await keys_left(home.url) == 0


# Settlements that send to each other's queues.


async def test_settlements_that_send_to_each_others_queues_under_one_key_do_not_deadlock(
    home: Home, clock: VirtualClock
) -> None:
    """A settlement locks the keys it frees and those it sends to together, in one order."""
    async with two_without_deadlocks(home, clock) as (store, other):
        await make_queue(store, "ping")
        pong_id = await make_queue(store, "pong")
        for queue in ("ping", "pong"):
            await send(store, queue=queue, key="a")
        ping, pong = [await pull_one(store, queue=queue) for queue in ("ping", "pong")]
        to_pong = f"{SEND} WHEN (NEW.queue_id = '{pong_id}')"
        async with barrier(home.url, before=to_pong) as stopped:
            one = asyncio.create_task(settle(store, ack(ping, sending("pong", key="a"))))
            await stopped.reached()
            two = asyncio.create_task(settle(other, ack(pong, sending("ping", key="a"))))
            await stopped.is_passed_by(two)
            await stopped.opens()
            assert await one == await two == SettleResult()
        for queue in ("ping", "pong"):
            assert await counts(store, queue) == Counts(ready=1)
            assert len(await ack_all(store, queue=queue)) == 1
    assert await keys_left(home.url) == 0


async def test_many_settlements_that_send_to_each_others_queues_lose_nothing(
    home: Home, clock: VirtualClock
) -> None:
    """Messages passed back and forth under the same keys are all there at the end."""
    async with two_without_deadlocks(home, clock) as (store, other):
        for queue in ("ping", "pong"):
            await make_queue(store, queue)
            keyed = [new for key in KEYS for new in news(1, key=key)]
            await store.messages.send_bulk(DEFAULT, queue, keyed)

        async def pass_on(own: Store, queue: str, onto: str) -> int:
            passed = 0
            for _ in range(ROUNDS * 5):
                held = await pull(own, queue=queue, limit=10, lease_seconds=3_600)
                endings = [ack(message, sending(onto, key=message.key)) for message in held]
                if endings:
                    assert await settle(own, *endings) == SettleResult()
                passed += len(held)
            return passed

        passed = await asyncio.gather(
            *(
                pass_on(own, *queues)
                for own in (store, other)
                for queues in (("ping", "pong"), ("pong", "ping"))
                for _ in range(2)
            )
        )
        assert sum(passed) > len(KEYS)
        done = [len(await ack_all(store, queue=queue)) for queue in ("ping", "pong")]
        assert sum(done) == 2 * len(KEYS)
    assert await keys_left(home.url) == 0


async def test_a_message_that_waits_for_an_endpoint_waits_for_who_enables_it(
    home: Home, clock: VirtualClock
) -> None:
    store = await home.open(clock)
    endpoint = await make_endpoint(store)
    await store.endpoints.disable(DEFAULT, endpoint.id, "moving")
    await publish(store)
    message = await claimed_one(store)
    async with rival(home.url) as other:
        enable = "UPDATE tickwork_endpoints SET disabled_at = NULL WHERE id = $1"
        await other.does(enable, endpoint.id)
        wait: dict[str, Any] = {"delay_seconds": 86_400.0, "effects": (EndpointWait(endpoint.id),)}
        releasing = asyncio.create_task(end(store, message, Fate.RELEASE, **wait))
        assert not await done_or_waiting(releasing, other)
        await other.commits()
        await releasing
    assert (await claimed_one(store)).id == message.id
    await store.close()
