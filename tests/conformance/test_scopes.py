"""Scopes: a tenant sees its own things and the shared queues; the system sees everything."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    counts,
    create_batch,
    dead,
    ids,
    letters,
    make_queue,
    make_tenants,
    new,
    news,
    pull,
    pull_one,
    send,
    send_many,
    settle,
)
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    ClaimRequest,
    Counts,
    QueueSettings,
    Scope,
    SettleResult,
    Tenant,
)
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

Act = Callable[[Store, Scope], Awaitable[Any]]

PULL = ClaimRequest(queue=WORK, holder=new_id(), lease_seconds=30)
ACTS: dict[str, Act] = {
    "get": lambda store, scope: store.queues.get(scope, WORK),
    "pause": lambda store, scope: store.queues.pause(scope, WORK),
    "resume": lambda store, scope: store.queues.resume(scope, WORK),
    "delete": lambda store, scope: store.queues.delete(scope, WORK),
    "purge": lambda store, scope: store.queues.purge(scope, WORK),
    "counts": lambda store, scope: store.queues.counts(scope, WORK),
    "send": lambda store, scope: store.messages.send(scope, WORK, new()),
    "send_batch": lambda store, scope: store.messages.send_batch(scope, WORK, news(2)),
    "send_bulk": lambda store, scope: store.messages.send_bulk(scope, WORK, news(2)),
    "claim": lambda store, scope: store.messages.claim(scope, PULL),
    "peek": lambda store, scope: store.messages.peek(scope, WORK, ALL),
    "get message": lambda store, scope: store.messages.get(scope, WORK, new_id()),
    "delete message": lambda store, scope: store.messages.delete(scope, WORK, new_id()),
    "dead letters": lambda store, scope: store.dead_letters.list(scope, WORK, Selection()),
    "groups": lambda store, scope: store.dead_letters.groups(scope, WORK, ALL),
    "replay": lambda store, scope: store.dead_letters.replay(scope, WORK, Selection(), Pace()),
    "discard": lambda store, scope: store.dead_letters.discard(scope, WORK, Selection()),
    "batch": lambda store, scope: create_batch(store, news(1), scope=scope),
    "subscribe": lambda store, scope: store.subscriptions.put(scope, "paid", WORK),
    "stats": lambda store, scope: store.stats.queue(scope, WORK),
}


@pytest.mark.parametrize("act", ACTS)
async def test_a_tenants_queue_does_not_exist_for_others(store: Store, act: str) -> None:
    owner, stranger = await make_tenants(store, "owner", "stranger")
    await make_queue(store, scope=owner)
    await send(store, scope=owner)
    with pytest.raises(NotFound, match=f"queue {WORK}"):
        await ACTS[act](store, stranger)
    assert await counts(store, scope=owner) == Counts(ready=1)
    assert not (await store.queues.get(owner, WORK)).paused


async def test_the_system_addresses_shared_queues_and_lists_all(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    await make_queue(store, scope=two)
    with pytest.raises(NotFound):
        await store.queues.get(SYSTEM, WORK)
    shared = await make_queue(store, scope=SYSTEM)
    await make_queue(store, scope=one)
    await make_queue(store, "another", scope=one)
    assert (await store.queues.get(SYSTEM, WORK)).id == shared
    listed = [(queue.name, queue.tenant) for queue in await store.queues.list(SYSTEM)]
    assert listed == [("another", "one"), (WORK, None), (WORK, "one"), (WORK, "two")]


async def test_a_tenant_lists_its_own_and_the_shared_queues(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    await make_queue(store, "mine", scope=one)
    await make_queue(store, "ours", scope=SYSTEM)
    await make_queue(store, "theirs", scope=two)
    listed = [(queue.name, queue.tenant) for queue in await store.queues.list(one)]
    assert listed == [("mine", "one"), ("ours", None)]


async def test_two_tenants_can_have_queues_of_the_same_name(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    assert await make_queue(store, scope=one) != await make_queue(store, scope=two)
    sent = await send(store, scope=one)
    assert await pull(store, scope=two) == ()
    assert ids(await pull(store, scope=one)) == [sent.id]


async def test_a_tenants_own_queue_takes_precedence_over_a_shared_one(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    shared = await make_queue(store, scope=SYSTEM)
    assert (await store.queues.get(one, WORK)).id == shared
    await send(store, scope=one)
    own = await make_queue(store, scope=one)
    assert (await store.queues.get(one, WORK)).id == own
    assert (await store.queues.get(two, WORK)).id == shared
    await send_many(store, 2, scope=one)
    assert await counts(store, scope=one) == Counts(ready=2)
    assert await counts(store, scope=SYSTEM) == Counts(ready=1)
    await store.queues.purge(one, WORK)
    await store.queues.delete(one, WORK)
    assert await counts(store, scope=one) == Counts(ready=1)


async def test_a_shared_queue_keeps_its_tenants_messages_separate(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    one, two, three = await make_tenants(store, "one", "two", "three")
    ones, twos = await send_many(store, 3, scope=one), await send_many(store, 2, scope=two)
    assert await counts(store, scope=SYSTEM) == Counts(ready=5)
    assert await counts(store, scope=one) == Counts(ready=3)
    assert await counts(store, scope=three) == Counts()
    assert ids(await store.messages.peek(two, WORK, ALL)) == ids(twos)
    assert await pull(store, scope=three) == ()
    assert ids(await pull(store, scope=one)) == ids(ones)
    assert await counts(store, scope=SYSTEM) == Counts(ready=2, claimed=3)
    assert {message.tenant for message in await pull(store, scope=SYSTEM)} == {"two"}


async def test_a_tenant_reaches_no_message_of_another_in_a_shared_queue(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    owner, stranger = await make_tenants(store, "owner", "stranger")
    sent = await send(store, scope=owner)
    with pytest.raises(NotFound):
        await store.messages.get(stranger, WORK, sent.id)
    assert not await store.messages.delete(stranger, WORK, sent.id)
    assert await store.queues.purge(stranger, WORK) == 0
    assert (await store.messages.get(SYSTEM, WORK, sent.id)).tenant == "owner"
    assert await store.messages.delete(SYSTEM, WORK, sent.id)
    await send_many(store, 2, scope=owner)
    await send_many(store, 3, scope=stranger)
    assert await store.queues.purge(stranger, WORK) == 3
    assert await store.queues.purge(SYSTEM, WORK) == 2


async def test_a_tenant_sees_only_its_own_dead_letters_of_a_shared_queue(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    for scope in (one, two):
        await send(store, scope=scope)
        await settle(store, dead(await pull_one(store, scope=scope), reason="x"), scope=scope)
    assert [letter.tenant for letter in await letters(store, scope=one)] == ["one"]
    assert len(await letters(store, scope=SYSTEM)) == 2
    assert await counts(store, scope=two) == Counts(dead=1)
    assert await counts(store, scope=SYSTEM) == Counts(dead=2)


@pytest.mark.parametrize("act", ["pause", "resume", "delete"])
async def test_only_the_system_may_change_a_shared_queue(store: Store, act: str) -> None:
    await make_queue(store, scope=SYSTEM)
    with pytest.raises(Conflict, match="shared"):
        await ACTS[act](store, DEFAULT)
    await ACTS[act](store, SYSTEM)


async def test_a_shared_queue_in_use_by_any_tenant_is_not_deleted(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    (one,) = await make_tenants(store, "one")
    await send(store, scope=one)
    with pytest.raises(Conflict):
        await store.queues.delete(SYSTEM, WORK)


async def test_the_system_settles_for_every_tenant(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    for scope in await make_tenants(store, "one", "two"):
        await send(store, scope=scope)
    messages = await pull(store, scope=SYSTEM)
    assert len(messages) == 2
    assert await settle(store, *map(ack, messages), scope=SYSTEM) == SettleResult()


async def test_the_default_tenant_always_exists(store: Store) -> None:
    assert await store.tenants.get(SYSTEM, "default") == Tenant(id="default")
    assert await store.tenants.get(DEFAULT, "default") == Tenant(id="default")


async def test_a_tenant_is_stored_as_the_system_put_it(store: Store) -> None:
    first = Tenant(id="acme", weight=3)
    await store.tenants.put(SYSTEM, first)
    assert await store.tenants.get(SYSTEM, "acme") == first
    second = Tenant(id="acme", weight=1_000, suspended=True)
    await store.tenants.put(SYSTEM, second)
    assert await store.tenants.get(Scope("acme"), "acme") == second


async def test_tenants_do_not_see_each_other(store: Store) -> None:
    one, _ = await make_tenants(store, "one", "two")
    for unseen in ("two", "default", "nobody"):
        with pytest.raises(NotFound, match=unseen):
            await store.tenants.get(one, unseen)
    with pytest.raises(NotFound, match="nobody"):
        await store.tenants.get(SYSTEM, "nobody")


async def test_only_the_system_makes_tenants(store: Store) -> None:
    with pytest.raises(InvalidInput, match="system"):
        await store.tenants.put(DEFAULT, Tenant(id="acme"))
    with pytest.raises(NotFound):
        await store.tenants.get(SYSTEM, "acme")


async def test_a_tenant_that_does_not_exist_can_neither_send_nor_claim(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    nobody = Scope("nobody")
    with pytest.raises(NotFound, match="nobody"):
        await store.queues.put(nobody, "own", QueueSettings())
    for act in ACTS.values():
        with pytest.raises(NotFound):
            await act(store, nobody)
    assert await counts(store, scope=SYSTEM) == Counts()


async def test_a_message_is_found_in_whatever_queue_it_is_and_only_by_its_tenant(
    store: Store,
) -> None:
    one, two = await make_tenants(store, "one", "two")
    await make_queue(store, "own", scope=one)
    await make_queue(store, "shared", scope=SYSTEM)
    for queue in ("own", "shared"):
        sent = await send(store, queue=queue, scope=one)
        assert (await store.messages.get(one, None, sent.id)).id == sent.id
        assert (await store.messages.get(SYSTEM, None, sent.id)).id == sent.id
        with pytest.raises(NotFound):
            await store.messages.get(two, None, sent.id)
