"""Workflows over HTTP."""

from __future__ import annotations

import httpx
import pytest

from tests.api.acts import every_page, fields_of, problem
from tests.conformance.acts import claim, join, release, settle
from tests.stores.home import Home
from tickwork.core.model import SYSTEM
from tickwork.core.workflow.queue import runs_queue
from tickwork.ops.workflows import ensure_workflow
from tickwork.store.contract import Store

Http = httpx.AsyncClient
RUNS = "/v1/workflows/content/runs"


@pytest.fixture(autouse=True)
async def workflow(store: Store) -> None:
    await ensure_workflow(store, "content")
    await ensure_workflow(store, "other")


async def test_runs_are_started_listed_and_shown(http: Http) -> None:
    assert (await http.get("/v1/workflows")).json() == {"items": ["content", "other"]}
    made = await http.post(RUNS, json={"id": "a", "params": {"keyword": "tax"}})
    assert made.status_code == 201
    assert (made.json()["status"], made.json()["params"]) == ("running", {"keyword": "tax"})
    many = await http.post(RUNS, json=[{"id": "b"}, {"params": 2}])
    assert [run["params"] for run in many.json()["items"]] == [None, 2]
    assert many.json()["items"][1]["id"].startswith("run_")
    listed = await every_page(http, RUNS, limit=1)
    assert len(listed) == 3
    assert {run["id"] for run in listed} >= {"a", "b"}
    assert await every_page(http, RUNS, status="failed") == []
    assert await every_page(http, "/v1/workflows/other/runs") == []
    odd = await http.get(f"{RUNS}/a", params={"steps_from": -1, "steps_limit": 10_001})
    assert fields_of(problem(odd, 422, "invalid_input")) == ["steps_from", "steps_limit"]
    problem(await http.get("/v1/workflows/other/runs/a"), 404, "not_found")
    problem(await http.get("/v1/workflows/unknown/runs"), 404, "not_found")


async def test_a_run_that_a_worker_has_is_pausing_in_lists_too(http: Http, home: Home) -> None:
    await http.post(RUNS, json={"id": "a"})
    store = await home.open()
    (message,) = await claim(store, await join(store), queue=runs_queue("content"), scope=SYSTEM)
    await http.post(f"{RUNS}/a/pause")
    assert [run["status"] for run in await every_page(http, RUNS)] == ["pausing"]
    await settle(store, release(message), scope=SYSTEM)
    await store.close()
    assert [run["status"] for run in await every_page(http, RUNS)] == ["paused"]


async def test_a_start_is_repeated_refused_or_uses_what_is_there(http: Http) -> None:
    body = {"id": "a", "params": 1}
    answers = [await http.post(RUNS, json=body, headers={"Idempotency-Key": "x"}) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    problem(await http.post(RUNS, json=body), 409, "conflict")
    used = await http.post(RUNS, json={**body, "on_conflict": "use_existing"})
    assert used.status_code == 201
    unknown = await http.post("/v1/workflows/unknown/runs", json={})
    assert "no workflow unknown" in problem(unknown, 404, "not_found")["detail"]
    told = problem(await http.post(RUNS, json={"parms": 1}), 400, "unknown_field")
    assert fields_of(told) == ["parms"]
    told = problem(await http.post(RUNS, json=[{"id": ""}, {"id": 7}]), 422, "invalid_input")
    assert "[1].id" in fields_of(told)


async def test_a_run_is_paused_resumed_cancelled_restarted_and_terminated(http: Http) -> None:
    await http.post(RUNS, json={"id": "a"})
    url = f"{RUNS}/a"
    assert (await http.post(f"{url}/pause")).json()["status"] == "paused"
    assert (await http.post(f"{url}/resume")).json()["status"] == "running"
    sent = await http.post(f"{url}/events", json={"type": "approved", "data": 1, "id": "e"})
    assert sent.status_code == 201
    again = await http.post(f"{url}/events", json={"type": "approved", "data": 1, "id": "e"})
    (event,) = again.json()["events"]
    assert (event["type"], event["data"], event["consumed_by"]) == ("approved", 1, None)
    cancelled = await http.post(f"{url}/cancel", json={"compensate": True})
    assert cancelled.json()["status"] == "cancelling"
    assert (await http.post(f"{url}/terminate")).json()["status"] == "terminated"
    problem(await http.post(f"{url}/pause"), 409, "conflict")
    problem(await http.post(f"{url}/events", json={"type": "x"}), 409, "conflict")
    told = problem(await http.post(f"{url}/restart", json={"from_step": "x"}), 422, "invalid_input")
    assert fields_of(told) == ["from_step"]
    assert (await http.post(f"{url}/restart", json={})).json()["status"] == "running"
    problem(await http.post(f"{RUNS}/nobody/events", json={"type": "x"}), 404, "not_found")
