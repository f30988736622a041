"""Callbacks and results in real time: a real receiver, a real API and the command line."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime

import httpx
import pytest
import uvicorn
from aiohttp import web
from prometheus_client import CollectorRegistry

from tests.channel.receiver import KEY_OF_SECRETS, Receiver, allow_local_deliveries, receiver
from tests.kit.api import bearer, new_key
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.delivery.signature import is_signed, secret_key
from tickwork.facade.app import Tickwork, engine_of
from tickwork.wiring import Settings
from tickwork.wiring.server import build_api

PAST = "2026-01-01T00:00:00Z"


@asynccontextmanager
async def api(settings: Settings) -> AsyncIterator[str]:
    """The URL of the API, served by this process."""
    application = build_api(settings, registry=CollectorRegistry())
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application, log_config=None))
    server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await eventually(lambda: server.started, what="the API")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


@pytest.fixture
async def app(home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind that may deliver to this machine."""
    allow_local_deliveries(monkeypatch)
    app = Tickwork(home.url)
    yield app
    await app.close()


async def start(app: Tickwork, server: Receiver, name: str) -> tuple[str, str]:
    """Fires a schedule, and returns the URL and the token that the receiver got."""
    before = len(server.requests)
    server.answer = lambda: web.Response(status=202)
    await app.schedules.create(
        name=name,
        once_at=PAST,
        target={"type": "webhook", "url": f"{server.url}/{name}", "completion": "callback"},
    )
    await eventually(lambda: len(server.requests) > before, what="the request")
    headers = server.requests[-1][0].headers
    return headers["Tickwork-Complete-Url"], headers["Tickwork-Complete-Token"]


async def statuses(app: Tickwork, name: str) -> list[str]:
    return [str(firing.status) for firing in await app.schedules.firings(name)]


@pytest.mark.one_store("sqlite")
async def test_a_receiver_completes_its_firing_over_http(
    app: Tickwork, home: Home, monkeypatch: pytest.MonkeyPatch, children: Children
) -> None:
    async with (
        receiver() as server,
        api(Settings(database=home.url)) as url,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        monkeypatch.setenv("TICKWORK_PUBLIC_URL", f"{url}/")
        async with app.running(drain_seconds=0.0):
            place, token = await start(app, server, "first")
            assert place.startswith(f"{url}/v1/firings/")
            assert await statuses(app, "first") == ["running"]
            missing = await client.post(place)
            refused = await client.post(
                place, headers={"Tickwork-Complete-Token": token}, json={"state": "ok"}
            )
            done = await client.post(place, headers={"Tickwork-Complete-Token": token})
            stale = await client.post(
                place, headers={"Authorization": f"Bearer {token}"}, json={"status": "failed"}
            )
            assert await statuses(app, "first") == ["succeeded"]

            place, token = await start(app, server, "second")
            other = await client.post(
                missing.url.join(f"/v1/firings/{done.json()['id']}/complete"),
                headers={"Tickwork-Complete-Token": token},
            )
            failed = await client.post(
                place,
                headers={"Authorization": f"bearer {token}"},
                json={"status": "failed", "error": "disk full"},
            )
            assert (await app.schedules.get("second")).last_error == "disk full"

            _, token = await start(app, server, "third")
            words = ("firings", "complete", "--token", token, "--database", home.url)
            command = children.spawn("tickwork", *words)
            await command.succeeded()
            again = children.spawn("tickwork", *words, "--failed", "--error", "late")
            assert await again.wait() == 1
            assert await statuses(app, "third") == ["succeeded"]
    assert (missing.status_code, missing.json()["code"]) == (401, "unauthorized")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "state")
    assert (done.status_code, done.json()["status"], done.json()["attempt"]) == (
        200,
        "succeeded",
        1,
    )
    assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
    assert stale.headers["content-type"] == "application/problem+json"
    assert other.status_code == 409
    assert (failed.status_code, failed.json()["status"]) == (200, "failed")
    (line,) = command.lines()
    assert line.startswith("attempt 1 of firing ")
    assert line.endswith(": succeeded")
    assert "the token is stale" in again.stderr()


@pytest.mark.one_store("postgres")
async def test_a_schedule_that_calls_an_endpoint_is_made_and_seen_over_http(
    app: Tickwork, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await engine_of(app).open()
    headers = bearer(await new_key(store, scopes=["read", "manage"]))
    settings = Settings(
        database=home.url,
        allow_targets=("127.0.0.1",),
        secret_key=KEY_OF_SECRETS,
        public_url="http://127.0.0.1",
    )
    async with (
        receiver() as server,
        api(settings) as url,
        httpx.AsyncClient(trust_env=False, base_url=url, headers=headers) as client,
    ):
        monkeypatch.setenv("TICKWORK_PUBLIC_URL", url)
        server.answer = lambda: web.Response(status=202)
        shop = {"name": "shop", "url": f"{server.url}/hook", "types": []}
        made = (await client.post("/v1/endpoints", json=shop)).json()
        target = {"type": "webhook", "endpoint": "shop", "completion": "callback"}
        new = {"name": "daily", "cron_expr": "@daily", "target": target, "payload": {"n": 7}}
        schedule = (await client.post("/v1/schedules", json=new)).json()
        async with app.running(drain_seconds=0.0):
            assert (await client.post("/v1/schedules/daily/trigger")).status_code == 201
            await eventually(lambda: server.requests, what="the request")
            request, body = server.requests[0]
            token = {"Tickwork-Complete-Token": request.headers["Tickwork-Complete-Token"]}
            done = await client.post(request.headers["Tickwork-Complete-Url"], headers=token)
        (firing,) = (await client.get("/v1/schedules/daily/firings")).json()["items"]
        (delivery,) = (await client.get("/v1/deliveries?endpoint=shop")).json()["items"]
    sent = {name.lower(): value for name, value in request.headers.items()}
    assert schedule["target"] == target
    assert (done.status_code, firing["status"], firing["result_code"]) == (200, "succeeded", 202)
    assert (delivery["id"].removeprefix("dlv_"), delivery["status"]) == (
        sent["webhook-id"].replace("-", ""),
        "delivered",
    )
    assert body == b'{"n":7}'
    at = datetime.fromtimestamp(int(sent["webhook-timestamp"]), UTC)
    assert is_signed([secret_key(made["secret"])], sent, body, at)


async def test_an_endpoint_is_told_the_result_of_a_firing(app: Tickwork) -> None:
    async with receiver() as server:
        made = await app.endpoints.create("told", url=f"{server.url}/told", types=["order.paid"])
        async with app.running(drain_seconds=0.0):
            await app.schedules.create(
                name="work",
                once_at=PAST,
                target_url=f"{server.url}/work",
                on_success={"endpoint": "told"},
            )
            await eventually(lambda: len(server.requests) == 2, what="the result")
        (work, told) = server.requests
        event = json.loads(told[1])
        headers = {name.lower(): value for name, value in told[0].headers.items()}
        at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    assert (work[0].path, told[0].path) == ("/work", "/told")
    assert (event["type"], event["data"]["status"]) == ("schedule.succeeded", "succeeded")
    assert event["data"]["result_code"] == 200
    assert is_signed([secret_key(made.secret)], headers, told[1], at)
