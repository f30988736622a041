"""What the tests of the API do again and again."""

from __future__ import annotations

from typing import Any

import httpx


async def make_queue(http: httpx.AsyncClient, name: str = "q", **settings: Any) -> None:
    response = await http.put(f"/v1/queues/{name}", json=settings)
    assert response.status_code in (200, 201), response.text


async def send(http: httpx.AsyncClient, queue: str = "q", **fields: Any) -> str:
    response = await http.post(f"/v1/queues/{queue}/messages", json={"body": 1, **fields})
    assert response.status_code == 201, response.text
    message_id: str = response.json()["id"]
    return message_id


async def pull(http: httpx.AsyncClient, queue: str = "q", **fields: Any) -> list[dict[str, Any]]:
    response = await http.post(f"/v1/queues/{queue}/messages/pull", json=fields)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["messages"]
    return found


async def every_page(http: httpx.AsyncClient, path: str, **query: Any) -> list[dict[str, Any]]:
    """All items of a list, page by page."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        asked = query if cursor is None else {**query, "cursor": cursor}
        response = await http.get(path, params=asked)
        assert response.status_code == 200, response.text
        page = response.json()
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem in a response."""
    told: dict[str, Any] = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.status_code, told["status"], told["code"]) == (status, status, code), told
    return told


def fields_of(told: dict[str, Any]) -> list[str]:
    """The fields that a problem names."""
    return [error["field"] for error in told["errors"]]
