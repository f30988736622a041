"""Tenants and API keys over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.acts import every_page, fields_of, make_queue, problem, pull, send
from tests.kit.api import bearer

Http = httpx.AsyncClient


async def test_a_tenant_is_created_changed_suspended_and_resumed(http: Http) -> None:
    made = await http.post("/v1/tenants", json={"id": "acme", "schedules_max": 5})
    assert made.status_code == 201
    assert made.json() == {
        "id": "acme", "weight": 1, "suspended": False, "min_interval_seconds": None,
        "owner_min_interval_seconds": None, "schedules_max": 5, "owner_schedules_max": None,
        "schedules_per_second": None, "messages_per_second": None, "requests_per_second": None,
        "payload_bytes_max": None, "backlog_max": None, "claimed_max": None, "emails_per_day": None,
        "queues_max": None, "endpoints_max": None, "subscriptions_max": None, "sessions_max": None,
        "owner_targets": [],
    }  # fmt: skip
    changed = await http.patch("/v1/tenants/acme", json={"weight": 3, "schedules_max": None})
    assert (changed.json()["weight"], changed.json()["schedules_max"]) == (3, None)
    assert (await http.post("/v1/tenants/acme/suspend")).json()["suspended"] is True
    assert (await http.get("/v1/tenants/acme")).json()["suspended"] is True
    assert (await http.post("/v1/tenants/acme/resume")).json()["suspended"] is False
    listed = await every_page(http, "/v1/tenants", limit=1)
    assert [tenant["id"] for tenant in listed] == ["acme", "default"]


async def test_a_quota_that_is_reached_answers_429_with_its_name_and_when_to_try_again(
    http: Http,
) -> None:
    await make_queue(http)
    schedule = {"interval_minutes": 60, "target": {"type": "queue", "queue": "q"}}
    ways = (
        ("payload_bytes_max", 5, "/v1/queues/q/messages", {"body": "123456"}, "60"),
        ("payload_bytes_max", 5, "/v1/schedules", {**schedule, "payload": "123456"}, "60"),
        ("backlog_max", 0, "/v1/events", {"type": "a.b", "data": 1}, "1"),
        ("backlog_max", 0, "/v1/batches", {"queue": "q", "items": [{"body": 1}]}, "1"),
        ("messages_per_second", 1, "/v1/queues/q/messages/batch", {"messages": [{"body": 1}] * 2},
         "60"),
        ("schedules_max", 0, "/v1/schedules", schedule, "60"),
    )  # fmt: skip
    for limit, value, path, body, wait in ways:
        await http.patch("/v1/tenants/default", json={limit: value})
        refused = await http.post(path, json=body)
        told = problem(refused, 429, "too_many")
        assert (told["limit"], refused.headers["Retry-After"]) == (limit, wait)
        assert limit in told["detail"]
        await http.patch("/v1/tenants/default", json={limit: None})
        assert (await http.post(path, json=body)).status_code == 201
    await http.patch("/v1/tenants/default", json={"messages_per_second": 0.1})
    assert (await http.post("/v1/queues/q/messages", json={"body": 1})).status_code == 201
    refused = await http.post("/v1/queues/q/messages", json={"body": 1})
    assert 1 < int(refused.headers["Retry-After"]) <= 10
    assert (await http.get("/v1/usage")).json()["schedules"] == 2


async def test_how_many_a_tenant_may_have_is_a_quota(http: Http) -> None:
    await make_queue(http)
    endpoint = {"name": "shop", "url": "https://example.com/in", "types": ["*"]}
    subscription = {"types": "a.*", "queue": "q"}
    owned = {"interval_seconds": 60, "target": {"type": "queue", "queue": "q"}, "owner": "ada"}
    ways: tuple[tuple[str, int, str, str, dict[str, Any], str], ...] = (
        ("queues_max", 1, "PUT", "/v1/queues/more", {}, "default has 1 queues and may have 1"),
        ("endpoints_max", 0, "POST", "/v1/endpoints", endpoint, "has 0 endpoints and may have 0"),
        ("subscriptions_max", 0, "POST", "/v1/subscriptions", subscription, "may have 0; delete"),
        ("owner_schedules_max", 0, "POST", "/v1/schedules", owned, "Owner ada would have 1"),
    )
    for limit, value, method, path, body, said in ways:
        await http.patch("/v1/tenants/default", json={limit: value})
        told = problem(await http.request(method, path, json=body), 429, "too_many")
        assert told["limit"] == limit
        assert said in told["detail"]
        assert f"raise its {limit}" in told["detail"]
        await http.patch("/v1/tenants/default", json={limit: None})
        assert (await http.request(method, path, json=body)).status_code == 201


async def test_a_tenant_that_is_unknown_repeated_or_invalid_is_refused(http: Http) -> None:
    problem(await http.post("/v1/tenants", json={"id": "default"}), 409, "conflict")
    problem(await http.get("/v1/tenants/nobody"), 404, "not_found")
    problem(await http.patch("/v1/tenants/nobody", json={}), 404, "not_found")
    told = problem(await http.post("/v1/tenants", json={"id": "a", "wieght": 1}), 400,
                   "unknown_field")  # fmt: skip
    assert fields_of(told) == ["wieght"]
    for body in ({}, {"id": 7}, {"id": ""}, {"id": "x" * 121}):
        told = problem(await http.post("/v1/tenants", json=body), 422, "invalid_input")
        assert fields_of(told) == ["id"]
    told = problem(await http.patch("/v1/tenants/default", json={"owner_targets": ["fax"]}), 422,
                   "invalid_input")  # fmt: skip
    assert fields_of(told) == ["owner_targets[0]"]


async def test_a_key_is_created_used_rotated_and_revoked(http: Http) -> None:
    base = "/v1/tenants/default/keys"
    made = await http.post(base, json={"name": "ci", "scopes": ["read"]})
    assert made.status_code == 201
    key, token = made.json()["id"], made.json()["token"]
    assert (await http.get("/v1/stats", headers=bearer(token))).status_code == 200
    rotated = (await http.post(f"{base}/{key}/rotate", json={"keep_seconds": 60})).json()
    assert rotated["token"] != token
    assert (await http.get("/v1/stats", headers=bearer(rotated["token"]))).status_code in (200, 401)
    assert (await http.delete(f"{base}/{key}")).json()["revoked_at"]
    shown = await http.get(f"{base}/{key}")
    assert shown.json()["revoked_at"]
    listed = await http.get(base)
    assert key in [shown_key["id"] for shown_key in listed.json()["items"]]
    for secret in (token, rotated["token"]):
        assert secret.rpartition("_")[2] not in shown.text + listed.text
    problem(await http.post(f"{base}/{key}/rotate", json={}), 409, "conflict")


async def test_a_repeated_creation_makes_one_key_and_shows_its_secret_once(http: Http) -> None:
    headers, body = {"Idempotency-Key": "k"}, {"name": "ci", "scopes": ["read"]}
    first = await http.post("/v1/tenants/default/keys", json=body, headers=headers)
    again = await http.post("/v1/tenants/default/keys", json=body, headers=headers)
    assert (first.json()["id"], again.json()["token"]) == (again.json()["id"], "")
    assert first.json()["token"]


async def test_an_invalid_key_is_refused_with_its_fields(http: Http) -> None:
    base = "/v1/tenants/default/keys"
    for body, fields in (
        ({}, ["name", "scopes"]),
        ({"name": "a", "scopes": []}, ["scopes"]),
        ({"name": "a", "scopes": ["root"]}, ["scopes"]),
        ({"name": "a", "scopes": ["admin"], "owner": "ada"}, ["scopes"]),
        ({"name": "a", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"}, ["expires_at"]),
        ({"name": "a", "scopes": ["read"], "owner": ""}, ["owner"]),
    ):
        told = problem(await http.post(base, json=body), 422, "invalid_input")
        assert fields_of(told) == fields
    problem(await http.post("/v1/tenants/nobody/keys", json={}), 404, "not_found")
    problem(await http.get("/v1/tenants/nobody/keys"), 404, "not_found")
    problem(await http.get(f"{base}/nothing"), 404, "not_found")
    problem(await http.delete(f"{base}/nothing"), 404, "not_found")
    for seconds in (-1, "x", True, 10**9):
        answer = await http.post(f"{base}/x/rotate", json={"keep_seconds": seconds})
        assert fields_of(problem(answer, 422, "invalid_input")) == ["keep_seconds"]


async def test_the_operator_widens_and_narrows_the_fire_windows(http: Http) -> None:
    widened = await http.post("/v1/cluster/widen", json={"seconds": 600})
    assert (widened.status_code, widened.json()["widened_seconds"]) == (200, 600)
    assert (await http.get("/v1/cluster")).json()["widened_seconds"] == 600
    wrong: list[tuple[dict[str, object], str]] = [
        ({"seconds": -1}, "seconds"),
        ({"seconds": 86_401}, "seconds"),
        ({"seconds": "x"}, "seconds"),
        ({}, "seconds"),
        ({"second": 5, "seconds": 5}, "second"),
    ]
    for body, field in wrong:
        answer = await http.post("/v1/cluster/widen", json=body)
        assert fields_of(answer.json()) == [field]
        assert answer.status_code in (400, 422)
    narrowed = await http.post("/v1/cluster/widen", json={"seconds": 0})
    assert narrowed.json()["widened_seconds"] == 0


async def test_the_operator_pauses_and_resumes_everything(http: Http) -> None:
    await make_queue(http)
    await send(http)
    paused = await http.post("/v1/cluster/pause")
    assert paused.status_code == 200
    assert paused.json()["paused_at"] is not None
    assert await pull(http) == []
    assert (await http.get("/v1/cluster")).json()["paused_at"] == paused.json()["paused_at"]
    assert (await http.post("/v1/cluster/resume")).json()["paused_at"] is None
    assert len(await pull(http, wait_ms=2_000)) == 1
