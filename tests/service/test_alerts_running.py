"""Owners are told of a disabled endpoint: by a real worker, after a receiver answered 410, over a
real mail server and a real receiver. Once, and never about an alert."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from msgspec import structs
from standardwebhooks import Webhook

from tests.channel.mail_server import Mailbox
from tests.channel.receiver import Receiver, allow_local_deliveries, receiver
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.delivery.alert import ALERTS_QUEUE, ALERTS_SETTINGS, REST_SECONDS
from tickwork.core.message.backoff import Fixed
from tickwork.core.message.dead_letter import Selection
from tickwork.core.message.message_list import MessageSelection
from tickwork.core.model import SYSTEM, Message, Tenant
from tickwork.facade.app import Tickwork, engine_of
from tickwork.store.contract import Store

OWNER = "ops@example.com"
QUICK = structs.replace(
    ALERTS_SETTINGS, max_batch_timeout=0.1, max_retries=2, backoff=Fixed(seconds=0.05)
)
"""Settings of the queue of alerts whose batches and retries come soon."""

pytestmark = pytest.mark.one_store("sqlite")


@pytest.fixture
async def app(
    home: Home, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Tickwork]:
    """An app that may deliver to this machine, and whose worker runs."""
    assert mailbox.emails == []
    allow_local_deliveries(monkeypatch)
    for module in ("tickwork.ops.alerts", "tickwork.service.delivery.alerts"):
        monkeypatch.setattr(f"{module}.ALERTS_SETTINGS", QUICK)
    app = Tickwork(home.url)
    async with app.running(drain_seconds=0.0):
        yield app


@pytest.fixture
async def gone() -> AsyncIterator[Receiver]:
    """A receiver that wants nothing more."""
    async with receiver() as server:
        server.answer = lambda: web.Response(status=410)
        yield server


async def store_of(app: Tickwork) -> Store:
    return await engine_of(app).open()


async def tenant_app(app: Tickwork, home: Home, name: str) -> Tickwork:
    """An app of another tenant, which has no worker of its own."""
    await (await store_of(app)).tenants.put(SYSTEM, Tenant(id=name))
    return Tickwork(home.url, tenant=name)


async def disable(app: Tickwork, gone: Receiver, name: str) -> None:
    """An endpoint is disabled, because its receiver answers 410."""
    await app.endpoints.create(name, url=f"{gone.url}/{name}", types=[f"order.{name}"])
    await app.events.publish(f"order.{name}", {})

    async def is_disabled() -> bool:
        return (await app.endpoints.get(name)).disabled_at is not None

    await eventually(is_disabled, what=f"endpoint {name} to be disabled")


async def events(app: Tickwork) -> tuple[Message, ...]:
    """What a tenant has in the queue of alerts."""
    page = await (await store_of(app)).messages.list(
        engine_of(app).own_scope, ALERTS_QUEUE, MessageSelection(), 100
    )
    return page.messages


async def rests(app: Tickwork) -> bool:
    """Whether a worker has postponed the only event of a tenant until its rest is over."""
    now = await (await store_of(app)).now()
    waits = [(event.visible_at - now).total_seconds() for event in await events(app)]
    return len(waits) == 1 and waits[0] > REST_SECONDS / 2


def told(server: Receiver) -> list[Any]:
    """The events of each alert that arrived, as types and names."""
    bodies = [json.loads(body) for _, body in server.requests]
    return [
        [(event["type"], event["data"].get("name")) for event in one["events"]] for one in bodies
    ]


async def test_a_disabled_endpoint_is_told_once_by_email_and_by_webhook(
    app: Tickwork, home: Home, mailbox: Mailbox, gone: Receiver
) -> None:
    async with receiver() as owner:
        shop = await tenant_app(app, home, "shop")
        await app.alerts.set(email=OWNER)
        await shop.alerts.set(webhook=f"{owner.url}/alerts")
        for owner_app in (app, shop):
            await disable(owner_app, gone, "first")
        await eventually(lambda: mailbox.emails and owner.requests, what="both alerts")
        for owner_app in (app, shop):
            await disable(owner_app, gone, "second")
            await eventually(
                partial(rests, owner_app), what="the second event to wait for the rest"
            )
        secret = await shop.webhooks.secret()
        await shop.close()
    (email,) = mailbox.emails
    assert (email["To"], email["Subject"]) == (OWNER, "Tickwork: 1 disabled endpoint")
    text = email.get_content()
    assert "disabled endpoint: endpoint first: the receiver answered 410 (gone)" in text
    ((request, body),) = owner.requests
    Webhook(secret).verify(body, {**request.headers})
    assert told(owner) == [[("endpoint.disabled", "first")]]


async def test_a_failed_alert_about_a_disabled_endpoint_makes_no_alert(
    app: Tickwork, gone: Receiver
) -> None:
    async with receiver() as owner:
        owner.answer = lambda: web.Response(status=500)
        await app.alerts.set(webhook=owner.url)
        await disable(app, gone, "first")
        store = await store_of(app)

        async def dead() -> object:
            selection = Selection(limit=10)
            return (await store.dead_letters.list(SYSTEM, ALERTS_QUEUE, selection)).letters

        await eventually(dead, what="the dead letter of the alert")
        attempts = len(owner.requests)
        owner.requests.clear()
        owner.answer = web.Response
        await disable(app, gone, "second")  # Anything about the dead letter would come with it.
        await eventually(lambda: owner.requests, what="the next alert")

        async def all_told() -> bool:
            return await events(app) == ()

        await eventually(all_told, what="an empty queue of alerts")
    assert attempts == QUICK.max_retries + 1
    assert told(owner) == [[("endpoint.disabled", "second")]]
