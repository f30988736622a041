"""Messages over HTTP: send, list, pull, ack, extend."""

from __future__ import annotations

import asyncio
import base64
from time import monotonic
from typing import Any
from uuid import uuid4

import httpx
import pytest
from uuid_utils.compat import uuid7

from tests.api.acts import every_page, fields_of, make_queue, problem, pull, send
from tests.stores.home import Home
from tickwork import Message, Tickwork
from tickwork.ops import messages

Http = httpx.AsyncClient
MESSAGES = "/v1/queues/q/messages"


async def ack(http: Http, *leases: str, **retries: Any) -> dict[str, Any]:
    body = {"acks": [{"lease_id": lease} for lease in leases], **retries}
    response = await http.post(f"{MESSAGES}/ack", json=body)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


async def test_a_message_is_sent_pulled_and_acked(http: Http) -> None:
    await make_queue(http)
    fields = {"body": {"to": "ada"}, "type": "mail", "event_id": "e1", "key": "k", "priority": 7}
    sent = await http.post(MESSAGES, json=fields)
    assert sent.status_code == 201
    assert sent.json()["event_id"] == "e1"
    assert sent.json()["id"].startswith("msg_")
    shown = (await http.get(f"{MESSAGES}/{sent.json()['id']}")).json()
    assert (shown["state"], shown["body"], shown["queue"]) == ("ready", {"to": "ada"}, "q")
    assert (await http.get(f"/v1/messages/{sent.json()['id']}")).json() == shown
    (pulled,) = await pull(http)
    assert (pulled["id"], pulled["body"], pulled["attempts"]) == (
        sent.json()["id"],
        {"to": "ada"},
        1,
    )
    assert pulled["metadata"]["type"] == "mail"
    assert await pull(http) == []
    assert await ack(http, pulled["lease_id"]) == {"ack_count": 1, "retry_count": 0, "refused": []}
    problem(await http.get(f"/v1/messages/{sent.json()['id']}"), 404, "not_found")


async def test_each_message_of_a_batch_has_its_own_delay(http: Http) -> None:
    await make_queue(http)
    messages = [{"body": "now", "delay_seconds": 0}, {"body": "later"}]
    body = {"messages": messages, "delay_seconds": 60}
    sent = await http.post(f"{MESSAGES}/batch", json=body)
    assert sent.status_code == 201
    listed = await every_page(http, MESSAGES)
    assert [(message["body"], message["state"]) for message in listed] == [
        ("now", "ready"), ("later", "delayed")
    ]  # fmt: skip
    assert [message["id"] for message in listed] == sent.json()["ids"]


async def test_a_wrong_message_of_a_batch_is_named_and_nothing_is_stored(http: Http) -> None:
    await make_queue(http)
    messages: list[Any] = [{"body": 1}, {"body": 1, "prority": 3}, 7, {}]
    told = problem(
        await http.post(f"{MESSAGES}/batch", json={"messages": messages}), 400, "unknown_field"
    )
    assert fields_of(told) == ["messages[1].prority", "messages[2]", "messages[3].body"]
    assert "'priority'" in told["errors"][0]["message"]
    wrong = [{"body": 1}, {"body": 1, "priority": 12}]
    told = problem(
        await http.post(f"{MESSAGES}/batch", json={"messages": wrong}), 422, "invalid_input"
    )
    assert fields_of(told) == ["messages[1].priority"]
    too_many = await http.post(f"{MESSAGES}/batch", json={"messages": [{"body": 1}] * 10_001})
    problem(too_many, 422, "invalid_input")
    assert await every_page(http, MESSAGES) == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"content_type": "xml"}, "content_type"),
        ({"content_type": "bytes"}, "body"),
        ({"content_type": "bytes", "body": "*"}, "body"),
        ({"content_type": "text", "body": {}}, "body"),
        ({"delay_seconds": -1}, "delay_seconds"),
        ({"delay_seconds": "soon"}, "delay_seconds"),
        ({"priority": 1.5}, "priority"),
        ({"type": 5}, "type"),
        ({"key": ""}, "key"),
        ({"event_id": "x" * 600}, "event_id"),
        ({"id": str(uuid4())}, "id"),
        ({"id": "one"}, "id"),
        ({"body": "x" * 128_001}, "body"),
    ],
)
async def test_a_wrong_message_is_refused_with_its_field(
    http: Http, fields: dict[str, Any], field: str
) -> None:
    await make_queue(http)
    response = await http.post(MESSAGES, json={"body": 1, **fields})
    assert fields_of(problem(response, 422, "invalid_input")) == [field]


async def test_bodies_may_be_text_or_bytes(http: Http) -> None:
    await make_queue(http)
    encoded = base64.b64encode(b"\x00\xff").decode()
    await send(http, body="plain", content_type="text")
    await send(http, body=encoded, content_type="bytes")
    pulled = await pull(http)
    assert [message["body"] for message in pulled] == ["plain", encoded]
    assert [message["metadata"]["content_type"] for message in pulled] == ["text", "bytes"]


async def test_a_message_with_an_id_is_stored_once(http: Http) -> None:
    await make_queue(http)
    message_id = str(uuid7())
    assert await send(http, id=message_id) == await send(http, id=message_id)
    assert len(await every_page(http, MESSAGES)) == 1


async def test_a_repeat_with_an_idempotency_key_returns_the_first_answer(http: Http) -> None:
    await make_queue(http)
    keyed = {"Idempotency-Key": "once"}
    first = await http.post(MESSAGES, json={"body": 1}, headers=keyed)
    (pulled,) = await pull(http)
    await ack(http, pulled["lease_id"])
    second = await http.post(MESSAGES, json={"body": 1}, headers=keyed)
    assert (second.status_code, second.json()) == (201, first.json())
    assert second.headers["idempotency-replayed"] == "true"
    assert await pull(http) == []
    problem(await http.post(MESSAGES, json={"body": 2}, headers=keyed), 409, "conflict")
    wrong = {"Idempotency-Key": "wrong"}
    problem(await http.post(MESSAGES, json={}, headers=wrong), 422, "invalid_input")
    assert (await http.post(MESSAGES, json={"body": 1}, headers=wrong)).status_code == 201
    batch = {"messages": [{"body": 1}, {"body": 2}]}
    keyed = {"Idempotency-Key": "many"}
    first, second = [
        await http.post(f"{MESSAGES}/batch", json=batch, headers=keyed) for _ in range(2)
    ]
    assert first.json() == second.json()
    assert len(set(first.json()["ids"])) == 2


async def test_many_requests_with_one_key_at_once_store_one_message(http: Http) -> None:
    await make_queue(http)
    keyed = {"Idempotency-Key": "once"}
    answers = await asyncio.gather(
        *(http.post(MESSAGES, json={"body": 1}, headers=keyed) for _ in range(10))
    )
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 201}) == 1
    assert len(await every_page(http, MESSAGES)) == 1


async def test_a_retry_counts_an_attempt_and_then_the_message_is_dead(http: Http) -> None:
    await make_queue(http, max_retries=1)
    await send(http)
    for attempt in (1, 2):
        (pulled,) = await pull(http)
        assert pulled["attempts"] == attempt
        told = await ack(http, retries=[{"lease_id": pulled["lease_id"], "delay_seconds": 0}])
        assert told == {"ack_count": 0, "retry_count": 1, "refused": []}
    assert await pull(http) == []
    assert (await http.get("/v1/queues/q")).json()["counts"]["dead"] == 1


async def test_a_lease_that_is_over_changes_nothing(http: Http) -> None:
    await make_queue(http)
    await make_queue(http, "other")
    await send(http)
    (pulled,) = await pull(http)
    lease = pulled["lease_id"]
    other = await http.post("/v1/queues/other/messages/ack", json={"acks": [{"lease_id": lease}]})
    assert other.json()["refused"] == [{"lease_id": lease, "code": "not_held"}]
    extended = await http.post(
        f"{MESSAGES}/extend", json={"lease_id": lease, "visibility_timeout_ms": 60_000}
    )
    assert extended.json() == {"lease_id": lease, "visibility_timeout_ms": 60_000}
    told = await ack(http, retries=[{"lease_id": lease, "delay_seconds": 0}])
    assert told["retry_count"] == 1
    told = await ack(http, lease, retries=[{"lease_id": lease}])
    assert (told["ack_count"], told["refused"]) == (
        0, [{"lease_id": lease, "code": "not_held"}]
    )  # fmt: skip
    over = await http.post(
        f"{MESSAGES}/extend", json={"lease_id": lease, "visibility_timeout_ms": 60_000}
    )
    problem(over, 409, "not_held")
    assert len(await pull(http)) == 1


async def test_malformed_leases_are_named(http: Http) -> None:
    await make_queue(http)
    for wrong in ("x", "", None, 5, "AAAA"):
        response = await http.post(f"{MESSAGES}/ack", json={"acks": [{"lease_id": wrong}]})
        assert fields_of(problem(response, 422, "invalid_input")) == ["acks[0].lease_id"]
    response = await http.post(f"{MESSAGES}/ack", json={"acks": 5})
    assert fields_of(problem(response, 422, "invalid_input")) == ["acks"]


async def test_a_pull_waits_for_the_first_message(http: Http) -> None:
    await make_queue(http)

    async def send_soon() -> None:
        await asyncio.sleep(0.2)
        await send(http, body="late")

    began = monotonic()
    pulled, _ = await asyncio.gather(pull(http, wait_ms=20_000), send_soon())
    assert [message["body"] for message in pulled] == ["late"]
    assert monotonic() - began < 15
    assert await pull(http, wait_ms=100) == []


async def test_a_pull_that_waits_gets_a_delayed_message_in_time(http: Http) -> None:
    await make_queue(http)
    await send(http, delay_seconds=0.3)
    assert len(await pull(http, wait_ms=20_000)) == 1


async def test_messages_are_filtered(http: Http) -> None:
    await make_queue(http)
    first = await send(http, type="a", key="k", correlation_id="c")
    second = await send(http, type="b", key="k")
    for query in ({"type": "a"}, {"correlation_id": "c"}, {"state": "ready"}):
        found = await every_page(http, MESSAGES, **query)
        assert [message["id"] for message in found] == [first]
    assert [message["id"] for message in await every_page(http, MESSAGES, state="blocked")] == [
        second
    ]
    assert [message["id"] for message in await every_page(http, MESSAGES, key="k", limit=1)] == [
        first, second
    ]  # fmt: skip
    assert await every_page(http, MESSAGES, older_than=3600) == []
    problem(await http.get(f"{MESSAGES}?state=odd"), 422, "invalid_input")


async def test_a_page_of_few_matches_is_short_and_goes_on_where_it_ended(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "LOOKED_AT_MAX", 3)
    await make_queue(http)
    sent = [await send(http, type="rare" if number == 7 else "common") for number in range(8)]
    pages: list[list[str]] = []
    query = {"type": "rare"}
    while True:
        page = (await http.get(MESSAGES, params=query)).json()
        pages.append([message["id"] for message in page["items"]])
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert pages == [[], [], [sent[7]]]


async def test_a_claimed_message_names_who_has_it_and_since_when(http: Http, home: Home) -> None:
    app, has_begun, may_end = Tickwork(home.url, name="shop"), asyncio.Event(), asyncio.Event()
    app.queue("emails")

    @app.on("emails")
    async def handle(message: Message) -> None:  # noqa: ARG001
        has_begun.set()
        await may_end.wait()

    async with app.running(roles="worker"):
        await app.queue("emails").send(1)
        await has_begun.wait()
        (found,) = await every_page(http, "/v1/queues/emails/messages", state="claimed")
        (node,) = await app.nodes.list()
        assert (found["state"], found["node"]) == ("claimed", node.name)
        assert found["claimed_at"] >= found["sent_at"]
        may_end.set()
    await make_queue(http)
    await send(http)
    await http.post(f"{MESSAGES}/pull", json={})
    (pulled,) = await every_page(http, MESSAGES, state="claimed")
    assert (pulled["node"], pulled["claimed_at"] is None) == (None, False)


async def test_a_message_is_deleted_unless_it_is_claimed(http: Http) -> None:
    await make_queue(http)
    message_id = await send(http)
    assert (await http.delete(f"{MESSAGES}/{message_id}")).status_code == 204
    problem(await http.delete(f"{MESSAGES}/{message_id}"), 404, "not_found")
    problem(await http.delete(f"{MESSAGES}/nonsense"), 404, "not_found")
    claimed = await send(http)
    await pull(http)
    problem(await http.delete(f"{MESSAGES}/{claimed}"), 404, "not_found")


async def test_a_full_queue_answers_429_with_retry_after(http: Http) -> None:
    await make_queue(http, backlog_bytes_max=128_000)
    await send(http, body="x" * 127_990)
    response = await http.post(MESSAGES, json={"body": "y" * 1000})
    problem(response, 429, "backlog_full")
    assert int(response.headers["retry-after"]) >= 1


async def test_a_queue_that_does_not_exist_is_404(http: Http) -> None:
    problem(await http.post(MESSAGES, json={"body": 1}), 404, "not_found")
    problem(await http.post(f"{MESSAGES}/pull", json={}), 404, "not_found")
    problem(await http.get(MESSAGES), 404, "not_found")


async def test_a_request_body_that_cannot_be_read_is_a_problem(http: Http) -> None:
    await make_queue(http)
    problem(await http.post(MESSAGES, content=b"{"), 400, "invalid_json")
    problem(await http.post(MESSAGES, content=b""), 400, "invalid_json")
    wrong_type = {"Content-Type": "text/plain"}
    problem(await http.post(MESSAGES, content=b"{}", headers=wrong_type), 415,
            "unsupported_media_type")  # fmt: skip
    problem(await http.post(MESSAGES, content=b" " * 1_000_001), 413, "body_too_large")
    deep = b'{"body":' + b"[" * 40 + b"]" * 40 + b"}"
    problem(await http.post(MESSAGES, content=deep), 400, "invalid_json")


async def test_requests_have_ids_and_large_answers_are_compressed(http: Http) -> None:
    given = await http.get("/healthz", headers={"X-Request-Id": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    made = await http.get("/healthz", headers={"X-Request-Id": "bad id\x7f"})
    assert made.headers["x-request-id"].startswith("req_")
    missing = await http.get("/nothing")
    assert missing.headers["x-request-id"].startswith("req_")
    await make_queue(http)
    await send(http, body="x" * 5_000)
    listed = await http.get(MESSAGES, headers={"Accept-Encoding": "gzip"})
    assert listed.headers["content-encoding"] == "gzip"
    assert len(listed.json()["items"]) == 1


async def test_a_message_is_explained_and_traced(http: Http) -> None:
    await make_queue(http)
    fields = {"body": 1, "correlation_id": "story", "delay_seconds": 60}
    sent = (await http.post(MESSAGES, json=fields)).json()["id"]
    why = (await http.get(f"/v1/messages/{sent}/why")).json()
    assert (why["kind"], why["code"], why["correlation_id"]) == ("message", "delayed", "story")
    assert why["until"].endswith("Z")
    trace = (await http.get("/v1/trace/story")).json()
    assert [node["id"] for node in trace["nodes"]] == [sent]
    assert trace["is_cut"] is False
    for path in ("/v1/trace/other", "/v1/messages/nothing/why", "/v1/dead/nothing/why"):
        problem(await http.get(path), 404, "not_found")
    problem(await http.get("/v1/workflows/none/runs/nothing/why"), 404, "not_found")
    problem(await http.get("/v1/entities/Nothing/key/why"), 404, "not_found")
