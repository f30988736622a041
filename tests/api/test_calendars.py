"""Calendars and subscriptions over HTTP."""

from __future__ import annotations

import httpx
import pytest

from tests.api.acts import every_page, fields_of, make_queue, problem
from tickwork.ops import queues, type_list

Http = httpx.AsyncClient


async def test_a_calendar_is_put_used_and_deleted(http: Http) -> None:
    await make_queue(http)
    made = await http.put("/v1/calendars/holidays", json={"days": ["2027-12-25"]})
    assert (made.json()["days"], made.json()["moved"]) == (["2027-12-25"], [])
    body = {
        "once_at": "2027-12-26T09:00:00Z",
        "calendar": "holidays",
        "roll": "next_day",
        "target": {"type": "queue", "queue": "q"},
    }
    schedule = (await http.post("/v1/schedules", json=body)).json()
    problem(await http.delete("/v1/calendars/holidays"), 409, "conflict")
    changed = await http.put("/v1/calendars/holidays", json={"days": ["2027-12-26"]})
    assert [moved_schedule["id"] for moved_schedule in changed.json()["moved"]] == [schedule["id"]]
    await http.delete(f"/v1/schedules/{schedule['id']}")
    assert (await http.delete("/v1/calendars/holidays")).status_code == 204
    problem(await http.get("/v1/calendars/holidays"), 404, "not_found")


async def test_calendars_are_listed_and_wrong_days_are_named(http: Http) -> None:
    for name in ("c", "a", "b"):
        await http.put(f"/v1/calendars/{name}", json={"days": []})
    listed = await every_page(http, "/v1/calendars", limit=2)
    assert [calendar["name"] for calendar in listed] == ["a", "b", "c"]
    told = problem(
        await http.put("/v1/calendars/a", json={"days": ["2027-02-30"]}), 422, "invalid_input"
    )
    assert fields_of(told) == ["days[0]"]
    problem(await http.put("/v1/calendars/a", json={}), 422, "invalid_input")
    event = ("BEGIN:VEVENT", "DTSTART;VALUE=DATE:20271225", "END:VEVENT")
    ics = "\r\n".join(["BEGIN:VCALENDAR", *event, "END:VCALENDAR", ""])
    put = await http.put("/v1/calendars/ics", json={"ics": ics})
    assert put.json()["days"] == ["2027-12-25"], put.text


async def test_a_queue_is_subscribed_and_unsubscribed(http: Http) -> None:
    await make_queue(http)
    for types in ("b.*", "a.x"):
        made = await http.post("/v1/subscriptions", json={"types": types, "queue": "q"})
        assert (made.status_code, made.json()) == (201, {"types": types, "queue": "q"})
    listed = await every_page(http, "/v1/subscriptions", limit=1)
    assert [subscription["types"] for subscription in listed] == ["a.x", "b.*"]
    gone = await http.delete("/v1/subscriptions", params={"types": "b.*", "queue": "q"})
    assert gone.status_code == 204
    again = await http.delete("/v1/subscriptions", params={"types": "b.*", "queue": "q"})
    problem(again, 404, "not_found")
    told = problem(await http.post("/v1/subscriptions", json={"types": ""}), 422, "invalid_input")
    assert fields_of(told) == ["types", "queue"]
    nowhere = await http.post("/v1/subscriptions", json={"types": "a", "queue": "nowhere"})
    problem(nowhere, 404, "not_found")


async def test_usage_counts_what_the_tenant_has(http: Http) -> None:
    await make_queue(http)
    await http.post("/v1/queues/q/messages", json={"body": 1})
    usage = (await http.get("/v1/usage")).json()
    assert (usage["queues"], usage["messages"]["ready"]) == (1, 1)
    stats = (await http.get("/v1/stats")).json()
    assert [stat["queue"] for stat in stats["queues"]] == ["q"]
    assert (stats["queues"][0]["late"], stats["queues"][0]["dead_types"]) == (0, {})
    assert (usage["truncated"], stats["next_cursor"]) == (False, None)


async def test_statistics_of_many_queues_have_pages_and_the_others_say_what_is_missing(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a", "b", "c"]
    for name in names:
        await make_queue(http, name)
    found: list[str] = []
    query: dict[str, str | int] = {"limit": 2}
    while True:
        page = (await http.get("/v1/stats", params=query)).json()
        found += [stats["queue"] for stats in page["queues"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert found == names
    (only,) = (await http.get("/v1/stats?queue=b")).json()["queues"]
    assert only["queue"] == "b"
    problem(await http.get("/v1/stats?queue=d"), 404, "not_found")
    problem(await http.get("/v1/stats?queue=tickwork.alerts"), 404, "not_found")
    for path in ("/v1/usage", "/v1/types"):
        assert (await http.get(path)).json()["truncated"] is False
    monkeypatch.setattr(queues, "QUEUES_MAX", 2)
    monkeypatch.setattr(type_list, "QUEUES_MAX", 2)
    for path in ("/v1/usage", "/v1/types"):
        assert (await http.get(path)).json()["truncated"] is True
