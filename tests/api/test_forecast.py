"""Forecast, topology and types over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.api.acts import make_queue, problem
from tests.conformance.acts import WORK, make_tenants
from tests.conformance.schedule_acts import create, plan_now
from tests.kit.api import ReusedApi, bearer, in_process, new_key
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.api.routes import cluster
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings

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
    peaks = {window["fire_window_seconds"]: window["peak_firings"] for window in found["windows"]}
    assert peaks[120] == 6
    assert (found["targets"][0]["kind"], found["targets"][0]["name"]) == ("queue", "q")
    problem(await http.get("/v1/forecast?hours=0"), 422, "invalid_input")
    problem(await http.get("/v1/forecast?hour=1"), 400, "unknown_field")


@pytest.mark.one_store("sqlite")
async def test_a_forecast_that_takes_too_long_is_refused(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_queue(http)
    target = {"type": "queue", "queue": "q"}
    made = await http.post("/v1/schedules", json={"interval_seconds": 60, "target": target})
    assert made.status_code == 201
    monkeypatch.setattr(cluster, "DUE_TIMES_MAX", 2_000)
    assert (await http.get("/v1/forecast?hours=24")).status_code == 200
    told = problem(await http.get("/v1/forecast?hours=168"), 422, "invalid_input")
    (error,) = told["errors"]
    assert error["field"] == "hours"
    assert "ask for fewer, or run `tickwork forecast` beside the database" in error["message"]


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


async def test_one_shots_of_all_tenants_are_listed_until_they_fire(
    home: Home, reused_api: ReusedApi, clock: VirtualClock
) -> None:
    store, begin = await home.open(clock), clock.now()
    acme, bolt = await make_tenants(store, "acme", "bolt")
    for seconds, scope in ((60, DEFAULT), (60, acme), (90, bolt)):
        await store.queues.put(scope, WORK, QueueSettings())
        at = begin + timedelta(seconds=seconds)
        await create(store, clock, scope=scope, once_at=at.isoformat())
    headers = bearer(await new_key(store))
    async with in_process(reused_api.on(home, clock), **headers) as http:

        async def listed(tenant: str) -> list[tuple[str, float]]:
            fires = (await http.get(f"/v1/upcoming?tenant={tenant}")).json()["fires"]
            times = [datetime.fromisoformat(fire["fire_at"]) - begin for fire in fires]
            tenants = [fire["tenant"] for fire in fires]
            return sorted(zip(tenants, (time.total_seconds() for time in times), strict=True))

        every = [("acme", 60.0), ("bolt", 90.0), ("default", 60.0)]
        for seconds in (0, 45, 14):  # Only a schedule; then a message, too; and a second before.
            clock.advance(seconds=seconds)
            await plan_now(store, clock)
            assert await listed("*") == every
            assert await listed("acme") == [("acme", 60.0)]
        clock.advance(seconds=1)
        await plan_now(store, clock)
        assert (await listed("*"), await listed("acme")) == ([("bolt", 90.0)], [])
        clock.advance(seconds=29)
        await plan_now(store, clock)
        assert await listed("*") == [("bolt", 90.0)]
        clock.advance(seconds=1)
        assert await listed("*") == []
    await store.close()


async def test_the_capacity_says_when_a_queue_falls_behind(http: Http) -> None:
    settings = {"rate_per_second": 0.1}
    assert (await http.put("/v1/queues/q", json=settings)).status_code == 201
    hour = (datetime.now(UTC).hour + 12) % 24  # Never the present minute.
    for _ in range(12):
        body = {
            "daily_time": {"hour": hour, "minute": 30},
            "target": {"type": "queue", "queue": "q"},
        }
        assert (await http.post("/v1/schedules", json=body)).status_code == 201
    found = (await http.get("/v1/capacity")).json()
    assert (found["ok"], found["slots"], found["hours"]) == (False, 12, 24)
    (late,) = found["shortfalls"]
    assert (late["name"], late["late_seconds"], late["limited_by"]) == ("q", 120.0, "rate_limit")
    assert late["words"].startswith(f"at {hour:02}:30 UTC 12 slots for queue q; its limit allows 6")
    assert (found["lanes"][0]["verdict"], found["lanes"][0]["permits"]) == ("late", None)
    problem(await http.get("/v1/capacity?hours=0"), 422, "invalid_input")


async def test_the_topology_is_what_the_database_has(http: Http) -> None:
    await make_queue(http)
    body = {"types": "content.*", "queue": "q"}
    assert (await http.post("/v1/subscriptions", json=body)).status_code in (200, 201)
    found = (await http.get("/v1/topology")).json()
    assert [queue["name"] for queue in found["queues"]] == ["q"]
    assert found["subscriptions"] == [{"types": "content.*", "queue": "q", "shared": False}]


async def test_types_are_listed_with_who_sends_and_who_gets_them(http: Http) -> None:
    await make_queue(http, "q")
    await make_queue(http, "copies")
    await http.post("/v1/subscriptions", json={"types": "content.*", "queue": "copies"})
    sent = {"body": 1, "type": "content.published", "source": "cms"}
    assert (await http.post("/v1/queues/q/messages", json=sent)).status_code == 201
    found = {type_["type"]: type_ for type_ in (await http.get("/v1/types")).json()["items"]}
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
    assert [(queue["name"], queue["shared"]) for queue in found] == [("q", True), ("q", False)]
