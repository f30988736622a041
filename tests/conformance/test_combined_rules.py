"""Rules that meet: keys and deletion, duplicates and slots, suspension and retention."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    ack_all,
    counts,
    create_batch,
    ids,
    letters,
    make_queue,
    make_tenants,
    new,
    news,
    pull,
    pull_one,
    send,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.batch import BatchStatus
from tickwork.core.model import DEFAULT, REASON_EXPIRED, SYSTEM, Counts, NewMessage, Tenant
from tickwork.core.schedule.firing import FiringResult, FiringStatus
from tickwork.errors import Conflict
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

SUCCEEDED = FiringResult(status=FiringStatus.SUCCEEDED)
MANY = 6_000
"""More items than one chunk of a batch on any store."""


@pytest.fixture
async def other(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """Another store on the same database."""
    opened = await home.open(clock)
    yield opened
    await opened.close()


# Keys


async def test_deleting_a_blocked_message_does_not_change_the_head_of_its_key(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    head = await send(store, key="a", delay_seconds=5)
    behind = [await send(store, key="a") for _ in range(3)]
    before = await store.messages.get(DEFAULT, WORK, head.id)
    clock.advance(seconds=60)
    assert await store.messages.delete(DEFAULT, WORK, behind[1].id)
    assert await store.messages.get(DEFAULT, WORK, head.id) == before
    assert await ack_all(store) == ids([head, behind[0], behind[2]])


async def test_an_expired_blocked_message_does_not_change_the_head_of_its_key(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    head = await send(store, key="a")
    await send(store, key="a", expires_after_seconds=5)
    before = await store.messages.get(DEFAULT, WORK, head.id)
    clock.advance(seconds=60)
    assert (await store.reaper.reap(SYSTEM, ALL)).dead == 1
    assert await store.messages.get(DEFAULT, WORK, head.id) == before
    assert await counts(store) == Counts(ready=1, dead=1)


async def test_the_age_of_a_key_head_is_unchanged_when_a_blocked_message_is_deleted(
    store: Store, clock: VirtualClock
) -> None:
    """Its order among other messages and its retention depend on that time."""
    await make_queue(store, retention_seconds=100)
    head = await send(store, key="a")
    behind = await send(store, key="a")
    clock.advance(seconds=60)
    later = await send(store)
    await store.messages.delete(DEFAULT, WORK, behind.id)
    assert ids(await store.messages.peek(DEFAULT, WORK, ALL)) == [head.id, later.id]
    clock.advance(seconds=41)
    await store.reaper.reap(SYSTEM, ALL)
    assert [letter.message_id for letter in await letters(store)] == [head.id]


@pytest.mark.parametrize("is_keyed_first", [True, False])
@pytest.mark.parametrize("way", ["batch", "bulk"])
async def test_of_two_messages_with_one_id_in_one_call_the_first_is_stored(
    store: Store, way: str, is_keyed_first: bool
) -> None:
    """With or without a key: the order in which a store writes the two kinds does not matter."""
    await make_queue(store)
    plain = new()
    keyed = new(id=plain.id, key="a")
    pair = [keyed, plain] if is_keyed_first else [plain, keyed]
    behind = new(key="a")
    if way == "batch":
        await store.messages.send_batch(DEFAULT, WORK, [*pair, behind])
    else:
        await store.messages.send_bulk(DEFAULT, WORK, [*pair, behind])
    stored = await store.messages.get(DEFAULT, WORK, plain.id)
    assert (stored.key, stored.body) == (pair[0].key, pair[0].body)
    expected = Counts(ready=1, blocked=1) if is_keyed_first else Counts(ready=2)
    assert await counts(store) == expected
    assert sorted(await ack_all(store)) == sorted([plain.id, behind.id])
    assert await counts(store) == Counts()


# Duplicates


async def test_a_duplicate_ack_records_no_firing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    schedule_id = new_id()
    for run in range(2):
        await send(store, schedule_id=schedule_id, slot=clock.now(), run=run, event_id="paid-1")
    one, two = await pull(store)
    assert (await settle(store, ack(one, effects=(SUCCEEDED,)))).duplicates == ()
    assert (await settle(store, ack(two, effects=(SUCCEEDED,)))).duplicates == (two.current_claim,)
    (firing,) = await store.firings.list(DEFAULT, schedule_id, ALL)
    assert firing.run == one.run


async def test_of_two_duplicates_in_one_settlement_one_records_a_firing(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    schedule_id = new_id()
    for run in range(2):
        await send(store, schedule_id=schedule_id, slot=clock.now(), run=run, event_id="paid-1")
    endings = [ack(message, effects=(SUCCEEDED,)) for message in await pull(store)]
    result = await settle(store, *endings)
    assert len(result.duplicates) == 1
    assert len(await store.firings.list(DEFAULT, schedule_id, ALL)) == 1


# Suspension


async def test_messages_of_a_suspended_tenant_still_expire(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, scope=SYSTEM, retention_seconds=100)
    for scope in await make_tenants(store, "resting", "working"):
        await send(store, scope=scope)
        await send(store, scope=scope, priority=9)
    await store.tenants.put(SYSTEM, Tenant(id="resting", suspended=True))
    clock.advance(seconds=99)
    assert (await store.reaper.reap(SYSTEM, ALL)).dead == 0
    clock.advance(seconds=2)
    assert (await store.reaper.reap(SYSTEM, ALL)).dead == 4
    dead = await letters(store, scope=SYSTEM)
    assert {letter.reason for letter in dead} == {REASON_EXPIRED}
    assert sorted(letter.tenant for letter in dead) == ["resting"] * 2 + ["working"] * 2


async def test_messages_in_a_suspended_tenants_own_queue_still_expire(
    store: Store, clock: VirtualClock
) -> None:
    (scope,) = await make_tenants(store, "resting")
    await make_queue(store, scope=scope, retention_seconds=100)
    await send(store, scope=scope)
    await send(store, scope=scope, expires_after_seconds=50)
    await store.tenants.put(SYSTEM, Tenant(id="resting", suspended=True))
    clock.advance(seconds=101)
    assert (await store.reaper.reap(SYSTEM, ALL)).dead == 2
    assert await counts(store, scope=scope) == Counts(dead=2)


# Batches


def breaking(items: list[NewMessage], after: int) -> Iterator[NewMessage]:
    """Items whose iterator fails in the middle."""
    yield from items[:after]
    raise ConnectionResetError


async def test_repeating_a_batch_with_fewer_items_than_stored_is_a_conflict(
    store: Store, other: Store
) -> None:
    await make_queue(store)
    batch_id, items = new_id(), news(MANY, body=b"")
    with pytest.raises(ConnectionResetError):
        await create_batch(store, breaking(items, MANY - 1), batch_id=batch_id)
    filling = await store.batches.get(DEFAULT, batch_id)
    assert filling.total > 0
    for fewer in (0, 1, filling.total - 1):
        for one in (store, other):
            with pytest.raises(Conflict):
                await create_batch(one, items[:fewer], batch_id=batch_id)
    assert await store.batches.get(DEFAULT, batch_id) == filling
    whole = await create_batch(other, items, batch_id=batch_id)
    assert (whole.status, whole.total) == (BatchStatus.RUNNING, MANY)
    assert (await pull_one(store, limit=1)).id == items[0].id
