"""Service bindings: the same code calls an application in this process and one over HTTP."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.kit.waiting import delay, eventually
from tickwork import (
    HttpRequest,
    HttpResponse,
    InvalidInput,
    Message,
    NotFound,
    ServiceFailed,
    ServiceUnavailable,
    Tickwork,
)
from tickwork.api.serve import serving
from tickwork.testing import harness


class Keys:
    """A plain ASGI application: answers with what it was asked. It has a lifespan."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                event = await receive()
                self.events.append(event["type"])
                await send({"type": f"{event['type']}.complete"})
            return
        body = (await receive())["body"]
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        path = scope["path"]
        if path == "/broken":
            raise ValueError("no such luck")
        if path == "/slow":
            await asyncio.sleep(0.5)
        status = int(path.removeprefix("/status/")) if path.startswith("/status/") else 200
        told = {
            "method": scope["method"],
            "path": path,
            "query": scope["query_string"].decode(),
            "body": body.decode(),
            "type": headers.get("content-type"),
            "service_key": headers.get("x-service-key"),
            "correlation": headers.get("tickwork-correlation-id"),
            "trace": headers.get("traceparent"),
        }
        given = [(b"content-type", b"application/json"), (b"x-seen", b"yes")]
        await send({"type": "http.response.start", "status": status, "headers": given})
        await send({"type": "http.response.body", "body": msgspec.json.encode(told)})


@asynccontextmanager
async def bound(kind: str, **options: Any) -> AsyncIterator[Any]:
    """A service that runs in this process or on a port."""
    app = Tickwork()
    if kind == "in process":
        yield app.service("keys", Keys(), **options)
        await app.close()
        return
    async with serving(Keys(), host="127.0.0.1", port=0) as url:
        yield app.service("keys", url, **options)
        await app.close()


pytestmark = pytest.mark.filterwarnings("error")
BOTH = pytest.mark.parametrize("kind", ["in process", "over HTTP"])


@BOTH
async def test_a_call_is_the_same_in_this_process_and_over_http(kind: str) -> None:
    async with bound(kind, headers={"X-Service-Key": "s3cret"}) as keys:
        answer = await keys.post("/v1/search%20it?a=1", {"q": "llc"}, query={"n": 2, "é": True})
        assert isinstance(answer, HttpResponse)
        assert (answer.status, answer.is_error, answer.service) == (200, False, "keys")
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-seen"] == "yes"
        told = answer.check().json()
        assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", told.pop("trace"))
        assert told.pop("correlation")
        assert told == {
            "method": "POST",
            "path": "/v1/search it",
            "query": "a=1&n=2&%C3%A9=true",
            "body": '{"q":"llc"}',
            "type": "application/json",
            "service_key": "s3cret",
        }
        assert answer.json(dict[str, str | None])["method"] == "POST"
        plain = await keys.call("PUT", "/x", body=b"raw", headers={"content-type": "text/plain"})
        assert (plain.json()["body"], plain.json()["type"]) == ("raw", "text/plain")
        assert (await keys.get("/x")).json()["body"] == ""
        for verb in ("patch", "put", "delete"):
            assert (await getattr(keys, verb)("/x")).json()["method"] == verb.upper()


@BOTH
async def test_every_answer_is_returned_and_check_raises_for_an_error(kind: str) -> None:
    async with bound(kind) as keys:
        for status in (404, 500):
            answer = await keys.get(f"/status/{status}")
            assert (answer.status, answer.is_error) == (status, True)
            with pytest.raises(ServiceFailed, match=f"service keys answered {status}: ") as failed:
                answer.check()
            assert (failed.value.service, failed.value.status) == ("keys", status)
        assert (await keys.get("/status/302")).check().status == 302


@BOTH
async def test_a_service_that_does_not_answer_in_time_is_unavailable(kind: str) -> None:
    async with bound(kind) as keys:
        with pytest.raises(ServiceUnavailable, match=r"keys: did not answer within 0\.05 seconds"):
            await keys.get("/slow", timeout_seconds=0.05)


async def test_each_call_of_an_app_to_itself_has_the_budget_of_its_handler() -> None:
    app = Tickwork()
    itself = app.service("itself", app)

    @app.http("GET", "/part", key=None, timeout_seconds=2)
    async def part(_: HttpRequest) -> str:
        await asyncio.sleep(0.1)
        return "done"

    @app.http("GET", "/stuck", key=None, timeout_seconds=0.05)
    async def stuck(_: HttpRequest) -> None:
        await asyncio.sleep(10)

    @app.http("GET", "/whole", key=None, timeout_seconds=5)
    async def whole(_: HttpRequest) -> list[int]:
        found = [(await itself.get("/part")).status for _ in range(3)]
        return [*found, (await itself.get("/stuck")).status]

    answer = await itself.get("/whole")
    assert (answer.status, answer.json()) == (200, [200, 200, 200, 504])
    await app.close()


async def test_an_error_of_an_application_in_this_process_is_a_500(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with bound("in process") as keys:
        answer = await keys.get("/broken")
        assert (answer.status, answer.json()["code"]) == (500, "internal_error")
        assert "no such luck" not in answer.text
        assert "service keys failed: GET /broken" in caplog.text


async def test_a_service_that_nobody_serves_is_unavailable() -> None:
    app = Tickwork()
    with pytest.raises(ServiceUnavailable, match="service away: the connection failed") as raised:
        await app.service("away", "http://127.0.0.1:1").get("/")
    assert raised.value.code == "service_unavailable"
    await app.close()


async def test_an_application_is_started_before_its_first_call_and_stopped_with_the_app() -> None:
    app, keys = Tickwork(), Keys()
    await app.service("keys", keys).get("/")
    await app.service("keys").get("/")
    assert keys.events == ["lifespan.startup"]
    await app.close()
    assert keys.events == ["lifespan.startup", "lifespan.shutdown"]


class Starting(Keys):
    """Starts when the test lets it, or fails to; answers 503 before."""

    def __init__(self) -> None:
        super().__init__()
        self.may_start, self.answer, self.starts = asyncio.Event(), "startup.complete", 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = "/" if "started" in self.events else "/status/503"
            await super().__call__(scope | {"path": path}, receive, send)
            return
        self.starts += 1
        await receive()
        await self.may_start.wait()
        self.events.append("started")
        await send({"type": f"lifespan.{self.answer}", "message": "no licence"})
        await receive()


async def test_a_slow_start_of_an_application_takes_no_time_of_its_calls() -> None:
    app, starting = Tickwork(), Starting()
    service = app.service("keys", starting)
    first = asyncio.create_task(service.get("/", timeout_seconds=0.05))
    calls = [asyncio.create_task(service.get("/", timeout_seconds=0.05)) for _ in range(3)]
    await eventually(lambda: starting.starts == 1)
    await delay(0.1)
    first.cancel()
    starting.may_start.set()
    assert [(await call).status for call in calls] == [200] * 3
    assert starting.starts == 1
    await app.close()


async def test_calls_have_the_state_of_the_lifespan_of_their_application() -> None:
    async def shop(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            scope["state"]["pool"] = "open"
            await send({"type": "lifespan.startup.complete"})
            await receive()
            return
        body = msgspec.json.encode(scope["state"])
        scope["state"]["mine"] = True  # Each request has a copy.
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    app = Tickwork()
    service = app.service("shop", shop)
    assert [(await service.get("/")).json() for _ in range(2)] == [{"pool": "open"}] * 2
    await app.close()


async def test_an_application_that_does_not_start_says_so_and_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, starting = Tickwork(), Starting()
    service = app.service("keys", starting)
    with monkeypatch.context() as short:
        short.setattr("tickwork.channel.asgi.LIFESPAN_SECONDS", 0.05)
        with pytest.raises(ServiceUnavailable, match=r"did not start within 0\.05 seconds"):
            await service.get("/")
    starting.may_start.set()
    starting.answer = "startup.failed"
    with pytest.raises(ServiceUnavailable, match="keys: did not start: no licence"):
        await service.get("/")
    starting.answer = "startup.complete"
    assert ((await service.get("/")).status, starting.starts) == (200, 3)
    await app.close()


async def test_calls_of_a_handler_carry_its_correlation_and_are_not_part_of_it(
    database: str | None,
) -> None:
    app, seen = Tickwork(), list[Any]()
    orders, notes = app.queue("orders"), app.queue("notes")

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await notes.send("called")
            await Keys()(scope, receive, send)

    app.service("keys", noting)

    @app.on("orders")
    async def handle(_: Message[Any]) -> None:
        answers = [(await app.service("keys").get("/")).json() for _ in range(2)]
        seen.extend((answer["correlation"], answer["trace"].split("-")[1]) for answer in answers)
        raise ValueError("after the calls")

    async with harness(app, database=database) as h:
        await orders.send(1, correlation_id="order-17")
        await h.drain()
        assert seen[0] == seen[1]
        assert seen[0][0] == "order-17"
        # The handler failed, but what the service sent is stored.
        assert [message.body for message in await h.sent("notes")] == ["called", "called"]


async def test_a_stand_in_answers_for_a_service_under_the_harness() -> None:
    app = Tickwork()
    keys = app.service("keys", "https://keys.example")
    async with harness(app) as h:
        h.services["keys"] = Keys()
        assert (await keys.get("/status/201")).status == 201


async def test_the_topology_file_has_the_url_of_a_service_and_the_guard_checks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = Tickwork()
    keys = app.service("keys")
    with pytest.raises(NotFound, match=r"there is no service keys; add \[\[services\]\]"):
        await keys.get("/")
    async with serving(Keys(), host="127.0.0.1", port=0) as url:
        file = f'[[services]]\nname = "keys"\nurl = "{url}"\n'
        (tmp_path / "tickwork.toml").write_text(file)
        with pytest.raises(InvalidInput, match="service keys"):
            await keys.get("/")
        monkeypatch.setenv("TICKWORK_ALLOW_TARGETS", "127.0.0.1")
        assert (await keys.get("/status/202")).status == 202
        await app.close()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"path": "no-slash"}, "path"),
        ({"path": "//other.example/x"}, "path"),
        ({"path": "/a b"}, "path"),
        ({"method": "FETCH"}, "method"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"headers": {"Host": "other"}}, "headers.Host"),
        ({"headers": {"x": "a\r\nb: c"}}, "headers.x"),
        ({"json": object()}, "json"),
        ({"json": 1, "body": b"2"}, "body"),
        ({"body": b"x" * 1_000_001}, "body"),
    ],
)
async def test_a_wrong_call_is_refused_with_its_field(wrong: dict[str, Any], field: str) -> None:
    async with bound("in process") as keys:
        given = {"method": "POST", "path": "/"} | wrong
        with pytest.raises(InvalidInput) as refused:
            await keys.call(given.pop("method"), given.pop("path"), **given)
        assert [error.field for error in refused.value.errors] == [field]


def test_a_service_is_bound_once() -> None:
    app = Tickwork()
    app.service("keys", "https://keys.example")
    assert app.service("keys").name == "keys"
    with pytest.raises(InvalidInput, match="name: 'keys' is bound already"):
        app.service("keys", "https://other.example")
    with pytest.raises(InvalidInput, match="target: must be an ASGI application or a URL"):
        app.service("other", 17)  # type: ignore[arg-type]


async def test_a_plain_handler_is_stopped_when_its_time_is_over() -> None:
    app, turns, ended = Tickwork(), [0], threading.Event()

    @app.http("GET", "/burn", key=None, timeout_seconds=0.1)
    def burn(_: HttpRequest) -> None:
        try:
            while True:
                turns[0] += 1
        finally:
            ended.set()

    service = app.service("own", app)
    answer = await service.get("/burn")
    assert answer.status == 504
    await eventually(ended.is_set, what="the end of the handler")
    assert turns[0] > 0
    await app.close()
