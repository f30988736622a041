"""Deliveries to endpoints in real time, to a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from tests.channel.receiver import (
    Receiver,
    allow_local_deliveries,
    bad_receivers,
    keeps_latency,
    receiver,
)
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.clock import monotonic
from tickwork.core.delivery.endpoint import HEALTHY
from tickwork.core.delivery.signature import is_signed, secret_key
from tickwork.core.model import SYSTEM, Tenant
from tickwork.facade.app import Tickwork, engine_of

EVENTS = 40
AT_ONCE = 5
PAST = "2026-01-01T00:00:00Z"
SOON_SECONDS = 10.0
HOUR = 3_600


@pytest.fixture
async def app(home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind that may deliver to this machine."""
    allow_local_deliveries(monkeypatch)
    monkeypatch.setenv("TICKWORK_HOST_CONCURRENCY", str(AT_ONCE))
    app = Tickwork(home.url)
    yield app
    await app.close()


@pytest.mark.one_store("sqlite")
async def test_a_host_that_hangs_does_not_hold_up_the_others(app: Tickwork) -> None:
    async with receiver() as server:
        slow = server.url + "/hang"
        fast = server.url.replace("127.0.0.1", "localhost") + "/fast"
        await app.endpoints.create("slow", url=slow, types=["*"])
        made = await app.endpoints.create("fast", url=fast, types=["*"])
        for number in range(EVENTS):
            await app.events.publish("order.paid", {"number": number})

        def arrived(path: str) -> int:
            return sum(1 for request, _ in server.requests if request.path == path)

        async with app.running(drain_seconds=0.0):
            await eventually(lambda: arrived("/fast") >= EVENTS, what="the events at the fast host")
            await eventually(lambda: arrived("/hang") >= AT_ONCE, what="requests that hang")
            await eventually(lambda: _all_delivered(app), what="the records of the fast host")
            await eventually(lambda: _is_limited(app), what="a delivery that names its limit")
        assert arrived("/fast") == EVENTS
        assert arrived("/hang") == AT_ONCE
        (request, body) = next(arrival for arrival in server.requests if arrival[0].path == "/fast")
        (delivery, *_) = await app.deliveries.list(endpoint="fast", limit=1)
        headers = {name.lower(): value for name, value in request.headers.items()}
        at = delivery.published_at
        assert is_signed([secret_key(made.secret)], headers, body, at)
        tested = await app.endpoints.test("fast")
        assert (tested.code, tested.is_delivered) == (200, True)


async def _is_limited(app: Tickwork) -> bool:
    """Whether `why` of a delivery to the slow host says how many are before it."""
    waiting = await app.deliveries.list(endpoint="slow", limit=EVENTS)
    found = [await app.why(delivery.id) for delivery in waiting]
    words = f"waits for its turn: {AT_ONCE} other deliveries to its receiver are under way"
    return any(wait.code == "limited" and words in wait.answer for wait in found)


async def _all_delivered(app: Tickwork) -> bool:
    return (await app.endpoints.stats("fast")).delivered == EVENTS


async def latencies(app: Tickwork, server: Receiver) -> list[float]:
    """Seconds from the publication of each of some events to its arrival."""
    published: list[float] = []
    arrived: dict[int, float] = {}

    def answer() -> web.Response:
        number = msgspec.json.decode(server.requests[-1][1])["data"]["number"]
        arrived.setdefault(number, monotonic())
        return web.Response()

    server.answer = answer
    for number in range(EVENTS):
        published.append(monotonic())
        await app.events.publish("order.good", {"number": number})
    await eventually(lambda: len(arrived) == EVENTS, what="the good deliveries")
    return [arrived[number] - at for number, at in enumerate(published)]


@pytest.mark.one_store("sqlite")
async def test_bad_receivers_leave_others_their_latency(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bad hosts would take more than the node delivers at once."""
    monkeypatch.setenv("TICKWORK_ALLOW_TARGETS", "127.0.0.0/8,localhost")
    monkeypatch.setenv("TICKWORK_DELIVERY_CONCURRENCY", str(EVENTS))
    async with receiver() as server, bad_receivers() as urls:
        good = server.url.replace("127.0.0.1", "localhost")
        await app.endpoints.create("good", url=good, types=["order.good"])
        for number, url in enumerate(urls):
            await app.endpoints.create(f"bad-{number}", url=url, types=["order.bad"])
        async with app.running(drain_seconds=0.0):
            alone = await latencies(app, server)
            for _ in range(EVENTS):
                await app.events.publish("order.bad", {})
            beside = await latencies(app, server)
        assert keeps_latency(alone, beside), (alone, beside)
        for number, statuses in enumerate(({"waiting"}, {"waiting"}, {"waiting", "delivered"})):
            found = await app.deliveries.list(endpoint=f"bad-{number}", limit=EVENTS)
            assert {str(delivery.status) for delivery in found} <= statuses


@pytest.mark.one_store("postgres")
async def test_a_tenant_whose_hosts_hang_does_not_hold_up_another_tenant(
    home: Home, monkeypatch: pytest.MonkeyPatch, app: Tickwork
) -> None:
    """Its hosts may get more than the node delivers at once."""
    monkeypatch.setenv("TICKWORK_DELIVERY_CONCURRENCY", "10")
    monkeypatch.setenv("TICKWORK_HOST_CONCURRENCY", "100")
    await app.open()
    await (await engine_of(app).open()).tenants.put(SYSTEM, Tenant(id="greedy"))
    greedy = Tickwork(home.url, tenant="greedy")
    async with receiver() as server:
        fast = server.url.replace("127.0.0.1", "localhost") + "/fast"
        await app.endpoints.create("fast", url=fast, types=["*"])
        await greedy.endpoints.create("slow", url=server.url + "/hang", types=["*"])
        for number in range(EVENTS // 2):
            await greedy.events.publish("order.paid", {"number": number})
        await greedy.close()

        def arrived(path: str) -> int:
            return sum(1 for request, _ in server.requests if request.path == path)

        async with app.running(drain_seconds=0.0):
            await eventually(lambda: arrived("/hang") == 10, what="as many as the node makes")
            for number in range(EVENTS):
                await app.events.publish("order.paid", {"number": number})
            await eventually(lambda: arrived("/fast") == EVENTS, what="the events of the other")
        assert arrived("/hang") == 10


@pytest.mark.one_store("sqlite")
async def test_a_running_worker_signs_with_a_rotated_secret_soon(app: Tickwork) -> None:
    """It has signed with the old one before. The endpoint's headers follow as soon."""
    async with receiver() as server, app.running(drain_seconds=0.0):
        target = f"{server.url}/plain"
        old = {"/plain": await app.webhooks.secret()}
        made = await app.endpoints.create(
            "shop", url=f"{server.url}/shop", types=["*"], secret_headers={"Authorization": "old"}
        )
        old["/shop"] = made.secret

        async def deliver_both() -> None:
            before = len(server.requests)
            await app.events.publish("order.paid", {})
            await app.schedules.create(once_at=PAST, target_url=target)
            await eventually(lambda: len(server.requests) == before + 2, what="both deliveries")

        await deliver_both()
        for path, secret in old.items():
            assert _is_valid(server, path, secret)
        new = {
            "/plain": await app.webhooks.rotate_secret(),
            "/shop": await app.endpoints.rotate_secret("shop"),
        }

        async def is_signed_with_new() -> bool:
            await deliver_both()
            return all(_is_valid(server, path, secret) for path, secret in new.items())

        await eventually(
            is_signed_with_new, timeout_seconds=SOON_SECONDS, what="the new signatures"
        )
        for path, secret in old.items():
            assert _is_valid(server, path, secret)
        await app.endpoints.update("shop", secret_headers={"Authorization": "new"})

        async def has_new_header() -> bool:
            await deliver_both()
            return _last(server, "/shop")[0]["Authorization"] == "new"

        await eventually(has_new_header, timeout_seconds=SOON_SECONDS, what="the new header")


def _is_valid(server: Receiver, path: str, secret: str) -> bool:
    """Whether the last request is signed with the secret, as receivers check it."""
    headers, body = _last(server, path)
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


def _last(server: Receiver, path: str) -> tuple[dict[str, str], bytes]:
    """The headers and the body of the last request."""
    request, body = [arrival for arrival in server.requests if arrival[0].path == path][-1]
    return dict(request.headers), body


async def test_a_running_worker_probes_a_receiver_that_is_back(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.core.delivery.breaker.OPEN_SECONDS_MIN", 0.5)
    async with receiver() as server, app.running(drain_seconds=0.0):
        server.answer = lambda: web.Response(status=503 if len(server.requests) <= 6 else 200)
        await app.endpoints.create(
            "shop", url=server.url, types=["*"], retry_seconds=[0] * 4 + [HOUR]
        )
        await app.events.publish("order.paid", {})

        async def is_delivered() -> bool:
            return bool(await app.deliveries.list(status="delivered"))

        await eventually(is_delivered, what="the probe")
        # Five attempts, a probe that failed and one that arrived.
        numbers = [request.headers["Tickwork-Attempt"] for request, _ in server.requests]
        assert numbers == ["1", "2", "3", "4", "5", "6", "6"]
        assert (await app.endpoints.get("shop")).health == HEALTHY
