"""Batches over HTTP."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.acts import every_page, fields_of, make_queue, problem, pull

Http = httpx.AsyncClient


async def test_a_batch_is_created_and_counted_exactly(http: Http) -> None:
    await make_queue(http, max_retries=0)
    items = [{"body": number, "priority": 9 - number} for number in range(4)]
    made = await http.post("/v1/batches", json={"queue": "q", "items": items})
    assert made.status_code == 201
    assert made.json()["id"].startswith("bat_")
    first, second = await pull(http, batch_size=2)
    body = {
        "acks": [{"lease_id": first["lease_id"]}],
        "retries": [{"lease_id": second["lease_id"]}],
    }
    await http.post("/v1/queues/q/messages/ack", json=body)
    await pull(http, batch_size=1)
    url = f"/v1/batches/{made.json()['id']}"
    shown = (await http.get(url)).json()
    counted = {
        name: shown[name] for name in ("pending", "processing", "completed", "failed", "total")
    }
    assert counted == {"pending": 1, "processing": 1, "completed": 1, "failed": 1, "total": 4}
    assert (shown["status"], shown["queue"]) == ("running", "q")
    (failed,) = await every_page(http, f"{url}/items")
    assert (failed["id"], failed["status"]) == (second["id"], "failed")
    assert len(await every_page(http, f"{url}/items", status="pending")) == 1
    cancelled = (await http.post(f"{url}/cancel")).json()
    assert cancelled["failed"] == 2


async def test_batches_are_listed_newest_first_page_by_page(http: Http) -> None:
    await make_queue(http)
    made = [await http.post("/v1/batches", json={"queue": "q"}) for _ in range(5)]
    ids = [response.json()["id"] for response in made]
    listed = [batch["id"] for batch in await every_page(http, "/v1/batches", limit=2)]
    assert listed == ids[::-1]


async def test_a_repeat_with_an_idempotency_key_creates_one_batch(http: Http) -> None:
    await make_queue(http)
    body: dict[str, Any] = {"queue": "q", "items": [{"body": 1}]}
    answers = [
        await http.post("/v1/batches", json=body, headers={"Idempotency-Key": "b"})
        for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert len(await every_page(http, "/v1/batches")) == 1


async def test_a_wrong_item_is_named_and_nothing_is_stored(http: Http) -> None:
    await make_queue(http)
    body: dict[str, Any] = {"queue": "q", "items": [{"body": 1}, {"body": 1, "delay": 3}]}
    told = problem(await http.post("/v1/batches", json=body), 400, "unknown_field")
    assert fields_of(told) == ["items[1].delay"]
    body["items"] = [{"body": 1}, {"body": 1, "priority": 30}]
    told = problem(await http.post("/v1/batches", json=body), 422, "invalid_input")
    assert fields_of(told) == ["items[1].priority"]
    assert await every_page(http, "/v1/batches") == []
    problem(await http.post("/v1/batches", json={"queue": "nowhere"}), 404, "not_found")
    problem(await http.get("/v1/batches/nonsense"), 404, "not_found")


async def test_a_batch_is_opened_filled_in_pieces_and_closed(http: Http) -> None:
    await make_queue(http)
    made = await http.post("/v1/batches", json={"queue": "q", "items": [{"body": 0}], "open": True})
    assert (made.json()["status"], made.json()["total"]) == ("filling", 1)
    url = f"/v1/batches/{made.json()['id']}"
    for number in (1, 2):
        more = {"items": [{"body": number}, {"body": -number}]}
        keyed = {"Idempotency-Key": f"piece {number}"}
        first = await http.post(f"{url}/items", json=more, headers=keyed)
        assert (first.status_code, first.json()["total"]) == (201, 1 + 2 * number)
        assert (await http.post(f"{url}/items", json=more, headers=keyed)).json() == first.json()
    leases = [{"lease_id": message["lease_id"]} for message in await pull(http, batch_size=10)]
    await http.post("/v1/queues/q/messages/ack", json={"acks": leases})
    assert (await http.get(url)).json()["status"] == "filling"
    for _ in range(2):
        closed = (await http.post(f"{url}/close")).json()
        assert (closed["status"], closed["total"], closed["completed"]) == ("completed", 5, 5)
    problem(await http.post(f"{url}/items", json={"items": [{"body": 9}]}), 409, "conflict")
    problem(await http.post("/v1/batches/nonsense/close"), 404, "not_found")
