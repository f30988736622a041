"""Events reach queues and endpoints, signed, retried and recorded, on both stores."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from standardwebhooks.webhooks import Webhook

from tickwork.channel.ed25519 import checker
from tickwork.core.answers.ids import without_prefix
from tickwork.core.delivery.endpoint import DeliveryStatus, Published
from tickwork.core.delivery.outcome import Delivery, answered
from tickwork.core.delivery.signature import is_signed, secret_key
from tickwork.core.model import DEFAULT, SettleResult
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.facade.app import Tickwork
from tickwork.ops.cluster import pause_all, resume_all
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
SHOP, BILLING = "https://shop.example.com/hook", "https://billing.example.com/hook"
ENDPOINTS = "tickwork.endpoints"


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    async with harness(app, database=database, start=START) as made:
        yield made


def bodies(h: Harness, url: str | None = None) -> list[Any]:
    """The data of the events that were sent."""
    return [
        msgspec.json.decode(webhook.body)["data"]
        for webhook in h.deliveries.webhooks
        if url is None or webhook.url == url
    ]


def types(h: Harness, url: str) -> list[str]:
    """The types of the events that were sent to a URL, sorted."""
    sent = [webhook for webhook in h.deliveries.webhooks if webhook.url == url]
    return sorted(msgspec.json.decode(request.body)["type"] for request in sent)


# Publishing


async def test_an_event_reaches_the_endpoints_and_queues_of_its_type(
    app: Tickwork, h: Harness
) -> None:
    app.queue("orders")
    await app.open()
    await h.store.subscriptions.put(DEFAULT, "order.*", "orders")
    await app.endpoints.create("shop", url=SHOP, types=["order.paid"])
    await app.endpoints.create("billing", url=BILLING, types="order.*")
    await app.endpoints.create("other", url=SHOP, types=["user.*"])
    published = await app.events.publish("order.paid", {"id": 7}, event_id="order-7-paid")
    await h.drain()
    (sent,) = await h.sent("orders")
    assert (published.event_id, published.queues, published.endpoints) == ("order-7-paid", 1, 2)
    assert (sent.body, sent.message.type) == ({"id": 7}, "order.paid")
    assert sorted(webhook.url for webhook in h.deliveries.webhooks) == [BILLING, SHOP]
    for webhook in h.deliveries.webhooks:
        assert msgspec.json.decode(webhook.body) == {
            "type": "order.paid",
            "timestamp": "2026-03-02T08:30:00Z",
            "data": {"id": 7},
        }


async def test_an_event_is_published_once(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"])
    for _ in range(3):
        await app.events.publish("order.paid", {"id": 7}, event_id="order-7")
        await h.drain()
    await app.events.publish("order.paid", {"id": 8})
    await app.events.publish("order.paid", {"id": 8})
    await h.drain()
    assert bodies(h) == [{"id": 7}, {"id": 8}, {"id": 8}]


async def test_an_owners_event_reaches_its_endpoints_and_those_without_an_owner(
    app: Tickwork, h: Harness
) -> None:
    for name, owner in (("a", "ann"), ("b", "bob"), ("all", None)):
        await app.endpoints.create(
            name, url=f"https://{name}.example.com/", types=["*"], owner=owner
        )
    await app.events.publish("order.paid", {}, owner="ann")
    await h.drain()
    hosts = sorted(webhook.url for webhook in h.deliveries.webhooks)
    assert hosts == ["https://a.example.com/", "https://all.example.com/"]


async def test_the_events_of_a_handler_are_published_with_its_ack(
    app: Tickwork, database: str | None
) -> None:
    app.queue("orders", max_retries=3)
    answers = []

    @app.on("orders")
    async def decide(message: Any) -> None:
        await app.events.publish("order.paid", {"attempt": message.attempts})
        answers.append(await app.events.publish("order.note", {}, event_id="order-7-note"))
        if message.attempts < 3:
            raise ValueError("not yet")

    async with harness(app, database=database, start=START) as own:
        await app.endpoints.create("shop", url=SHOP, types=["order.*"])
        order = await app.queue("orders").send({})
        await own.advance(hours=1)
        assert answers == [Published(event_id="order-7-note")] * 3
        assert types(own, SHOP) == ["order.note", "order.paid"]
        assert {"attempt": 3} in bodies(own)
        events = await app.deliveries.list()
        assert {(await app.deliveries.get(event.id)).status for event in events} == {"delivered"}
        assert "order.paid" in str(await app.trace(order))


async def test_an_event_that_cannot_be_published_fails_its_message(
    app: Tickwork, database: str | None
) -> None:
    app.queue("orders", max_retries=0)

    @app.on("orders")
    async def decide(message: Any) -> None:
        await app.events.publish("order.paid", message.body, event_id="the-same")
        await app.queue("orders").send(message.body)

    async with harness(app, database=database, start=START) as own:
        await app.endpoints.create("shop", url=SHOP, types=["order.*"])
        await app.events.publish("order.paid", {"order": 1}, event_id="the-same")
        await app.queue("orders").send({"order": 2})
        await own.drain()
        (dead,) = await own.dead("orders")
        assert dead.error == "event_id 'the-same' was used for another event; use a new one"
        assert bodies(own) == [{"order": 1}]


async def test_an_event_id_that_was_used_for_another_event_is_refused(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["order.paid"])
    await app.events.publish("order.paid", {"a": 1, "b": 2}, event_id="one")
    for other in (("order.paid", {"a": 1, "b": 3}), ("order.sent", {"a": 1, "b": 2})):
        with pytest.raises(Conflict, match="event_id 'one' was used for another event"):
            await app.events.publish(*other, event_id="one")
    await app.events.publish("order.paid", {"b": 2, "a": 1}, event_id="one")
    await h.drain()
    assert bodies(h) == [{"a": 1, "b": 2}]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"type": "order.*"}, "type"),
        ({"type": ""}, "type"),
        ({"type": "endpoint.failing"}, "type"),
        ({"type": "order.paid", "data": b"x" * 200_000}, "data"),
        ({"type": "order.paid", "data": float("nan")}, "data"),
        ({"type": "order.paid", "owner": 7}, "owner"),
        ({"type": "order.paid", "key": 7}, "key"),
        ({"type": "order.paid", "event_id": ""}, "event_id"),
    ],
)
async def test_an_event_that_nobody_could_receive_is_refused(
    app: Tickwork, given: dict[str, Any], field: str
) -> None:
    async with harness(app, start=START):
        with pytest.raises(InvalidInput) as refused:
            await app.events.publish(**{"data": {}, **given})
    assert [error.field for error in refused.value.errors] == [field]


# Requests


async def test_a_delivery_is_signed_and_has_the_headers_of_its_endpoint(
    app: Tickwork, h: Harness
) -> None:
    made = await app.endpoints.create(
        "shop",
        url=SHOP,
        types=["*"],
        method="PUT",
        headers={"X-Shop": "a"},
        secret_headers={"Authorization": "Bearer t0ken"},
        timeout_seconds=7,
    )
    await app.events.publish("order.paid", {"id": 7})
    await h.drain()
    (request,) = h.deliveries.webhooks
    (delivery,) = await app.deliveries.list()
    assert request.method == "PUT"
    assert request.timeout_seconds == 7
    shown = {name: value for name, value in request.headers.items() if name[0] in "AIXT"}
    assert shown == {
        "Authorization": "Bearer t0ken",
        "Idempotency-Key": str(without_prefix(delivery.id)),
        "Tickwork-Attempt": "1",
        "Tickwork-Fence": "1",
        "X-Shop": "a",
    }
    assert request.headers["webhook-id"] == str(without_prefix(delivery.id))
    assert is_signed([secret_key(made.secret)], request.headers, request.body, START)


async def test_the_independent_package_accepts_our_signatures(
    app: Tickwork, database: str | None
) -> None:
    # It compares with the real clock.
    async with harness(app, database=database, start=datetime.now(UTC)) as h:
        made = await app.endpoints.create("shop", url=SHOP, types=["*"])
        await app.events.publish("order.paid", {"id": 7})
        await h.drain()
        (request,) = h.deliveries.webhooks
    found = Webhook(made.secret).verify(request.body, {**request.headers})
    assert found["data"] == {"id": 7}


async def test_both_signatures_are_sent_for_a_day_after_a_rotation(
    app: Tickwork, h: Harness
) -> None:
    made = await app.endpoints.create("shop", url=SHOP, types=["*"])
    new = await app.endpoints.rotate_secret("shop")
    await app.events.publish("order.paid", {})
    await h.drain()
    await h.advance(days=1, seconds=1)
    await app.events.publish("order.paid", {})
    await h.drain()
    first, second = h.deliveries.webhooks
    for request, secret, is_valid in (
        (first, made.secret, True),
        (first, new, True),
        (second, made.secret, False),
        (second, new, True),
    ):
        at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
        assert is_signed([secret_key(secret)], request.headers, request.body, at) is is_valid


async def test_an_endpoint_may_be_signed_with_a_private_key(app: Tickwork, h: Harness) -> None:
    made = await app.endpoints.create("shop", url=SHOP, types=["*"], signature="v1a")
    new = await app.endpoints.rotate_secret("shop")
    assert await app.endpoints.public_keys("shop") == (new, made.secret)
    assert made.secret.startswith("whpk_")
    await app.events.publish("order.paid", {})
    await h.drain()
    await h.advance(days=1, seconds=1)
    assert await app.endpoints.public_keys("shop") == (new,)
    await app.events.publish("order.paid", {})
    await h.drain()
    first, second = h.deliveries.webhooks
    for request, key, is_valid in (
        (first, made.secret, True),
        (first, new, True),
        (second, made.secret, False),
        (second, new, True),
    ):
        at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
        assert is_signed([checker(key)], request.headers, request.body, at) is is_valid
    assert (await app.endpoints.get("shop")).signature == "v1a"


async def test_another_kind_of_signature_begins_with_the_next_secret(
    app: Tickwork, h: Harness
) -> None:
    made = await app.endpoints.create("shop", url=SHOP, types=["*"])
    with pytest.raises(NotFound, match="there is no public key of shop; update it with signature"):
        await app.endpoints.public_keys("shop")
    await app.endpoints.update("shop", signature="v1a")
    await app.events.publish("order.paid", {"id": 1})
    await h.drain()
    public = await app.endpoints.rotate_secret("shop")
    await app.events.publish("order.paid", {"id": 2})
    await h.drain()
    before, during = h.deliveries.webhooks
    assert [part[:3] for part in during.headers["webhook-signature"].split()] == ["v1a", "v1,"]
    for request, key in (
        (before, secret_key(made.secret)),
        (during, secret_key(made.secret)),
        (during, checker(public)),
    ):
        at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
        assert is_signed([key], request.headers, request.body, at)
    with pytest.raises(InvalidInput, match="signature: must be one of v1, v1a"):
        await app.endpoints.update("shop", signature="v2")  # type: ignore[arg-type]


async def test_secrets_are_shown_once_and_found_nowhere_else(
    app: Tickwork, h: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = await app.endpoints.create(
        "shop",
        url=SHOP,
        types=["*"],
        secret_headers={"Authorization": "Bearer t0ken"},
        retry_seconds=[],
    )
    answer = f"wrong: {made.secret}, Bearer t0ken"
    h.deliveries.answer = lambda _: answered(401, {}, answer, h.now)
    await app.events.publish("order.paid", {"id": 7})
    (waiting,) = await app.messages.peek(ENDPOINTS)
    await h.drain()
    (delivery,) = await app.deliveries.list(undelivered=True)
    seen = [
        made,
        await app.endpoints.get("shop"),
        await app.endpoints.list(),
        waiting,
        delivery,
        await app.deliveries.get(delivery.id),
        await app.dead_letters.list(ENDPOINTS),
        await app.endpoints.test("shop"),
        caplog.text,
    ]
    text = repr(seen)
    assert "401" in text
    assert made.secret.startswith("whsec_")
    assert made.secret.removeprefix("whsec_") not in text
    assert "t0ken" not in text
    assert (await app.endpoints.get("shop")).secret_headers == ("Authorization",)


# Retries, order and the breaker


async def test_a_failed_delivery_is_retried_with_the_same_ids_after_the_endpoints_table(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[10, 100])
    h.deliveries.answer = lambda _: 500
    await app.events.publish("order.paid", {"id": 7})
    await h.advance(hours=1)
    sent = h.deliveries.webhooks
    (delivery,) = await app.deliveries.list(endpoint="shop", undelivered=True)
    shown = await app.deliveries.get(delivery.id)
    (dead,) = await app.dead_letters.list(ENDPOINTS)
    assert [request.headers["Tickwork-Attempt"] for request in sent] == ["1", "2", "3"]
    assert len({request.headers["webhook-id"] for request in sent}) == 1
    assert len({request.body for request in sent}) == 1
    at = [int(request.headers["webhook-timestamp"]) for request in sent]
    assert [after - before for before, after in pairwise(at)] == [10, 100]
    assert (delivery.status, delivery.attempts, delivery.last_code) == ("dead", 3, 500)
    assert [(attempt.number, attempt.code, attempt.kind) for attempt in shown.history] == [
        (1, 500, "http"),
        (2, 500, "http"),
        (3, 500, "http"),
    ]
    assert (dead.reason, dead.error) == ("max_retries", "the receiver answered 500")


@pytest.mark.one_store("sqlite")
async def test_a_delivery_has_ten_attempts_in_three_days_unless_its_endpoint_says_otherwise(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"])
    h.deliveries.answer = lambda _: 500
    await app.events.publish("order.paid", {})
    await h.advance(days=4)
    at = [int(webhook.headers["webhook-timestamp"]) for webhook in h.deliveries.webhooks]
    (dead,) = await app.dead_letters.list(ENDPOINTS)
    # More requests probe the breaker, and cost none.
    numbers = {webhook.headers["Tickwork-Attempt"] for webhook in h.deliveries.webhooks}
    assert numbers == {str(number) for number in range(1, 11)}
    assert dead.attempts == 10
    assert 3 * 86_400 <= at[-1] - at[0] < 3.5 * 86_400


async def test_a_receivers_wish_delays_the_retry_and_a_permanent_status_ends_it(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"], permanent_statuses=[422])

    def answer(request: Any) -> Delivery:
        is_first = request.headers["Tickwork-Attempt"] == "1"
        status = 503 if is_first else 422
        statuses = request.permanent_statuses
        wish = {"Retry-After": "1000"}
        return answered(status, wish, "", h.now, permanent_statuses=statuses)

    h.deliveries.answer = answer
    await app.events.publish("order.paid", {})
    await h.advance(days=5)
    first, second = (int(webhook.headers["webhook-timestamp"]) for webhook in h.deliveries.webhooks)
    (dead,) = await app.dead_letters.list(ENDPOINTS)
    assert second - first == 1_000
    assert (dead.reason, dead.error) == ("permanent", "the receiver answered 422")


@pytest.mark.one_store("sqlite")
async def test_nothing_is_lost_when_a_receiver_is_down_for_two_days(
    app: Tickwork, h: Harness
) -> None:
    app.queue("alerts", retention_seconds=10 * 86_400)
    await app.open()
    await h.store.subscriptions.put(DEFAULT, "endpoint.failing", "alerts")
    await app.endpoints.create("ordered", url=SHOP, types=["*"], ordered=True)
    await app.endpoints.create("any", url=BILLING, types=["*"])
    down_until = h.now + timedelta(days=2)
    h.deliveries.answer = lambda _: 200 if h.now >= down_until else 503
    for number in range(6):
        await app.events.publish("order.paid", {"number": number})
        await h.advance(hours=8)
    while_down = len(bodies(h, SHOP)), len(bodies(h, BILLING))
    undelivered = await app.deliveries.list(undelivered=True)
    failing = await app.endpoints.get("any")
    h.deliveries.webhooks.clear()
    await h.advance(days=3)
    alerts = await h.sent("alerts")
    ordered, unordered = bodies(h, SHOP), bodies(h, BILLING)
    assert ordered == [{"number": number} for number in range(6)]
    assert sorted(body["number"] for body in unordered) == [*range(6)]
    assert not await app.deliveries.list(undelivered=True)
    assert len(undelivered) == 12
    assert max(while_down) < 70
    assert failing.health.open_until is not None
    assert (await app.endpoints.get("any")).health.open_until is None
    # For each endpoint at the fifth failure, and after a day.
    assert [alert.message.type for alert in alerts] == ["endpoint.failing"] * 4
    assert {alert.body["name"] for alert in alerts} == {"ordered", "any"}


async def test_while_the_breaker_is_open_no_attempt_is_lost(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[5] * 3)
    h.deliveries.answer = lambda _: 503
    for number in range(5):
        await app.events.publish("order.paid", {"number": number})
    await h.drain()
    opened = (await app.endpoints.get("shop")).health.open_until
    assert opened == h.now + timedelta(seconds=60)
    h.deliveries.webhooks.clear()
    await app.events.publish("order.paid", {"number": 5})
    await h.advance(seconds=59)
    assert h.deliveries.webhooks == []
    await h.advance(seconds=10)
    assert len(h.deliveries.webhooks) == 1
    again = (await app.endpoints.get("shop")).health.open_until
    assert again is not None
    assert again - h.now > timedelta(seconds=100)
    h.deliveries.answer = lambda _: 200
    await h.advance(minutes=5)
    assert not await app.deliveries.list(undelivered=True)
    assert len(h.deliveries.webhooks) == 7


async def test_a_receiver_that_is_gone_disables_its_endpoint_and_enabling_goes_on(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"])
    h.deliveries.answer = lambda _: 410
    await app.events.publish("order.paid", {"number": 1})
    await h.drain()
    disabled = await app.endpoints.get("shop")
    await app.events.publish("order.paid", {"number": 2})
    await h.advance(days=2)
    assert disabled.disabled_reason == "the receiver answered 410 (gone)"
    assert len(h.deliveries.webhooks) == 1
    assert len(await app.deliveries.list(status="waiting")) == 2
    h.deliveries.answer = lambda _: 200
    enabled = await app.endpoints.enable("shop")
    await h.advance(minutes=1)
    assert enabled.disabled_at is None
    assert sorted(body["number"] for body in bodies(h)) == [1, 1, 2]
    assert not await app.deliveries.list(undelivered=True)


@pytest.mark.one_store("sqlite")
async def test_five_days_of_failures_disable_an_endpoint(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"])
    h.deliveries.answer = lambda _: "no route"
    for _ in range(6):
        await app.events.publish("order.paid", {})
        await h.advance(days=1)
    shown = await app.endpoints.get("shop")
    assert shown.disabled_reason == "nothing but failures for 5 days"


async def test_a_disabled_endpoint_keeps_what_is_published_meanwhile(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"])
    shown = await app.endpoints.disable("shop", "moving house")
    await app.events.publish("order.paid", {"id": 7})
    await h.advance(hours=5)
    assert (h.deliveries.webhooks, shown.disabled_reason) == ([], "moving house")
    await app.endpoints.enable("shop")
    await h.drain()
    assert bodies(h) == [{"id": 7}]


@pytest.mark.one_store("sqlite")
async def test_a_disabled_endpoint_keeps_messages_for_14_days_and_then_they_are_dead_letters(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"])
    await app.endpoints.disable("shop", "moving house")
    await app.events.publish("order.paid", {"id": 7})
    await pause_all(h.store)  # Nothing asks every hour whether it is enabled again.
    await h.advance(days=13, hours=23)
    await resume_all(h.store)
    await h.advance(minutes=10)
    assert await app.dead_letters.list(ENDPOINTS) == ()
    await h.advance(hours=2)
    (letter,) = await app.dead_letters.list(ENDPOINTS)
    (delivery,) = await app.deliveries.list(undelivered=True)
    assert (letter.reason, letter.attempts) == ("endpoint_disabled", 0)
    assert letter.error == "the endpoint shop is disabled: moving house"
    assert delivery.status == "dead"
    await app.endpoints.enable("shop")
    await app.deliveries.resend(delivery.id)
    await h.drain()
    assert bodies(h) == [{"id": 7}]


async def test_an_endpoints_rate_holds_and_costs_no_attempt(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"], rate_per_second=2)
    for number in range(10):
        await app.events.publish("order.paid", {"number": number})
    await h.advance(minutes=1)
    at = [int(webhook.headers["webhook-timestamp"]) for webhook in h.deliveries.webhooks]
    assert len(at) == 10
    assert at[-1] - at[0] >= 4
    assert {webhook.headers["Tickwork-Attempt"] for webhook in h.deliveries.webhooks} == {"1"}


# Operating


async def test_a_delivery_is_sent_again_with_the_same_id(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[])
    await app.events.publish("order.paid", {"id": 1})
    await h.advance(seconds=1)
    h.deliveries.answer = lambda _: 500
    await app.events.publish("order.paid", {"id": 2})
    await h.drain()
    h.deliveries.answer = lambda _: 200
    dead, delivered = await app.deliveries.list(endpoint="shop")
    assert (dead.status, delivered.status) == ("dead", "delivered")
    await app.deliveries.resend(dead.id)
    await app.deliveries.resend(str(delivered.id))
    await h.drain()
    ids = [webhook.headers["webhook-id"] for webhook in h.deliveries.webhooks]
    assert sorted(ids) == sorted(
        [str(without_prefix(delivered.id))] * 2 + [str(without_prefix(dead.id))] * 2
    )
    assert {delivery.status for delivery in await app.deliveries.list()} == {
        DeliveryStatus.DELIVERED
    }
    assert await app.dead_letters.list(ENDPOINTS) == ()
    with pytest.raises(NotFound):
        await app.deliveries.resend("018f0000-0000-7000-8000-000000000000")


async def test_the_replay_of_a_dead_delivery_has_the_same_id(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[60])
    h.deliveries.answer = lambda _: 500
    await app.events.publish("order.paid", {"id": 1})
    await h.advance(minutes=2)
    await app.dead_letters.replay(ENDPOINTS)
    await h.advance(minutes=2)
    h.deliveries.answer = lambda _: 200
    await app.dead_letters.replay(ENDPOINTS)
    await h.advance(minutes=2)
    (delivery,) = await app.deliveries.list()
    assert (delivery.status, delivery.attempts) == ("delivered", 5)
    for name in ("webhook-id", "Idempotency-Key"):
        assert [webhook.headers[name] for webhook in h.deliveries.webhooks] == [
            str(without_prefix(delivery.id))
        ] * 5


async def test_a_replay_for_an_endpoint_that_was_deleted_is_dead_again(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[])
    h.deliveries.answer = lambda _: 500
    await app.events.publish("order.paid", {})
    await h.drain()
    await app.endpoints.delete("shop")
    await app.dead_letters.replay(ENDPOINTS)
    await h.drain()
    (delivery,) = await app.deliveries.list()
    (dead,) = await app.dead_letters.list(ENDPOINTS)
    assert (delivery.status, dead.error) == (DeliveryStatus.DEAD, "its endpoint was deleted")


async def test_everything_of_a_span_that_did_not_arrive_is_recovered_at_a_rate(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[])
    h.deliveries.answer = lambda _: 500
    for number in range(4):
        await app.events.publish("order.paid", {"number": number})
        await h.advance(hours=1)
    assert len(await app.deliveries.list(status="dead")) == 4
    h.deliveries.answer = lambda _: 200
    h.deliveries.webhooks.clear()
    sent = await app.deliveries.recover(
        "shop", since=START + timedelta(minutes=30), rate_per_second=0.1
    )
    await h.advance(minutes=1)
    at = [int(webhook.headers["webhook-timestamp"]) for webhook in h.deliveries.webhooks]
    assert sent == 3
    assert bodies(h) == [{"number": 1}, {"number": 2}, {"number": 3}]
    assert [after - before for before, after in pairwise(at)] == [10, 10]
    stats = await app.endpoints.stats("shop")
    assert (stats.delivered, stats.dead, stats.attempts, stats.failed_attempts) == (3, 1, 7, 4)


async def test_recovery_goes_through_all_deliveries_in_steps_oldest_first(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.ops.events.RESENT_AT_ONCE_MAX", 2)
    await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[])
    h.deliveries.answer = lambda _: 500
    for number in range(7):
        await app.events.publish("order.paid", {"number": number})
        await h.advance(hours=1)
    h.deliveries.answer = lambda _: 200
    h.deliveries.webhooks.clear()
    end = START + timedelta(hours=5, minutes=30)
    assert await app.deliveries.recover("shop", since=START, until=end, rate_per_second=0.1) == 6
    await h.advance(minutes=2)
    at = [int(webhook.headers["webhook-timestamp"]) for webhook in h.deliveries.webhooks]
    assert bodies(h) == [{"number": number} for number in range(6)]
    assert [after - before for before, after in pairwise(at)] == [10] * 5
    recorded = [record for record in await app.audit.list() if record.action == "delivery.recover"]
    assert len(recorded) == 1


async def test_a_test_sends_one_event_and_stores_nothing(app: Tickwork, h: Harness) -> None:
    made = await app.endpoints.create("shop", url=SHOP, types=["order.*"])
    h.deliveries.answer = lambda _: 503
    for _ in range(5):
        await app.endpoints.test("shop")
    attempt = await app.endpoints.test("shop")
    request = h.deliveries.webhooks[0]
    body = msgspec.json.decode(request.body)
    assert (attempt.code, attempt.error) == (503, "the receiver answered 503")
    assert (body["type"], body["data"]) == ("endpoint.test", {"endpoint": "shop"})
    assert is_signed([secret_key(made.secret)], request.headers, request.body, START)
    assert await app.deliveries.list() == ()
    assert (await app.endpoints.get("shop")).health.failures_in_row == 0


async def test_an_update_changes_only_what_it_names(app: Tickwork, h: Harness) -> None:
    made = await app.endpoints.create(
        "shop",
        url=SHOP,
        types=["order.*"],
        headers={"X-Shop": "a"},
        secret_headers={"Authorization": "Bearer old"},
        ordered=True,
        timeout_seconds=7,
    )
    await app.endpoints.disable("shop", "moving house")
    await app.events.publish("order.paid", {})
    changed = await app.endpoints.update(
        made.id, url=BILLING, secret_headers={"Authorization": "Bearer new"}, timeout_seconds=None
    )
    assert (changed.url, changed.timeout_seconds) == (BILLING, 30)
    assert changed.ordered
    assert changed.headers == {"X-Shop": "a"}
    await app.endpoints.enable("shop")
    await h.drain()
    (request,) = h.deliveries.webhooks
    assert (request.url, request.headers["Authorization"]) == (BILLING, "Bearer new")
    await app.endpoints.update("shop", secret_headers={}, ordered=False)
    await app.events.publish("order.paid", {})
    await h.drain()
    assert "Authorization" not in h.deliveries.webhooks[-1].headers


async def test_a_deleted_endpoint_receives_nothing_more(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"])
    await app.endpoints.disable("shop")
    await app.events.publish("order.paid", {})
    assert await app.endpoints.delete("shop") == 1
    await h.advance(days=1)
    assert h.deliveries.webhooks == []
    with pytest.raises(NotFound):
        await app.endpoints.get("shop")
    await app.endpoints.create("shop", url=SHOP, types=["*"])


@pytest.mark.usefixtures("h")
async def test_a_name_is_used_once(app: Tickwork) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"])
    with pytest.raises(Conflict):
        await app.endpoints.create("shop", url=SHOP, types=["*"])


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"url": "http://shop.example.com"}, "url: must start with https://"),
        ({"url": "https://127.0.0.1/"}, "url: 127.0.0.1 is not a public address"),
        ({"types": 7}, "types: must be at most 50 types"),
        ({"types": ["a*b"]}, "types[0]: may have one *"),
        ({"method": "GET"}, "method: must be one of POST, PUT, PATCH"),
        ({"headers": {"Host": "x"}}, "headers.Host: is set by Tickwork"),
        ({"secret_headers": ["a"]}, "secret_headers: must be an object of texts"),
        ({"secret_headers": {"x-shop": "b"}, "headers": {"X-Shop": "a"}}, "give it once"),
        ({"retry_seconds": [1] * 21}, "retry_seconds: must be at most 20"),
        ({"retry_seconds": [-1]}, "retry_seconds[0]: must be from 0"),
        ({"permanent_statuses": [200]}, "permanent_statuses: must be 300 to 599"),
        ({"rate_per_second": 0}, "rate_per_second: must be a number of deliveries"),
        ({"concurrency": 0}, "concurrency: must be a whole number from 1"),
        ({"timeout_seconds": 301}, "timeout_seconds: must be a whole number from 1 to 300"),
        ({"first_byte_seconds": 0}, "first_byte_seconds: must be a whole number from 1"),
        (
            {"first_byte_seconds": 31},
            "first_byte_seconds: must be at most timeout_seconds (30), not 31",
        ),
        ({"ordered": "yes"}, "ordered: must be true or false"),
        ({"order": True}, "order: is not a known field; did you mean 'ordered'?"),
        ({"name": " "}, "name: is empty"),
        ({"name": "018f0000-0000-7000-8000-000000000000"}, "name: must not be an id"),
    ],
)
async def test_an_endpoint_with_a_fault_is_refused(
    app: Tickwork, fields: dict[str, Any], fault: str
) -> None:
    async with harness(app, start=START):
        given: dict[str, Any] = {"name": "shop", "url": SHOP, "types": ["*"], **fields}
        with pytest.raises(InvalidInput) as refused:
            await app.endpoints.create(**given)
    assert fault in str(refused.value)


async def test_every_request_says_how_soon_its_answer_must_begin(app: Tickwork, h: Harness) -> None:
    made = await app.endpoints.create("shop", url=SHOP, types=["*"], first_byte_seconds=5)
    assert made.first_byte_seconds == 5
    with pytest.raises(InvalidInput, match=r"first_byte_seconds: must be at most .* \(4\), not 5"):
        await app.endpoints.update("shop", timeout_seconds=4)
    await app.queues.put("pushed", push_to="shop")
    await app.queue("pushed").send({})
    await app.events.publish("order.paid", {})
    await app.schedules.create(once_at=h.now, target={"type": "webhook", "endpoint": "shop"})
    await h.drain()
    hook: Any = {"type": "webhook", "url": SHOP, "first_byte_seconds": 5}
    await app.schedules.create(once_at=h.now, target=hook)
    several: Any = {"type": "channels", "channels": [hook, {**hook, "timeout_seconds": 7}]}
    await app.schedules.create(once_at=h.now, target=several)
    await h.advance(minutes=1)
    seconds = [webhook.first_byte_seconds for webhook in h.deliveries.webhooks]
    assert seconds == [5] * 6
    changed = await app.endpoints.update("shop", first_byte_seconds=None)
    assert changed.first_byte_seconds is None


async def test_a_message_that_was_delivered_before_a_crash_is_not_sent_again(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["*"])
    await app.events.publish("order.paid", {})
    settle = h.store.messages.settle

    async def store_nothing(*_: Any) -> SettleResult:
        return SettleResult()

    monkeypatch.setattr(h.store.messages, "settle", store_nothing)
    await h.drain()
    monkeypatch.setattr(h.store.messages, "settle", settle)
    await h.outage(days=2)
    await h.advance(days=1)
    assert len(h.deliveries.webhooks) == 1
    (delivery,) = await app.deliveries.list()
    assert delivery.status is DeliveryStatus.DELIVERED
