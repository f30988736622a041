"""How messages fared, over HTTP."""

from __future__ import annotations

import httpx

from tests.api.acts import make_queue, problem, pull, send

Http = httpx.AsyncClient


async def test_what_ended_is_counted_by_queue_and_type(http: Http) -> None:
    await make_queue(http)
    await send(http, type="mail")
    await send(http)
    for lease in [message["lease_id"] for message in await pull(http)]:
        await http.post("/v1/queues/q/messages/ack", json={"acks": [{"lease_id": lease}]})
    for query in ({}, {"by": "minute"}, {"by": "day", "queue": "q"}):
        answer = (await http.get("/v1/performance", params=query)).json()
        assert answer["by"] == query.get("by", "hour")
        counts = {row["type"]: (row["messages"], row["done"]) for row in answer["totals"]}
        assert counts == {None: (1, 1), "mail": (1, 1)}
        assert all(row["run"]["p50_seconds"] > 0 for row in answer["periods"])
    assert (await http.get("/v1/performance?type=other")).json()["totals"] == []
    told = problem(await http.get("/v1/performance?by=week"), 422, "invalid_input")
    assert told["errors"][0]["field"] == "by"
    query = {"since": "2027-01-02T00:00:00Z", "until": "2027-01-01T00:00:00Z"}
    told = problem(await http.get("/v1/performance", params=query), 422, "invalid_input")
    assert told["errors"][0] == {"field": "since", "message": "must be before until"}
