"""A route that takes no body refuses fields: a purge `{"until": …}` must not purge everything."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.api.acts import problem

ROUTES_MIN = 90
"""Least number of routes without a body: reads, deletions, and changes such as pause."""


async def routes_without_a_body(http: httpx.AsyncClient) -> list[tuple[str, str, dict[str, Any]]]:
    """The method, the path with a name in it, and the description of each."""
    document = (await http.get("/openapi.json")).json()
    return [
        (method.upper(), re.sub(r"\{\w+\}", "nothing", path), operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if "requestBody" not in operation
    ]


@pytest.mark.one_store("sqlite")
async def test_every_route_without_a_body_refuses_fields(http: httpx.AsyncClient) -> None:
    routes = await routes_without_a_body(http)
    assert len(routes) >= ROUTES_MIN
    for method, path, operation in routes:
        answer = await http.request(method, path, json={"until": 1, "foo": {}})
        told = problem(answer, 400, "unknown_field")
        advice = "is not a known field; leave it out: no fields are taken here"
        assert told["errors"] == [
            {"field": "until", "message": advice},
            {"field": "foo", "message": advice},
        ], (method, path)
        assert path in ("/healthz", "/readyz") or "400" in operation["responses"], (method, path)


@pytest.mark.one_store("sqlite")
async def test_every_route_without_a_body_takes_an_empty_one(http: httpx.AsyncClient) -> None:
    for method, path, _ in await routes_without_a_body(http):
        plain = await http.request(method, path)
        for content in (b"{}", b" \n", b" { } "):
            answer = await http.request(method, path, content=content)
            assert answer.status_code == plain.status_code, (method, path, content)


async def test_a_purge_with_a_filter_deletes_nothing(http: httpx.AsyncClient) -> None:
    await http.put("/v1/queues/mail", json={})
    await http.post("/v1/queues/mail/messages", json={"body": 1})
    until = {"until": "2026-01-01T00:00:00Z"}
    problem(await http.post("/v1/queues/mail/purge", json=until), 400, "unknown_field")
    for content in (b"until=2026", b'["until"]', b"null"):
        answer = await http.post("/v1/queues/mail/purge", content=content)
        problem(answer, 400, "invalid_json")
    assert (await http.get("/v1/queues/mail")).json()["counts"]["ready"] == 1
    assert (await http.post("/v1/queues/mail/purge", json={})).json() == {"purged": 1}
