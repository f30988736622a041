"""Owners are told of what died: together, not too often, and never about an alert."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tickwork.app.message import Message
from tickwork.core.delivery.alert import ALERTS_QUEUE, REST_SECONDS
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import SYSTEM
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.testing import harness

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
    assert "queue work: max_retries after 1 attempts: ValueError: no luck with 1" in email.text


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
    assert [b'"count":4' in each.body for each in later] == [True]


async def test_an_alert_that_cannot_be_delivered_causes_no_alert(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.alerts.set(slack="https://hooks.example.com/T0/secret")
        h.deliveries.answer = lambda _: 500
        await app.queue("work").send(1)
        await h.advance(days=2)
        asked = len(h.deliveries.webhooks)
        dead = await h.store.dead_letters.list(SYSTEM, ALERTS_QUEUE, Selection(limit=10))
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
