"""A process that runs an app checks what comes over HTTP against the types of the app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from msgspec import Struct

from tests.api.acts import problem, pull
from tests.client.kit import InProcess
from tests.kit.api import bearer, in_process, new_key
from tests.stores.home import Home
from tickwork import Client, Entity, InvalidInput, Message, Tickwork, clock, exposed
from tickwork.api import create_api
from tickwork.api.server_state import AppTypes
from tickwork.core import when
from tickwork.facade.app import engine_of
from tickwork.ops.entities import ensure_entity_type
from tickwork.ops.tenants import create_tenant

Http = httpx.AsyncClient
WRONG: dict[str, Any] = {"to": 7}


class Mail(Struct):
    to: str


class Diary(Entity):
    @exposed
    async def note(self, text: str) -> None: ...


def mail_app() -> Tickwork:
    app = Tickwork()
    app.queue("q")

    @app.on("q", type="mail")
    async def deliver(message: Message[Mail]) -> None: ...

    app.entities.register(Diary)
    return app


@pytest.fixture
async def http(home: Home) -> AsyncIterator[Http]:
    api = create_api(
        now=clock.now,
        limits=when.Limits(min_interval_seconds=60),
        open_store=home.open,
        types=AppTypes("default", engine_of(mail_app()).payload_sent),
    )
    store = await home.open()
    headers = bearer(await new_key(store))
    await store.close()
    async with in_process(api, **headers) as client:
        await client.put("/v1/queues/q", json={"max_retries": 0})
        yield client


def fields_of(answer: dict[str, Any]) -> list[str]:
    return [error["field"] for error in answer["errors"]]


async def test_sends_are_checked_against_the_types_of_the_app(http: Http) -> None:
    url = "/v1/queues/q/messages"
    refused = await http.post(url, json={"type": "mail", "body": WRONG})
    assert fields_of(problem(refused, 422, "invalid_input")) == ["body"]
    many = {"messages": [{"type": "mail", "body": {"to": "ada"}}, {"type": "mail", "body": WRONG}]}
    refused = await http.post(f"{url}/batch", json=many)
    assert fields_of(problem(refused, 422, "invalid_input")) == ["messages[1].body"]
    for body in ({"type": "mail", "body": {"to": "ada"}}, {"type": "other", "body": WRONG}):
        assert (await http.post(url, json=body)).status_code == 201


async def test_items_of_batches_are_checked_against_the_types_of_the_app(http: Http) -> None:
    right, wrong = {"type": "mail", "body": {"to": "ada"}}, {"type": "mail", "body": WRONG}
    items = [right] * 120 + [wrong]  # Many are checked in a thread, few in the event loop.
    for given, field in ((items, "items[120].body"), ([right, wrong], "items[1].body")):
        refused = await http.post("/v1/batches", json={"queue": "q", "items": given})
        assert fields_of(problem(refused, 422, "invalid_input")) == [field]
    assert (await http.get("/v1/batches")).json()["items"] == []
    fitting = {"queue": "q", "items": [right, {"type": "other", "body": WRONG}], "open": True}
    made = await http.post("/v1/batches", json=fitting)
    assert made.status_code == 201
    path = f"/v1/batches/{made.json()['id']}/items"
    refused = await http.post(path, json={"items": [right, wrong]})
    assert fields_of(problem(refused, 422, "invalid_input")) == ["items[1].body"]
    assert (await http.post(path, json={"items": [right]})).json()["total"] == 3


async def test_a_client_names_the_item_of_a_batch_that_does_not_fit(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.client.batches.PIECE_ITEMS_MAX", 2)
    key = http.headers["Authorization"].removeprefix("Bearer ")
    client = Client("http://t", key=key, transport=InProcess(http))
    bodies = [{"to": "ada"}] * 4 + [WRONG]
    with pytest.raises(InvalidInput) as refused:
        await client.batch("q", bodies, type="mail")
    assert [fault.field for fault in refused.value.errors] == ["items[4].body"]
    (left,) = await client.batches.list()
    assert (left.total, left.pending, left.status) == (4, 0, "completed")


async def test_the_payload_of_a_schedule_is_checked_against_the_types_of_the_app(
    http: Http,
) -> None:
    target = {"type": "queue", "queue": "q", "message_type": "mail"}
    fields = {"daily_time": "09:00", "target": target}
    refused = await http.post("/v1/schedules", json={**fields, "payload": WRONG})
    assert fields_of(problem(refused, 422, "invalid_input")) == ["payload"]
    made = await http.post("/v1/schedules", json={**fields, "payload": {"to": "ada"}})
    assert made.status_code == 201
    refused = await http.patch(f"/v1/schedules/{made.json()['id']}", json={"payload": WRONG})
    assert fields_of(problem(refused, 422, "invalid_input")) == ["payload"]


async def test_the_method_that_a_schedule_calls_is_one_of_its_class(home: Home, http: Http) -> None:
    store = await home.open()
    await ensure_entity_type(store, "Diary")
    await store.close()
    target = {"type": "entity", "entity": "Diary", "key": "a", "method": "note"}
    mistyped = {**target, "method": "noet"}
    fields = {"daily_time": "09:00", "payload": "hello"}
    refused = await http.post("/v1/schedules", json={**fields, "target": mistyped})
    told = problem(refused, 422, "invalid_input")
    fault = "Diary has no method 'noet'; do you mean note?"
    assert told["errors"] == [{"field": "target.method", "message": fault}]
    both = [{**fields, "target": target}, {**fields, "target": mistyped}]
    refused = await http.post("/v1/schedules", json=both)
    assert fields_of(problem(refused, 422, "invalid_input")) == ["[1].target.method"]
    made = await http.post("/v1/schedules", json={**fields, "target": target})
    assert made.status_code == 201, made.text
    path = f"/v1/schedules/{made.json()['id']}"
    refused = await http.patch(path, json={"target": mistyped})
    assert fields_of(problem(refused, 422, "invalid_input")) == ["target.method"]


async def test_an_edited_dead_letter_is_checked_against_the_types_of_the_app(http: Http) -> None:
    await http.post("/v1/queues/q/messages", json={"type": "mail", "body": {"to": "adda"}})
    (pulled,) = await pull(http)
    back = {"retries": [{"lease_id": pulled["lease_id"]}]}
    await http.post("/v1/queues/q/messages/ack", json=back)
    (letter,) = (await http.get("/v1/queues/q/dead")).json()["items"]
    refused = await http.patch(f"/v1/dead/{letter['id']}", json={"body": WRONG})
    assert fields_of(problem(refused, 422, "invalid_input")) == ["body"]
    edited = await http.patch(f"/v1/dead/{letter['id']}", json={"body": {"to": "ada"}})
    assert edited.json()["body"] == {"to": "ada"}


async def test_the_types_of_an_app_do_not_hold_for_other_tenants(http: Http, home: Home) -> None:
    store = await home.open()
    await create_tenant(store, "other", {})
    headers = bearer(await new_key(store, tenant="other"))
    await store.close()
    await http.put("/v1/queues/q", json={}, headers=headers)
    body = {"type": "mail", "body": WRONG}
    sent = await http.post("/v1/queues/q/messages", json=body, headers=headers)
    assert sent.status_code == 201
