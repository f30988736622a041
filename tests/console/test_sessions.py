"""Sessions of the console: a cookie stands for an API key, for twelve hours and no longer than the
key; changes need the CSRF token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http.cookies import Morsel, SimpleCookie
from typing import Any, NamedTuple

import httpx
import pytest

from tests.conformance.acts import make_tenants
from tests.kit.api import ReusedApi, bearer, in_process, new_key
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.api.server_state import ServerState
from tickwork.core.api_key import parse_token
from tickwork.core.model import DEFAULT, SYSTEM, Scope, Tenant
from tickwork.core.session import SESSION_SECONDS
from tickwork.errors import InvalidInput
from tickwork.ops.authenticate import CACHE_SECONDS
from tickwork.ops.context import Context
from tickwork.ops.keys import revoke_key, rotate_key
from tickwork.ops.tenants import resume_tenant, suspend_tenant
from tickwork.store.contract import Store


class World(NamedTuple):
    """A served API, its store and its clock."""

    client: httpx.AsyncClient
    store: Store
    clock: VirtualClock
    context: ServerState

    async def sign_in(self, token: str) -> dict[str, Any]:
        """Signs in; the client keeps the cookie."""
        answer = await self.client.post("/v1/session", json={"key": token})
        assert answer.status_code == 201, answer.text
        # The client of the test speaks plain HTTP and would not send a Secure cookie.
        self.client.cookies = httpx.Cookies({"__Host-tickwork_session": cookie(answer).value})
        answered: dict[str, Any] = answer.json()
        return answered

    async def refusal(self) -> tuple[int, str]:
        """How a request with the cookie is answered once nothing is cached any more."""
        self.clock.advance(seconds=CACHE_SECONDS)
        answer = await self.client.get("/v1/queues")
        return answer.status_code, answer.json().get("code", "")


def cookie(answer: httpx.Response) -> Morsel[str]:
    return SimpleCookie(answer.headers["set-cookie"])["__Host-tickwork_session"]


@pytest.fixture(scope="module")
def reused_api() -> ReusedApi:
    return ReusedApi()


@pytest.fixture
async def world(
    home: Home, store: Store, clock: VirtualClock, reused_api: ReusedApi
) -> AsyncIterator[World]:
    api = reused_api.on(home, clock)
    async with in_process(api) as client:
        yield World(client, store, clock, api.state.server)


async def test_a_session_acts_as_its_key_and_ends_when_told(world: World) -> None:
    client = world.client
    token = await new_key(world.store, scopes=["read", "manage"])
    assert (await client.get("/v1/session")).status_code == 401
    told = await world.sign_in(token)
    assert (told["tenant"], told["scopes"], told["owner"]) == (
        "default", ["read", "manage"], None
    )  # fmt: skip
    assert (await client.get("/v1/session")).json() == told
    assert (await client.get("/v1/queues")).status_code == 200
    csrf = {"X-CSRF-Token": told["csrf_token"]}
    assert (await client.put("/v1/queues/a", json={}, headers=csrf)).status_code == 201
    sent = await client.post("/v1/queues/a/messages", json={"body": 1}, headers=csrf)
    assert (sent.status_code, sent.json()["code"]) == (403, "needs_send")
    changes = [entry["action"] for entry in (await client.get("/v1/audit")).json()["items"]]
    assert changes[:2] == ["queue.put", "session.start"]
    assert (await client.delete("/v1/session", headers=csrf)).status_code == 204
    assert (await client.get("/v1/queues")).json()["code"] == "session_ended"


async def test_a_change_with_a_cookie_needs_the_csrf_token(world: World) -> None:
    token = await new_key(world.store)
    other = await world.sign_in(token)
    told = await world.sign_in(token)
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": other["csrf_token"]}):
        for method, path in (("PUT", "/v1/queues/a"), ("DELETE", "/v1/session")):
            answer = await world.client.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "csrf"), (method, headers)
    assert told["csrf_token"] not in str(world.client.cookies)
    # The header Authorization is the caller's own doing, and needs none; it wins over the cookie.
    made = await world.client.put("/v1/queues/a", json={}, headers=bearer(token))
    assert made.status_code == 201
    wrong = await world.client.get("/v1/queues", headers=bearer("tw_x_y"))
    assert wrong.status_code == 401


async def test_a_session_ends_after_twelve_hours_and_its_row_is_deleted(world: World) -> None:
    await world.sign_in(await new_key(world.store))
    world.clock.advance(seconds=SESSION_SECONDS - 2 * CACHE_SECONDS)
    assert (await world.refusal())[0] == 200
    assert await world.refusal() == (401, "session_ended")
    await world.store.pruner.prune(SYSTEM, 10)
    assert await world.refusal() == (401, "session_ended")


async def test_a_tenant_has_a_quota_of_sessions_that_does_not_lock_the_operator_out(
    world: World,
) -> None:
    await world.store.tenants.put(SYSTEM, Tenant(id="default", sessions_max=2))
    token, operator = await new_key(world.store, scopes=["read"]), await new_key(world.store)
    for _ in range(2):
        await world.sign_in(token)
    refused = await world.client.post("/v1/session", json={"key": token})
    assert (refused.status_code, refused.json()["limit"]) == (429, "sessions_max")
    assert "Tenant default has 2 sessions and may have 2" in refused.json()["detail"]
    assert "sign in with end_others" in refused.json()["detail"]
    await world.sign_in(operator)
    others = {"key": token, "end_others": True}
    assert (await world.client.post("/v1/session", json=others)).status_code == 201


async def test_a_session_ends_with_its_key(world: World) -> None:
    await world.store.tenants.put(SYSTEM, Tenant(id="acme"))
    token = await new_key(world.store, tenant="acme", scopes=["read"])
    parsed = parse_token(token)
    assert parsed is not None
    acme = Scope("acme")
    await world.sign_in(token)
    await world.store.tenants.put(SYSTEM, Tenant(id="acme", suspended=True))
    assert await world.refusal() == (403, "tenant_suspended")
    await world.store.tenants.put(SYSTEM, Tenant(id="acme"))
    assert (await world.refusal())[0] == 200
    rotated = await rotate_key(Context(world.store, acme), parsed.key_id, keep_seconds=60)
    assert (await world.refusal())[0] == 200
    world.clock.advance(seconds=60)
    assert await world.refusal() == (401, "unauthorized")
    await world.sign_in(rotated.token)
    assert (await world.refusal())[0] == 200
    await revoke_key(Context(world.store, acme), parsed.key_id)
    assert await world.refusal() == (401, "key_revoked")


async def test_what_is_no_session_is_refused(world: World) -> None:
    for value in ("", "x", "0" * 64, "é" * 64, "0" * 5_000):
        headers = {b"cookie": b"__Host-tickwork_session=" + value.encode()}
        answer = await world.client.get("/v1/queues", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "session_ended"), value
    for body in ({}, {"key": ""}, {"key": 1}, {"key": "a", "b": 1}):
        assert (await world.client.post("/v1/session", json=body)).status_code in (400, 422)
    for token in ("x", "tw_a_b", f"tw_admin_{'0' * 64}", "a.b.c"):
        answer = await world.client.post("/v1/session", json={"key": token})
        assert answer.status_code == 401, token
        assert "set-cookie" not in answer.headers
    form = await world.client.post("/v1/session", data={"key": "x"})
    assert form.status_code == 415


async def test_an_operator_acts_for_another_tenant(world: World) -> None:
    await world.store.tenants.put(SYSTEM, Tenant(id="acme"))
    await world.sign_in(await new_key(world.store))
    named = {"Tickwork-Tenant": "acme"}
    assert (await world.client.get("/v1/session", headers=named)).json()["tenant"] == "acme"
    await world.sign_in(await new_key(world.store, scopes=["read"]))
    refused = await world.client.get("/v1/session", headers=named)
    assert (refused.status_code, refused.json()["code"]) == (403, "needs_admin")


async def test_the_cookie_is_for_this_site_and_no_script(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await new_key(world.store)
    for is_on_loopback, proxy, is_secure in (
        (False, {}, True),
        (True, {}, False),
        (True, {"X-Forwarded-For": "10.0.0.1"}, True),
    ):
        monkeypatch.setattr(world.context, "is_on_loopback", is_on_loopback)
        answer = await world.client.post("/v1/session", json={"key": token}, headers=proxy)
        (set_,) = SimpleCookie(answer.headers["set-cookie"]).values()
        assert set_.key == ("__Host-tickwork_session" if is_secure else "tickwork_session")
        assert (set_["httponly"], set_["samesite"], set_["path"]) == (True, "strict", "/")
        assert bool(set_["secure"]) is is_secure
        assert int(set_["max-age"]) == SESSION_SECONDS
        assert token not in answer.headers["set-cookie"]
        assert answer.headers["cache-control"] == "no-store"


async def test_a_session_is_stored_without_its_secret(world: World) -> None:
    await world.sign_in(await new_key(world.store))
    (secret,) = world.client.cookies.values()
    assert await world.store.sessions.find(SYSTEM, secret.encode()) is None
    assert await world.store.sessions.find(SYSTEM, bytes.fromhex(secret)) is None
    with pytest.raises(InvalidInput):
        await world.store.sessions.find(DEFAULT, b"")


async def test_a_key_works_as_soon_as_it_is_rotated_and_its_tenant_resumed(world: World) -> None:
    client, context = world.client, Context(world.store, DEFAULT)
    token = await new_key(world.store, scopes=["read"])
    assert (await client.get("/v1/queues", headers=bearer(token))).status_code == 200
    parsed = parse_token(token)
    assert parsed is not None
    rotated = (await rotate_key(context, parsed.key_id)).token
    assert (await client.get("/v1/queues", headers=bearer(rotated))).status_code == 200
    await make_tenants(world.store, "acme")
    other = await new_key(world.store, tenant="acme", scopes=["read"])
    await suspend_tenant(world.store, "acme")
    assert (await client.get("/v1/queues", headers=bearer(other))).status_code == 403
    await resume_tenant(world.store, "acme")
    assert (await client.get("/v1/queues", headers=bearer(other))).status_code == 200
