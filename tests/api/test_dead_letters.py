"""Dead letters over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.acts import every_page, fields_of, make_queue, problem, pull, send
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Message, Tickwork
from tickwork.ops import dead_letters

Http = httpx.AsyncClient
DEAD = "/v1/queues/q/dead"


async def die(http: Http, **fields: Any) -> dict[str, Any]:
    """Sends a message that becomes a dead letter at once."""
    await make_queue(http, max_retries=0)
    await send(http, **fields)
    (pulled,) = await pull(http)
    body = {"retries": [{"lease_id": pulled["lease_id"]}]}
    assert (await http.post("/v1/queues/q/messages/ack", json=body)).json()["retry_count"] == 1
    return (await every_page(http, DEAD))[-1]


async def test_a_dead_letter_is_edited_and_replayed(http: Http) -> None:
    letter = await die(http, body={"to": "adda"}, type="mail")
    assert letter["id"].startswith("dead_")
    assert (letter["reason"], letter["resolution"]) == ("max_retries", None)
    url = f"/v1/dead/{letter['id']}"
    assert (await http.get(url)).json() == letter
    edited = await http.patch(url, json={"body": {"to": "ada"}})
    assert edited.json()["body"] == {"to": "ada"}
    replayed = (await http.post(f"{url}/replay")).json()
    assert replayed["resolution"] == "fixed"
    (message,) = await pull(http)
    assert (message["id"], message["body"]) == (replayed["replayed_as"], {"to": "ada"})
    problem(await http.post(f"{url}/replay"), 404, "not_found")
    problem(await http.patch(url, json={"body": 1}), 409, "conflict")


async def test_dead_letters_are_listed_page_by_page_and_grouped(http: Http) -> None:
    ids = [(await die(http, type="a" if number else "b"))["id"] for number in range(3)]
    assert [letter["id"] for letter in await every_page(http, DEAD, limit=2)] == ids
    assert [letter["id"] for letter in await every_page(http, DEAD, type="b")] == ids[:1]
    assert await every_page(http, DEAD, failed_before="2020-01-01T00:00:00Z") == []
    newest = await every_page(http, "/v1/dead", limit=2)
    assert [(letter["id"], letter["queue"]) for letter in newest] == [
        (id_, "q") for id_ in ids[::-1]
    ]
    assert [letter["id"] for letter in await every_page(http, "/v1/dead", type="b")] == ids[:1]
    groups = (await http.get(f"{DEAD}/groups")).json()["groups"]
    assert [(group["type"], group["letters"]) for group in groups] == [("a", 2), ("b", 1)]


async def test_a_page_of_few_dead_letters_is_short_and_goes_on_where_it_ended(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "LOOKED_AT_MAX", 2)
    ids = [(await die(http, type="rare" if number == 4 else "common"))["id"] for number in range(5)]
    pages: list[list[str]] = []
    query: dict[str, str] = {"type": "rare", "limit": "1000"}
    while True:
        page = (await http.get(DEAD, params=query)).json()
        pages.append([letter["id"] for letter in page["items"]])
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert pages == [[], [], ids[4:]]


async def test_a_dead_letter_shows_the_correlation_that_its_message_began(http: Http) -> None:
    begun, told = await die(http), await die(http, correlation_id="order 1")
    assert (begun["correlation_id"], told["correlation_id"]) == (begun["message_id"], "order 1")
    await http.post(f"{DEAD}/replay", json={"ids": [begun["id"]]})
    (again,) = (await http.get("/v1/queues/q/messages")).json()["items"]
    assert again["correlation_id"] == begun["correlation_id"]


async def test_dead_letters_of_a_queue_are_replayed_and_discarded(http: Http) -> None:
    first, second = await die(http), await die(http)
    replayed = await http.post(f"{DEAD}/replay", json={"ids": [first["id"]]})
    assert replayed.json()["replayed"] == 1
    discarded = await http.post(f"{DEAD}/discard", json={"reason": "max_retries"})
    assert discarded.json() == {"discarded": 1}
    shown = (await http.get(f"/v1/dead/{second['id']}")).json()
    assert shown["resolution"] == "discarded"
    await http.post("/v1/queues/q/purge")
    third = await die(http)
    gone = await http.post(f"/v1/dead/{third['id']}/discard")
    assert gone.json()["resolution"] == "discarded"
    told = problem(
        await http.post(f"{DEAD}/replay", json={"rate_per_second": 0}), 422, "invalid_input"
    )
    assert fields_of(told) == ["rate_per_second"]
    told = problem(await http.post(f"{DEAD}/replay", json={"canaries": 1}), 400, "unknown_field")
    assert "canary" in told["errors"][0]["message"]


async def test_letters_without_a_type_are_selected_apart_and_later_ones_left_alone(
    http: Http,
) -> None:
    ids = [(await die(http, **fields))["id"] for fields in ({}, {"type": "a"}, {})]
    assert [letter["id"] for letter in await every_page(http, DEAD, no_type="true")] == ids[::2]
    counted = (await http.get(f"{DEAD}/count", params={"no_type": "true"})).json()
    assert counted["letters"] == 2
    assert (await http.get(f"{DEAD}/count", params={"type": "a"})).json()["letters"] == 1
    later = (await die(http))["id"]
    which = {"no_type": True, "failed_before": counted["failed_before"]}
    assert (await http.post(f"{DEAD}/discard", json={**which, "limit": 1})).json() == {
        "discarded": 1
    }
    assert (await http.post(f"{DEAD}/replay", json=which)).json()["replayed"] == 1
    assert [letter["id"] for letter in await every_page(http, DEAD)] == [ids[1], later]
    both = {"no_type": True, "type": "a"}
    for verb in ("discard", "replay"):
        told = problem(await http.post(f"{DEAD}/{verb}", json=both), 422, "invalid_input")
        assert fields_of(told) == ["no_type"]
    asked = {"no_type": "true", "type": "a"}
    told = problem(await http.get(f"{DEAD}/count", params=asked), 422, "invalid_input")
    assert fields_of(told) == ["no_type"]
    told = problem(await http.post(f"{DEAD}/discard", json={"no_type": 1}), 422, "invalid_input")
    assert fields_of(told) == ["no_type"]


async def test_an_unknown_dead_letter_is_404(http: Http) -> None:
    await make_queue(http)
    for name in ("nonsense", "dead_" + "0" * 32):
        problem(await http.get(f"/v1/dead/{name}"), 404, "not_found")
        problem(await http.post(f"/v1/dead/{name}/replay"), 404, "not_found")
        problem(await http.post(f"/v1/dead/{name}/discard"), 404, "not_found")
    problem(await http.get("/v1/queues/nowhere/dead"), 404, "not_found")


async def test_a_message_that_died_answers_with_its_dead_letter(http: Http) -> None:
    await http.put("/v1/queues/q", json={"max_retries": 0})
    sent = await send(http)
    (pulled,) = await pull(http)
    await http.post(
        "/v1/queues/q/messages/ack", json={"retries": [{"lease_id": pulled["lease_id"]}]}
    )
    (letter,) = (await http.get("/v1/queues/q/dead")).json()["items"]
    found = (await http.get(f"/v1/messages/{sent}/why")).json()
    assert (found["kind"], found["id"]) == ("dead_letter", letter["id"])


async def test_a_list_shows_the_last_line_of_an_error(home: Home, http: Http) -> None:
    app = Tickwork(home.url)
    app.queue("q", max_retries=0)

    @app.on("q")
    async def handle(_: Message[Any]) -> None:
        raise ValueError("no such order")

    async with app.running(drain_seconds=1.0):
        await app.queue("q").send({"order": 7})
        (letter,) = await eventually(lambda: app.dead_letters.list("q"))
    await app.close()
    assert (letter.error or "").startswith("Traceback (most recent call last):")
    assert (letter.summary, letter.body) == ("ValueError: no such order", {"order": 7})
    (listed,) = await every_page(http, DEAD)
    assert (listed["summary"], listed["body"]) == (letter.summary, letter.body)
    (group,) = (await http.get(f"{DEAD}/groups")).json()["groups"]
    assert group["example"] == letter.summary
