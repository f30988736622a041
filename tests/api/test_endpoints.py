"""Events, endpoints and deliveries over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.acts import every_page, fields_of, make_queue, problem, pull
from tickwork.core.delivery.endpoint import EndpointSettings
from tickwork.core.options import names_of
from tickwork.core.options.endpoint import EndpointFields

Http = httpx.AsyncClient
BODY = {"name": "shop", "url": "https://example.com/hooks", "types": ["order.*"]}


async def make(http: Http, **fields: Any) -> dict[str, Any]:
    response = await http.post("/v1/endpoints", json={**BODY, **fields})
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


async def test_an_endpoint_is_created_changed_and_deleted(http: Http) -> None:
    made = await make(http, secret_headers={"X-Key": "canary-of-a-secret"})
    assert made["id"].startswith("end_")
    assert made["secret"].startswith("whsec_")
    shown = await http.get("/v1/endpoints/shop")
    assert (shown.json()["secret"], shown.json()["secret_headers"]) == (None, ["X-Key"])
    assert "canary-of-a-secret" not in shown.text
    assert (await http.get(f"/v1/endpoints/{made['id']}")).json() == shown.json()
    etag = {"If-Match": shown.headers["etag"]}
    changed = await http.patch("/v1/endpoints/shop", json={"timeout_seconds": 5}, headers=etag)
    assert changed.json()["timeout_seconds"] == 5
    late = await http.patch("/v1/endpoints/shop", json={"timeout_seconds": 6}, headers=etag)
    problem(late, 412, "precondition_failed")
    disabled = await http.post("/v1/endpoints/shop/disable", json={"reason": "a move"})
    assert disabled.json()["disabled_reason"] == "a move"
    assert (await http.post("/v1/endpoints/shop/enable")).json()["disabled_at"] is None
    rotated = (await http.post("/v1/endpoints/shop/rotate")).json()["secret"]
    assert rotated.startswith("whsec_")
    assert rotated != made["secret"]
    assert (await http.get("/v1/endpoints/shop/stats")).json()["delivered"] == 0
    assert (await http.delete("/v1/endpoints/shop")).json() == {"waiting": 0}
    problem(await http.get("/v1/endpoints/shop"), 404, "not_found")


async def test_a_repeat_with_an_idempotency_key_shows_no_secret(http: Http) -> None:
    keyed = {"Idempotency-Key": "e"}
    first = await http.post("/v1/endpoints", json=BODY, headers=keyed)
    second = await http.post("/v1/endpoints", json=BODY, headers=keyed)
    assert second.json() == {**first.json(), "secret": None}
    problem(await http.post("/v1/endpoints", json=BODY), 409, "conflict")


async def test_a_wrong_endpoint_is_refused_with_its_field(http: Http) -> None:
    told = problem(await http.post("/v1/endpoints", json={**BODY, "typs": 1}), 400, "unknown_field")
    assert fields_of(told) == ["typs"]
    told = problem(await http.post("/v1/endpoints", json={"name": "x"}), 422, "invalid_input")
    assert set(fields_of(told)) == {"url", "types"}


async def test_endpoints_are_listed_by_name_page_by_page(http: Http) -> None:
    for name in ("c", "a", "b"):
        await make(http, name=name)
    listed = await every_page(http, "/v1/endpoints", limit=2)
    assert [endpoint["name"] for endpoint in listed] == ["a", "b", "c"]
    assert all(endpoint["secret"] is None for endpoint in listed)


async def test_an_event_reaches_endpoints_and_subscribed_queues_once(http: Http) -> None:
    await make_queue(http)
    await http.post("/v1/subscriptions", json={"types": "order.*", "queue": "q"})
    made = await make(http)
    event = {"type": "order.paid", "data": {"order": 17}, "event_id": "order-17"}
    published = await http.post("/v1/events", json=event)
    assert published.status_code == 201
    assert published.json() == {
        "event_id": "order-17",
        "queues": 1,
        "endpoints": 1,
        "is_repeat": False,
    }
    await http.post("/v1/events", json=event)
    assert len(await pull(http)) == 1
    (delivery,) = await every_page(http, "/v1/deliveries", endpoint="shop", status="undelivered")
    assert (delivery["endpoint_id"], delivery["status"]) == (made["id"], "waiting")
    url = f"/v1/deliveries/{delivery['id']}"
    assert (await http.get(url)).json() == delivery
    assert (await http.get(f"{url}/attempts")).json() == {"items": [], "next_cursor": None}
    assert (await http.post(f"{url}/resend")).json()["status"] == "waiting"
    recovered = await http.post(
        "/v1/endpoints/shop/recover", json={"since": "2026-01-01T00:00:00Z", "rate_per_second": 100}
    )
    assert recovered.json() == {"recovered": 1}
    assert await every_page(http, "/v1/deliveries", status="delivered") == []
    await http.delete("/v1/endpoints/shop")
    told = problem(await http.post(f"{url}/resend"), 409, "conflict")
    assert "is never sent again: its endpoint was deleted" in told["detail"]


async def test_an_event_with_an_idempotency_key_is_published_once(http: Http) -> None:
    await make(http)
    event, keyed = {"type": "order.paid", "data": 1}, {"Idempotency-Key": "p"}
    answers = [await http.post("/v1/events", json=event, headers=keyed) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert len(await every_page(http, "/v1/deliveries")) == 1
    for _ in range(4):
        await http.post("/v1/events", json=event)
    assert (
        len({delivery["id"] for delivery in await every_page(http, "/v1/deliveries", limit=2)}) == 5
    )


async def test_wrong_events_and_unknown_deliveries_are_problems(http: Http) -> None:
    told = problem(await http.post("/v1/events", json={"type": "a"}), 422, "invalid_input")
    assert fields_of(told) == ["data"]
    told = problem(await http.post("/v1/events", json={"data": 1}), 422, "invalid_input")
    assert fields_of(told) == ["type"]
    problem(await http.get("/v1/deliveries/nonsense"), 404, "not_found")
    problem(await http.get("/v1/deliveries?endpoint=nowhere"), 404, "not_found")
    problem(await http.get("/v1/deliveries?status=odd"), 422, "invalid_input")


async def test_a_schedule_may_target_an_endpoint_by_its_name_or_id(http: Http) -> None:
    made = await make(http)
    for name in ("shop", made["id"]):
        target = {"type": "webhook", "endpoint": name}
        created = await http.post("/v1/schedules", json={"cron_expr": "@daily", "target": target})
        assert (created.status_code, created.json()["target"]) == (201, target)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"endpoint": "shob"}, "target.endpoint"),
        ({"endpoint": "shop", "url": "https://example.com/"}, "target.url"),
        ({"endpoint": "shop", "completion": "callback"}, "target.completion"),  # No public URL.
    ]
    for fields, field in wrong:
        body = {"cron_expr": "@daily", "target": {"type": "webhook", **fields}}
        told = problem(await http.post("/v1/schedules", json=body), 422, "invalid_input")
        assert fields_of(told) == [field]


def test_every_setting_of_an_endpoint_may_be_requested() -> None:
    assert names_of(EndpointFields) == {*EndpointSettings.__struct_fields__}
