"""Who gets in: keys, scopes, tenants, and the declarations of routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from httpx import AsyncClient, Response
from litestar import Litestar, get

from tests.kit.api import ReusedApi, bearer, in_process, new_key
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.api.access import check_declarations
from tickwork.core.access import Permission
from tickwork.core.api_key import parse_token
from tickwork.core.model import DEFAULT, SYSTEM, Scope, Tenant
from tickwork.ops.context import Context
from tickwork.ops.keys import create_first_key, revoke_key, rotate_key
from tickwork.store.contract import Store

Client = AsyncClient


@pytest.fixture
async def client(home: Home, clock: VirtualClock, reused_api: ReusedApi) -> AsyncIterator[Client]:
    """A client without a key."""
    async with in_process(reused_api.on(home, clock)) as started:
        yield started


def refused(response: Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["code"]


def id_of(token: str) -> str:
    parsed = parse_token(token)
    assert parsed is not None
    return parsed.key_id


async def stats(client: Client, token: str, **headers: str) -> Response:
    return await client.get("/v1/stats", headers=bearer(token) | headers)


def test_a_route_without_a_declaration_is_refused() -> None:
    @get("/v1/forgotten", sync_to_thread=False)
    def forgotten() -> None:
        """Declares nothing."""

    with pytest.raises(LookupError, match="/v1/forgotten"):
        check_declarations(Litestar([forgotten]))


@pytest.mark.parametrize(
    "value",
    [
        None, "", "Bearer", "Bearer ", "Basic dGVzdDp0ZXN0", "Bearer nonsense",
        "Bearer tw_admin_", f"Bearer tw_admin_{'0' * 64}", f"Bearer tw_{'a' * 33}_{'0' * 64}",
        f"Bearer tw_admin_{'0' * 63}g", "Bearer " + "x" * 10_000, "Bearer a.b.c",
        f"Bearer tw_ädmin_{'0' * 64}",
    ],
)  # fmt: skip
async def test_a_request_without_a_valid_key_is_refused(
    client: Client, store: Store, value: str | None
) -> None:
    await create_first_key(store)
    headers = [] if value is None else [(b"Authorization", value.encode())]
    answer = await client.get("/v1/stats", headers=headers)
    assert refused(answer) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_key_has_only_its_scopes(client: Client, store: Store) -> None:
    for scope in Permission:
        token = await new_key(store, scopes=[scope])
        expected = 200 if scope is Permission.READ else 403
        answer = await stats(client, token)
        assert answer.status_code == expected, scope
        if expected == 403:
            assert refused(answer) == (403, "needs_read")


async def test_a_key_ends_with_its_expiry_by_the_databases_clock(
    client: Client, store: Store, clock: VirtualClock
) -> None:
    token = await new_key(store, expires_at=clock.now() + timedelta(seconds=10))
    assert (await stats(client, token)).status_code == 200
    clock.advance(seconds=9.9)
    assert (await stats(client, token)).status_code == 200
    clock.advance(seconds=0.1)
    assert refused(await stats(client, token)) == (401, "key_expired")


async def test_a_revoked_key_ends_within_seconds(
    client: Client, store: Store, clock: VirtualClock
) -> None:
    token = await new_key(store)
    assert (await stats(client, token)).status_code == 200
    await revoke_key(Context(store, DEFAULT), id_of(token))
    clock.advance(seconds=3)
    assert refused(await stats(client, token)) == (401, "key_revoked")
    changed = token[:-1] + ("0" if token[-1] != "0" else "1")
    assert refused(await stats(client, changed)) == (401, "unauthorized")


async def test_both_secrets_of_a_rotated_key_work_for_some_time(
    client: Client, store: Store, clock: VirtualClock
) -> None:
    old = await new_key(store)
    new = (await rotate_key(Context(store, DEFAULT), id_of(old), keep_seconds=60)).token
    for token in (old, new):
        assert (await stats(client, token)).status_code == 200
    clock.advance(seconds=60)
    assert refused(await stats(client, old)) == (401, "unauthorized")
    assert (await stats(client, new)).status_code == 200


async def test_a_key_acts_for_its_tenant_and_only_the_operator_for_others(
    client: Client, store: Store
) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="other"))
    operator, reader = await new_key(store), await new_key(store, scopes=["read"])
    for token in (operator, reader):
        answer = await stats(client, token, **{"Tickwork-Tenant": "default"})
        assert answer.status_code == 200
    named = {"Tickwork-Tenant": "other"}
    assert (await stats(client, operator, **named)).status_code == 200
    assert refused(await stats(client, reader, **named)) == (403, "needs_admin")
    for unknown in ("nobody", "", "%00"):
        answer = await stats(client, operator, **{"Tickwork-Tenant": unknown})
        assert refused(answer) == (404, "not_found")


async def test_a_key_of_a_suspended_tenant_is_refused_but_not_the_operators(
    client: Client, store: Store, clock: VirtualClock
) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="other"))
    token = await new_key(store, tenant="other", scopes=["read"])
    operator = await new_key(store, tenant="other")
    assert (await stats(client, token)).status_code == 200
    await store.tenants.put(SYSTEM, Tenant(id="other", suspended=True))
    clock.advance(seconds=3)
    assert refused(await stats(client, token)) == (403, "tenant_suspended")
    assert (await stats(client, operator)).status_code == 200


async def test_an_owner_bound_key_reaches_only_what_is_open_to_owners(
    client: Client, store: Store
) -> None:
    token = await new_key(store, owner="ada", scopes=["read", "manage"])
    assert refused(await stats(client, token)) == (403, "owner_bound")
    body = {"cron_expr": "@daily"}
    answer = await client.post("/v1/schedules/preview", json=body, headers=bearer(token))
    assert answer.status_code == 200


async def test_the_use_of_a_key_is_stored(
    client: Client, store: Store, clock: VirtualClock
) -> None:
    token = await new_key(store)
    assert (await stats(client, token)).status_code == 200
    assert (await stats(client, token)).status_code == 200
    # A read waits for no write: what happens in the background may need another request.
    used = None
    for _ in range(100):
        used = (await store.keys.get(DEFAULT, id_of(token))).last_used_at
        if used is not None:
            break
        await client.get("/readyz")
    assert used == clock.now()


async def test_the_first_key_is_made_once(store: Store) -> None:
    first = await create_first_key(store)
    assert first is not None
    assert (first.id, first.scopes) == ("admin", tuple(Permission))
    assert first.token not in repr(first)
    assert await create_first_key(store) is None
    await revoke_key(Context(store, Scope("default")), "admin")
    assert await create_first_key(store) is None
