"""What is wrong, over HTTP."""

from __future__ import annotations

import httpx

from tests.api.acts import fields_of, make_queue, problem, send
from tests.api.test_dead_letters import die
from tests.kit.api import bearer, new_key
from tests.stores.home import Home
from tickwork.core.health import Check

Http = httpx.AsyncClient


async def test_problems_are_listed_worst_first_with_what_to_do(http: Http) -> None:
    await die(http)
    await make_queue(http, "slow")
    assert (await http.post("/v1/queues/slow/pause")).status_code < 300
    health = (await http.get("/v1/health", params={"check": "queues,pauses"})).json()
    assert (health["ok"], health["checked"]) == (False, ["pauses", "queues"])
    found = [
        (found_problem["severity"], found_problem["code"], found_problem["name"])
        for found_problem in health["problems"]
    ]
    assert found[0] == ("error", "dead_letters", "q")
    assert ("warning", "queue_paused", "slow") in found
    assert all(found_problem["action"] for found_problem in health["problems"])
    whole = (await http.get("/v1/health")).json()
    assert whole["checked"] == [*Check]
    assert whole["ok"] is False


async def test_an_unknown_check_is_refused(http: Http) -> None:
    told = problem(await http.get("/v1/health", params={"check": "queue"}), 422, "invalid_input")
    assert fields_of(told) == ["check"]


async def test_what_is_well_has_no_problem(http: Http) -> None:
    await make_queue(http)
    await send(http)
    health = (await http.get("/v1/health", params={"check": "queues,schedules,runs"})).json()
    assert (health["ok"], health["problems"]) == (True, [])


async def test_an_owner_sees_that_everything_is_paused_and_nothing_of_others(
    http: Http, home: Home
) -> None:
    await die(http)
    assert (await http.post("/v1/cluster/pause")).status_code < 300
    store = await home.open()
    owner = bearer(await new_key(store, owner="ada", scopes=["read"]))
    await store.close()
    health = (await http.get("/v1/health", headers=owner)).json()
    assert health["checked"] == ["pauses"]
    assert [shown["code"] for shown in health["problems"]] == ["cluster_paused"]
    answer = await http.get("/v1/health", params={"check": "pauses,queues"}, headers=owner)
    assert fields_of(problem(answer, 422, "invalid_input")) == ["check"]
