"""The doors of a server: who gets in, from where, and what an answer lets others keep."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from litestar.routes import HTTPRoute
from prometheus_client import CollectorRegistry

from tests.api.acts import fields_of, problem
from tests.api.test_server import key_of, started
from tests.kit.api import ReusedApi, bearer, in_process, new_key
from tests.kit.process import Children
from tests.stores.home import Home
from tickwork.api import create_api
from tickwork.clock import now
from tickwork.core import when
from tickwork.core.http.client_address import TrustedProxies, names_loopback
from tickwork.core.model import DEFAULT
from tickwork.errors import Conflict
from tickwork.ops.context import Context
from tickwork.ops.keys import revoke_key
from tickwork.service.observe.metrics import serve_metrics
from tickwork.store.contract import Store

COOKIE = "__Host-tickwork_session"
EACH_OTHER_ROUNDS = 40
"""Rounds in which two keys revoke each other; without the lock a few of them are lost."""

OTHER_SITES = (
    "evil.example",
    "evil.example:8080",
    "127.0.0.1.evil.example",
    "[::2]",
    "localhost.evil",
)


@pytest.fixture(scope="module")
def reused_api() -> ReusedApi:
    return ReusedApi()


@pytest.fixture
async def token(store: Store) -> str:
    return await new_key(store)


@pytest.fixture
async def http(home: Home, reused_api: ReusedApi) -> AsyncIterator[httpx.AsyncClient]:
    async with in_process(reused_api.on(home)) as client:
        yield client


async def test_metrics_on_this_machine_are_not_for_pages_of_other_sites() -> None:
    api = create_api(now=now, limits=when.Limits(), is_on_loopback=True)
    async with in_process(api) as client:
        for host in ("127.0.0.1:8080", "localhost", "[::1]:8080", "LOCALHOST."):
            answer = await client.get("/metrics", headers={"Host": host})
            assert answer.status_code == 200, host
        for host in OTHER_SITES:
            answer = await client.get("/metrics", headers={"Host": host})
            assert answer.status_code in (401, 503), host  # It needs a key, and there is no store.


async def test_the_server_of_metrics_is_not_for_pages_of_other_sites() -> None:
    with serve_metrics(CollectorRegistry(), host="127.0.0.1", port=0) as port:
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"http://127.0.0.1:{port}/metrics"
            assert (await client.get(url)).status_code == 200
            for host in OTHER_SITES:
                assert (await client.get(url, headers={"Host": host})).status_code == 403, host


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.7", None, "10.0.0.7"),
        ("10.0.0.7", "203.0.113.9", "203.0.113.9"),
        ("10.0.0.7", "6.6.6.6, 203.0.113.9", "203.0.113.9"),
        ("10.0.0.7", "6.6.6.6, 203.0.113.9, 10.0.0.8", "203.0.113.9"),
        ("::ffff:10.0.0.7", "203.0.113.9", "203.0.113.9"),
        ("203.0.113.1", "6.6.6.6", "203.0.113.1"),
        ("10.0.0.7", "", "10.0.0.7"),
        ("10.0.0.7", "not an address", "not an address"),
        (None, "6.6.6.6", None),
    ],
)
def test_only_a_trusted_proxy_names_its_client(
    peer: str | None, forwarded: str | None, client: str | None
) -> None:
    assert TrustedProxies(["10.0.0.0/24"]).client(peer, forwarded) == client


async def test_a_trusted_proxy_on_this_machine_is_not_this_machine() -> None:
    api = create_api(
        now=now, limits=when.Limits(), is_on_loopback=True, trusted_proxies=["127.0.0.1"]
    )
    async with in_process(api) as client:  # Its peer is 127.0.0.1.
        answer = await client.get("/metrics", headers={"Host": "127.0.0.1"})
    assert answer.status_code != 200


async def test_every_answer_forbids_guessing_and_private_ones_forbid_copies(
    http: httpx.AsyncClient, token: str
) -> None:
    for path in (
        "/healthz",
        "/docs",
        "/openapi.json",
        "/",
        "/nowhere",
        "/v1/queues",
        "/v1/session",
    ):
        for method in ("GET", "OPTIONS", "PUT"):
            answer = await http.request(method, path)
            assert answer.headers["x-content-type-options"] == "nosniff", (method, path)
    for path in ("/v1/queues", "/v1/queues/none", "/v1/tenants", "/v1/stats"):
        answer = await http.get(path, headers=bearer(token))
        assert answer.headers["cache-control"] == "no-store", path
    signed_in = await http.post("/v1/session", json={"key": token})
    cookie = {"Cookie": f"{COOKIE}={secret_of(signed_in)}"}
    for path in ("/v1/queues", "/v1/session"):
        answer = await http.get(path, headers=cookie)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")


def secret_of(answer: httpx.Response) -> str:
    name, _, rest = answer.headers["set-cookie"].partition("=")
    assert (answer.status_code, name) == (201, COOKIE)
    return str(rest.partition(";")[0])


async def test_a_secure_cookie_is_bound_to_its_host(http: httpx.AsyncClient, token: str) -> None:
    answer = await http.post("/v1/session", json={"key": token})
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= attributes
    assert not any(part.startswith("domain") for part in attributes)
    planted = {"Cookie": f"tickwork_session={secret_of(answer)}"}
    problem(await http.get("/v1/queues", headers=planted), 401, "unauthorized")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://t.evil.example", "t"])
async def test_a_page_of_another_site_does_not_sign_in(
    http: httpx.AsyncClient, token: str, origin: str
) -> None:
    answer = await http.post("/v1/session", json={"key": token}, headers={"Origin": origin})
    assert "Origin" in problem(answer, 403, "origin")["detail"]
    assert "set-cookie" not in answer.headers
    for own in ("http://t", "https://t"):
        answer = await http.post("/v1/session", json={"key": token}, headers={"Origin": own})
        assert answer.status_code == 201


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "a/b+json"]
)
async def test_a_sign_in_is_json(http: httpx.AsyncClient, token: str, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    body = f'{{"key": "{token}"}}'.encode()
    answer = await http.post("/v1/session", content=body, headers=headers)
    problem(answer, 415, "unsupported_media_type")


async def test_a_sign_in_ends_the_other_sessions_of_the_key_if_asked(
    http: httpx.AsyncClient, token: str, store: Store
) -> None:
    async def signed_in(key: str, **fields: Any) -> dict[str, str]:
        answer = await http.post("/v1/session", json={"key": key, **fields})
        return {"Cookie": f"{COOKIE}={secret_of(answer)}"}

    async def works(cookie: dict[str, str]) -> bool:
        return (await http.get("/v1/queues", headers=cookie)).status_code == 200

    first, other = await signed_in(token), await signed_in(await new_key(store))
    second = await signed_in(token, end_others=False)
    assert [await works(cookie) for cookie in (first, second, other)] == [True, True, True]
    third = await signed_in(token, end_others=True)
    assert [await works(cookie) for cookie in (first, second, third, other)] == [
        False, False, True, True,
    ]  # fmt: skip
    answer = await http.post("/v1/session", json={"key": token, "end_others": "yes"})
    assert fields_of(problem(answer, 422, "invalid_input")) == ["end_others"]


async def test_the_last_admin_key_cannot_be_revoked_over_http(
    http: httpx.AsyncClient, token: str, store: Store
) -> None:
    own = token.split("_")[1]
    await new_key(store, scopes=["read", "manage"])
    expired = await new_key(store)
    await revoke_key(Context(store, DEFAULT), expired.split("_")[1])
    path = f"/v1/tenants/default/keys/{own}"
    told = problem(await http.delete(path, headers=bearer(token)), 409, "conflict")
    assert "create another one first" in told["detail"]
    assert (await http.get("/v1/queues", headers=bearer(token))).status_code == 200
    await new_key(store)
    assert (await http.delete(path, headers=bearer(token))).status_code == 200


async def test_of_two_admin_keys_that_revoke_each_other_one_stays(home: Home) -> None:
    stores = [await home.open(), await home.open()]
    left = await new_key(stores[0])
    for _ in range(EACH_OTHER_ROUNDS):
        pair = [left, await new_key(stores[0])]
        outcomes = await asyncio.gather(
            *(
                revoke_key(Context(store, DEFAULT), token.split("_")[1], keep_admin=True)
                for store, token in zip(stores, pair, strict=True)
            ),
            return_exceptions=True,
        )
        refused = [isinstance(outcome, Conflict) for outcome in outcomes]
        assert sorted(refused) == [False, True], outcomes
        left = pair[refused.index(True)]
    for store in stores:
        await store.close()


async def test_a_server_that_others_can_reach_says_what_that_means(
    children: Children, tmp_path: Path
) -> None:
    server, url = await started(children, tmp_path, "--host", "0.0.0.0")  # noqa: S104
    await key_of(server)
    server.terminate()
    await server.succeeded()
    told = server.stderr()
    assert f"listen on 0.0.0.0, port {url.rpartition(':')[2]}: who can reach every network" in told
    assert "plain HTTP" in told


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("localhost:80", True),
        *((site, False) for site in OTHER_SITES),
        (None, False),
        ("", False),
    ],
)
def test_the_host_of_a_request_is_this_machine_or_not(host: str | None, is_own: bool) -> None:
    assert names_loopback(host) is is_own


async def test_a_path_lists_all_its_methods(http: httpx.AsyncClient, reused_api: ReusedApi) -> None:
    paths = {
        re.sub(r"{[^}]*}", "x", route.path): route.methods
        for route in reused_api.routes
        if isinstance(route, HTTPRoute) and not route.path.startswith("/docs")  # A page.
    }
    assert len(paths) > 80
    for path, methods in paths.items():
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - methods | {"OPTIONS"}:
            answer = await http.request(method, path)
            allowed = {part.strip() for part in answer.headers["allow"].split(",")}
            assert (answer.status_code, allowed) == (
                204 if method == "OPTIONS" else 405,
                {*methods},
            ), (method, path)


async def test_a_flag_that_is_null_is_refused(http: httpx.AsyncClient, token: str) -> None:
    await http.put("/v1/queues/q", json={}, headers=bearer(token))
    made = await http.post("/v1/batches", json={"queue": "q", "open": True}, headers=bearer(token))
    for path, body, field in (
        ("/v1/batches", {"queue": "q", "open": None}, "open"),
        (f"/v1/batches/{made.json()['id']}/items", {}, "items"),
        ("/v1/workflows/w/runs/r/cancel", {"compensate": None}, "compensate"),
        ("/v1/session", {"key": token, "end_others": None}, "end_others"),
    ):
        answer = await http.post(path, json=body, headers=bearer(token))
        assert fields_of(problem(answer, 422, "invalid_input")) == [field], path


async def test_a_client_that_goes_in_the_middle_of_a_body_is_no_error_of_the_server(
    home: Home, reused_api: ReusedApi, caplog: pytest.LogCaptureFixture
) -> None:
    parts = [{"type": "http.request", "body": b'{"key"', "more_body": True}]
    sent: list[Any] = []

    async def receive() -> Any:
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"content-length", b"500")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/session",
        "raw_path": b"/v1/session",
        "query_string": b"",
        "headers": headers,
    }
    api = reused_api.on(home)
    async with in_process(api):
        await api(cast(Any, scope), receive, send)
    assert sent[0]["status"] == 400
    assert [record for record in caplog.records if record.levelno >= logging.INFO] == []
