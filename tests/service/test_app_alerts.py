"""Owners are told of what died: together, not too often, and never about an alert."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conformance.acts import claim, join, make_tenants
from tests.kit.contexts import acting
from tickwork.app.message import ClaimedBatch, ClaimedMessage, Message
from tickwork.channel.channels import Channels
from tickwork.core.delivery.alert import ALERTS_QUEUE, REST_SECONDS, read_alert_target
from tickwork.core.message.dead_letter import Selection
from tickwork.core.message.outcome import Snoozed, Succeeded
from tickwork.core.message.system_events import MESSAGE_DEAD
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage, Scope
from tickwork.core.model import Message as Stored
from tickwork.errors import InvalidInput, StoreUnavailable
from tickwork.facade.app import Tickwork
from tickwork.ops.alerts import FIELD, OWNER, set_alerts
from tickwork.service.delivery.alerts import Alerter
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.testing import Harness, harness
from tickwork.testing.deliveries import PlainBox

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)


@pytest.fixture
def app() -> Tickwork:
    app = Tickwork()
    app.queue("work", max_retries=0)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        raise ValueError(f"no luck with {message.body}")

    return app


async def test_what_dies_together_is_one_alert(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.alerts.set(email=["ops@example.com"])
        await app.queue("work").send_batch([1, 2, 3])
        await h.advance(minutes=1)
        (email,) = h.deliveries.emails
    assert (email.to, email.subject) == (("ops@example.com",), "Tickwork: 3 dead letters")
    assert email.text is not None
    assert "queue work: max_retries at attempt 1: ValueError: no luck with 1" in email.text


@pytest.mark.one_store("sqlite")
async def test_the_next_alert_comes_after_a_rest_and_tells_everything_since(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.alerts.set(webhook="https://example.com/hook")
        for number in range(5):
            await app.queue("work").send(number)
            await h.advance(minutes=1)
        told = len(h.deliveries.webhooks)
        await h.advance(seconds=REST_SECONDS)
        first, *later = h.deliveries.webhooks
    assert told == 1
    assert b'"count":1' in first.body
    assert [b'"count":4' in request.body for request in later] == [True]


@pytest.mark.one_store("sqlite")
async def test_an_alert_that_cannot_be_delivered_causes_no_alert(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.alerts.set(slack="https://hooks.example.com/T0/secret")
        h.deliveries.answer = lambda _: 500
        await app.queue("work").send(1)
        await h.advance(days=2)
        asked = len(h.deliveries.webhooks)
        dead = (await h.store.dead_letters.list(SYSTEM, ALERTS_QUEUE, Selection(limit=10))).letters
        await h.advance(days=2)
        again = len(h.deliveries.webhooks)
    assert len(dead) == 1
    assert asked == again > 1


async def test_alerts_are_shown_without_their_secret_and_cleared(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.alerts.set(slack="https://hooks.example.com/T0/secret")
        shown = await app.alerts.get()
        await app.alerts.clear()
        await app.queue("work").send(1)
        await h.advance(hours=1)
        assert await app.alerts.get() is None
        assert h.deliveries.webhooks == []
    assert shown is not None
    assert (shown.way, shown.shown) == ("slack", ("https://hooks.example.com/***",))


async def test_an_address_that_may_not_be_reached_is_refused(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START):
        with pytest.raises(InvalidInput, match="webhook"):
            await app.alerts.set(webhook="http://127.0.0.1/hook")


async def alert_of(store: Store, scope: Scope, url: str = "https://example.com/hook") -> None:
    target = read_alert_target({"webhook": url})
    await set_alerts(acting(store, scope, box=PlainBox(), check_url=lambda _: None), target)


async def tell(store: Store, scope: Scope, number: int) -> None:
    body = b'{"queue": "work", "reason": "%d"}' % number
    assert await store.messages.notify(scope, NewMessage(id=new_id(), body=body, type=MESSAGE_DEAD))


async def test_a_tenant_whose_alert_cannot_be_sent_does_not_hold_up_the_others(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        scopes = await make_tenants(h.store, "acme", "broken", "cut-off", "zoo")
        for scope in scopes:
            await alert_of(h.store, scope, f"https://example.com/{scope.tenant}")
            await tell(h.store, scope, 1)
        broken = scopes[1]
        good = (await h.store.secrets.get(broken, OWNER, FIELD))[0]
        await h.store.secrets.rotate(broken, OWNER, FIELD, b"not a target", keep_seconds=0)
        progress: Any = h.store.progress
        get, cuts = progress.get, iter(range(3))

        async def get_or_fail(scope: Scope, work: str) -> dict[str, str]:
            if scope.tenant == "cut-off" and next(cuts, None) is not None:
                raise StoreUnavailable("the database is away")
            found: dict[str, str] = await get(scope, work)
            return found

        progress.get = get_or_fail
        await h.advance(minutes=2)
        told = [webhook.url.rpartition("/")[2] for webhook in h.deliveries.webhooks]
        await h.store.secrets.rotate(broken, OWNER, FIELD, good, keep_seconds=0)
        await h.advance(hours=1)
        later = [webhook.url.rpartition("/")[2] for webhook in h.deliveries.webhooks[len(told) :]]
        dead = (await h.store.dead_letters.list(SYSTEM, ALERTS_QUEUE, Selection(limit=10))).letters
    assert sorted(told) == ["acme", "cut-off", "zoo"]
    assert later == ["broken"]
    assert dead == ()


async def test_a_failed_alert_is_tried_again_before_the_rest_is_over(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.alerts.set(webhook="https://example.com/hook")
        answers = iter([500, 200])
        h.deliveries.answer = lambda _: next(answers)
        await app.queue("work").send(1)
        await h.advance(minutes=5)
        assert len(h.deliveries.webhooks) == 2


def batch_of(claimed: Sequence[Stored]) -> ClaimedBatch[Any]:
    options: Any = {"compose": None, "monotonic": lambda: 0.0, "deadline": 60.0}
    return ClaimedBatch(
        ALERTS_QUEUE, [ClaimedMessage(message, {}, **options) for message in claimed]
    )


async def alert_from_nodes(h: Harness, nodes: int) -> list[ClaimedBatch[Any]]:
    """Lets several nodes with one event each handle them at the same time."""
    channels = Channels(h.deliveries, None, sender=None, clock=lambda: START)
    alerters, batches = [Alerter(h.store, channels, PlainBox) for _ in range(nodes)], []
    for number in range(nodes):
        await tell(h.store, DEFAULT, number)
        node = await join(h.store)
        batches.append(batch_of(await claim(h.store, node, queue=ALERTS_QUEUE, scope=SYSTEM)))
    await asyncio.gather(
        *(alerter.handle(batch) for alerter, batch in zip(alerters, batches, strict=True))
    )
    return batches


async def test_nodes_that_alert_at_the_same_time_send_at_most_one(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await alert_of(h.store, DEFAULT)
        batches = await alert_from_nodes(h, 4)
        outcomes = [batch.claimed[0].outcome for batch in batches]
        sent = len(h.deliveries.webhooks)
    assert sent == outcomes.count(Succeeded()) <= 1
    assert sum(isinstance(outcome, Snoozed) for outcome in outcomes) == 4 - sent
