"""Every route × every kind of caller: the matrix is generated from the table of routes.

A route that is added is in it at once. If it takes a body, `BODIES` needs a valid one; if it names
something of another kind, `PARAMETERS` needs one that exists.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from posixpath import normpath
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx
import jwt
import pytest
from litestar import Litestar

from tests.kit.api import ALL_SCOPES, ReusedApi, bearer, in_process, new_key
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.api import create_api
from tickwork.api.access import declared_routes
from tickwork.core import when
from tickwork.core.access import Permission
from tickwork.core.api_key import parse_token
from tickwork.core.jwt_issuer import Algorithm, Issuer
from tickwork.core.model import DEFAULT, SYSTEM, Tenant
from tickwork.ops.context import Context
from tickwork.ops.keys import revoke_key
from tickwork.store.contract import Store

Client = httpx.AsyncClient
SECRET = "s" * 32


class Route(NamedTuple):
    method: str
    path: str
    permission: str
    is_for_owners: bool

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def routes() -> list[Route]:
    api = create_api(now=lambda: pytest.fail("is not called"), limits=when.Limits())
    return [
        Route(method, path, str(handler.opt["permission"]), handler.opt.get("owners") is True)
        for path, handler in declared_routes(api)
        for method in sorted(handler.http_methods)
    ]


ROUTES = routes()
GUARDED = [route for route in ROUTES if route.permission != "open"]
OPEN = {
    "GET /", "GET /console", "GET /console/{place:path}", "GET /console/assets/{file_name:str}",
    # Signing in is how a browser gets a session; the others look at its cookie themselves.
    "POST /v1/session", "GET /v1/session", "DELETE /v1/session",
    "GET /openapi.json", "GET /healthz", "GET /readyz", "GET /docs",
    "GET /docs/{path:str}", "GET /docs/openapi.json",
    # Its token is the key.
    "POST /v1/firings/{firing_id:str}/complete",
}  # fmt: skip

SCHEDULE = {"cron_expr": "@daily", "target": {"type": "queue", "queue": "orders"}}
BODIES: dict[str, Any] = {
    "POST /v1/schedules": SCHEDULE,
    "POST /v1/schedules/preview": {"cron_expr": "@daily"},
    "PUT /v1/limits/{limit_name:str}": {"rate": 1},
    "POST /v1/schedules/{schedule:str}/backfill": {
        "from": "2026-01-01T00:00:00Z",
        "to": "2026-01-02T00:00:00Z",
    },
    "POST /v1/queues/{queue:str}/messages": {"body": 1},
    "POST /v1/queues/{queue:str}/messages/batch": {"messages": [{"body": 1}]},
    "POST /v1/queues/{queue:str}/messages/pull": {"batch_size": 1},
    "POST /v1/endpoints/{endpoint:str}/recover": {"since": "2026-01-01T00:00:00Z"},
    "PUT /v1/calendars/{calendar:str}": {"days": []},
    "POST /v1/workflows/{workflow:str}/runs/{run:str}/events": {"type": "approved"},
    "PUT /v1/entities/{entity_type:str}/{key:str}/storage/{name:str}": {"value": 1},
    "PUT /v1/entities/{entity_type:str}/{key:str}/alarm": {"at": "2030-01-01T00:00:00Z"},
}

CREATES_ITS_OWN = {
    "PUT /v1/queues/{queue:str}": 201,
    "PUT /v1/calendars/{calendar:str}": 200,
    "PUT /v1/limits/{limit_name:str}": 200,
}
"""Routes whose path names something that need not exist, with their answer."""


class World(NamedTuple):
    """A served API, and things of the tenant `default` in its database."""

    client: Client
    store: Store
    clock: VirtualClock
    parameters: dict[str, str]
    bodies: dict[str, Any]

    async def ask(
        self, route: Route, token: str | None, path: str | None = None, **headers: str
    ) -> tuple[int, str]:
        """The status and the code of the answer."""
        sent = headers | ({} if token is None else bearer(token))
        body = self.bodies.get(route.name, {}) if route.method in ("POST", "PUT", "PATCH") else None
        # As it is: a client would take `//a/b` for a host, and leave out dots.
        url = httpx.URL(str(self.client.base_url)).copy_with(
            raw_path=(path or self.path(route)).encode()
        )
        answer = await self.client.request(route.method, url, headers=sent, json=body)
        is_problem = answer.headers.get("content-type") == "application/problem+json"
        return answer.status_code, answer.json()["code"] if is_problem else ""

    def path(self, route: Route) -> str:
        return re.sub(
            r"\{(\w+):\w+\}", lambda found: self.parameters.get(found[1], "nothing"), route.path
        )


@pytest.fixture(scope="module")
def with_issuer() -> ReusedApi:
    issuer = Issuer(
        issuer="us", audience="a", algorithm=Algorithm.HS256, secret=SECRET, tenants=("default",)
    )
    return ReusedApi([issuer])


@pytest.fixture
async def world(
    home: Home, store: Store, clock: VirtualClock, with_issuer: ReusedApi
) -> AsyncIterator[World]:
    async with _served(with_issuer.on(home, clock), store, clock) as served:
        yield served


@asynccontextmanager
async def _served(api: Litestar, store: Store, clock: VirtualClock) -> AsyncIterator[World]:
    await store.tenants.put(SYSTEM, Tenant(id="default", owner_targets=("queue:orders",)))
    await store.tenants.put(SYSTEM, Tenant(id="other", owner_targets=("queue:orders",)))
    async with in_process(api) as client:
        headers = bearer(await new_key(store))
        await client.put("/v1/queues/orders", json={}, headers=headers)
        sent = await client.post("/v1/queues/orders/messages", json={"body": 1}, headers=headers)
        pulled = await client.post(
            "/v1/queues/orders/messages/pull", json={"batch_size": 1}, headers=headers
        )
        lease = {"lease_id": pulled.json()["messages"][0]["lease_id"]}
        bodies = BODIES | {
            "POST /v1/queues/{queue:str}/messages/ack": {"retries": [lease]},
            "POST /v1/queues/{queue:str}/messages/extend": lease | {"visibility_timeout_ms": 9_000},
        }
        made = await client.post("/v1/schedules", json=SCHEDULE | {"owner": "ada"}, headers=headers)
        assert made.status_code == 201, made.text
        parameters = {
            "queue": "orders",
            "message_id": sent.json()["id"],
            "schedule": made.json()["id"],
            "tenant": "default",
        }
        yield World(client, store, clock, parameters, bodies)


def test_the_open_routes_are_these() -> None:
    assert {route.name for route in ROUTES if route.permission == "open"} == OPEN


def test_scopes_are_those_of_the_design() -> None:
    for route in GUARDED:
        of_operator = route.path.startswith(("/v1/tenants", "/v1/cluster", "/metrics"))
        of_operator |= (route.method, route.path) == ("PUT", "/v1/history/default")
        assert (route.permission == "admin") is of_operator, route
        if route.method == "GET":
            assert route.permission in ("read", "admin"), route
        elif route.path != "/v1/schedules/preview":
            assert route.permission != "read", route
        is_for_owners = route.path.startswith(("/v1/schedules", "/v1/upcoming", "/v1/health"))
        assert route.is_for_owners is is_for_owners, route


@pytest.mark.one_store("sqlite")
async def test_the_description_of_a_route_names_the_scope_that_it_needs(world: World) -> None:
    paths = (await world.client.get("/openapi.json")).json()["paths"]
    told = {
        (method.upper(), path): operation.get("security")
        for path, methods in paths.items()
        for method, operation in methods.items()
    }
    for route in ROUTES:
        needed = None if route.permission == "open" else [{"key": [route.permission]}]
        path = re.sub(r":\w+}", "}", route.path)
        if (route.method, path) in told:
            assert told[route.method, path] == needed, route
    assert {path for _, path in told} >= {
        re.sub(r":\w+}", "}", guarded_route.path) for guarded_route in GUARDED
    }


async def test_no_route_answers_without_a_valid_key(world: World) -> None:
    store = world.store
    good = await new_key(store)
    wrong = good[:-1] + ("0" if good[-1] != "0" else "1")
    expired = await new_key(store, expires_at=world.clock.now() + timedelta(seconds=1))
    revoked = await new_key(store)
    parsed = parse_token(revoked)
    assert parsed is not None
    await revoke_key(Context(store, DEFAULT), parsed.key_id)
    world.clock.advance(seconds=1)
    claims = {"iss": "us", "aud": "a", "exp": time.time() + 60, "sub": "ada"}
    for route in GUARDED:
        for token, code in (
            (None, "unauthorized"),
            ("", "unauthorized"),
            ("nonsense", "unauthorized"),
            (wrong, "unauthorized"),
            (good.upper(), "unauthorized"),
            (expired, "key_expired"),
            (revoked, "key_revoked"),
            (jwt.encode(claims, "", algorithm="none"), "invalid_token"),
            (jwt.encode(claims, SECRET * 2, algorithm="HS512"), "invalid_token"),
            (jwt.encode(claims, "t" * 32, algorithm="HS256"), "invalid_token"),
        ):
            assert await world.ask(route, token) == (401, code), (route, token)


@pytest.mark.one_store("sqlite")
async def test_a_route_needs_exactly_its_scope(world: World) -> None:
    single = {scope: await new_key(world.store, scopes=[scope]) for scope in Permission}
    for route in GUARDED:
        for scope, token in single.items():
            status, code = await world.ask(route, token)
            if scope == route.permission:
                assert status not in (401, 403), (route, status, code)
                assert status < 500, (route, status, code)
            else:
                assert (status, code) == (403, f"needs_{route.permission}"), (route, scope)


async def test_an_owner_reaches_only_its_own_schedules(world: World) -> None:
    scopes = ["read", "send", "consume", "manage"]
    ada = await new_key(world.store, owner="ada", scopes=scopes)
    bob = await new_key(world.store, owner="bob", scopes=scopes)
    claims = {"iss": "us", "aud": "a", "exp": time.time() + 60, "sub": "bob"}
    bob_by_jwt = jwt.encode(claims, SECRET, algorithm="HS256")
    for route in sorted(GUARDED, key=lambda guarded_route: guarded_route.method == "DELETE"):
        if route.permission == "admin":
            assert await world.ask(route, bob) == (403, "needs_admin")
        elif not route.is_for_owners:
            assert await world.ask(route, bob) == (403, "owner_bound")
            has_scope = route.permission in ("read", "manage")
            code = "owner_bound" if has_scope else f"needs_{route.permission}"
            assert await world.ask(route, bob_by_jwt) == (403, code)
        elif "{schedule" in route.path:
            for token in (bob, bob_by_jwt):
                assert await world.ask(route, token) == (404, "not_found"), route
            status, code = await world.ask(route, ada)
            assert status < 300, (route, status, code)


async def test_a_tenant_reaches_nothing_of_another(world: World) -> None:
    scopes = [scope for scope in ALL_SCOPES if scope is not Permission.ADMIN]
    token = await new_key(world.store, tenant="other", scopes=scopes)
    for route in sorted(GUARDED, key=lambda guarded_route: guarded_route.name in CREATES_ITS_OWN):
        if route.permission == "admin":
            assert await world.ask(route, token) == (403, "needs_admin"), route
        elif "{" in route.path:
            expected = CREATES_ITS_OWN.get(route.name, 404)
            assert (await world.ask(route, token))[0] == expected, route
        named = {"Tickwork-Tenant": "default"}
        assert await world.ask(route, token, None, **named) == (403, "needs_admin"), route


async def test_the_operator_acts_for_tenants_that_exist(world: World) -> None:
    token = await new_key(world.store)
    for route in GUARDED:
        answer = await world.ask(route, token, None, **{"Tickwork-Tenant": "nobody"})
        assert answer == (404, "not_found"), route


async def test_a_suspended_tenant_is_refused_everywhere(world: World) -> None:
    scopes = [scope for scope in ALL_SCOPES if scope is not Permission.ADMIN]
    token = await new_key(world.store, tenant="other", scopes=scopes)
    await world.store.tenants.put(SYSTEM, Tenant(id="other", suspended=True))
    for route in GUARDED:
        assert await world.ask(route, token) == (403, "tenant_suspended"), route


ODD = (
    "/{}", "{}/", "{}//", "{}.", "{};a=b", "{}%00", "{}%20", "{}%2f", "{}%2e%2e", "{}/.", "{}/..",
    "/healthz/..{}", "/healthz;{}", "/docs/..{}", "/./{}", "/%2e{}", "{}.json", "{}?key=x",
    "{}/%2e%2e/%2e%2e/healthz",
)  # fmt: skip


@pytest.mark.one_store("sqlite")
async def test_odd_paths_lead_to_no_route_without_its_guard(world: World) -> None:
    for route in GUARDED:
        plain = world.path(route)
        paths = [spelling.format(plain) for spelling in ODD]
        paths += [plain.upper(), plain.replace("/", "//"), plain.replace("/v1/", "/v1/./")]
        paths += [plain.replace("/v1", "/%761"), plain.replace("/v1/", "/v1%2f")]
        for path in paths:
            status, _ = await world.ask(route, None, path)
            is_open = normpath(unquote(path)) in ("/", "/healthz")  # Dots may lead there.
            assert is_open or status in (400, 401, 404, 405), (route, path, status)


@pytest.mark.one_store("sqlite")
async def test_another_method_leads_to_no_route_without_its_guard(world: World) -> None:
    known = {(known_route.method, known_route.path) for known_route in ROUTES}
    for path in {guarded_route.path for guarded_route in GUARDED}:
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE"):
            if (method, path) not in known:
                route = Route(method, path, "", False)
                answer = await world.client.request(
                    method, world.path(route), headers={"X-HTTP-Method-Override": "GET"}
                )
                assert answer.status_code == 405, (method, path)
