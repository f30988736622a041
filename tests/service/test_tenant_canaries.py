"""What one process logs and counts about two tenants keeps them apart, and names no content."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.channel.receiver import allow_local_deliveries, receiver
from tests.conformance.acts import make_tenants
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Permanent
from tickwork.app.message import Message
from tickwork.facade.app import Tickwork, engine_of
from tickwork.service.observe.log_format import build_formatter

TENANTS = ("anna", "berta")
LATE_SECONDS = 60.0


@pytest.fixture
async def apps(home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Tickwork]]:
    """A process that works for all tenants, and one app of each tenant that only sends."""
    allow_local_deliveries(monkeypatch)
    made = [
        Tickwork(home.url),
        *(Tickwork(home.url, tenant=f"canary-{tenant}") for tenant in TENANTS),
    ]
    yield made
    for app in made:
        await app.close()


async def test_no_log_line_holds_two_tenants_or_content_and_no_metric_names_a_tenant(
    apps: list[Tickwork], caplog: pytest.LogCaptureFixture
) -> None:
    app, *of_tenants = apps
    app.queue("shared", shared=True, max_retries=0)
    handled: list[str] = []

    @app.on("shared")
    async def handle(message: Message[Any]) -> None:
        handled.append(message.body["secret"])
        await asyncio.sleep(0.01)  # Those of both tenants run at the same time.
        if message.body["number"] % 2:
            raise Permanent(f"refused {message.correlation_id}")

    await make_tenants(await engine_of(app).open(), *(f"canary-{tenant}" for tenant in TENANTS))
    await app.open()
    registry = CollectorRegistry()
    caplog.set_level(logging.DEBUG, "tickwork")
    async with receiver() as server:
        for name, tenant in zip(TENANTS, of_tenants, strict=True):
            url = f"{server.url}/content-{name}"
            await tenant.endpoints.create(f"canary-{name}", url=url, types=["order.*"])
            for number in range(6):
                await tenant.queue("shared", shared=True).send(
                    {"secret": f"content-{name}", "number": number},
                    type=f"canary-{name}", key=f"content-{name}", correlation_id=f"canary-{name}",
                )  # fmt: skip
                await tenant.events.publish("order.paid", {"secret": f"content-{name}"})
        async with app.running(registry=registry, drain_seconds=0.0):
            await eventually(lambda: len(handled) == 12, timeout_seconds=LATE_SECONDS)
            await eventually(lambda: len(server.requests) == 12, timeout_seconds=LATE_SECONDS)
            numbers = generate_latest(registry).decode()
    formatter = build_formatter("json", colors=False)
    logged = [formatter.format(record) for record in caplog.records if "tickwork" in record.name]
    assert 'queue="shared"' in numbers
    assert "canary" not in numbers
    assert "content" not in numbers
    of_each = [[line for line in logged if f"canary-{name}" in line] for name in TENANTS]
    assert min(map(len, of_each)) >= 6
    assert not [line for line in of_each[0] if "canary-berta" in line]
    assert not [line for line in logged if "content-" in line]
