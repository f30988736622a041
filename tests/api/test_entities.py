"""Entities over HTTP: exposed methods are called on a worker, and operators look inside."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from tests.api.acts import every_page, fields_of, problem
from tests.stores.home import Home
from tickwork import Entity, Tickwork, exposed
from tickwork.core.entity import call as entity_call
from tickwork.core.model import DEFAULT
from tickwork.ops.context import Context
from tickwork.ops.entities import request_call

Http = httpx.AsyncClient


class Brand(Entity):
    @exposed
    async def rename(self, name: str, *, loud: bool = False) -> Any:
        before = await self.storage.get("name")
        await self.storage.put("name", name.upper() if loud else name)
        return {"before": before}

    @exposed
    async def fail(self) -> None:
        await self.storage.put("name", "never")
        raise ValueError("no such name")

    @exposed
    async def plan(self) -> None:
        await self.schedule("weekly", method="rename", cron="0 9 * * MON", payload="Monday")

    async def secret(self) -> None:
        """Is not exposed."""


async def test_an_exposed_method_is_called_on_a_worker_and_its_entity_can_be_changed(
    http: Http, home: Home
) -> None:
    app = Tickwork(home.url)
    app.entities.register(Brand)
    base = "/v1/entities/Brand/llc"
    async with app.running(roles="worker"):
        called = await http.post(f"{base}/rename", json={"args": ["LLC"]})
        assert (called.status_code, called.json()) == (
            200,
            {"done": True, "result": {"before": None}},
        )
        headers = {"Idempotency-Key": "once"}
        body = {"args": {"name": "llc tax", "loud": True}}
        for _ in range(2):
            again = await http.post(f"{base}/rename", json=body, headers=headers)
            assert again.json()["result"] == {"before": "LLC"}
        other = await http.post(f"{base}/rename", json={"args": ["x"]}, headers=headers)
        problem(other, 409, "conflict")
        for method in ("secret", "alarm", "migrate", "_call", "renam"):
            answer = await http.post(f"{base}/{method}", json={})
            assert answer.status_code in (404, 405), method
        told = problem(await http.post(f"{base}/rename", json={"args": []}), 422, "invalid_input")
        assert fields_of(told) == ["args"]
        failed = problem(await http.post(f"{base}/fail", json={}), 500, "call_failed")
        assert "ValueError: no such name" in failed["detail"]
        assert "Traceback" not in failed["detail"]
        await http.post(f"{base}/plan", json={})
        await http.post("/v1/entities/Brand/abc/rename", json={"args": ["a"]})

        types = await every_page(http, "/v1/entities", limit=1)
        assert types == [{"type": "Brand", "entities": 2}]
        listed = await every_page(http, "/v1/entities/Brand", limit=1)
        assert [entity["key"] for entity in listed] == ["abc", "llc"]
        assert (await http.get("/v1/entities/Brand", params={"prefix": "l"})).json()["items"][0][
            "schedules"
        ] == ["weekly"]
        assert (await http.get(f"{base}/storage/name")).json() == {
            "name": "name",
            "value": "LLC TAX",
        }
        put = await http.put(f"{base}/storage/count", json={"value": [1]})
        assert put.json() == {"name": "count", "value": [1]}
        stored = await every_page(http, f"{base}/storage", limit=1)
        assert [value["name"] for value in stored] == ["count", "name"]
        assert (await http.delete(f"{base}/storage/count")).status_code == 204
        problem(await http.get(f"{base}/storage/count"), 404, "not_found")
        problem(await http.delete(f"{base}/storage/count"), 404, "not_found")
        problem(await http.get(f"{base}/alarm"), 404, "not_found")
        assert (await http.put(f"{base}/alarm", json={"at": "2099-01-01T00:00:00Z"})).status_code
        problem(await http.put(f"{base}/alarm", json={"at": "soon"}), 422, "invalid_input")
        assert (await http.delete(f"{base}/alarm")).status_code in (204, 404)
        assert (await http.delete(base)).status_code == 204
        problem(await http.get(base), 404, "not_found")
        problem(await http.delete(base), 404, "not_found")
    problem(await http.get("/v1/entities/Brnd"), 404, "not_found")
    problem(await http.post("/v1/entities/Brnd/a/b", json={}), 404, "not_found")
    actions = [entry["action"] for entry in (await http.get("/v1/audit")).json()["items"]]
    assert {"entity.put_value", "entity.delete_value", "entity.delete"} <= {*actions}


async def test_a_key_with_slashes_and_percent_signs_is_reached_over_http(
    http: Http, home: Home
) -> None:
    app = Tickwork(home.url)
    app.entities.register(Brand)
    keys = ("a/b", "a%2Fb", "https://example.com/?x=1", "ä/ö")
    async with app.running(roles="worker"):
        for key in keys:
            base = f"/v1/entities/Brand/{quote(key, safe='')}"
            called = await http.post(f"{base}/rename", json={"args": [key]})
            assert called.status_code == 200, called.text
            assert (await http.get(base)).json()["key"] == key
            url = f"{base}/storage/{quote('p/q', safe='')}"
            assert (await http.put(url, json={"value": 1})).status_code == 200
            assert (await http.get(url)).json()["value"] == 1
    stored = await every_page(http, "/v1/entities/Brand", limit=10)
    assert sorted(entity["key"] for entity in stored) == sorted(keys)


async def test_a_call_that_no_worker_runs_in_time_can_be_asked_for_again(home: Home) -> None:
    store = await home.open()
    app = Tickwork(home.url)
    app.entities.register(Brand)
    await app.entity(Brand, "a").rename("first")
    call = entity_call.Call(
        entity="Brand", key="a", method="rename", args=["second"], idempotency_key="k"
    )
    assert await request_call(Context(store, DEFAULT), call, wait_seconds=0.02) is None
    async with app.running(roles="worker"):
        answer = await request_call(Context(store, DEFAULT), call)
    assert answer == b'{"before":"first"}'
    await app.close()
    await store.close()
