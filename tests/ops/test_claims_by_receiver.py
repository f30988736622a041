"""Claims of deliveries: of each receiver as much as its limits let go, and the rest stays ready."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.conformance.acts import ALL, WORK, counts, ids, make_queue, make_tenants, pull, send_many
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM, Message
from tickwork.core.queue.rooms import Room, Rooms
from tickwork.store.contract import Store


def rooms(
    limits: Mapping[str, Sequence[Room]], tenant_max: int = ALL, *, by_receiver: bool = True
) -> Rooms:
    """These limits of receivers; a tenant gets so many in all."""
    return Rooms(
        lambda _, receiver: limits[receiver],
        lambda tenant: Room(f"tenant {tenant}", tenant_max),
        by_receiver=by_receiver,
    )


def by_receiver(found: Sequence[Message]) -> Mapping[str | None, int]:
    return Counter(message.receiver for message in found)


async def test_each_receiver_gets_what_its_limit_lets_go_and_the_rest_stays_ready(
    store: Store,
) -> None:
    await make_queue(store)
    slow = await send_many(store, 30, receiver="slow")
    fast = await send_many(store, 5, receiver="fast")
    limits = rooms({"slow": [Room("a", 3)], "fast": [Room("b", 50)]})
    found = await pull(store, limit=ALL, rooms=limits)
    assert sorted(ids(found)) == sorted(ids([*slow[:3], *fast]))
    assert limits.binding({(DEFAULT.tenant or "", "slow"): 3, ("default", "fast"): 5}) == {"a"}
    waiting = await counts(store)
    assert (waiting.ready, waiting.claimed) == (27, 8)


async def test_what_waits_for_a_full_receiver_is_not_in_the_way(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 100, receiver="full")
    free = await send_many(store, 10, receiver="free")
    limits = rooms({"full": [Room("a", 0)], "free": [Room("b", 10)]})
    assert ids(await pull(store, limit=10, rooms=limits)) == ids(free)


async def test_receivers_with_a_limit_in_common_share_it_evenly_and_in_turn(store: Store) -> None:
    await make_queue(store)
    names = [f"endpoint {number}" for number in range(6)]
    for name in names:
        await send_many(store, 5, receiver=name)
    host = Room("host", 4)
    both = {name: [Room(name, 5), host] for name in names}
    first = by_receiver(await pull(store, limit=ALL, rooms=rooms(both)))
    second = by_receiver(await pull(store, limit=ALL, rooms=rooms(both)))
    assert sorted(first.values()) == sorted(second.values()) == [1, 1, 1, 1]
    assert {*first, *second} == {*names}


async def test_a_tenant_gets_no_more_than_its_share_of_the_node(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    for scope in await make_tenants(store, "loud", "quiet"):
        for name in ("a", "b"):
            await send_many(store, 10, scope=scope, receiver=name)
    limits = {name: [Room(name, ALL)] for name in ("a", "b")}
    found = await pull(store, scope=SYSTEM, limit=ALL, rooms=rooms(limits, tenant_max=7))
    assert Counter(message.tenant for message in found) == {"loud": 7, "quiet": 7}


async def test_tenants_have_equal_shares_of_a_claim_that_is_smaller_than_the_room(
    store: Store,
) -> None:
    await make_queue(store, scope=SYSTEM)
    loud, quiet = await make_tenants(store, "loud", "quiet")
    for number in range(10):
        await send_many(store, 10, scope=loud, receiver=f"host {number}")
    await send_many(store, 10, scope=quiet, receiver="host 0")
    limits = {f"host {number}": [Room(f"host {number}", ALL)] for number in range(10)}
    own = rooms(limits)
    found = await pull(store, scope=SYSTEM, limit=8, rooms=own)
    assert Counter(message.tenant for message in found) == {"loud": 4, "quiet": 4}
    assert own.is_cut


async def test_the_highest_priority_comes_first_in_each_line(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send_many(store, 3, receiver="a", priority=1)
    clock.advance(seconds=1)
    urgent = await send_many(store, 2, receiver="a", priority=9)
    found = await pull(store, limit=ALL, rooms=rooms({"a": [Room("a", 2)]}))
    assert ids(found) == ids(urgent)


async def test_a_claim_without_receivers_takes_no_more_of_a_tenant_than_its_limit(
    store: Store,
) -> None:
    await make_queue(store)
    sent = await send_many(store, 10)
    limits = rooms({"": [Room("endpoint", 4)]}, by_receiver=False)
    assert ids(await pull(store, limit=ALL, rooms=limits)) == ids(sent[:4])


async def test_a_claim_in_rooms_keeps_to_the_limits_of_its_queue(store: Store) -> None:
    await make_queue(store, tenant_claimed_max=2)
    await send_many(store, 10, receiver="a")
    limits = {"a": [Room("a", 5)]}
    assert len(await pull(store, limit=ALL, rooms=rooms(limits))) == 2
    assert len(await pull(store, limit=ALL, rooms=rooms(limits))) == 0


async def test_a_claim_in_rooms_sees_the_limit_that_another_store_gives_its_queue(
    home: Home,
) -> None:
    store, other = await home.open(), await home.open()
    try:
        await make_queue(store)
        await send_many(store, 10, receiver="a")
        limits = {"a": [Room("a", 5)]}
        assert len(await pull(store, limit=ALL, rooms=rooms(limits))) == 5
        await make_queue(other, tenant_claimed_max=7)
        assert len(await pull(store, limit=ALL, rooms=rooms(limits))) == 2
    finally:
        await store.close()
        await other.close()


async def test_what_stands_before_a_delivery_is_what_waits_for_its_receiver(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 20, receiver="other")
    await send_many(store, 3, receiver="own")
    (last,) = await send_many(store, 1, receiver="own")
    message = await store.messages.get(DEFAULT, WORK, last.id)
    line = await store.messages.line(DEFAULT, WORK, message, ALL)
    assert (line.ahead, line.under_way) == (3, 0)
