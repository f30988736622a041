"""Caches of a PostgreSQL store expire soon, under the real clock.

Claim positions, ready tenants and queue names are cached to save statements and may be slightly out
of date. No message waits for that longer than about a second.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    claim,
    counts,
    ids,
    join,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    send,
    send_many,
    settle,
)
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tests.stores.open_homes import Homes
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Message
from tickwork.store.contract import Store


@pytest.fixture
async def home(homes: Homes) -> AsyncIterator[Home]:
    async with homes.take("postgres") as taken:
        yield taken


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    """A store with the database's own clock."""
    opened = await home.open()
    yield opened
    await opened.close()


@pytest.fixture
async def hours_ago(home: Home, store: Store) -> AsyncIterator[Store]:
    """Another process, whose messages became visible two hours ago."""
    opened = await home.open(VirtualClock(await store.now() - timedelta(hours=2)))
    yield opened
    await opened.close()


async def soon(store: Store, **how: Any) -> tuple[Message, ...]:
    """The claimed messages, as soon as there are any."""

    async def something() -> tuple[Message, ...]:
        return await pull(store, **how)

    return await eventually(something)


async def test_a_released_message_is_found_after_claims_moved_past_it(store: Store) -> None:
    await make_queue(store)
    early = await send_many(store, 3)
    node = await join(store)
    assert len(await claim(store, node)) == 3
    await send_many(store, 50)
    for _ in range(10):
        assert len(await pull(store, limit=5)) == 5
    assert await store.nodes.leave(SYSTEM, node) == 3
    assert sorted(ids(await soon(store))) == sorted(ids(early))


async def test_a_message_committed_late_is_found_after_claims_moved_past_it(
    store: Store, hours_ago: Store
) -> None:
    await make_queue(store)
    await send_many(store, 30)
    for _ in range(6):
        assert len(await pull(store, limit=5)) == 5
    late = await send(hours_ago)
    assert ids(await soon(store)) == [late.id]


async def test_a_tenant_with_an_old_backlog_gets_its_turn_among_tenants_with_new_messages(
    store: Store, hours_ago: Store
) -> None:
    await make_queue(store, scope=SYSTEM)
    *busy, patient = await make_tenants(store, "a", "b", "c", "patient")
    backlog = await send_many(hours_ago, 6, scope=patient)
    for scope in busy:
        await send_many(store, 40, scope=scope)
    rounds = [await pull(store, scope=SYSTEM, limit=4) for _ in range(6)]
    served = [message.id for round_ in rounds for message in round_ if message.tenant == "patient"]
    assert served == ids(backlog)


async def test_a_new_tenant_is_noticed_while_others_are_busy(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    loud, quiet = await make_tenants(store, "loud", "quiet")
    await send_many(store, 5_000, scope=loud)
    await pull(store, scope=SYSTEM, limit=1)
    message = await send(store, scope=quiet)

    async def is_served() -> bool:
        return message.id in ids(await pull(store, scope=SYSTEM, limit=2))

    await eventually(is_served)
    assert (await counts(store, scope=SYSTEM)).ready > 0


async def test_a_short_claim_has_looked_at_every_tenant(store: Store, hours_ago: Store) -> None:
    """With several tenants a short claim looks again, from the start."""
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    for scope in (one, two):
        await send_many(store, 5, scope=scope)
    assert len(await pull(store, scope=SYSTEM, limit=4)) == 4
    await send(hours_ago, scope=one)
    await send(store, scope=two, priority=9)
    assert len(await pull(store, scope=SYSTEM, limit=ALL)) == 8


async def test_a_queue_recreated_by_another_process_is_soon_used(home: Home, store: Store) -> None:
    former = await make_queue(store)
    await send(store)
    await settle(store, ack(await pull_one(store)))
    other = await home.open()
    try:
        await other.queues.delete(DEFAULT, WORK)
        assert await make_queue(other) != former
        sent = await send(store)
        assert ids(await soon(other)) == [sent.id]
        again = await send(other)
        assert ids(await soon(store)) == [again.id]
    finally:
        await other.close()


async def test_a_tenants_own_queue_created_by_another_process_soon_takes_precedence(
    home: Home, store: Store
) -> None:
    shared = await make_queue(store, scope=SYSTEM)
    await send(store)
    other = await home.open()
    try:
        own = await make_queue(other)
        assert own != shared

        async def is_sent_there() -> bool:
            await send(store)
            return await counts(other) == Counts(ready=1)

        await eventually(is_sent_there)
    finally:
        await other.close()
