"""Queues over HTTP."""

from __future__ import annotations

import httpx
import pytest

from tests.api.acts import every_page, fields_of, make_queue, problem, send
from tests.stores.home import Home
from tickwork import Message, Tickwork
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings
from tickwork.ops import queues

Http = httpx.AsyncClient


async def test_a_queue_is_created_changed_and_deleted(http: Http) -> None:
    made = await http.put("/v1/queues/orders", json={"max_retries": 7})
    assert made.status_code == 201
    assert (made.json()["max_retries"], made.json()["mode"]) == (7, "pull")
    changed = await http.put("/v1/queues/orders", json={"retention_seconds": 600})
    assert changed.status_code == 200
    assert (changed.json()["max_retries"], changed.json()["retention_seconds"]) == (3, 600)
    shown = await http.get("/v1/queues/orders")
    assert shown.json()["counts"] == {
        "ready": 0, "delayed": 0, "claimed": 0, "blocked": 0, "dead": 0
    }  # fmt: skip
    assert (await http.delete("/v1/queues/orders")).status_code == 204
    problem(await http.get("/v1/queues/orders"), 404, "not_found")


async def test_a_patch_changes_the_given_settings_only(http: Http) -> None:
    problem(await http.patch("/v1/queues/q", json={"max_retries": 1}), 404, "not_found")
    made = await http.put("/v1/queues/q", json={"max_retries": 7, "rate_per_second": 2})
    changed = await http.patch("/v1/queues/q", json={"timeout_seconds": 9, "rate_per_second": None})
    assert changed.headers["etag"] != made.headers["etag"]
    assert changed.json() == made.json() | {"timeout_seconds": 9, "rate_per_second": None}
    assert (await http.get("/v1/queues/q?counts=false")).json() == changed.json()
    told = problem(await http.patch("/v1/queues/q", json={"max_retry": 1}), 400, "unknown_field")
    assert fields_of(told) == ["max_retry"]
    problem(await http.patch("/v1/queues/tickwork.endpoints", json={}), 404, "not_found")


async def test_a_change_of_another_version_is_refused(http: Http) -> None:
    first = (await http.put("/v1/queues/q", json={})).headers["etag"]
    assert (await http.get("/v1/queues/q")).headers["etag"] == first
    second = await http.put("/v1/queues/q", json={"max_retries": 1}, headers={"If-Match": first})
    assert second.headers["etag"] != first
    late = await http.put("/v1/queues/q", json={"max_retries": 2}, headers={"If-Match": first})
    problem(late, 412, "precondition_failed")
    problem(await http.delete("/v1/queues/q", headers={"If-Match": first}), 412,
            "precondition_failed")  # fmt: skip
    assert (await http.get("/v1/queues/q")).json()["max_retries"] == 1
    patch = await http.patch("/v1/queues/q", json={"max_retries": 2}, headers={"If-Match": first})
    problem(patch, 412, "precondition_failed")
    new = await http.put("/v1/queues/new", json={}, headers={"If-Match": first})
    problem(new, 412, "precondition_failed")


async def test_a_queue_that_was_to_be_new_is_not_changed_if_it_exists(http: Http) -> None:
    new = {"If-None-Match": "*"}
    made = await http.put("/v1/queues/q", json={"max_retries": 1}, headers=new)
    assert made.status_code == 201
    for given in ("*", made.headers["etag"]):
        body = {"max_retries": 2, "dead_letter_queue": "q-dead"}
        refused = await http.put("/v1/queues/q", json=body, headers={"If-None-Match": given})
        assert "q exists already" in problem(refused, 412, "precondition_failed")["detail"]
    assert (await http.get("/v1/queues/q?counts=false")).json() == made.json()
    problem(await http.get("/v1/queues/q-dead"), 404, "not_found")
    other = await http.put("/v1/queues/q", json={}, headers={"If-None-Match": '"other"'})
    assert other.json()["max_retries"] == 3


async def test_wrong_settings_are_named_with_the_nearest_field(http: Http) -> None:
    unknown = await http.put("/v1/queues/q", json={"max_retry": 1})
    told = problem(unknown, 400, "unknown_field")
    assert fields_of(told) == ["max_retry"]
    assert "max_retries" in told["errors"][0]["message"]
    told = problem(await http.put("/v1/queues/q", json={"max_retries": -1}), 422, "invalid_input")
    assert fields_of(told) == ["max_retries"]
    told = problem(await http.put(f"/v1/queues/{'x' * 121}", json={}), 422, "invalid_input")
    assert fields_of(told) == ["name"]


async def test_queues_are_listed_by_name_page_by_page(http: Http) -> None:
    names = [f"q{number}" for number in range(5)]
    for name in reversed(names):
        await make_queue(http, name)
    assert [queue["name"] for queue in await every_page(http, "/v1/queues", limit=2)] == names
    problem(await http.get("/v1/queues?cursor=x"), 422, "invalid_input")
    problem(await http.get("/v1/queues?limit=0"), 422, "invalid_input")
    told = problem(await http.get("/v1/queues?limits=5"), 400, "unknown_field")
    assert fields_of(told) == ["limits"]


JSON = {"content-type": "application/json"}


async def test_the_error_for_an_unknown_queue_has_the_nearest_name(http: Http) -> None:
    await make_queue(http, "emails")
    for method, rest in (("GET", ""), ("POST", "/messages/pull"), ("GET", "/dead"), ("DELETE", "")):
        body = b"{}" if method == "POST" else None
        asked = await http.request(method, f"/v1/queues/emials{rest}", content=body, headers=JSON)
        told = problem(asked, 404, "not_found")
        assert told["detail"] == "There is no queue emials; did you mean 'emails'?"
    told = problem(await http.get("/v1/queues/other"), 404, "not_found")
    assert told["detail"] == "There is no queue other."


async def test_a_paused_queue_hands_out_nothing_and_a_purge_empties_it(http: Http) -> None:
    await make_queue(http)
    await send(http)
    assert (await http.post("/v1/queues/q/pause")).json()["paused"] is True
    pulled = await http.post("/v1/queues/q/messages/pull", json={})
    assert (pulled.json()["messages"], pulled.json()["message_backlog_count"]) == ([], 1)
    problem(await http.delete("/v1/queues/q"), 409, "conflict")
    assert (await http.post("/v1/queues/q/purge")).json() == {"purged": 1}
    assert (await http.post("/v1/queues/q/resume")).json()["paused"] is False
    assert (await http.delete("/v1/queues/q")).status_code == 204


async def test_a_page_of_queues_is_full_although_some_are_hidden(http: Http, home: Home) -> None:
    store = await home.open()
    hidden = ("tickwork.alerts", *(f"tickwork.entities.E{number}" for number in range(5)))
    for name in ("a", "b", *hidden, "tickwork-2", "z"):
        await store.queues.put(SYSTEM, name, QueueSettings())
    await store.close()
    page = (await http.get("/v1/queues", params={"limit": 3})).json()
    assert [queue["name"] for queue in page["items"]] == ["a", "b", "tickwork-2"]
    rest = (await http.get("/v1/queues", params={"cursor": page["next_cursor"]})).json()
    assert [queue["name"] for queue in rest["items"]] == ["z"]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize("name", ["tickwork.deliveries", "tickwork.endpoints", "tickwork.alerts"])
async def test_queues_of_tickwork_itself_are_hidden(http: Http, name: str) -> None:
    problem(await http.get(f"/v1/queues/{name}"), 404, "not_found")
    problem(await http.put(f"/v1/queues/{name}", json={}), 404, "not_found")
    problem(await http.post(f"/v1/queues/{name}/messages", json={"body": 1}), 404, "not_found")
    problem(await http.post(f"/v1/queues/{name}/messages/pull", json={}), 404, "not_found")


async def test_a_queue_that_an_app_declares_is_not_pulled_and_keeps_its_settings(
    http: Http, home: Home
) -> None:
    store = await home.open()
    await store.queues.put(DEFAULT, "q", QueueSettings(), declared_by="shop")
    await store.close()
    assert (await http.get("/v1/queues/q")).json()["mode"] == "push"
    told = problem(await http.post("/v1/queues/q/messages/pull", json={}), 409, "conflict")
    assert "shop" in told["detail"]
    problem(await http.put("/v1/queues/q", json={"max_retries": 1}), 409, "conflict")
    assert await send(http)


async def test_a_queue_that_is_pushed_to_an_endpoint_is_not_pulled(http: Http) -> None:
    made = await http.put("/v1/queues/q", json={"push_to": "shop"})
    assert (made.json()["mode"], made.json()["push_to"]) == ("push", "shop")
    problem(await http.post("/v1/queues/q/messages/pull", json={}), 409, "conflict")
    await make_queue(http)
    assert (await http.post("/v1/queues/q/messages/pull", json={})).status_code == 200


async def test_a_limit_is_set_shown_shared_and_deleted(http: Http) -> None:
    made = await http.put("/v1/limits/provider", json={"rate": 100, "period_seconds": 60})
    shown = {"name": "provider", "rate": 100.0, "period_seconds": 60.0, "concurrency": None}
    assert (made.status_code, made.json()) == (200, shown)
    assert (await http.get("/v1/limits/provider")).json() == shown
    assert (await http.get("/v1/limits")).json()["items"] == [shown]
    queue = await http.put("/v1/queues/orders", json={"limit": "provider"})
    assert queue.json()["limit"] == "provider"
    problem(await http.put("/v1/limits/provider", json={"rat": 1}), 400, "unknown_field")
    assert (await http.delete("/v1/limits/provider")).status_code == 204
    problem(await http.get("/v1/limits/provider"), 404, "not_found")


async def test_a_queue_with_handlers_in_an_app_is_not_pulled(http: Http, home: Home) -> None:
    await make_queue(http)
    app = Tickwork(home.url, name="shop")
    await app.queue("q").send(1)
    await app.close()
    assert (await http.get("/v1/queues/q")).json()["mode"] == "pull"
    app = Tickwork(home.url, name="shop")
    app.queue("q")

    @app.on("q")
    async def handle(message: Message[int]) -> None: ...

    await app.queues.list()
    await app.close()
    assert (await http.get("/v1/queues/q")).json()["mode"] == "push"
    problem(await http.post("/v1/queues/q/messages/pull", json={}), 409, "conflict")


async def test_statistics_come_page_by_page_or_for_one_queue(http: Http) -> None:
    names = [f"q{number}" for number in range(5)]
    for name in reversed(names):
        await make_queue(http, name)
    seen: list[str] = []
    cursor = None
    while True:
        query = {"limit": "2"} | ({} if cursor is None else {"cursor": cursor})
        page = (await http.get("/v1/stats", params=query)).json()
        seen += [stats["queue"] for stats in page["queues"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == names
    one = (await http.get("/v1/stats", params={"queue": "q3"})).json()
    assert [stats["queue"] for stats in one["queues"]] == ["q3"]
    for unknown in ("q9", "tickwork.deliveries"):
        problem(await http.get("/v1/stats", params={"queue": unknown}), 404, "not_found")
    problem(await http.get("/v1/stats", params={"limit": "101"}), 422, "invalid_input")


async def test_a_count_that_stops_at_its_bound_says_so(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "COUNTED_MAX", 2)
    monkeypatch.setattr(queues, "COUNTED_OF_QUEUE_MIN", 2)
    for name, messages in (("a", 3), ("b", 1)):
        await make_queue(http, name)
        for number in range(messages):
            await send(http, name, body=number)
    for name, counted, at_least in (("a", 2, ["ready"]), ("b", 1, [])):
        shown = (await http.get(f"/v1/queues/{name}")).json()
        (stats,) = (await http.get("/v1/stats", params={"queue": name})).json()["queues"]
        for answer in (shown, stats):
            assert (answer["counts"]["ready"], answer["at_least"]) == (counted, at_least)
        bare = (await http.get(f"/v1/queues/{name}", params={"counts": "false"})).json()
        assert "counts" not in bare
    usage = (await http.get("/v1/usage")).json()
    assert (usage["messages"]["ready"], usage["at_least"]) == (3, ["ready"])
    assert usage["messages"]["dead"] == 0


async def test_a_message_that_is_pulled_says_when_its_queue_was_last_pulled(http: Http) -> None:
    await make_queue(http)
    first, second = [await send(http), await send(http)]
    before = (await http.get(f"/v1/messages/{second}/why")).json()
    assert before["answer"].endswith("is ready and waits for a consumer to pull it.")
    assert before["next"] == "The next pull of its queue leases it."
    assert before["details"][0] == "no consumer has pulled from queue q yet"
    assert before["estimate"]["ahead"] == 1
    pulled = await http.post("/v1/queues/q/messages/pull", json={"batch_size": 1})
    assert [message["id"] for message in pulled.json()["messages"]] == [first]
    after = (await http.get(f"/v1/messages/{second}/why")).json()
    assert after["details"][0].startswith("queue q was last pulled from at 20")
    assert after["estimate"]["ahead"] == 0


async def test_a_dead_letter_queue_is_created_with_the_queue_that_names_it(http: Http) -> None:
    made = await http.put("/v1/queues/q", json={"dead_letter_queue": "q-dead", "max_retries": 0})
    assert made.status_code == 201
    assert (await http.get("/v1/queues/q-dead")).json()["mode"] == "pull"
    await http.put("/v1/queues/q-dead", json={"max_retries": 7})
    assert (await http.patch("/v1/queues/q", json={"max_retries": 0})).status_code == 200
    assert (await http.get("/v1/queues/q-dead")).json()["max_retries"] == 7
    sent = await send(http)
    (pulled,) = (await http.post("/v1/queues/q/messages/pull", json={})).json()["messages"]
    back = {"retries": [{"lease_id": pulled["lease_id"]}]}
    await http.post("/v1/queues/q/messages/ack", json=back)
    moved = (await http.get("/v1/queues/q-dead/messages")).json()["items"]
    assert [message["id"] for message in moved] == [sent]
    changed = await http.patch("/v1/queues/q", json={"dead_letter_queue": "other"})
    assert changed.status_code == 200
    assert (await http.get("/v1/queues/other")).status_code == 200


async def test_a_route_without_parameters_says_so(http: Http) -> None:
    told = problem(await http.get("/v1/topology?by=day"), 400, "unknown_field")
    (error,) = told["errors"]
    assert error["field"] == "by"
    assert error["message"] == "is not a known field; leave it out: no fields are taken here"
