"""HTTP handlers of an app: routes, keys, limits, errors as problems, and a port of their own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tickwork import (
    Conflict,
    HttpRequest,
    HttpResponse,
    InvalidInput,
    NotFound,
    Tickwork,
)
from tickwork.core.model import Scope
from tickwork.ops.context import Context
from tickwork.ops.keys import create_key
from tickwork.service import http_application
from tickwork.settings import Role
from tickwork.testing import harness


class Research(msgspec.Struct):
    keyword: str


@pytest.fixture
def app() -> Tickwork:
    app = Tickwork()
    jobs = app.queue("jobs")

    @app.http("POST", "/brands/{slug}/research", key=None)
    async def research(request: HttpRequest) -> object:
        wanted = request.json(Research)
        await jobs.send({"slug": request.params["slug"], "keyword": wanted.keyword})
        return {"slug": request.params["slug"], "by": request.query.get("by")}

    @app.http("GET", "/brands/{slug}", key=None)
    def brand(request: HttpRequest) -> object:
        return request.params["slug"]

    @app.http("GET", "/brands/new", key=None)
    async def new(_: HttpRequest) -> HttpResponse:
        return HttpResponse(status=201, headers={"X-New": "yes"}, body=b"plain")

    @app.http("DELETE", "/brands/{slug}", key="manage")
    async def delete(request: HttpRequest) -> None:
        assert request.key_id

    @app.http("GET", "/errors/{kind}", key=None, timeout_seconds=0.05)
    async def fail(request: HttpRequest) -> None:
        match request.params["kind"]:
            case "missing":
                raise NotFound("brand", "acme")
            case "conflict":
                raise Conflict("it exists")
            case "slow":
                await asyncio.sleep(30)
        raise ValueError("a secret of the house")

    return app


async def test_handlers_are_found_by_method_and_path_and_answer_json(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database) as h:
        answer = await h.http.post(
            "/brands/llc%20tax/research", {"keyword": "deductions"}, query={"by": "ada & co"}
        )
        assert (answer.status, answer.json()) == (200, {"slug": "llc tax", "by": "ada & co"})
        assert answer.headers["content-type"] == "application/json"
        (sent,) = await h.sent("jobs")
        assert sent.body == {"slug": "llc tax", "keyword": "deductions"}
        # What a handler sends belongs to the story of its request.
        assert sent.message.correlation_id == answer.headers["tickwork-correlation-id"]
        assert (await h.http.get("/brands/acme")).json() == "acme"
        new = await h.http.get("/brands/new")
        assert (new.status, new.headers["x-new"], new.text) == (201, "yes", "plain")


async def test_every_error_is_a_problem_that_reveals_nothing(app: Tickwork) -> None:
    cases = {
        ("GET", "/nowhere"): (404, "not_found"),
        ("PUT", "/brands/acme"): (405, "method_not_allowed"),
        ("DELETE", "/brands/acme"): (401, "unauthorized"),
        ("GET", "/errors/missing"): (404, "not_found"),
        ("GET", "/errors/conflict"): (409, "conflict"),
        ("GET", "/errors/slow"): (504, "timed_out"),
        ("GET", "/errors/other"): (500, "internal_error"),
        ("POST", "/brands/a/research"): (422, "invalid_input"),
    }
    async with harness(app) as h:
        for (method, path), expected in cases.items():
            answer = await h.http.call(method, path, body=b'{"keyword": 1}')
            assert (answer.status, answer.json()["code"]) == expected, path
            assert answer.headers["content-type"] == "application/problem+json"
            assert "secret of the house" not in answer.text
        allowed = (await h.http.put("/brands/acme")).headers["allow"]
        assert allowed == "DELETE, GET"


async def test_a_body_over_the_limit_is_refused_before_the_handler(app: Tickwork) -> None:
    sent = list[Any]()

    async def send(event: Any) -> None:
        sent.append(event)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * 100_000, "more_body": True}

    async with harness(app):
        handlers = app._engine.http_application
        path = "/brands/a/research"
        scope = {"type": "http", "method": "POST", "path": path, "headers": []}
        await handlers(scope, receive, send)
    assert sent[0]["status"] == 413
    assert msgspec.json.decode(sent[1]["body"])["code"] == "body_too_large"


async def test_a_handler_that_needs_a_key_takes_those_of_its_tenant_with_the_scope(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database) as h:
        await app.tenants.create("other")
        good = await app.keys.create("good", scopes=["manage"])
        weak = await app.keys.create("weak", scopes=["read"])
        fields = {"name": "foreign", "scopes": ["manage"]}
        foreign = await create_key(Context(h.store, Scope("other")), fields)
        expected = {good.token: 204, weak.token: 403, foreign.token: 403, "tw_x_y": 401}
        for token, status in expected.items():
            headers = {"Authorization": f"Bearer {token}"}
            answer = await h.http.delete("/brands/acme", headers=headers)
            assert answer.status == status, answer.text


async def test_more_requests_than_the_limit_get_a_503(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_application, "IN_FLIGHT_MAX", 0)
    async with harness(app) as h:
        answer = await h.http.get("/brands/acme")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")


async def test_an_app_calls_its_own_handlers_as_a_service(app: Tickwork) -> None:
    itself = app.service("self", app)
    async with harness(app) as h:
        answer = await itself.post("/brands/a/research", {"keyword": "x"})
        assert answer.check().json()["slug"] == "a"
        assert len(await h.sent("jobs")) == 1
        # The budget of a call is that of its handler, not what its caller has left.
        assert (await itself.get("/errors/slow")).status == 504


@pytest.mark.parametrize(
    ("method", "path", "options", "field"),
    [
        ("GET", "brands", {}, "path"),
        ("GET", "/a//b", {}, "path"),
        ("GET", "/{a}/{a}", {}, "path"),
        ("GET", "/{a b}", {}, "path"),
        ("FETCH", "/", {}, "method"),
        ("GET", "/", {"key": "root"}, "key"),
        ("GET", "/", {"timeout_seconds": 0}, "timeout_seconds"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_field(
    method: Any, path: str, options: Any, field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Tickwork().http(method, path, **{"key": None} | options)(lambda _: None)
    assert [error.field for error in refused.value.errors] == [field]


def test_one_route_has_one_handler(app: Tickwork) -> None:
    with pytest.raises(InvalidInput, match=r"GET /brands/{other} is already handled by"):
        app.http("GET", "/brands/{other}", key=None)(lambda _: None)


def test_the_api_and_the_handlers_have_two_ports(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    app = Tickwork("sqlite:///own.db")
    with pytest.raises(InvalidInput, match="http_port: 8099 is the port of the API"):
        app.run(roles="api,http", port=8099, http_port=8099)
    assert Role.HTTP not in app._engine.settings().roles
