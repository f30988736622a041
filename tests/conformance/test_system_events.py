"""System events: a subscriber to `message.dead` gets one event for every dead message."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    counts,
    dead,
    kill_all,
    kill_holders,
    letters,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    release,
    retry,
    send,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import BODY_BYTES_MAX
from tickwork.core.message.system_events import SYSTEM_SOURCE, shard_stalled_event
from tickwork.core.model import (
    DEFAULT,
    LOST_CLAIMS_MAX,
    REASON_TOO_MANY_HOPS,
    SYSTEM,
    Counts,
    Message,
    Scope,
    Settlement,
)
from tickwork.errors import BacklogFull, ClaimLost
from tickwork.store.contract import Store

ALERTS = "alerts"


async def make_both(store: Store, types: str = "message.dead", **settings: Any) -> None:
    await make_queue(store, **settings)
    await make_queue(store, ALERTS)
    await store.subscriptions.put(DEFAULT, types, ALERTS)


async def heard(store: Store, queue: str = ALERTS, *, scope: Scope = DEFAULT) -> list[Message]:
    """The events in a queue, in no particular order."""
    return [*await store.messages.peek(scope, queue, ALL)]


async def by_settling(store: Store, _: VirtualClock) -> None:
    await settle(store, dead(await pull_one(store), reason="permanent", error="no such user"))


async def by_settling_jointly(store: Store, _: VirtualClock) -> None:
    ending = dead(await pull_one(store), reason="permanent", error="no such user")
    await store.messages.settle_jointly(DEFAULT, Settlement((ending,)), lambda _: None)


async def by_losing_workers(store: Store, clock: VirtualClock) -> None:
    await kill_holders(store, clock, LOST_CLAIMS_MAX)


async def by_expiring(store: Store, clock: VirtualClock) -> None:
    clock.advance(seconds=3_600)
    await store.reaper.reap(SYSTEM, ALL)


async def by_a_lease(store: Store, clock: VirtualClock) -> None:
    await pull_one(store, lease_seconds=30)
    clock.advance(seconds=31)
    await store.reaper.reap(SYSTEM, ALL)


WAYS: dict[str, tuple[str, int, Callable[[Store, VirtualClock], Awaitable[None]]]] = {
    "settled": ("permanent", 1, by_settling),
    "jointly": ("permanent", 1, by_settling_jointly),
    "workers": ("worker_lost", 0, by_losing_workers),
    "expired": ("expired", 0, by_expiring),
    "lease": ("max_retries", 1, by_a_lease),
}


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_of_dying_publishes_an_event(
    store: Store, clock: VirtualClock, way: str
) -> None:
    reason, attempts, happens = WAYS[way]
    await make_both(store, max_retries=0)
    about: dict[str, Any] = {"correlation_id": "order 7", "hops": 2, "expires_after_seconds": 3_000}
    sent = await send(store, type="paid", source="shop", **about)
    await happens(store, clock)
    (letter,) = await letters(store)
    (event,) = await heard(store)
    assert (event.type, event.source, event.tenant) == ("message.dead", SYSTEM_SOURCE, "default")
    assert (event.correlation_id, event.causation_id) == (
        "order 7",
        public_id(Prefix.MESSAGE, sent.id),
    )
    assert (event.hops, event.schedule_id) == (3, None)
    assert event.event_id is not None
    assert json.loads(event.body) == {
        "tenant": "default",
        "message_id": public_id(Prefix.MESSAGE, sent.id),
        "dead_letter_id": public_id(Prefix.DEAD_LETTER, letter.id),
        "queue": WORK,
        "type": "paid",
        "source": "shop",
        "reason": reason,
        "error": "no such user" if reason == "permanent" else None,
        "attempts": attempts,
    }


async def test_a_message_that_did_not_die_publishes_nothing(store: Store) -> None:
    await make_both(store, "*")
    for _ in range(4):
        await send(store)
    done, again, back, held = await pull(store)
    await settle(store, ack(done), retry(again), release(back))
    await settle(store, dead(done, reason="x"), dead(again, reason="x"), retry(held))
    await store.queues.purge(DEFAULT, WORK)
    assert await heard(store) == []


async def test_a_refused_dead_ending_publishes_nothing(store: Store) -> None:
    await make_both(store)
    await send(store)
    held = await pull_one(store)

    def refuse(_: Any) -> None:
        raise ValueError("my rows are wrong")

    settlement = Settlement((dead(held, reason="x"),))
    with pytest.raises(ValueError, match="my rows"):
        await store.messages.settle_jointly(DEFAULT, settlement, refuse)
    assert (await counts(store), await heard(store)) == (Counts(claimed=1), [])
    await settle(store, ack(held))
    with pytest.raises(ClaimLost):
        await store.messages.settle_jointly(DEFAULT, settlement, lambda _: None)
    assert await heard(store) == []


async def test_a_dead_system_event_publishes_nothing(store: Store) -> None:
    """Except for one that a user sends under the same type."""
    await make_both(store, "*")
    await send(store)
    await kill_all(store)
    assert len(await kill_all(store, queue=ALERTS)) == 1
    assert await counts(store, ALERTS) == Counts(dead=1)
    await send(store, type="message.dead", source="shop")
    assert await counts(store, ALERTS) == Counts(ready=1, dead=1)
    await kill_all(store)
    assert await counts(store, ALERTS) == Counts(ready=2, dead=1)


async def test_replies_to_dead_letter_events_end_at_the_hop_limit(store: Store) -> None:
    """A handler that sends another message for each event, which dies as well."""
    await make_both(store)
    await send(store, hops=29)
    told = 0
    for _ in range(10):
        for message in await pull(store):
            reason = REASON_TOO_MANY_HOPS if message.hops >= 32 else "x"
            await settle(store, dead(message, reason=reason))
        for event in await pull(store, queue=ALERTS):
            told += 1
            await settle(store, ack(event))
            await send(store, hops=event.hops + 1)
    assert told == 2
    assert len(await letters(store)) == 3


async def test_each_tenant_gets_only_its_own_events(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    for scope in (one, two):
        await make_queue(store, scope=scope)
        await make_queue(store, ALERTS, scope=scope)
        await store.subscriptions.put(scope, "message.*", ALERTS)
    await make_queue(store, "all", scope=SYSTEM)
    await store.subscriptions.put(SYSTEM, "message.dead", "all")
    await send(store, scope=one)
    await kill_all(store, scope=one)
    assert [message.tenant for message in await heard(store, scope=one)] == ["one"]
    assert await heard(store, scope=two) == []
    assert [message.tenant for message in await heard(store, "all", scope=SYSTEM)] == ["one"]


async def test_dead_letters_of_several_tenants_in_one_settlement_publish_separate_events(
    store: Store,
) -> None:
    """Both have messages in a shared queue."""
    one, two = await make_tenants(store, "one", "two")
    await make_queue(store, "ours", scope=SYSTEM)
    for scope in (one, two):
        await make_queue(store, ALERTS, scope=scope)
        await store.subscriptions.put(scope, "message.dead", ALERTS)
        await send(store, queue="ours", scope=scope)
    await kill_all(store, queue="ours", scope=SYSTEM)
    for scope in (one, two):
        (event,) = await heard(store, scope=scope)
        assert event.tenant == json.loads(event.body)["tenant"] == scope.tenant
        await store.queues.purge(scope, ALERTS)
        await store.queues.delete(scope, ALERTS)  # Nothing of another tenant is left in it.


async def test_each_of_many_dead_letters_publishes_an_event(store: Store) -> None:
    await make_both(store)
    await store.subscriptions.put(DEFAULT, "*", ALERTS)
    sent = {public_id(Prefix.MESSAGE, (await send(store)).id) for _ in range(30)}
    await kill_all(store)
    told = [json.loads(message.body)["message_id"] for message in await heard(store)]
    assert sorted(told) == sorted(sent)


async def test_a_moved_message_that_dies_again_publishes_again(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, "grave")
    await make_both(store, dead_letter_queue="grave")
    sent = await send(store)
    await kill_all(store)
    clock.advance(seconds=1)
    await kill_all(store, queue="grave")
    found = [json.loads(message.body) for message in await heard(store)]
    assert sorted(event["queue"] for event in found) == ["grave", WORK]
    assert {event["message_id"] for event in found} == {public_id(Prefix.MESSAGE, sent.id)}


async def test_a_full_queue_accepts_system_events(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, ALERTS, backlog_bytes_max=BODY_BYTES_MAX)
    await store.subscriptions.put(DEFAULT, "message.dead", ALERTS)
    await send(store, queue=ALERTS, body=b"x" * BODY_BYTES_MAX)
    for _ in range(3):
        await send(store)
    await kill_all(store)
    assert await counts(store, ALERTS) == Counts(ready=4)
    with pytest.raises(BacklogFull):
        await send(store, queue=ALERTS)


async def test_an_event_without_a_queue_is_published_once_per_subscriber(
    store: Store, clock: VirtualClock
) -> None:
    await make_both(store, "shard.*")
    event = shard_stalled_event(7, clock.now(), 31.0)
    assert await store.messages.notify(DEFAULT, event) == 1
    await store.messages.notify(DEFAULT, shard_stalled_event(7, clock.now(), 62.0))
    (told,) = await heard(store)
    assert (told.type, json.loads(told.body)["shard"]) == ("shard.stalled", 7)
    (one,) = await make_tenants(store, "one")
    assert await store.messages.notify(one, event) == 0
