"""A queue whose consumer is an endpoint: any language can consume it, without polling."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook

from tests.channel.receiver import allow_local_deliveries, receiver
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Tickwork
from tickwork.core.answers.ids import parse_public_id
from tickwork.core.delivery.outcome import Delivery, answered
from tickwork.core.delivery.push import WAITING_SECONDS, push_outcome
from tickwork.core.message.backoff import Fixed
from tickwork.core.message.outcome import Delivered, Failed, Snoozed
from tickwork.core.model import SYSTEM, NewMessage, QueueSettings, Scope, Tenant
from tickwork.errors import InvalidInput, NotFound
from tickwork.facade.app import engine_of
from tickwork.service.worker.worker import Worker
from tickwork.store.ids import new_id
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
SHOP = "https://shop.example.com/work"


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    async with harness(app, database=database, start=START) as made:
        yield made


def bodies(h: Harness) -> list[Any]:
    return [msgspec.json.decode(webhook.body) for webhook in h.deliveries.webhooks]


async def make(app: Tickwork, **settings: Any) -> str:
    """A queue that pushes to an endpoint; returns the secret."""
    app.queue("work", push_to="shop", **settings)
    await app.open()
    return (await app.endpoints.create("shop", url=SHOP, types=[])).secret


async def test_a_queue_pushes_its_messages_signed_to_its_endpoint(
    app: Tickwork, h: Harness
) -> None:
    secret = await make(app)
    sent = await app.queue("work").send({"order": 7}, type="paid", key="k", source="shop")
    await h.drain()
    (request,) = h.deliveries.webhooks
    assert (request.url, request.method) == (SHOP, "POST")
    plain = str(parse_public_id(sent))  # As before prefixes: a retry after an upgrade is the same.
    assert request.headers["webhook-id"] == plain
    assert request.headers["Idempotency-Key"] == plain
    assert (request.headers["Tickwork-Attempt"], request.headers["Tickwork-Fence"]) == ("1", "1")
    assert bodies(h) == [
        {
            "id": str(sent),
            "queue": "work",
            "type": "paid",
            "source": "shop",
            "timestamp": "2026-03-02T08:30:00Z",
            "attempts": 1,
            "key": "k",
            "event_id": None,
            "correlation_id": None,
            "causation_id": None,
            "content_type": "json",
            "body": {"order": 7},
        }
    ]
    headers = {name: value for name, value in request.headers.items() if "webhook" in name}
    at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    assert at == START
    signed = Webhook(secret).sign(plain, at, request.body.decode())
    assert headers["webhook-signature"] == signed
    assert (await app.queues.stats("work")).counts.ready == 0


async def test_texts_and_bytes_are_pushed_too(app: Tickwork, h: Harness) -> None:
    await make(app)
    await app.queue("work").send("héllo", content_type="text")
    await app.queue("work").send(b"\xff\x00", content_type="bytes")
    await h.drain()
    found = {body["content_type"]: body["body"] for body in bodies(h)}
    assert found == {"text": "héllo", "bytes": base64.b64encode(b"\xff\x00").decode()}


async def test_a_failed_push_follows_the_retry_settings_of_its_queue(
    app: Tickwork, h: Harness
) -> None:
    await make(app, max_retries=2, backoff=Fixed(seconds=60))
    h.deliveries.answer = lambda _: 500
    await app.queue("work").send({})
    await h.advance(minutes=1, seconds=59)
    assert [body["attempts"] for body in bodies(h)] == [1, 2]
    await h.advance(seconds=1)
    (letter,) = await h.dead("work")
    assert (letter.reason, letter.attempts) == ("max_retries", 3)
    assert letter.error == "the receiver answered 500"


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_receiver_snoozes_the_message_and_burns_no_attempt(
    app: Tickwork, h: Harness, status: int
) -> None:
    await make(app, max_retries=0)
    answers = [answered(status, {"Retry-After": "120"}, "", START)] * 7
    h.deliveries.answer = lambda _: answers.pop() if answers else 200
    await app.queue("work").send({})
    await h.advance(minutes=13, seconds=59)
    assert [body["attempts"] for body in bodies(h)] == [1] * 7
    assert (await app.endpoints.get("shop")).health.failures_in_row == 0
    await h.advance(seconds=1)
    assert len(bodies(h)) == 8
    assert await h.dead("work") == []


async def test_a_busy_answer_without_a_time_fails_the_attempt(app: Tickwork, h: Harness) -> None:
    await make(app, max_retries=0)
    h.deliveries.answer = lambda _: 503
    await app.queue("work").send({})
    await h.drain()
    assert [letter.reason for letter in await h.dead("work")] == ["max_retries"]


async def test_a_permanent_status_makes_a_dead_letter_at_once(app: Tickwork, h: Harness) -> None:
    await make(app)
    await app.endpoints.update("shop", permanent_statuses=[422])
    h.deliveries.answer = lambda request: answered(
        422,
        {},
        "",
        START,
        permanent_statuses=request.permanent_statuses,  # type: ignore[union-attr]
    )
    await app.queue("work").send({})
    await h.drain()
    assert [letter.reason for letter in await h.dead("work")] == ["permanent"]


@pytest.mark.one_store("sqlite")
async def test_an_open_breaker_delays_and_burns_no_attempt(app: Tickwork, h: Harness) -> None:
    await make(app, max_retries=1, backoff=Fixed(seconds=7_200))
    h.deliveries.answer = lambda _: "the connection was refused"
    for number in range(20):
        await app.queue("work").send({"number": number})
    await h.drain()
    # Those that were under way when the breaker opened.
    tried = len(bodies(h))
    endpoint = await app.endpoints.get("shop")
    assert endpoint.health.open_until is not None
    await h.advance(seconds=59)
    assert len(bodies(h)) == tried
    h.deliveries.answer = lambda _: 200
    await h.advance(hours=3)
    assert (await app.endpoints.get("shop")).health.open_until is None
    assert len({body["id"] for body in bodies(h)}) == 20
    assert await h.dead("work") == []
    assert (await app.queues.stats("work")).counts.ready == 0


async def test_messages_wait_for_a_disabled_endpoint_until_it_is_enabled(
    app: Tickwork, h: Harness
) -> None:
    await make(app, max_retries=0)
    await app.endpoints.disable("shop", reason="they asked")
    for number in range(3):
        await app.queue("work").send({"number": number})
    await h.advance(hours=5)
    assert bodies(h) == []
    await app.endpoints.enable("shop")
    await h.drain()
    assert sorted(body["body"]["number"] for body in bodies(h)) == [0, 1, 2]


async def test_a_message_that_expires_says_whether_its_endpoint_is_disabled(
    app: Tickwork, h: Harness
) -> None:
    await make(app, retention_seconds=86_400)
    app.queue("other", retention_seconds=86_400)
    await app.open()
    await app.endpoints.disable("shop", reason="they asked")
    for name in ("work", "other"):
        await app.queue(name).send({})
    await h.advance(days=1, minutes=5)
    for name, reason in (("work", "endpoint_disabled"), ("other", "expired")):
        (letter,) = await h.dead(name)
        assert (letter.reason, letter.attempts) == (reason, 0)


async def test_an_answer_410_disables_the_endpoint_and_keeps_the_message(
    app: Tickwork, h: Harness
) -> None:
    await make(app, max_retries=0)
    h.deliveries.answer = lambda _: 410
    await app.queue("work").send({})
    await h.drain()
    assert (await app.endpoints.get("shop")).disabled_reason is not None
    h.deliveries.answer = lambda _: 200
    await app.endpoints.enable("shop")
    await h.advance(seconds=2 * WAITING_SECONDS)
    assert len(bodies(h)) == 2


async def test_messages_wait_for_an_endpoint_that_does_not_exist_yet(
    app: Tickwork, h: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    app.queue("work", push_to="shop", max_retries=0)
    await app.queue("work").send({})
    with caplog.at_level(logging.WARNING, "tickwork"):
        await h.advance(days=1)
        await h.advance(days=1)
    warned = [
        record.getMessage() for record in caplog.records if "does not exist" in record.getMessage()
    ]
    assert len(warned) == 1
    assert "queue work of default pushes to the endpoint shop" in warned[0]
    await app.endpoints.create("shop", url=SHOP, types=[])
    await h.drain()
    assert len(bodies(h)) == 1


async def test_a_schedule_whose_queue_pushes_reaches_the_endpoint(
    app: Tickwork, h: Harness
) -> None:
    await make(app)
    made = await app.schedules.create(
        name="nightly",
        cron_expr="0 9 * * *",
        target={"type": "queue", "queue": "work"},
        payload={"n": 1},
    )
    await h.advance(hours=1)
    (request,) = h.deliveries.webhooks
    assert request.headers["Tickwork-Schedule"] == made.id
    assert request.headers["Tickwork-Slot"] == "2026-03-02T09:00:00Z"
    assert bodies(h)[0]["body"] == {"n": 1}
    (firing, *_) = await app.schedules.firings("nightly")
    assert (firing.status, firing.result_code) == ("succeeded", 200)


async def test_each_tenant_of_a_shared_queue_has_its_own_endpoint(
    app: Tickwork, h: Harness
) -> None:
    await h.store.tenants.put(SYSTEM, Tenant(id="other"))
    app.queue("work", push_to="shop", shared=True)
    await app.open()
    await app.endpoints.create("shop", url=SHOP, types=[])
    await app.queue("work").send({"mine": True})
    await h.drain()
    assert [body["body"] for body in bodies(h)] == [{"mine": True}]
    # Without an endpoint of its own, the other tenant's message waits.
    await h.store.messages.send(Scope("other"), "work", NewMessage(id=new_id(), body=b"{}"))
    await h.advance(hours=1)
    assert len(bodies(h)) == 1


# Two consumers


def test_a_handler_of_a_queue_that_pushes_is_refused(app: Tickwork) -> None:
    app.queue("work", push_to="shop")

    @app.on("work")
    async def handle(message: Any) -> None: ...

    with pytest.raises(
        InvalidInput, match="'work', which pushes to the endpoint 'shop'"
    ) as refused:
        engine_of(app).registry.check()
    assert "handle" in refused.value.errors[0].field


async def test_a_worker_refuses_a_queue_that_somebody_else_let_push(home: Home) -> None:
    own = Tickwork(home.url)
    own.queue("work")

    @own.on("work")
    async def handle(message: Any) -> None: ...

    try:
        await own.open()
        store = await engine_of(own).open()
        await store.queues.put(engine_of(own).scope, "work", QueueSettings(push_to="shop"))
        with pytest.raises(InvalidInput, match="'work', which pushes to the endpoint 'shop'"):
            async with own.running():
                pass
    finally:
        await own.close()


# While a worker runs


@pytest.fixture
async def real(home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind that may deliver to this machine."""
    allow_local_deliveries(monkeypatch)
    monkeypatch.setenv("TICKWORK_HOST_CONCURRENCY", "100")
    monkeypatch.setattr("tickwork.service.worker.worker.FIND_SECONDS", 0.1)
    made = Tickwork(home.url)
    yield made
    await made.close()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """The workers that a test started."""
    started: list[Worker] = []
    start = Worker.start

    async def remembered(self: Worker) -> None:
        started.append(self)
        await start(self)

    monkeypatch.setattr(Worker, "start", remembered)
    return started


def consumed(workers: list[Worker]) -> list[str | None]:
    """The endpoints to which a worker pushes the queue."""
    consumers = workers[-1].consumers
    return [
        consumer.queue.settings.push_to for consumer in consumers if consumer.queue.name == "work"
    ]


async def test_a_running_worker_follows_the_queues_that_push(
    real: Tickwork, workers: list[Worker]
) -> None:
    """They appear, change and stop while it runs, and no message is lost or pushed twice."""
    real.queue("work")
    async with receiver() as server, real.running():
        store, scope = await engine_of(real).open(), engine_of(real).scope
        await real.endpoints.create("one", url=server.url + "/one", types=[])
        await real.endpoints.create("two", url=server.url + "/two", types=[])

        def arrived(path: str) -> list[int]:
            return [
                msgspec.json.decode(body)["body"]
                for request, body in server.requests
                if request.path == path
            ]

        for number in range(30):
            await real.queue("work").send(number)
        await store.queues.put(scope, "work", QueueSettings(push_to="one"))
        await eventually(lambda: len(arrived("/one")) == 30, what="messages at the first endpoint")
        await store.queues.put(scope, "work", QueueSettings(push_to="two"))
        # A consumer ends when its running handlers have finished.
        await eventually(lambda: consumed(workers) == ["two"], what="the consumer of the second")
        for number in range(30, 60):
            await real.queue("work").send(number)
        await eventually(lambda: len(arrived("/two")) == 30, what="messages at the second endpoint")
        await store.queues.put(scope, "work", QueueSettings())
        await eventually(lambda: consumed(workers) == [], what="the end of the consumer")
        await real.queue("work").send(60)
        assert sorted(arrived("/one") + arrived("/two")) == [*range(60)]
        assert (await real.queues.stats("work")).counts.ready == 1


@pytest.mark.one_store("sqlite")
async def test_a_receiver_that_fails_and_comes_back_gets_every_message(real: Tickwork) -> None:
    real.queue("work", push_to="one", max_retries=50, backoff=Fixed(seconds=0.1))
    async with receiver() as server, real.running():
        made = await real.endpoints.create("one", url=server.url, types=[])
        left = [503, 500, 404]

        def answer() -> web.Response:
            if not left:
                return web.Response()
            status = left.pop()
            headers = {"Retry-After": "1"} if status == 503 else {}
            return web.Response(status=status, headers=headers)

        server.answer = answer
        for number in range(10):
            await real.queue("work").send(number)
        await eventually(lambda: _is_empty(real), what="an empty queue")
        seen = {msgspec.json.decode(body)["body"] for _, body in server.requests}
        assert seen == set(range(10))
        assert len(server.requests) == 13
        request, body = server.requests[0]
        Webhook(made.secret).verify(body, {n.lower(): v for n, v in request.headers.items()})


async def _is_empty(app: Tickwork) -> bool:
    counts = (await app.queues.stats("work")).counts
    return counts.ready + counts.delayed + counts.claimed == 0


async def test_a_deleted_queue_is_forgotten(real: Tickwork, workers: list[Worker]) -> None:
    async with real.running():
        store, scope = await engine_of(real).open(), engine_of(real).scope
        await real.endpoints.create("one", url="http://127.0.0.1:1/", types=[])
        await store.queues.put(scope, "work", QueueSettings(push_to="one"))
        await eventually(lambda: consumed(workers) == ["one"], what="the consumer")
        await store.queues.delete(scope, "work")
        await eventually(lambda: consumed(workers) == [], what="the end of the consumer")
        with pytest.raises(NotFound):
            await real.queues.get("work")


def test_what_follows_from_an_answer() -> None:
    later = Delivery(is_delivered=False, error="no", code=500, retry_after_seconds=9.0)
    asked = push_outcome(later)
    assert isinstance(asked, Delivered)
    assert asked.outcome == Failed("no", 9.0)
    at_once = Delivery(is_delivered=False, error="no", code=429, retry_after_seconds=0.0)
    assert push_outcome(at_once) == Snoozed(1.0)
