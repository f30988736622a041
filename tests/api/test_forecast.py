"""Forecast, topology and types over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from tests.api.acts import make_queue, problem
from tests.kit.api import bearer, new_key
from tests.stores.home import Home
from tickwork.core.model import SYSTEM, QueueSettings

Http = httpx.AsyncClient


async def test_a_forecast_counts_the_firings_of_each_minute(http: Http) -> None:
    await make_queue(http)
    target = {"type": "queue", "queue": "q"}
    hour = (datetime.now(UTC).hour + 12) % 24  # Never the present minute.
    for _ in range(12):
        body = {"daily_time": {"hour": hour, "minute": 30}, "target": target}
        assert (await http.post("/v1/schedules", json=body)).status_code == 201
    found = (await http.get("/v1/forecast?hours=24&window_seconds=120")).json()
    assert (found["firings"], found["schedules"], len(found["minutes"])) == (12, 12, 1_440)
    assert found["peak_at"][11:16] == f"{hour:02}:30"
    (herd,) = found["herds"]
    assert herd["causes"][0]["firings"] == 12
    peaks = {each["fire_window_seconds"]: each["peak_firings"] for each in found["windows"]}
    assert peaks[120] == 6
    assert (found["targets"][0]["kind"], found["targets"][0]["name"]) == ("queue", "q")
    problem(await http.get("/v1/forecast?hours=0"), 422, "invalid_input")
    problem(await http.get("/v1/forecast?hour=1"), 400, "unknown_field")


@pytest.mark.parametrize("path", ["/v1/forecast", "/v1/upcoming"])
async def test_only_the_operator_sees_what_other_tenants_will_fire(
    http: Http, home: Home, path: str
) -> None:
    store = await home.open()
    reader = await new_key(store, scopes=["read"])
    await store.close()
    assert (await http.get(f"{path}?tenant=*")).status_code == 200
    assert (await http.get(f"{path}?tenant=default")).status_code == 200
    for tenant in ("*", "other"):
        refused = await http.get(f"{path}?tenant={tenant}", headers=bearer(reader))
        problem(refused, 403, "needs_admin")
    problem(await http.get(f"{path}?tenant=nobody"), 404, "not_found")


async def test_the_topology_is_what_the_database_has(http: Http) -> None:
    await make_queue(http)
    body = {"types": "content.*", "queue": "q"}
    assert (await http.post("/v1/subscriptions", json=body)).status_code in (200, 201)
    found = (await http.get("/v1/topology")).json()
    assert [each["name"] for each in found["queues"]] == ["q"]
    assert found["subscriptions"] == [{"types": "content.*", "queue": "q", "shared": False}]


async def test_types_are_listed_with_who_sends_and_who_gets_them(http: Http) -> None:
    await make_queue(http, "q")
    await make_queue(http, "copies")
    await http.post("/v1/subscriptions", json={"types": "content.*", "queue": "copies"})
    sent = {"body": 1, "type": "content.published", "source": "cms"}
    assert (await http.post("/v1/queues/q/messages", json=sent)).status_code == 201
    found = {each["type"]: each for each in (await http.get("/v1/types")).json()["items"]}
    assert found["content.*"]["messages"] == {}
    published = found["content.published"]
    assert published["sources"] == ["cms"]
    assert published["subscribers"] == ["copies"]
    assert "q" in published["queues"]
    assert published["messages"]["sent"] >= 1


async def test_the_topology_of_a_tenant_has_nothing_of_another(http: Http, home: Home) -> None:
    await http.post("/v1/tenants", json={"id": "other"})
    theirs = {"Tickwork-Tenant": "other"}
    assert (await http.put("/v1/queues/theirs", json={}, headers=theirs)).status_code == 201
    await make_queue(http)
    store = await home.open()
    await store.queues.put(SYSTEM, "q", QueueSettings(max_retries=9))  # Shared, of the same name.
    await store.close()
    found = (await http.get("/v1/topology")).json()["queues"]
    assert [(each["name"], each["shared"]) for each in found] == [("q", True), ("q", False)]
