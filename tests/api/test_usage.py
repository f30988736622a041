"""What tenants used, over HTTP: a key sees its own tenant, the operator all."""

from __future__ import annotations

import httpx

from tests.api.acts import make_queue, problem, pull, send
from tests.kit.api import bearer, new_key
from tickwork.core.model import SYSTEM, Tenant
from tickwork.store.contract import Store

Http = httpx.AsyncClient


async def _handle(http: Http, messages: int, **headers: str) -> None:
    for _ in range(messages):
        sent = await http.post("/v1/queues/q/messages", json={"body": 1}, headers=headers)
        assert sent.status_code == 201
    pulled = (await http.post("/v1/queues/q/messages/pull", json={}, headers=headers)).json()
    acks = {"acks": [{"lease_id": message["lease_id"]} for message in pulled["messages"]]}
    answer = await http.post("/v1/queues/q/messages/ack", json=acks, headers=headers)
    assert answer.status_code == 200


async def test_a_key_sees_what_its_tenant_used_and_the_operator_what_all_did(
    http: Http, store: Store
) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="acme"))
    own = bearer(await new_key(store, tenant="acme", scopes=["read", "manage", "send", "consume"]))
    assert (await http.put("/v1/queues/q", json={}, headers=own)).status_code == 201
    await make_queue(http)
    await _handle(http, 2)
    await _handle(http, 3, **own)
    for by in ("hour", "day"):
        asked = f"/v1/usage?by={by}"
        for headers, path, expected in (
            ({}, asked, {"default": 2}),
            (own, asked, {"acme": 3}),
            ({}, f"{asked}&tenant=acme", {"acme": 3}),
            ({}, f"{asked}&tenant=*", {"acme": 3, "default": 2}),
        ):
            used = (await http.get(path, headers=headers)).json()["used"]
            assert {row["tenant"]: row["handled"] for row in used["totals"]} == expected
            assert sum(row["handled"] for row in used["periods"]) == sum(expected.values())
            assert all(row["handler_seconds"] > 0 for row in used["totals"])
    for tenant in ("*", "default"):
        refused = await http.get(f"/v1/usage?by=day&tenant={tenant}", headers=own)
        assert refused.status_code in (403, 404)
    assert (await http.get("/v1/usage")).json()["used"] is None
    told = problem(await http.get("/v1/usage?by=minute"), 422, "invalid_input")
    assert told["errors"][0]["field"] == "by"
    assert await send(http)
    assert await pull(http)
