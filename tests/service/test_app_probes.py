"""The breaker of an endpoint finds out soon that its receiver is back, on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import msgspec
import pytest

from tickwork.core.delivery.endpoint import HEALTHY
from tickwork.core.delivery.outcome import answered
from tickwork.core.delivery.request import WebhookRequest
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
URL = "https://shop.example.com/hook"
AN_HOUR = timedelta(hours=1)


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    async with harness(app, database=database, start=START) as made:
        yield made


def number_of(request: object) -> int:
    assert isinstance(request, WebhookRequest)
    number: int = msgspec.json.decode(request.body)["data"]["number"]
    return number


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(("waiting", "quick"), [(1, 4), (3, 1)])
async def test_a_breaker_is_probed_every_hour_and_only_what_was_due_by_itself_costs_an_attempt(
    app: Tickwork, h: Harness, waiting: int, quick: int
) -> None:
    retries = [5] * quick + [36_000] * 4
    await app.endpoints.create("shop", url=URL, types=["*"], retry_seconds=retries)
    h.deliveries.answer = lambda _: 503
    for number in range(waiting):
        await app.events.publish("order.paid", {"number": number})
    await h.advance(hours=30)
    failing, sent = await app.endpoints.get("shop"), [*h.deliveries.webhooks]
    undelivered = await app.deliveries.list(status="waiting")
    at = [int(request.headers["webhook-timestamp"]) for request in sent]
    gaps = [after - before for before, after in pairwise(at)]
    opened = gaps.index(60)
    assert gaps[opened : opened + 7] == [60, 120, 240, 480, 960, 1_920, 3_600]
    assert {*gaps[opened + 6 :]} == {3_600}
    # Those at once, after 10 and after 20 hours count; the next one is not due yet.
    assert len(undelivered) == waiting
    assert max(int(request.headers["Tickwork-Attempt"]) for request in sent) == 1 + quick + 2 + 1
    assert sum(delivery.attempts for delivery in undelivered) == len(sent) > 30
    assert {number_of(request) for request in sent[-3:]} == {*range(waiting)}
    assert failing.health.failures_in_row == len(sent)
    h.deliveries.answer = lambda _: 200
    await h.advance(hours=1, seconds=5)
    assert (await app.endpoints.get("shop")).health == HEALTHY
    assert await app.deliveries.list(status="delivered")


async def test_no_probe_comes_before_the_receiver_wants_it(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=URL, types=["*"])
    h.deliveries.answer = lambda _: answered(503, {"Retry-After": "7200"}, "", h.now)
    for number in range(5):
        await app.events.publish("order.paid", {"number": number})
    await h.advance(seconds=7_190)
    assert len(h.deliveries.webhooks) == 5
    await h.advance(seconds=20)
    assert len(h.deliveries.webhooks) == 6


async def test_a_probe_that_its_receiver_refuses_for_good_is_a_dead_letter(
    app: Tickwork, h: Harness
) -> None:
    retries = [0] * 4 + [86_400]
    await app.endpoints.create(
        "shop", url=URL, types=["*"], permanent_statuses=[422], retry_seconds=retries
    )
    h.deliveries.answer = lambda _: 503 if len(h.deliveries.webhooks) <= 5 else 422
    await app.events.publish("order.paid", {"number": 1})
    await h.advance(hours=1)
    (delivery,) = await app.deliveries.list()
    (dead,) = await app.dead_letters.list("tickwork.endpoints")
    assert (delivery.status, len(h.deliveries.webhooks), dead.reason) == ("dead", 6, "permanent")


async def test_a_probe_arrives_within_seconds_after_the_breaker_may_be_probed(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=URL, types=["*"], retry_seconds=[0] * 4 + [86_400])
    h.deliveries.answer = lambda _: 503
    await app.events.publish("order.paid", {"number": 1})
    await h.drain()
    opened = await app.endpoints.get("shop")
    assert opened.health.open_until == h.now + timedelta(seconds=60)
    h.deliveries.answer = lambda _: 200
    await h.advance(seconds=59)
    assert len(h.deliveries.webhooks) == 5
    await h.advance(seconds=3)
    assert len(h.deliveries.webhooks) == 6
    assert (await app.endpoints.get("shop")).health == HEALTHY
    (delivery,) = await app.deliveries.list()
    assert (delivery.status, delivery.attempts) == ("delivered", 6)


async def test_a_failed_probe_is_sent_again_at_its_own_time(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=URL, types=["*"], retry_seconds=[0] * 4 + [7_200])
    h.deliveries.answer = lambda _: 503
    await app.events.publish("order.paid", {"number": 1})
    await h.drain()
    due = h.now + timedelta(hours=2)
    await h.advance(hours=1)
    probes = h.deliveries.webhooks[5:]
    (waiting,) = await app.deliveries.list(status="waiting")
    shown = await app.deliveries.get(waiting.id)
    assert {probe.headers["Tickwork-Attempt"] for probe in probes} == {"6"}
    assert [attempt.number for attempt in shown.history] == [*range(1, len(probes) + 6)]
    # The attempt at its own time is the last one.
    await h.advance(hours=2, minutes=10)
    assert not await app.deliveries.list(status="waiting")
    (dead,) = await app.dead_letters.list("tickwork.endpoints")
    assert (dead.reason, dead.attempts) == ("max_retries", 6)
    assert timedelta() <= dead.failed_at - due <= AN_HOUR


@pytest.mark.one_store("sqlite")
async def test_messages_that_always_fail_do_not_keep_the_breaker_open(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=URL, types=["*"], retry_seconds=[86_400] * 9)
    h.deliveries.answer = lambda _: 503
    for number in range(5):
        await app.events.publish("order.paid", {"number": number})
    await h.advance(hours=6)
    assert (await app.endpoints.get("shop")).health.open_until is not None
    h.deliveries.webhooks.clear()
    # The four oldest are bad by themselves.
    h.deliveries.answer = lambda request: 200 if number_of(request) == 4 else 500
    await h.advance(hours=5, seconds=5)
    assert (await app.endpoints.get("shop")).health == HEALTHY
    assert number_of(h.deliveries.webhooks[-1]) == 4
    assert len(h.deliveries.webhooks) <= 5
    await h.advance(hours=12)
    assert (await app.endpoints.get("shop")).health == HEALTHY
    assert len(await app.deliveries.list(status="waiting")) == 4


async def test_the_probe_of_an_ordered_endpoint_is_the_first_of_those_that_wait(
    app: Tickwork, h: Harness
) -> None:
    retries = [0] * 4 + [86_400]
    await app.endpoints.create("shop", url=URL, types=["*"], ordered=True, retry_seconds=retries)
    h.deliveries.answer = lambda _: 503
    for number in range(3):
        await app.events.publish("order.paid", {"number": number})
    await h.advance(hours=3)
    assert {number_of(webhook) for webhook in h.deliveries.webhooks} == {0}
    assert len(h.deliveries.webhooks) > 8
    h.deliveries.webhooks.clear()
    h.deliveries.answer = lambda _: 200
    await h.advance(hours=1)
    assert [number_of(webhook) for webhook in h.deliveries.webhooks] == [0, 1, 2]
    assert not await app.deliveries.list(undelivered=True)
