"""Many streams of one tenant cost the database as much as one, and leave room for others."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from tests.api.test_stream import OpenStream, server_of, streaming
from tests.kit.api import bearer, new_key
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import Scope

STREAMS = 20

Http = httpx.AsyncClient


@pytest.fixture(autouse=True)
def quick(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_of(http), "is_stopping", False)
    monkeypatch.setattr("tickwork.ops.stream.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("tickwork.api.routes.stream.WAKE_SECONDS", 0.05)


def counted_reads(http: Http, monkeypatch: pytest.MonkeyPatch) -> Counter[str | None]:
    """How often the events of a tenant are read; None: of all."""
    store: Any = server_of(http).store
    read, counts = store.stream.after, Counter[str | None]()

    async def after(scope: Scope, *given: Any) -> Any:
        counts[scope.tenant] += 1
        return await read(scope, *given)

    monkeypatch.setattr(store.stream, "after", after)
    return counts


async def opened(http: Http, stack: AsyncExitStack, count: int) -> list[OpenStream]:
    return [await stack.enter_async_context(streaming(http)) for _ in range(count)]


async def has_events(stream: OpenStream, count: int) -> None:
    await eventually(lambda: len(stream.events) >= count, timeout_seconds=30)


async def test_the_streams_of_a_tenant_share_one_read(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    await http.put("/v1/queues/q", json={})
    counts = counted_reads(http, monkeypatch)
    async with AsyncExitStack() as stack:
        streams = await opened(http, stack, STREAMS)
        for act in ("pause", "resume", "pause"):
            await http.post(f"/v1/queues/q/{act}")
        for stream in streams:
            await has_events(stream, 3)
            assert [name for name, _ in stream.events] == [
                "queue.pause",
                "queue.resume",
                "queue.pause",
            ]
    assert counts["default"] <= counts[None] + 1


async def test_a_stream_that_resumes_gets_each_event_once(http: Http) -> None:
    await http.put("/v1/queues/q", json={})
    async with streaming(http) as first:
        await http.post("/v1/queues/q/pause")
        event_id = (await first.wait_for("queue.pause"))["id"]
        await http.post("/v1/queues/q/resume")
        async with streaming(http, **{"Last-Event-ID": event_id}) as resumed:
            await http.post("/v1/queues/q/pause")
            for stream, count in ((first, 3), (resumed, 3)):
                await has_events(stream, count)
        names = [name for name, _ in resumed.events]
        # What happened in the seconds before comes again, and nothing comes twice.
        assert names == ["queue.put", "queue.resume", "queue.pause"]
        assert event_id not in {data["id"] for _, data in resumed.events}


async def test_a_key_and_a_tenant_have_their_share_of_the_streams(
    http: Http, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.ops.stream.KEY_STREAMS_MAX", 2)
    monkeypatch.setattr("tickwork.ops.stream.TENANT_STREAMS_MAX", 3)
    await http.post("/v1/tenants", json={"id": "shop"})
    store = await home.open()
    same_tenant = bearer(await new_key(store))["Authorization"]
    other_tenant = bearer(await new_key(store, tenant="shop"))["Authorization"]
    await store.close()
    async with AsyncExitStack() as stack:
        await opened(http, stack, 2)
        refused = await http.get("/v1/stream")
        assert (refused.status_code, refused.json()["limit"]) == (429, "streams")
        await stack.enter_async_context(streaming(http, authorization=same_tenant))
        refused = await http.get("/v1/stream", headers={"Authorization": same_tenant})
        assert "tenant default has 3 open streams" in refused.json()["detail"].lower()
        other = await stack.enter_async_context(streaming(http, authorization=other_tenant))
        assert other.status == 200
