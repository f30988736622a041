"""A page of a list ends after four megabytes, and the list goes on with its `next_cursor`."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import httpx
import pytest

from tests.attacks.loop_holds import loop_holds
from tickwork.api.pages import PAGE_BYTES_MAX

BODY = "x" * 120_000
"""The body of a message, almost as long as it may be."""

LETTERS = 80
"""Number of messages; all of them have twice the bytes of a page."""

MANY_LETTERS = 200
PAGE_MEMORY_MAX = 40_000_000
"""Bytes that one request for a page may need: its slice as rows, as values and as text. All of the
messages would need 90 MB."""


async def sent(client: httpx.AsyncClient, count: int = LETTERS) -> None:
    await client.put("/v1/queues/q", json={})
    for _ in range(count // 2):
        both = [{"body": BODY, "type": "big"}] * 2
        response = await client.post("/v1/queues/q/messages/batch", json={"messages": both})
        assert response.status_code == 201, response.text


async def pages(client: httpx.AsyncClient, path: str) -> list[list[dict[str, Any]]]:
    """All pages of a list."""
    found: list[list[dict[str, Any]]] = []
    cursor = ""
    while True:
        response = await client.get(f"{path}limit=1000{cursor}")
        assert response.status_code == 200, response.text
        assert len(response.content) <= PAGE_BYTES_MAX + 1_000
        answer = response.json()
        found.append(answer["items"])
        if answer["next_cursor"] is None:
            return found
        cursor = f"&cursor={answer['next_cursor']}"


def check(found: list[list[dict[str, Any]]], count: int) -> None:
    """All items are there, once, and pages are not much shorter than they may be."""
    ids = [item["id"] for page in found for item in page]
    assert len(ids) == len({*ids}) == count
    assert 1 < len(found) <= count // 8


async def test_messages_come_in_pages_of_four_megabytes(http: httpx.AsyncClient) -> None:
    await sent(http)
    check(await pages(http, "/v1/queues/q/messages?"), LETTERS)
    check(await pages(http, "/v1/queues/q/messages?type=big&"), LETTERS)


async def test_schedules_come_in_pages_of_four_megabytes(http: httpx.AsyncClient) -> None:
    await http.put("/v1/queues/q", json={})
    body = {
        "interval_seconds": 3_600,
        "target": {"type": "queue", "queue": "q"},
        "payload": "x" * 100_000,
    }
    for _ in range(LETTERS // 8):
        response = await http.post("/v1/schedules", json=[body] * 8)
        assert response.status_code == 201, response.text
    check(await pages(http, "/v1/schedules?"), LETTERS)
    check(await pages(http, "/v1/schedules?order=next_due_at&"), LETTERS)


async def test_a_single_item_is_a_page_whatever_its_size(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.api.pages.PAGE_BYTES_MAX", 1_000)
    await sent(http, 4)
    found: list[list[dict[str, Any]]] = []
    cursor = ""
    for _ in range(4):
        answer = (await http.get(f"/v1/queues/q/messages?limit=9{cursor}")).json()
        found.append(answer["items"])
        cursor = f"&cursor={answer['next_cursor']}"
    assert [len(page) for page in found] == [1, 1, 1, 1]
    assert len({page[0]["id"] for page in found}) == 4


async def test_requests_for_big_pages_need_little_memory(http: httpx.AsyncClient) -> None:
    await sent(http, MANY_LETTERS)
    tracemalloc.start()
    try:
        asked = [http.get("/v1/queues/q/messages?limit=1000") for _ in range(3)]
        await asyncio.gather(*asked)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3 * PAGE_MEMORY_MAX


async def test_a_big_page_does_not_hold_the_loop(http: httpx.AsyncClient) -> None:
    await sent(http)
    async with loop_holds() as holds:
        _, seconds = min(
            [await holds.during(http.get("/v1/queues/q/messages?limit=1000")) for _ in range(3)],
            key=lambda pair: pair[1],
        )
    assert seconds < 0.05
