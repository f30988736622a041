"""Endpoints whose breaker may be probed: a waiting delivery is pulled forward."""

import asyncio
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from tests.conformance.acts import counts, join, make_queue, send
from tests.conformance.endpoint_acts import (
    attempt,
    attempt_of,
    claimed,
    claimed_one,
    deliveries,
    end,
    make_endpoint,
    new_event,
    publish,
    record,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.delivery.breaker import (
    FAILURES_IN_ROW_MAX,
    OPEN_SECONDS_MIN,
    PULLED_AGAIN_SECONDS,
)
from tickwork.core.delivery.endpoint import HEALTHY, DeliveryStatus, Endpoint, PulledProbe
from tickwork.core.delivery.slot_delivery import SlotDelivery
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Fate, Message
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

HOURS = 3_600.0


async def failed(
    store: Store, clock: VirtualClock, waits: list[float], name: str = "shop"
) -> list[UUID]:
    """Publishes deliveries which fail, a second apart, and wait for some seconds; the ids of their
    messages, the oldest first. The breaker is open then."""
    for _ in waits:
        await publish(store, f"{name}.new")
        clock.advance(seconds=1)
    messages = sorted(await claimed(store), key=lambda claimed_message: claimed_message.visible_at)
    for message, seconds in zip(messages, waits, strict=True):
        assert await record(store, attempt_of(message, code=500)) == (True,)
        await end(store, message, Fate.RETRY, delay_seconds=seconds)
        clock.advance(seconds=1)
    return [claimed_message.id for claimed_message in messages]


async def stored(store: Store, name: str = "shop") -> Endpoint:
    return await store.endpoints.get(DEFAULT, name)


async def reap(store: Store) -> None:
    await store.reaper.reap(SYSTEM, 100)


async def probe(store: Store, clock: VirtualClock, *, is_delivered: bool = False) -> UUID:
    """Waits until the breaker may be probed, lets the pulled delivery probe it and then wait for
    its own time; returns the id of its message."""
    endpoint = await stored(store)
    assert endpoint.health.open_until is not None
    clock.advance(seconds=(endpoint.health.open_until - clock.now()).total_seconds())
    await reap(store)
    message = await claimed_one(store)
    pulled = (await stored(store)).pulled
    assert pulled is not None
    assert pulled.message_id == message.id
    assert await store.endpoints.probe(SYSTEM, endpoint.id, 30)
    code = 200 if is_delivered else 500
    assert await record(store, attempt_of(message, code=code, is_probe=True)) == (True,)
    fate = Fate.ACK if is_delivered else Fate.RELEASE
    await end(store, message, fate, delay_seconds=_seconds(clock, pulled.back_at))
    return message.id


def _seconds(clock: VirtualClock, at: datetime) -> float:
    return (at - clock.now()).total_seconds()


async def test_a_waiting_delivery_is_pulled_forward_once_when_the_breaker_may_be_probed(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store, types=("shop.*",))
    oldest, *_ = await failed(store, clock, [10 * HOURS] * FAILURES_IN_ROW_MAX)
    due = clock.now() + timedelta(seconds=10 * HOURS - FAILURES_IN_ROW_MAX)
    opened = await stored(store)
    assert opened.health.open_until == clock.now() + timedelta(seconds=OPEN_SECONDS_MIN - 1)
    await reap(store)
    clock.advance(seconds=OPEN_SECONDS_MIN - 2)
    await reap(store)
    assert await store.reaper.next_expiry(SYSTEM) == opened.health.open_until
    assert (await claimed(store), await stored(store)) == ((), opened)
    clock.advance(seconds=1)
    await asyncio.gather(*(reap(store) for _ in range(5)))
    await reap(store)
    message = await claimed_one(store)
    assert (message.id, message.attempts, message.visible_at) == (oldest, 1, clock.now())
    shown = await store.endpoints.get(DEFAULT, endpoint.id)
    assert shown.pulled == PulledProbe(oldest, due)
    assert shown.health == opened.health


async def test_the_breaker_is_probed_with_the_delivery_that_was_tried_least_recently(
    store: Store, clock: VirtualClock
) -> None:
    await make_endpoint(store, types=("shop.*",))
    waiting = await failed(store, clock, [20 * HOURS] * FAILURES_IN_ROW_MAX)
    probed = [await probe(store, clock) for _ in range(7)]
    assert probed == [*waiting, *waiting[:2]]
    # One that was never tried goes first, and a success closes the breaker.
    await publish(store, "shop.new")
    new = await claimed_one(store)
    await end(store, new, Fate.RELEASE, delay_seconds=10 * HOURS)
    assert await probe(store, clock, is_delivered=True) == new.id
    assert (await stored(store)).health == HEALTHY
    clock.advance(seconds=2 * HOURS)
    await reap(store)
    assert await claimed(store) == ()


async def test_the_only_waiting_delivery_probes_again_and_again(
    store: Store, clock: VirtualClock
) -> None:
    await make_endpoint(store, types=("shop.*",))
    await publish(store, "shop.new")
    for _ in range(FAILURES_IN_ROW_MAX - 1):
        await attempt(store, await claimed_one(store), code=500)
    message = await claimed_one(store)
    await record(store, attempt_of(message, code=500))
    await end(store, message, Fate.RETRY, delay_seconds=20 * HOURS)
    due = clock.now() + timedelta(seconds=20 * HOURS)
    for _ in range(4):
        assert await probe(store, clock) == message.id
        assert (await stored(store)).pulled == PulledProbe(message.id, due)
    (delivery,) = await deliveries(store)
    assert (delivery.status, delivery.attempts) == (DeliveryStatus.WAITING, 9)
    clock.advance(seconds=(due - clock.now()).total_seconds())
    assert (await claimed_one(store)).attempts == FAILURES_IN_ROW_MAX


async def test_nothing_is_pulled_forward_for_a_disabled_endpoint_or_one_without_waiting_deliveries(
    store: Store, clock: VirtualClock
) -> None:
    shop = await make_endpoint(store, types=("shop.*",))
    await make_endpoint(store, "idle", types=("idle.*",))
    await failed(store, clock, [10 * HOURS] * FAILURES_IN_ROW_MAX)
    await failed(store, clock, [10 * HOURS] * FAILURES_IN_ROW_MAX, "idle")
    await store.endpoints.disable(DEFAULT, shop.id, "maintenance")
    clock.advance(seconds=11 * HOURS)
    for message in await claimed(store):
        await end(store, message, Fate.ACK)
    await reap(store)
    assert await claimed(store) == ()
    for name in ("shop", "idle"):
        assert (await stored(store, name)).pulled is None
    # It looks again after an hour.
    await publish(store, "idle.new")
    await end(store, await claimed_one(store), Fate.RELEASE, delay_seconds=10 * HOURS)
    clock.advance(seconds=PULLED_AGAIN_SECONDS - 1)
    await reap(store)
    assert await claimed(store) == ()
    clock.advance(seconds=1)
    await reap(store)
    assert len(await claimed(store)) == 1


async def test_a_blocked_delivery_is_not_pulled_forward(store: Store, clock: VirtualClock) -> None:
    await make_endpoint(store, types=("shop.*",), ordered=True)
    for _ in range(3):
        await publish(store, "shop.new")
        clock.advance(seconds=1)
    for _ in range(FAILURES_IN_ROW_MAX - 1):
        await attempt(store, await claimed_one(store), code=500)
    holder = await join(store, ttl_seconds=600)
    (first,) = await claimed(store, holder=holder)
    await record(store, attempt_of(first, code=500))
    clock.advance(seconds=OPEN_SECONDS_MIN)
    # The first one is under way, and the others are blocked.
    await reap(store)
    assert (await claimed(store), (await stored(store)).pulled) == ((), None)
    await end(store, first, Fate.RETRY, delay_seconds=10 * HOURS)
    clock.advance(seconds=PULLED_AGAIN_SECONDS)
    await reap(store)
    assert (await claimed_one(store)).id == first.id


async def test_many_dead_deliveries_do_not_hide_the_one_that_waits(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in KINDS:
        monkeypatch.setattr(f"tickwork.store.{kind}.endpoints.endpoints.PROBE_CANDIDATES_MAX", 2)
    await make_endpoint(store, types=("shop.*",))
    for _ in range(4):
        await publish(store, "shop.new")
        clock.advance(seconds=1)
    for message in await claimed(store):
        await end(store, message, Fate.DEAD)
    waiting = await failed(store, clock, [10 * HOURS] * FAILURES_IN_ROW_MAX)
    clock.advance(seconds=OPEN_SECONDS_MIN)
    await reap(store)
    assert (await claimed_one(store)).id == waiting[-2]


async def test_each_endpoint_has_its_own_probe(store: Store, clock: VirtualClock) -> None:
    names = ("shop", "crm")
    waiting = {}
    for name in names:
        await make_endpoint(store, name, types=(f"{name}.*",))
        waiting[name] = await failed(store, clock, [10 * HOURS] * FAILURES_IN_ROW_MAX, name)
    clock.advance(seconds=OPEN_SECONDS_MIN)
    await reap(store)
    pulled = {message.id for message in await claimed(store)}
    assert pulled == {waiting[name][0] for name in names}


async def opened_and_pulled(store: Store, clock: VirtualClock) -> tuple[list[UUID], PulledProbe]:
    """An endpoint with waiting deliveries, of which the breaker has pulled the first one."""
    await make_endpoint(store, types=("shop.*",))
    waiting = await failed(store, clock, [10 * HOURS] * FAILURES_IN_ROW_MAX)
    clock.advance(seconds=OPEN_SECONDS_MIN)
    await reap(store)
    pulled = (await stored(store)).pulled
    assert pulled is not None
    assert pulled.message_id == waiting[0]
    return waiting, pulled


async def pulled_id(store: Store) -> UUID | None:
    pulled = (await stored(store)).pulled
    return None if pulled is None else pulled.message_id


async def claimed_at(store: Store, clock: VirtualClock, at: datetime) -> list[UUID]:
    """What can be claimed a moment before a time, and at that time."""
    clock.advance(seconds=_seconds(clock, at) - 0.001)
    assert await claimed(store) == ()
    clock.advance(seconds=0.001)
    return [message.id for message in await claimed(store)]


async def test_a_probe_that_nobody_sent_goes_back_to_its_own_time_when_another_is_pulled(
    store: Store, clock: VirtualClock
) -> None:
    waiting, pulled = await opened_and_pulled(store, clock)
    clock.advance(seconds=PULLED_AGAIN_SECONDS)
    await reap(store)
    assert (await claimed_one(store)).id == waiting[1] == await pulled_id(store)
    assert (await claimed_at(store, clock, pulled.back_at))[0] == waiting[0]


async def test_a_probe_that_was_given_another_time_keeps_it_when_another_is_pulled(
    store: Store, clock: VirtualClock
) -> None:
    waiting, _ = await opened_and_pulled(store, clock)
    seconds = PULLED_AGAIN_SECONDS + 200.0
    soon = clock.now() + timedelta(seconds=seconds)
    await store.endpoints.resend(
        DEFAULT, [waiting[0]], rate_per_second=1.0, first_after_seconds=seconds
    )
    clock.advance(seconds=PULLED_AGAIN_SECONDS)
    await reap(store)
    assert (await claimed_one(store)).id == waiting[1]
    assert await claimed_at(store, clock, soon) == [waiting[0]]


@pytest.mark.parametrize("ttl_seconds", [20, 60], ids=["given back", "still claimed"])
async def test_a_probe_whose_worker_died_goes_back_to_its_own_time_when_another_is_pulled(
    store: Store, clock: VirtualClock, ttl_seconds: float
) -> None:
    waiting, pulled = await opened_and_pulled(store, clock)
    (message,) = await claimed(store, holder=await join(store, ttl_seconds=ttl_seconds))
    assert await store.endpoints.probe(SYSTEM, (await stored(store)).id, 30)
    clock.advance(seconds=30)
    await reap(store)
    other = await claimed_one(store)
    assert (message.id, other.id, await pulled_id(store)) == (*waiting[:2], waiting[1])
    await end(store, other, Fate.ACK)
    clock.advance(seconds=60)
    await reap(store)
    assert (await claimed_at(store, clock, pulled.back_at))[0] == waiting[0]


async def test_a_probe_that_was_not_sent_when_the_breaker_closed_is_still_known(
    store: Store, clock: VirtualClock
) -> None:
    """So that its failure costs no attempt."""
    _, pulled = await opened_and_pulled(store, clock)
    await publish(store, "shop.new")
    (new,) = [message for message in await claimed(store) if message.id != pulled.message_id]
    await attempt(store, new)
    closed = await stored(store)
    assert (closed.health, closed.pulled) == (HEALTHY, pulled)


async def test_enabling_makes_an_endpoint_forget_its_probe(
    store: Store, clock: VirtualClock
) -> None:
    await opened_and_pulled(store, clock)
    enabled = await store.endpoints.enable(DEFAULT, (await stored(store)).id)
    assert (enabled.pulled, enabled.health) == (None, HEALTHY)


async def test_a_slot_is_not_pulled_forward(store: Store, clock: VirtualClock) -> None:
    endpoint = await make_endpoint(store, types=("shop.*",))
    await make_queue(store)
    slot = (await send(store, delay_seconds=10 * HOURS)).id
    event = new_event("shop.new")
    delivery = SlotDelivery(
        id=event.id, endpoint_id=endpoint.id, message_id=slot, event=event, is_sent_once=True
    )
    assert await store.endpoints.begin(DEFAULT, delivery)
    for message in await failed_once(store):
        await end(store, message, Fate.ACK)
    clock.advance(seconds=OPEN_SECONDS_MIN)
    await reap(store)
    assert (await stored(store)).pulled is None
    assert await counts(store) == Counts(delayed=1)


async def failed_once(store: Store) -> tuple[Message, ...]:
    """Publishes deliveries and records that they failed, which opens the breaker."""
    for _ in range(FAILURES_IN_ROW_MAX):
        await publish(store, "shop.new")
    messages = await claimed(store)
    await record(store, *(attempt_of(message, code=500) for message in messages))
    return messages
