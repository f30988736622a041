"""Schedules over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.acts import every_page, fields_of, make_queue, problem
from tests.kit.api import bearer, new_key
from tests.stores.home import Home

Http = httpx.AsyncClient
TARGET = {"type": "queue", "queue": "q"}


async def make(http: Http, **fields: Any) -> dict[str, Any]:
    await make_queue(http)
    body = {"cron_expr": "0 9 * * *", "target": TARGET, **fields}
    response = await http.post("/v1/schedules", json=body)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


async def test_a_schedule_is_created_read_changed_and_deleted(http: Http) -> None:
    made = await make(http, timezone="America/New_York", name="report", payload={"team": "ops"})
    assert made["id"].startswith("sch_")
    assert (made["kind"], made["status"]) == ("cron", "active")
    assert made["next_fire_at"].endswith("Z")
    shown = await http.get(f"/v1/schedules/{made['id']}")
    assert shown.json() == made
    assert (await http.get("/v1/schedules/report")).json()["id"] == made["id"]
    weekly = {"weekly_time": {"day_of_week": 1, "hour": 9, "minute": 0}}
    changed = await http.put(f"/v1/schedules/{made['id']}", json=weekly)
    assert (changed.json()["kind"], changed.json()["cron_equivalent"]) == ("weekly", "0 9 * * 1")
    assert changed.json()["timezone"] == "America/New_York"
    patched = await http.patch(f"/v1/schedules/{made['id']}", json={"name": None})
    assert patched.json()["name"] is None
    assert (await http.delete(f"/v1/schedules/{made['id']}")).status_code == 204
    problem(await http.delete(f"/v1/schedules/{made['id']}"), 404, "not_found")
    assert (await http.get(f"/v1/schedules/{made['id']}")).json()["status"] == "deleted"


async def test_the_request_of_the_playbook_works(http: Http) -> None:
    await make_queue(http)
    body = {
        "cron_expr": "0 9 * * MON-FRI",
        "timezone": "America/New_York",
        "target": TARGET,
        "payload": {"team": "ops"},
        "idempotency_key": "morning-report-ops",
    }
    first, second = [await http.post("/v1/schedules", json=body) for _ in range(2)]
    assert first.status_code == 201
    assert second.json()["id"] == first.json()["id"]
    problem(await http.post("/v1/schedules", json={**body, "payload": 1}), 409, "conflict")


async def test_a_list_is_created_whole_or_not_at_all(http: Http) -> None:
    await make_queue(http)
    good = {"interval_minutes": 30, "target": TARGET}
    response = await http.post("/v1/schedules", json=[good, good])
    assert response.status_code == 201
    assert len({schedule["id"] for schedule in response.json()["items"]}) == 2
    wrong = [good, {**good, "timezone": "Mars"}, {**good, "intervall": 5}, 7]
    told = problem(await http.post("/v1/schedules", json=wrong[:3]), 400, "unknown_field")
    assert fields_of(told) == ["[1].timezone", "[2].intervall"]
    problem(await http.post("/v1/schedules", json=wrong), 422, "invalid_input")
    problem(await http.post("/v1/schedules", json=[good] * 1001), 422, "invalid_input")
    problem(await http.post("/v1/schedules", content=b"5"), 400, "invalid_json")
    assert len(await every_page(http, "/v1/schedules")) == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron_expr": "61 * * * *"}, "cron_expr"),
        ({"timezone": "Mars"}, "timezone"),
        ({"target": {"type": "queue", "queue": "nowhere"}}, "target.queue"),
        ({"daily_time": {"hour": 1, "minute": 1}}, "daily_time"),
        ({"priority": 10}, "priority"),
        ({"name": "x" * 121}, "name"),
    ],
)
async def test_a_wrong_schedule_is_refused_with_its_field(
    http: Http, fields: dict[str, Any], field: str
) -> None:
    await make_queue(http)
    body = {"cron_expr": "0 9 * * *", "target": TARGET, **fields}
    told = problem(await http.post("/v1/schedules", json=body), 422, "invalid_input")
    assert field in fields_of(told)


async def test_a_camel_case_field_is_refused_with_its_name(http: Http) -> None:
    await make_queue(http)
    body = {"dailyTime": {"hour": 9, "minute": 0}, "target": TARGET}
    told = problem(await http.post("/v1/schedules", json=body), 400, "unknown_field")
    assert "'daily_time'" in told["errors"][0]["message"]


async def test_a_change_of_another_version_is_refused(http: Http) -> None:
    made = await make(http)
    url = f"/v1/schedules/{made['id']}"
    first = (await http.get(url)).headers["etag"]
    changed = await http.patch(url, json={"priority": 5}, headers={"If-Match": first})
    assert changed.headers["etag"] != first
    for late in (first, '"odd"', "v1"):
        refused = await http.patch(url, json={"priority": 6}, headers={"If-Match": late})
        problem(refused, 412, "precondition_failed")
    problem(await http.delete(url, headers={"If-Match": first}), 412, "precondition_failed")
    assert (await http.get(url)).json()["priority"] == 5
    assert (
        await http.delete(url, headers={"If-Match": changed.headers["etag"]})
    ).status_code == 204


async def test_a_repeat_with_an_idempotency_key_creates_one_schedule(http: Http) -> None:
    await make_queue(http)
    body, keyed = {"interval_minutes": 30, "target": TARGET}, {"Idempotency-Key": "k"}
    answers = [await http.post("/v1/schedules", json=body, headers=keyed) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert len(await every_page(http, "/v1/schedules")) == 1


async def test_schedules_are_listed_and_filtered_page_by_page(http: Http) -> None:
    for number in range(5):
        await make(http, name=f"s{number}", owner="ada" if number % 2 else "bob")
    await make(http, name="hourly", cron_expr="* * * * *")

    async def names(**query: Any) -> list[str]:
        return [
            schedule["name"]
            for schedule in await every_page(http, "/v1/schedules", limit=2, **query)
        ]

    assert await names() == ["s0", "s1", "s2", "s3", "s4", "hourly"]
    assert await names(owner="ada") == ["s1", "s3"]
    assert await names(order="name") == ["hourly", "s0", "s1", "s2", "s3", "s4"]
    assert (await names(order="next_due_at"))[0] == "hourly"
    assert await names(name="s2") == ["s2"]
    assert await names(name_prefix="s") == ["s0", "s1", "s2", "s3", "s4"]
    await http.post("/v1/schedules/s0/pause")
    assert await names(status="paused") == ["s0"]
    soon = (datetime.now(UTC) + timedelta(minutes=2)).isoformat()
    assert "hourly" in await names(order="next_due_at", before=soon)
    problem(await http.get("/v1/schedules", params={"before": soon}), 422, "invalid_input")
    problem(await http.get("/v1/schedules?order=odd"), 422, "invalid_input")
    problem(await http.get("/v1/schedules?state=active"), 400, "unknown_field")


async def test_a_schedule_is_paused_resumed_and_triggered(http: Http) -> None:
    made = await make(http)
    url = f"/v1/schedules/{made['id']}"
    assert (await http.post(f"{url}/pause")).json()["status"] == "paused"
    assert (await http.post(f"{url}/resume")).json()["status"] == "active"
    assert (await http.post(f"{url}/trigger")).status_code == 201
    (firing,) = await every_page(http, f"{url}/firings")
    assert (firing["status"], firing["run"]) == ("planned", 1)
    assert firing["id"].startswith("fir_")
    (message,) = await every_page(http, "/v1/queues/q/messages")
    assert message["schedule_id"] == made["id"]
    pulled = (await http.post("/v1/queues/q/messages/pull", json={})).json()["messages"][0]
    assert pulled["metadata"]["idempotency_key"]
    assert pulled["metadata"]["run"] == 1
    acked = await http.post(
        "/v1/queues/q/messages/ack", json={"acks": [{"lease_id": pulled["lease_id"]}]}
    )
    assert acked.json()["ack_count"] == 1
    (firing,) = await every_page(http, f"{url}/firings")
    assert firing["status"] == "succeeded"
    assert await every_page(http, f"{url}/firings", status="dead") == []


async def test_slots_of_the_past_are_backfilled(http: Http) -> None:
    made = await make(http, cron_expr="0 * * * *")
    url = f"/v1/schedules/{made['id']}/backfill"
    body = {"from": "2026-01-05T09:30:00Z", "to": "2026-01-05T12:30:00Z"}
    response = await http.post(url, json=body)
    assert response.json()["slots"] == [f"2026-01-05T{hour}:00:00Z" for hour in (10, 11, 12)]
    told = problem(await http.post(url, json={"from": 5}), 422, "invalid_input")
    assert fields_of(told) == ["from", "to"]


async def test_the_next_fires_are_listed(http: Http) -> None:
    made = await make(http, name="daily", owner="ada")
    await make(http, cron_expr="* * * * *", name="often", owner="bob")
    fires = (await http.get(f"/v1/schedules/{made['id']}/upcoming?limit=2")).json()["fires"]
    assert [fire["schedule_id"] for fire in fires] == [made["id"]] * 2
    of_all = (await http.get("/v1/upcoming?limit=3")).json()["fires"]
    assert of_all[0]["name"] == "often"
    of_ada = (await http.get("/v1/upcoming?owner=ada&limit=1")).json()["fires"]
    assert [fire["name"] for fire in of_ada] == ["daily"]
    problem(await http.get("/v1/upcoming?limit=1001"), 422, "invalid_input")


async def test_why_answers_for_a_schedule_and_for_a_time(http: Http) -> None:
    made = await make(http)
    answer = (await http.get(f"/v1/schedules/{made['id']}/why")).json()
    assert answer["schedule_id"] == made["id"]
    assert answer["answer"]
    at = await http.get(f"/v1/schedules/{made['id']}/why", params={"at": "2026-01-05T09:30:00Z"})
    assert at.json()["is_slot"] is False
    problem(await http.get(f"/v1/schedules/{made['id']}/why?at=now"), 422, "invalid_input")


async def test_an_unknown_schedule_is_404(http: Http) -> None:
    for path in ("", "/firings", "/upcoming", "/why"):
        problem(await http.get(f"/v1/schedules/nothing{path}"), 404, "not_found")
    problem(await http.post("/v1/schedules/nothing/pause"), 404, "not_found")
    problem(await http.patch("/v1/schedules/nothing", json={}), 404, "not_found")


async def test_a_trigger_and_a_backfill_happen_once_even_if_the_server_dies_before_it_answers(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_queue(http)
    schedule = (await http.post("/v1/schedules", json={
        "cron_expr": "@daily", "target": {"type": "queue", "queue": "q"},
    })).json()["id"]  # fmt: skip
    span = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T12:00:00Z"}

    async def die(*_: object) -> None:
        raise RuntimeError("the server dies")

    for verb, body in (("trigger", None), ("backfill", span)):
        path, keyed = f"/v1/schedules/{schedule}/{verb}", {"Idempotency-Key": verb}
        with monkeypatch.context() as dying:
            dying.setattr("tickwork.ops.requests.finish", die)
            assert (await http.post(path, json=body, headers=keyed)).status_code == 500
        waiting = await every_page(http, "/v1/queues/q/messages")
        assert len(waiting) == {"trigger": 1, "backfill": 3}[verb]
        again = await http.post(path, json=body, headers=keyed)
        assert (again.status_code, again.headers["Idempotency-Replayed"]) == (201, "true")
        if verb == "backfill":
            assert len(again.json()["slots"]) == 2
        assert await every_page(http, "/v1/queues/q/messages") == waiting


async def test_an_owner_is_not_told_what_its_tenant_has(http: Http, home: Home) -> None:
    await make_queue(http, "payroll")
    named = {"name": "payroll-hook", "url": "https://example.com", "types": ["a"]}
    assert (await http.post("/v1/endpoints", json=named)).status_code == 201
    store = await home.open()
    ada = bearer(await new_key(store, owner="ada", scopes=["read", "manage"]))
    await store.close()
    targets = [
        {"type": "queue", "queue": "payrol"},
        {"type": "webhook", "endpoint": "payrol-hook"},
    ]
    for target in targets:
        body = {"cron_expr": "@daily", "target": target}
        hint = await http.post("/v1/schedules", json=body)
        assert (hint.status_code, "payroll" in hint.text) == (422, True)
        refused = await http.post("/v1/schedules", json=body, headers=ada)
        assert refused.status_code == 422
        assert "payroll" not in refused.text
