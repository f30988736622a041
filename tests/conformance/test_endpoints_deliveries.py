"""Deliveries to endpoints: attempts, health, status, resending, numbers and retention."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.conformance.acts import ALL, counts, letters, make_queue, make_tenants, pull, send
from tests.conformance.endpoint_acts import (
    attempt,
    attempt_of,
    claimed,
    claimed_one,
    deliveries,
    end,
    ids,
    make_endpoint,
    new_event,
    publish,
    record,
    the_delivery,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.breaker import FAILURES_IN_ROW_MAX
from tickwork.core.delivery.endpoint import (
    DELIVERY_RETENTION_SECONDS,
    ENDPOINTS_QUEUE,
    HEALTHY,
    RESENT_AT_ONCE_MAX,
    Attempt,
    AttemptRecord,
    DeliverySelection,
    DeliveryStatus,
    EndpointStats,
    read_endpoint_envelope,
)
from tickwork.core.delivery.outcome import ErrorKind
from tickwork.core.delivery.slot_delivery import SlotDelivery
from tickwork.core.message.dead_letter import Pace, Resolution, Selection
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Fate, Message
from tickwork.errors import InvalidInput, NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

WAITING, DELIVERED, DEAD = DeliveryStatus


async def published(store: Store, clock: VirtualClock, number: int) -> list[Message]:
    """Claims the messages of some deliveries, oldest first."""
    for _ in range(number):
        clock.advance(seconds=1)
        await publish(store)
    return [*await claimed(store)]


async def die(store: Store, message: Message) -> None:
    await end(store, message, Fate.DEAD, reason="max_retries", error="no")


async def fail(store: Store, clock: VirtualClock, times: int, **fields: bool) -> None:
    """Fails the only delivery some times in a row."""
    for _ in range(times):
        await attempt(store, await claimed_one(store), code=500, **fields)
        clock.advance(seconds=1)


async def test_attempts_are_recorded_with_numbers_and_times_of_the_store(
    store: Store, clock: VirtualClock
) -> None:
    await make_endpoint(store)
    await publish(store)
    message = await claimed_one(store)
    clock.advance(seconds=2)
    first = clock.now() - timedelta(seconds=0.5)
    await attempt(store, message, code=503)
    found = await the_delivery(store)
    assert (found.status, found.attempts, found.delivered_at) == (WAITING, 1, None)
    assert (found.last_attempt_at, found.last_code) == (first, 503)
    assert found.last_error == "the receiver answered 503"
    clock.advance(seconds=60)
    await attempt(store, await claimed_one(store), took_seconds=1.0)
    found = await the_delivery(store)
    assert (found.status, found.attempts, found.delivered_at) == (DELIVERED, 2, clock.now())
    assert (found.last_code, found.last_error) == (200, None)
    assert await store.endpoints.delivery(DEFAULT, found.id) == found
    one, two = await store.endpoints.attempts(DEFAULT, found.id)
    assert (one.number, one.at, one.took_seconds, one.code) == (1, first, 0.5, 503)
    assert (one.kind, one.error) == (ErrorKind.HTTP, "the receiver answered 503")
    assert (two.number, two.code, two.kind, two.excerpt) == (2, 200, None, "answer")
    assert two.is_delivered


async def test_a_lost_claim_records_nothing(store: Store) -> None:
    endpoint = await make_endpoint(store)
    await publish(store)
    lost = await claimed_one(store)
    await end(store, lost, Fate.RELEASE)
    for stale in (lost, await claimed_one(store)):
        other = msgspec.structs.replace(stale, claim=stale.claim + 1)
        assert await record(store, attempt_of(lost, code=410, is_gone=True)) == (False,)
        assert await record(store, attempt_of(other, code=410, is_gone=True)) == (False,)
    found = await the_delivery(store)
    assert (found.attempts, found.last_attempt_at) == (0, None)
    assert await store.endpoints.attempts(DEFAULT, found.id) == ()
    assert (await store.endpoints.get(DEFAULT, endpoint.id)).health == HEALTHY


async def test_many_attempts_are_recorded_together_and_a_repeat_records_nothing(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    messages = await published(store, clock, 60)
    await end(store, messages[7], Fate.RELEASE)
    records = [attempt_of(message, code=500) for message in messages[:20]]
    records += [attempt_of(message) for message in messages[20:]]
    valid = tuple(index != 7 for index in range(60))
    for _ in range(2):
        assert await store.endpoints.record(SYSTEM, records) == valid
        found = await deliveries(store)
        assert sorted({delivery.attempts for delivery in found}) == [0, 1]
        assert len([delivery for delivery in found if delivery.status is DELIVERED]) == 40
        assert (await store.endpoints.get(DEFAULT, endpoint.id)).health == HEALTHY
    assert await store.endpoints.record(SYSTEM, records[:19]) == valid[:19]
    assert (await store.endpoints.get(DEFAULT, endpoint.id)).health == HEALTHY
    assert await store.endpoints.record(SYSTEM, []) == ()
    with pytest.raises(InvalidInput):
        await store.endpoints.record(DEFAULT, records)


async def test_failures_in_a_row_open_the_breaker_and_a_success_closes_it(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    await publish(store)
    await fail(store, clock, FAILURES_IN_ROW_MAX - 1)
    health = (await store.endpoints.get(DEFAULT, endpoint.id)).health
    assert (health.failures_in_row, health.failing_since, health.open_until) == (4, None, None)
    at = clock.now()
    await fail(store, clock, 1)
    health = (await store.endpoints.get(DEFAULT, endpoint.id)).health
    assert (health.failures_in_row, health.failing_since) == (5, at)
    assert health.open_until == clock.now() + timedelta(seconds=59)
    await attempt(store, await claimed_one(store))
    assert (await store.endpoints.get(DEFAULT, endpoint.id)).health == HEALTHY


async def test_exactly_one_caller_may_probe_an_endpoint_whose_breaker_was_open_until_now(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    assert not await store.endpoints.probe(SYSTEM, endpoint.id, 30)
    await publish(store)
    await fail(store, clock, FAILURES_IN_ROW_MAX)
    assert not await store.endpoints.probe(SYSTEM, endpoint.id, 30)
    clock.advance(seconds=60)
    asked = [store.endpoints.probe(SYSTEM, endpoint.id, 30) for _ in range(10)]
    assert sorted(await asyncio.gather(*asked)) == [False] * 9 + [True]
    health = (await store.endpoints.get(DEFAULT, endpoint.id)).health
    assert health.open_until == clock.now() + timedelta(seconds=30)
    await fail(store, clock, 1, is_probe=True)
    health = (await store.endpoints.get(DEFAULT, endpoint.id)).health
    assert (health.openings, health.open_until) == (2, clock.now() + timedelta(seconds=119))
    with pytest.raises(InvalidInput):
        await store.endpoints.probe(DEFAULT, endpoint.id, 30)
    assert not await store.endpoints.probe(SYSTEM, new_id(), 30)


async def test_the_health_of_an_endpoint_publishes_system_events(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    await make_queue(store)
    await store.subscriptions.put(DEFAULT, "endpoint.*", "work")
    await publish(store)
    await fail(store, clock, FAILURES_IN_ROW_MAX - 1)
    since = clock.now().isoformat().replace("+00:00", "Z")
    await fail(store, clock, 2)
    message = await claimed_one(store)
    for _ in range(2):
        await record(store, attempt_of(message, code=410, is_gone=True))
    await publish(store)
    other = await claimed_one(store)
    await record(store, attempt_of(other, code=410, is_gone=True))
    failing, disabled = await pull(store)
    assert (failing.type, disabled.type) == ("endpoint.failing", "endpoint.disabled")
    common = {
        "tenant": "default", "endpoint_id": public_id(Prefix.ENDPOINT, endpoint.id), "name": "shop",
        "url": "https://example.com/hook", "failing_since": since,
    }  # fmt: skip
    assert msgspec.json.decode(failing.body) == common | {"failures_in_row": 5, "reason": None}
    reason = "the receiver answered 410 (gone)"
    assert msgspec.json.decode(disabled.body) == common | {"failures_in_row": 7, "reason": reason}
    stored = await store.endpoints.get(DEFAULT, endpoint.id)
    assert (stored.disabled_at, stored.disabled_reason) == (clock.now(), reason)


async def test_concurrent_attempts_count_every_failure(store: Store, clock: VirtualClock) -> None:
    endpoints = [await make_endpoint(store, name) for name in ("a", "b")]
    messages = await published(store, clock, 6)
    pairs = [messages[index : index + 3] for index in range(0, 12, 3)]
    await asyncio.gather(
        *(record(store, *[attempt_of(message, code=500) for message in pair]) for pair in pairs)
    )
    for endpoint in endpoints:
        health = (await store.endpoints.get(DEFAULT, endpoint.id)).health
        assert (health.failures_in_row, health.openings) == (6, 1)


async def test_the_status_of_a_delivery_follows_its_message(store: Store) -> None:
    await make_endpoint(store)
    await publish(store)
    message = await claimed_one(store)
    assert (await the_delivery(store)).status is WAITING
    await record(store, attempt_of(message, code=500))
    await die(store, message)
    assert (await the_delivery(store)).status is DEAD
    selection = Selection()
    await store.dead_letters.replay(SYSTEM, ENDPOINTS_QUEUE, selection, Pace())
    assert (await the_delivery(store)).status is WAITING
    again = await claimed_one(store)
    assert again.id != message.id
    await attempt(store, again)
    found = await the_delivery(store)
    assert (found.status, found.message_id, found.attempts) == (DELIVERED, again.id, 2)
    numbers = [
        past_attempt.number for past_attempt in await store.endpoints.attempts(DEFAULT, found.id)
    ]
    assert numbers == [1, 2]


async def test_deliveries_are_listed_newest_first_by_endpoint_status_and_time(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store, "a")
    other = await make_endpoint(store, "b", types=("user.*",))
    began = clock.now()
    messages = await published(store, clock, 4)
    await publish(store, "user.new")
    delivered, dead, _waiting, _also = messages
    await attempt(store, delivered)
    await die(store, dead)
    own = [message.id for message in reversed(messages)]
    everything = await deliveries(store)
    assert len(everything) == 5
    assert {delivery.status for delivery in everything} == {WAITING, DELIVERED, DEAD}
    of_endpoint: dict[str, Any] = {"endpoint_id": endpoint.id}
    assert ids(await deliveries(store, **of_endpoint)) == own
    assert len(await deliveries(store, endpoint_id=other.id)) == 1
    for more in ({}, of_endpoint):
        assert ids(await deliveries(store, status=DELIVERED, **more)) == [delivered.id]
        assert ids(await deliveries(store, status=DEAD, **more)) == [dead.id]
    assert ids(await deliveries(store, status=WAITING, **of_endpoint)) == own[:2]
    assert ids(await deliveries(store, is_undelivered=True, **of_endpoint)) == own[:3]
    assert len(await deliveries(store, is_undelivered=True)) == 4
    since, until = began + timedelta(seconds=2), began + timedelta(seconds=4)
    assert ids(await deliveries(store, since=since, until=until)) == own[1:3]
    selection = DeliverySelection(limit=2, **of_endpoint)
    page = await store.endpoints.deliveries(DEFAULT, selection, before=own[0])
    assert ids(page) == own[1:3]
    selection = DeliverySelection(until=until, **of_endpoint)
    page = await store.endpoints.deliveries(DEFAULT, selection, before=own[2])
    assert ids(page) == own[3:]
    with pytest.raises(NotFound):
        await store.endpoints.deliveries(DEFAULT, selection, before=new_id())


async def test_what_did_not_arrive_in_a_span_is_found_oldest_first(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    await make_endpoint(store, "other", types=("user.*",))
    began = clock.now()
    messages = await published(store, clock, 5)
    await publish(store, "user.new")
    delivered, dead, *_ = messages
    await attempt(store, delivered)
    await die(store, dead)
    own, end = [message.id for message in messages], began + timedelta(hours=1)

    async def undelivered(**span: Any) -> list[UUID]:
        span = {"since": None, "until": end, "limit": 10} | span
        return list(await store.endpoints.undelivered(DEFAULT, endpoint.id, **span))

    assert await undelivered() == own[1:]
    assert await undelivered(limit=2) == own[1:3]
    assert await undelivered(limit=2, after=own[2]) == own[3:]
    since, until = began + timedelta(seconds=2), began + timedelta(seconds=4)
    assert await undelivered(since=since, until=until) == own[1:3]
    assert await undelivered(since=since, after=own[3]) == own[4:]
    with pytest.raises(NotFound):
        await undelivered(after=new_id())


async def test_a_tenant_sees_only_its_deliveries(store: Store) -> None:
    one, other = await make_tenants(store, "one", "other")
    await make_endpoint(store, scope=one)
    await publish(store, scope=one)
    (found,) = await deliveries(store, scope=one)
    assert await store.endpoints.delivery(SYSTEM, found.id) == found
    assert await deliveries(store, scope=other) == ()
    for verb in (
        store.endpoints.delivery(other, found.id),
        store.endpoints.attempts(other, found.id),
        store.endpoints.stats(other, found.endpoint_id, await store.now()),
    ):
        with pytest.raises(NotFound):
            await verb
    assert await store.endpoints.resend(other, [found.id]) == 0
    assert await store.endpoints.resend(one, [found.id]) == 1


async def test_resending_makes_what_waits_visible_and_sends_the_rest_again(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store, ordered=False)
    delivered, dead, waiting, gone = await published(store, clock, 4)
    await attempt(store, delivered)
    await record(store, attempt_of(dead, code=500))
    await die(store, dead)
    await end(store, waiting, Fate.RETRY, delay_seconds=3600)
    (letter,) = await letters(store, queue=ENDPOINTS_QUEUE, scope=SYSTEM)
    wanted = [waiting.id, dead.id, delivered.id, delivered.id, new_id()]
    assert await store.endpoints.resend(DEFAULT, wanted) == 3
    assert {delivery.status for delivery in await deliveries(store)} == {WAITING}
    letter = await store.dead_letters.get(SYSTEM, letter.id)
    assert letter.resolution is Resolution.REPLAYED
    messages = await claimed(store)
    envelopes = [read_endpoint_envelope(message.body) for message in messages]
    assert {envelope.delivery for envelope in envelopes} == {delivered.id, dead.id, waiting.id}
    before = read_endpoint_envelope(dead.body)
    (again,) = [envelope for envelope in envelopes if envelope.delivery == dead.id]
    assert again == before
    replayed = {
        envelope.delivery: message for envelope, message in zip(envelopes, messages, strict=True)
    }
    assert letter.replayed_as == replayed[dead.id].id != dead.id
    await attempt(store, replayed[dead.id])
    assert (await store.endpoints.delivery(DEFAULT, dead.id)).attempts == 2
    await end(store, gone, Fate.ACK)
    await store.endpoints.delete(DEFAULT, endpoint.id)
    assert await store.endpoints.resend(DEFAULT, [gone.id]) == 0


async def test_a_delivery_that_arrived_stays_delivered_when_its_resend_dies(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    (message,) = await published(store, clock, 1)
    await attempt(store, message)
    first = await the_delivery(store)
    for ends in ("dies", "arrives", "goes"):
        clock.advance(seconds=60)
        await store.endpoints.resend(DEFAULT, [first.id])
        assert (await the_delivery(store)).status is WAITING
        message = await claimed_one(store)
        if ends == "arrives":
            await attempt(store, message)
        elif ends == "dies":
            await record(store, attempt_of(message, code=500))
            await die(store, message)
        else:
            await store.endpoints.delete(DEFAULT, endpoint.id)
        found = await the_delivery(store)
        assert (found.status, found.delivered_at) == (DELIVERED, first.delivered_at)
        assert await deliveries(store, is_undelivered=True) == ()
    assert (await the_delivery(store)).attempts == 3


async def test_resending_at_a_rate_spreads_deliveries_oldest_first(
    store: Store, clock: VirtualClock
) -> None:
    await make_endpoint(store)
    messages = await published(store, clock, 6)
    for message in messages[::2]:
        await attempt(store, message)
    for message in messages[1::2]:
        await end(store, message, Fate.RETRY, delay_seconds=3600)
    wanted = [claimed_message.id for claimed_message in reversed(messages)]
    await store.endpoints.resend(DEFAULT, wanted, rate_per_second=0.5, first_after_seconds=10)
    assert await claimed(store) == ()
    clock.advance(seconds=10)
    for message in messages:
        (again,) = await claimed(store)
        assert read_endpoint_envelope(again.body).delivery == message.id
        clock.advance(seconds=2)
    for faulty in ({"rate_per_second": 0.0}, {"rate_per_second": 1e-9}):
        with pytest.raises(InvalidInput):
            await store.endpoints.resend(DEFAULT, wanted, **faulty)
    many = [new_id() for _ in range(RESENT_AT_ONCE_MAX + 1)]
    with pytest.raises(InvalidInput):
        await store.endpoints.resend(DEFAULT, many)


async def test_concurrent_resends_send_a_delivery_once(store: Store) -> None:
    await make_endpoint(store, ordered=True)
    await publish(store)
    message = await claimed_one(store)
    await die(store, message)
    await asyncio.gather(*(store.endpoints.resend(DEFAULT, [message.id]) for _ in range(6)))
    assert len(await claimed(store)) == 1
    assert await counts(store, queue=ENDPOINTS_QUEUE, scope=SYSTEM) == Counts(claimed=1)


async def test_statistics_count_deliveries_by_status_and_attempts_by_time(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    old = clock.now()
    await published(store, clock, 1)
    since = clock.now() + timedelta(microseconds=1)
    assert await store.endpoints.stats(DEFAULT, endpoint.id, since) == EndpointStats()
    messages = await published(store, clock, 20)
    for number, message in enumerate(messages[:18], 1):
        await attempt(store, message, took_seconds=number / 10)
    await record(store, attempt_of(messages[18], code=500, took_seconds=9.0))
    await record(store, attempt_of(messages[19], code=500, took_seconds=10.0))
    await die(store, messages[18])
    assert await store.endpoints.stats(DEFAULT, endpoint.id, since) == EndpointStats(
        waiting=1, delivered=18, dead=1, attempts=20, failed_attempts=2, p50_seconds=1.0,
        p95_seconds=9.0,
    )  # fmt: skip
    assert (await store.endpoints.stats(DEFAULT, endpoint.id, old)).waiting == 2


async def test_deliveries_are_kept_for_their_retention_unless_they_wait(
    store: Store, clock: VirtualClock
) -> None:
    await make_endpoint(store)
    messages = await published(store, clock, 3)
    for message in messages[:2]:
        await attempt(store, message)
    clock.advance(seconds=DELIVERY_RETENTION_SECONDS - 60)
    assert (await store.pruner.prune(SYSTEM, ALL)).deliveries == 0
    assert await store.endpoints.resend(DEFAULT, [messages[0].id]) == 1
    clock.advance(seconds=120)
    assert (await store.pruner.prune(SYSTEM, ALL)).deliveries == 1
    assert {*ids(await deliveries(store))} == {messages[0].id, messages[2].id}
    with pytest.raises(NotFound):
        await store.endpoints.attempts(DEFAULT, messages[1].id)
    await end(store, messages[2], Fate.ACK)
    assert (await store.pruner.prune(SYSTEM, 1)).deliveries == 1
    clock.advance(seconds=2 * 86_400)
    await store.pruner.prune(SYSTEM, ALL)
    (message,) = await claimed(store)
    await attempt(store, message)
    assert (await store.pruner.prune(SYSTEM, ALL)).deliveries == 1
    assert await deliveries(store) == ()


async def test_a_delivery_is_dead_once_its_message_is_gone(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)

    async def dead() -> list[UUID]:
        """The dead ones, which every question finds."""
        found = ids(await deliveries(store, status=DEAD))
        assert ids(await deliveries(store, status=DEAD, endpoint_id=endpoint.id)) == found
        everything = await deliveries(store)
        assert ids([delivery for delivery in everything if delivery.status is DEAD]) == found
        waiting = ids(await deliveries(store, status=WAITING))
        assert ids([delivery for delivery in everything if delivery.status is WAITING]) == waiting
        stats = await store.endpoints.stats(DEFAULT, endpoint.id, clock.now() - timedelta(days=1))
        assert (stats.dead, stats.waiting) == (len(found), len(waiting))
        assert stats.delivered == len(everything) - len(found) - len(waiting)
        return found

    died, removed, purged = await published(store, clock, 3)
    for message in (removed, purged):
        await end(store, message, Fate.RELEASE)
    await die(store, died)
    assert await dead() == [died.id]
    assert await store.messages.delete(SYSTEM, ENDPOINTS_QUEUE, removed.id)
    assert await dead() == [removed.id, died.id]
    await store.queues.purge(SYSTEM, ENDPOINTS_QUEUE)
    assert await dead() == [purged.id, removed.id, died.id]
    assert await store.endpoints.resend(DEFAULT, [died.id, removed.id]) == 2
    assert await dead() == [purged.id]
    first, second = sorted(await claimed(store), key=lambda claimed_message: claimed_message.id)
    await record(store, attempt_of(first, code=500))
    await die(store, first)  # It is not the first message of its delivery.
    again = read_endpoint_envelope(first.body).delivery
    assert again in await dead()
    await store.dead_letters.replay(SYSTEM, ENDPOINTS_QUEUE, Selection(), Pace())
    (replayed,) = await claimed(store)
    await record(store, attempt_of(replayed, code=500))
    assert again not in await dead()
    await die(store, replayed)
    assert again in await dead()
    await attempt(store, second)
    assert len(await dead()) == 2


async def test_what_is_under_way_when_its_endpoint_is_deleted_is_dead_unless_it_arrives(
    store: Store, clock: VirtualClock
) -> None:
    endpoint = await make_endpoint(store)
    failed, arrived = await published(store, clock, 2)
    await publish(store)
    assert await store.endpoints.delete(DEFAULT, endpoint.id) == 1
    assert len(await deliveries(store, status=DEAD)) == 3
    await record(store, attempt_of(failed, code=500), attempt_of(arrived))
    for message in (failed, arrived):
        await end(store, message, Fate.ACK)
    assert len(await deliveries(store, status=DEAD)) == 2
    assert ids(await deliveries(store, status=DELIVERED)) == [arrived.id]
    assert await deliveries(store, status=WAITING) == ()


async def test_a_delivery_of_a_message_that_exists_is_begun_once(store: Store) -> None:
    endpoint = await make_endpoint(store)
    await make_queue(store, "slots")
    first, replay = await send(store, queue="slots"), await send(store, queue="slots")
    event = new_event("schedule.fired", event_id="slot-7")

    def begun(message_id: UUID) -> SlotDelivery:
        return SlotDelivery(
            id=event.id, endpoint_id=endpoint.id, message_id=message_id, event=event
        )

    assert await store.endpoints.begin(DEFAULT, begun(first.id))
    assert await store.endpoints.begin(DEFAULT, begun(replay.id))
    found = await the_delivery(store)
    assert (found.event_id, found.message_id, found.status) == ("slot-7", replay.id, WAITING)
    messages = await pull(store, queue="slots")
    for message, code in zip(messages, (503, 200), strict=True):
        made = AttemptRecord(
            claim=message.current_claim,
            delivery_id=event.id,
            endpoint_id=endpoint.id,
            attempt=Attempt(
                number=1,
                at=message.visible_at,
                took_seconds=0.1,
                code=code,
                kind=None if code == 200 else ErrorKind.HTTP,
            ),
        )
        assert await record(store, made) == (True,)
    assert (await the_delivery(store)).status is DELIVERED
    assert not await store.endpoints.begin(DEFAULT, begun(first.id))
    assert await store.endpoints.delete(DEFAULT, endpoint.id) == 0
    assert (await counts(store, "slots")).claimed == 2
