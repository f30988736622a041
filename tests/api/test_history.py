"""What became of messages, over HTTP."""

from __future__ import annotations

import httpx

from tests.api.acts import every_page, make_queue, problem, pull, send
from tests.kit.api import bearer, new_key
from tickwork.store.contract import Store

Http = httpx.AsyncClient


async def test_an_ended_message_is_found_by_what_it_has(http: Http) -> None:
    await make_queue(http, history_bodies=True)
    one = await send(http, type="mail", event_id="e1", key="k", correlation_id="c1")
    two = await send(http, body=[2])
    for lease in [message["lease_id"] for message in await pull(http)]:
        await http.post("/v1/queues/q/messages/ack", json={"acks": [{"lease_id": lease}]})
    problem(await http.get(f"/v1/messages/{one}"), 404, "not_found")
    record = (await http.get(f"/v1/history/{one}")).json()
    assert (record["outcome"], record["queue"], record["attempts"]) == ("done", "q", 1)
    assert (record["type"], record["event_id"], record["correlation_id"]) == ("mail", "e1", "c1")
    assert (await http.get(f"/v1/history/{two}")).json()["body"] == [2]
    everything = await every_page(http, "/v1/history", limit=1)
    assert {record["id"] for record in everything} == {one, two}
    for query in (
        {"type": "mail"}, {"event_id": "e1"}, {"key": "k"}, {"correlation_id": "c1"},
    ):  # fmt: skip
        assert [record["id"] for record in await every_page(http, "/v1/history", **query)] == [one]
    assert await every_page(http, "/v1/history", outcome="dead") == []
    problem(await http.get("/v1/history?outcome=lost"), 422, "invalid_input")
    handled = await http.get("/v1/history/handled?event_id=e1")
    assert handled.json() == {"event_id": "e1", "was_handled": True}
    assert not (await http.get("/v1/history/handled?event_id=e2")).json()["was_handled"]
    why = (await http.get(f"/v1/messages/{one}/why")).json()
    assert why["code"] == "done"
    assert f"Message {one} of queue q: it was handled at " in why["answer"]


async def test_only_the_operator_sets_what_queues_keep(http: Http, store: Store) -> None:
    first = await http.get("/v1/history/default")
    assert first.json() == {"history": "all", "history_seconds": 86_400}
    own = bearer(await new_key(store, scopes=["read", "manage"]))
    wanted = {"history": "failures", "history_seconds": 7_200}
    problem(await http.put("/v1/history/default", json=wanted, headers=own), 403, "needs_admin")
    refused = problem(
        await http.put("/v1/history/default", json={"history": "some", "history_seconds": 1}),
        422,
        "invalid_input",
    )
    assert [error["field"] for error in refused["errors"]] == ["history", "history_seconds"]
    assert (await http.put("/v1/history/default", json=wanted)).json() == wanted
    assert (await http.get("/v1/history/default", headers=own)).json() == wanted
    log = (await http.get("/v1/audit")).json()["items"]
    assert log[0]["action"] == "history.default"
