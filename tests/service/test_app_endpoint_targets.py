"""A schedule whose target is an endpoint: each slot is a delivery with the endpoint's signature,
headers, health and limits, which can be listed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from tests.conformance.acts import pull
from tickwork import Conflict, InvalidInput, StoreUnavailable, Tickwork
from tickwork.core.answers.ids import without_prefix
from tickwork.core.delivery.endpoint import DeliveryStatus
from tickwork.core.model import SYSTEM
from tickwork.ops.audit import list_audit
from tickwork.ops.cluster import pause_all, resume_all
from tickwork.ops.context import Context
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
SHOP = "https://shop.example.com/hook"
TARGET: Any = {"type": "webhook", "endpoint": "shop"}
DAILY: Any = {"daily_time": "09:00", "name": "morning", "target": TARGET, "payload": {"n": 7}}
DELIVERIES = "tickwork.deliveries"


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    async with harness(app, database=database, start=START) as made:
        yield made


async def test_a_slot_is_a_signed_delivery_of_its_endpoint(app: Tickwork, h: Harness) -> None:
    shop = await app.endpoints.create(
        "shop", url=SHOP, types=[], method="PUT", secret_headers={"X-Key": "s3cret"}
    )
    made = await app.schedules.create(**DAILY)
    assert made.target == TARGET
    await h.advance(hours=1)
    (request,) = h.deliveries.webhooks
    assert (request.url, request.method, request.body) == (SHOP, "PUT", b'{"n":7}')
    headers = dict(request.headers)
    assert (headers["X-Key"], headers["Tickwork-Attempt"]) == ("s3cret", "1")
    assert headers["Tickwork-Slot"] == "2026-03-02T09:00:00Z"
    assert headers["Idempotency-Key"].startswith(str(without_prefix(made.id)))
    at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    signed = Webhook(shop.secret).sign(headers["webhook-id"], at, request.body.decode())
    assert headers["webhook-signature"] == signed
    (delivery,) = await app.deliveries.list(endpoint="shop")
    assert (delivery.status, delivery.type) == (DeliveryStatus.DELIVERED, "schedule.fired")
    assert str(without_prefix(delivery.id)) == headers["webhook-id"]
    (firing,) = await app.schedules.firings("morning")
    assert (firing.status, firing.result_code) == ("succeeded", 200)
    assert b"s3cret" not in b"".join(
        message.body for message in await pull(h.store, queue=DELIVERIES, scope=SYSTEM)
    )


async def test_a_failed_slot_follows_the_retries_of_its_schedule_and_shows_each_attempt(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(
        **DAILY, retry={"max_attempts": 3, "backoff": {"kind": "fixed", "seconds": 60}}
    )
    h.deliveries.answer = lambda _: 503
    await h.advance(minutes=31)
    (waiting,) = await app.deliveries.list(endpoint="shop", undelivered=True)
    assert (waiting.status, waiting.attempts) == (DeliveryStatus.WAITING, 2)
    await h.advance(minutes=2)
    (dead,) = await app.deliveries.list(endpoint="shop", undelivered=True)
    history = (await app.deliveries.get(dead.id)).history
    assert (dead.status, [attempt.code for attempt in history]) == (DeliveryStatus.DEAD, [503] * 3)
    ids = {webhook.headers["webhook-id"] for webhook in h.deliveries.webhooks}
    assert ids == {str(without_prefix(dead.id))}
    assert (await app.schedules.get("morning")).last_status == "dead"
    h.deliveries.answer = lambda _: 200
    await app.dead_letters.replay(DELIVERIES)
    await h.drain()
    (found,) = await app.deliveries.list(endpoint="shop")
    assert (found.id, found.status, found.attempts) == (dead.id, DeliveryStatus.DELIVERED, 4)
    assert (await app.schedules.get("morning")).last_status == "succeeded"


async def test_a_dead_slot_can_be_resent_as_a_delivery(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**DAILY, retry={"max_attempts": 1})
    h.deliveries.answer = lambda _: 503
    await h.advance(hours=1)
    (dead,) = await app.deliveries.list(endpoint="shop", undelivered=True)
    h.deliveries.answer = lambda _: 200
    await app.deliveries.resend(dead.id)
    await h.drain()
    assert (await app.deliveries.get(dead.id)).status is DeliveryStatus.DELIVERED
    assert [webhook.body for webhook in h.deliveries.webhooks] == [b'{"n":7}'] * 2


async def test_slots_wait_without_losing_attempts_while_the_endpoint_takes_none(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**DAILY, retry={"max_attempts": 1})
    await app.endpoints.disable("shop", reason="moving")
    await h.advance(hours=3)
    assert h.deliveries.webhooks == []
    (waiting,) = await app.deliveries.list(endpoint="shop", undelivered=True)
    assert (waiting.status, waiting.attempts) == (DeliveryStatus.WAITING, 0)
    await app.endpoints.enable("shop")
    await h.drain()
    assert len(h.deliveries.webhooks) == 1
    assert (await app.schedules.get("morning")).last_status == "succeeded"


@pytest.mark.one_store("sqlite")
async def test_slots_and_events_share_the_breaker_of_their_endpoint(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=["order.*"])
    await app.schedules.create(**DAILY)
    h.deliveries.answer = lambda _: 503
    for number in range(5):
        await app.events.publish("order.paid", {"id": number})
    await h.advance(minutes=29, seconds=55)
    failed = len(h.deliveries.webhooks)
    assert (await app.endpoints.get("shop")).health.open_until is not None
    await h.advance(seconds=10)
    assert len(h.deliveries.webhooks) == failed
    h.deliveries.answer = lambda _: 200
    await h.advance(hours=2)
    assert (await app.schedules.get("morning")).last_status == "succeeded"


async def test_a_receiver_that_is_gone_disables_the_endpoint_and_the_slot_waits(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**DAILY)
    h.deliveries.answer = lambda _: 410
    await h.advance(hours=5)
    assert len(h.deliveries.webhooks) == 1
    assert (await app.endpoints.get("shop")).disabled_reason is not None
    assert await h.dead(DELIVERIES) == []


async def test_a_disabled_endpoint_keeps_a_slot_for_4_days(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**DAILY, max_firings=1, missed={"grace_seconds": 5 * 86_400})
    await app.endpoints.disable("shop", reason="moving")
    await pause_all(h.store)  # Nothing asks every hour whether it is enabled again.
    await h.advance(days=3, hours=23)
    await resume_all(h.store)
    await h.advance(minutes=10)
    assert await h.dead(DELIVERIES) == []
    await h.advance(hours=3)
    (letter,) = await h.dead(DELIVERIES)
    assert (letter.reason, h.deliveries.webhooks) == ("endpoint_disabled", [])
    assert letter.error == "the endpoint shop is disabled: moving"
    (record,) = await app.schedules.firings("morning")
    assert (record.status, record.reason, record.attempt) == ("dead", "endpoint_disabled", 0)


async def test_a_slot_whose_endpoint_was_deleted_becomes_a_dead_letter(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**DAILY)
    await app.endpoints.disable("shop", reason="moving")
    await h.advance(hours=1)
    assert await app.endpoints.delete("shop") == 0
    await h.advance(hours=2)
    (letter,) = await h.dead(DELIVERIES)
    assert letter.error is not None
    assert "no endpoint shop" in letter.error
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.dead_letters.replay(DELIVERIES)
    await h.drain()
    assert (await app.schedules.get("morning")).last_status == "succeeded"


async def test_a_target_names_an_endpoint_that_exists_and_nothing_besides(
    app: Tickwork, h: Harness
) -> None:
    shop = await app.endpoints.create("shop", url=SHOP, types=[])
    wrong: list[tuple[Any, str, str]] = [
        ({"endpoint": "shob"}, "target.endpoint", "did you mean 'shop'?"),
        ({"endpoint": ""}, "target.endpoint", ""),
        ({"endpoint": "shop", "url": SHOP}, "target.url", "cannot be combined"),
        ({"endpoint": "shop", "headers": {"A": "b"}}, "target.headers", "cannot be combined"),
        (
            {"endpoint": "shop", "timeout_seconds": 5},
            "target.timeout_seconds",
            "cannot be combined",
        ),
        (
            {"endpoint": "shop", "delivery": "at_most_once"},
            "target.delivery",
            "a field of the schedule",
        ),
        (
            {"type": "channels", "channels": [{"type": "webhook", "endpoint": "shop"}]},
            "target.channels[0].endpoint",
            "whole target",
        ),
    ]
    for given, field, text in wrong:
        target: Any = {"type": "webhook", **given}
        with pytest.raises(InvalidInput) as raised:
            await app.schedules.create(daily_time="09:00", target=target)
        assert [error.field for error in raised.value.errors] == [field]
        assert text in raised.value.errors[0].message
    with pytest.raises(InvalidInput, match="there is no endpoint 'shob'"):
        await app.schedules.create_bulk(
            [{"daily_time": "09:00", "target": {"type": "webhook", "endpoint": "shob"}}]
        )
    by_id: Any = {"type": "webhook", "endpoint": str(shop.id)}
    await app.schedules.create_bulk([{"daily_time": "09:00", "target": by_id, "name": "by-id"}])
    await h.advance(hours=1)
    assert (await app.schedules.get("by-id")).last_status == "succeeded"


async def test_an_update_changes_a_url_to_an_endpoint_and_back(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    plain: Any = {"type": "webhook", "url": "https://example.com/", "headers": {"A": "b"}}
    await app.schedules.create(**{**DAILY, "target": plain})
    assert (await app.schedules.update("morning", target=TARGET)).target == TARGET
    changed = await app.schedules.update("morning", target_url="https://example.com/")
    assert changed.target == {"type": "webhook", "url": "https://example.com/"}
    assert h.deliveries.webhooks == []


CALLBACK: Any = {**TARGET, "completion": "callback", "complete_within_seconds": 600}
ONCE: Any = {"target": TARGET, "delivery": "at_most_once"}


def token_of(h: Harness) -> str:
    return h.deliveries.webhooks[-1].headers["Tickwork-Complete-Token"]


async def test_the_receiver_of_an_endpoint_may_complete_a_slot_later(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    made = await app.schedules.create(**{**DAILY, "target": CALLBACK})
    assert made.target == CALLBACK
    h.deliveries.answer = lambda _: 202
    await h.advance(minutes=31)
    (running,) = await app.schedules.firings("morning")
    (delivery,) = await app.deliveries.list(endpoint="shop")
    assert (running.status, delivery.status) == ("running", DeliveryStatus.DELIVERED)
    await app.deliveries.resend(delivery.id)  # It runs: nothing is sent again.
    await h.advance(minutes=1)
    done = await app.firings.complete(token_of(h))
    await h.advance(hours=1)
    (delivery,) = await app.deliveries.list(endpoint="shop")
    assert (done.status, delivery.status) == ("succeeded", DeliveryStatus.DELIVERED)
    assert len(h.deliveries.webhooks) == 1


async def test_a_slot_that_is_not_completed_is_delivered_to_its_endpoint_again(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**{**DAILY, "target": CALLBACK}, retry={"max_attempts": 3})
    h.deliveries.answer = lambda _: 202
    await h.advance(minutes=31)
    first = token_of(h)
    await app.firings.complete(first, failed=True, error="disk full")
    h.deliveries.answer = lambda _: 503
    await h.advance(minutes=2)
    (delivery,) = await app.deliveries.list(endpoint="shop")
    assert (delivery.status, delivery.attempts) == (DeliveryStatus.WAITING, 2)
    h.deliveries.answer = lambda _: 202
    await h.advance(minutes=20)
    firings = [firing for firing in await app.schedules.firings("morning") if firing.finished_at]
    assert firings[0].excerpt is not None
    assert firings[0].excerpt.startswith("callback_timeout")
    assert [firing.status for firing in firings] == ["dead", "failed", "failed"]
    assert token_of(h) != first
    (letter,) = await app.dead_letters.list(DELIVERIES)
    await app.dead_letters.replay(DELIVERIES)
    await h.drain()
    assert len(h.deliveries.webhooks) == 4
    assert (await app.firings.complete(token_of(h))).status == "succeeded"
    assert letter.reason == "max_retries"


async def test_a_receiver_may_complete_a_slot_before_it_answers(app: Tickwork, h: Harness) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**{**DAILY, "target": CALLBACK})
    send, done = h.deliveries.deliver, []

    async def complete_first(request: Any) -> Any:
        done.append(await app.firings.complete(request.headers["Tickwork-Complete-Token"]))
        return await send(request)

    h.deliveries.deliver = complete_first  # type: ignore[method-assign]
    await h.advance(hours=1)
    (delivery,) = await app.deliveries.list(endpoint="shop")
    assert (done[0].status, delivery.status) == ("succeeded", DeliveryStatus.DELIVERED)
    assert delivery.attempts == len(h.deliveries.webhooks) == 1


@pytest.mark.parametrize("answer", [503, 410])
async def test_a_slot_that_is_sent_at_most_once_is_never_sent_to_its_endpoint_again(
    app: Tickwork, h: Harness, answer: int
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**{**DAILY, **ONCE})
    h.deliveries.answer = lambda _: answer
    await h.advance(hours=2)
    assert (await app.schedules.get("morning")).last_status == "dead"
    h.deliveries.answer = lambda _: 200
    await app.endpoints.enable("shop")
    (dead,) = await app.deliveries.list(endpoint="shop", undelivered=True)
    shown = dead.id
    then = "Nothing: it is sent at most once; trigger its schedule to send a new one."
    assert (await app.why(shown)).next == then
    await app.dead_letters.replay(DELIVERIES)
    with pytest.raises(Conflict, match=rf"{shown} is never sent again: .*trigger the schedule"):
        await app.deliveries.resend(dead.id)
    assert "delivery.resend" not in [
        record.action for record in await list_audit(Context(h.store, SYSTEM))
    ]
    assert await app.deliveries.recover("shop", since=START) == 0
    await h.advance(hours=2)
    assert len(h.deliveries.webhooks) == 1
    assert dead.status is DeliveryStatus.DEAD


async def test_a_slot_that_is_sent_at_most_once_and_lost_its_worker_has_an_unknown_outcome(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**{**DAILY, **ONCE})
    send = h.deliveries.deliver

    async def crash(request: Any) -> Any:
        await send(request)
        raise StoreUnavailable("the worker died")

    h.deliveries.deliver = crash  # type: ignore[method-assign]
    await h.advance(hours=1)
    (letter,) = await app.dead_letters.list(DELIVERIES)
    assert (letter.reason, len(h.deliveries.webhooks)) == ("outcome_unknown", 1)


async def test_a_slot_that_is_sent_at_most_once_waits_for_its_endpoint(
    app: Tickwork, h: Harness
) -> None:
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.schedules.create(**{**DAILY, **ONCE})
    await app.endpoints.disable("shop", reason="moving")
    await h.advance(hours=2)
    await app.endpoints.enable("shop")
    await h.drain()
    assert len(h.deliveries.webhooks) == 1
    assert (await app.schedules.get("morning")).last_status == "succeeded"
