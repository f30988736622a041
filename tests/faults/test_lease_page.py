"""The operator is told that a node is about to lose its lease, while its database is away."""

from __future__ import annotations

import json
from functools import partial

import pytest
from aiohttp import web
from msgspec import structs
from standardwebhooks import Webhook

from tests.channel.receiver import Receiver, allow_local_deliveries, receiver
from tests.kit.postgres_proxy import PostgresProxy
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Tickwork
from tickwork.core.delivery.alert import ALERTS_QUEUE, ALERTS_SETTINGS
from tickwork.core.message.message_list import MessageSelection
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings
from tickwork.facade.app import engine_of
from tickwork.service import node

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

TTL_SECONDS = 3.0
QUICK = structs.replace(ALERTS_SETTINGS, max_batch_timeout=0.1)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short lease, and alerts that wait for no others."""
    allow_local_deliveries(monkeypatch)
    monkeypatch.setattr(node, "Node", partial(node.Node, ttl_seconds=TTL_SECONDS))
    for module in ("tickwork.ops.alerts", "tickwork.service.delivery.alerts"):
        monkeypatch.setattr(f"{module}.ALERTS_SETTINGS", QUICK)


async def recovered(app: Tickwork, proxy: PostgresProxy) -> dict[str, object]:
    """Ends an outage; returns the event that is published then, after its alert was handled."""
    proxy.blackhole = False
    proxy.cut()
    (event,) = await eventually(lambda: app.messages.peek("told"))
    store = await engine_of(app).open()

    async def is_handled() -> bool:
        page = await store.messages.list(SYSTEM, ALERTS_QUEUE, MessageSelection(), 10)
        return not page.messages

    await eventually(is_handled)
    body: dict[str, object] = event.body
    return body


async def operator_of(home: Home, server: Receiver) -> tuple[Tickwork, str]:
    """An app with alerts to a receiver, and the secret that signs them."""
    app = Tickwork(home.url)
    await app.alerts.set(webhook=f"{server.url}/alerts")
    store = await engine_of(app).ready()
    await store.queues.put(DEFAULT, "told", QueueSettings())
    await store.subscriptions.put(DEFAULT, "node.renewal_failing", "told")
    return app, await app.webhooks.secret()


async def test_an_operator_gets_a_signed_alert_once_while_the_database_is_frozen(
    home: Home,
) -> None:
    async with receiver() as server, PostgresProxy(home.url) as proxy:
        operator, secret = await operator_of(home, server)
        async with Tickwork(proxy.url).running(drain_seconds=0.0):
            proxy.blackhole = True
            await eventually(lambda: server.requests)
            assert proxy.blackhole, "the alert came without the database"
            ((request, body),) = server.requests
            alert = Webhook(secret).verify(body, dict(request.headers))
            (told,) = alert["events"]
            assert told["type"] == "node.renewal_failing"
            assert told["data"]["lease_lost"] is False
            event = await recovered(operator, proxy)
            assert event["alerted"] is True
            assert event["node"] == told["data"]["node"]
        assert len(server.requests) == 1
        await operator.close()


async def test_an_alert_that_no_receiver_took_is_sent_when_the_database_is_back(
    home: Home,
) -> None:
    async with receiver() as server, PostgresProxy(home.url) as proxy:
        operator, _ = await operator_of(home, server)
        server.answer = lambda: web.Response(status=503)
        async with Tickwork(proxy.url).running(drain_seconds=0.0):
            proxy.blackhole = True
            await eventually(lambda: server.requests)
            server.answer = web.Response
            event = await recovered(operator, proxy)
            assert event["alerted"] is False
            await eventually(lambda: len(server.requests) == 2, what="the alert by its queue")
        first, second = (json.loads(body) for _, body in server.requests)
        assert first["events"][0]["data"]["node"] == second["events"][0]["data"]["node"]
        await operator.close()
