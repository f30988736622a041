"""The event stream over HTTP: events as they happen, resumed, scoped, and closed with a reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.api.acts import make_queue, problem, pull, send
from tests.kit.api import bearer, new_key
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.api.server_state import ServerState
from tickwork.core.model import DEFAULT
from tickwork.ops.context import Context
from tickwork.ops.keys import revoke_key

Http = httpx.AsyncClient
Event = tuple[str, dict[str, Any]]


class OpenStream:
    """A stream that a client reads."""

    def __init__(self) -> None:
        self.text, self.status = "", 0
        self.may_read = asyncio.Event()
        self.may_read.set()

    @property
    def events(self) -> list[Event]:
        found = []
        for block in self.text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
            if "event" in lines:
                found.append((lines["event"], json.loads(lines["data"]) | {"id": lines.get("id")}))
        return found

    async def wait_for(self, name: str) -> dict[str, Any]:
        """The first event of a type."""
        await eventually(lambda: name in [event for event, _ in self.events], timeout_seconds=10)
        return next(data for event, data in self.events if event == name)


def server_of(http: Http) -> ServerState:
    app: Any = http._transport.app  # type: ignore[attr-defined]
    context: ServerState = app.state.server
    return context


@asynccontextmanager
async def streaming(http: Http, **headers: str) -> AsyncIterator[OpenStream]:
    """A stream as a server reads it from the application, piece by piece."""
    opened, app = OpenStream(), http._transport.app  # type: ignore[attr-defined]
    sent = {"authorization": http.headers["authorization"], **headers}

    async def write(message: dict[str, Any]) -> None:
        opened.status = message.get("status", opened.status)
        await opened.may_read.wait()
        opened.text += message.get("body", b"").decode()

    async def read() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    scope = {
        "type": "http", "method": "GET", "path": "/v1/stream", "raw_path": b"/v1/stream",
        "query_string": b"", "root_path": "", "scheme": "http", "server": ("t", 80),
        "client": ("127.0.0.1", 1), "http_version": "1.1", "asgi": {"version": "3.0"},
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
    }  # fmt: skip
    serving = asyncio.create_task(app(scope, read, write))
    await eventually(lambda: "retry" in opened.text or serving.done(), timeout_seconds=10)
    try:
        yield opened
    finally:
        serving.cancel()
        await asyncio.wait([serving])


@pytest.fixture(autouse=True)
def quick(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_of(http), "is_stopping", False)
    monkeypatch.setattr("tickwork.ops.stream.LOOK_SECONDS", 0.02)
    monkeypatch.setattr("tickwork.api.routes.stream.WAKE_SECONDS", 0.05)


async def test_events_come_as_they_happen_and_resume_after_the_last_one(http: Http) -> None:
    await make_queue(http, max_retries=0)
    async with streaming(http) as stream:
        await http.post("/v1/queues/q/pause")
        paused = await stream.wait_for("queue.pause")
        assert (paused["subject"], stream.status) == ("q", 200)
        await http.post("/v1/queues/q/resume")
        await send(http)
        (leased,) = await pull(http)
        retry = {"retries": [{"lease_id": leased["lease_id"]}]}
        await http.post("/v1/queues/q/messages/ack", json=retry)
        dead = await stream.wait_for("message.dead")
        assert (dead["queue"], dead["tenant"]) == ("q", "default")
        assert "queue.put" not in [name for name, _ in stream.events]  # It was before.
    async with streaming(http, **{"Last-Event-ID": paused["id"]}) as resumed:
        await resumed.wait_for("message.dead")
        assert paused["id"] not in [data["id"] for _, data in resumed.events]


async def test_a_stream_shows_nothing_of_another_tenant_and_refuses_owners(
    http: Http, home: Home
) -> None:
    await make_queue(http)
    await http.post("/v1/tenants", json={"id": "other"})
    store = await home.open()
    other = bearer(await new_key(store, tenant="other", scopes=["read"]))
    ada = bearer(await new_key(store, owner="ada", scopes=["read"]))
    await store.close()
    new = {"cron_expr": "@daily", "target": {"type": "queue", "queue": "q"}}
    async with (
        streaming(http, authorization=other["Authorization"]) as of_other,
        streaming(http) as of_tenant,
    ):
        await http.post("/v1/schedules", json={**new, "owner": "ada"})
        await http.post("/v1/queues/q/pause")
        await of_tenant.wait_for("queue.pause")
        assert (await of_tenant.wait_for("schedule.create"))["owner"] == "ada"
        assert of_other.events == []
    problem(await http.get("/v1/stream", headers=ada), 403, "owner_bound")


async def test_a_stream_is_closed_with_the_reason(
    http: Http, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.api.routes.stream.HEARTBEAT_SECONDS", 0.05)
    await make_queue(http)
    store = await home.open()
    token = await new_key(store, scopes=["read"])
    async with streaming(http, authorization=bearer(token)["Authorization"]) as stream:
        await eventually(lambda: ": heartbeat" in stream.text, timeout_seconds=10)
        await revoke_key(Context(store, DEFAULT), token.split("_")[1])
        server_of(http).authenticator._cached.clear()  # type: ignore[union-attr]
        assert (await stream.wait_for("closed"))["reason"] == "key_revoked"
    await store.close()
    with monkeypatch.context() as patched:
        patched.setattr("tickwork.api.routes.stream.SLOW_SECONDS_MAX", 0.0)
        async with streaming(http) as stream:
            assert (await stream.wait_for("closed"))["reason"] == "slow"
    with monkeypatch.context() as patched:
        patched.setattr("tickwork.ops.stream.BEHIND_EVENTS_MAX", 0)
        async with streaming(http) as stream:
            await http.post("/v1/queues/q/pause")
            assert (await stream.wait_for("closed"))["reason"] == "behind"
    async with streaming(http) as stream:
        monkeypatch.setattr(server_of(http), "is_stopping", True)
        assert (await stream.wait_for("closed"))["reason"] == "stopping"
    assert not server_of(http).streams._streams


async def test_a_stream_with_many_events_ends_with_its_key_too(
    http: Http, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.api.routes.stream.HEARTBEAT_SECONDS", 0.5)
    await make_queue(http)
    store = await home.open()
    token = await new_key(store, scopes=["read"])
    async with streaming(http, authorization=bearer(token)["Authorization"]) as stream:
        await revoke_key(Context(store, DEFAULT), token.split("_")[1])
        server_of(http).authenticator._cached.clear()  # type: ignore[union-attr]
        for _ in range(2_000):
            await http.post("/v1/queues/q/pause")
            if "closed" in [name for name, _ in stream.events]:
                break
        assert stream.events[-1][1]["reason"] == "key_revoked"
        assert ": heartbeat" not in stream.text  # There was always an event to send.
    await store.close()


async def test_a_slow_reader_makes_nothing_grow(http: Http) -> None:
    await make_queue(http)
    async with streaming(http) as stream:
        stream.may_read.clear()
        for _ in range(5):
            await http.post("/v1/queues/q/pause")
        assert stream.events == []
        stream.may_read.set()
        await stream.wait_for("queue.pause")
        await eventually(lambda: len(stream.events) == 5, timeout_seconds=10)


async def test_a_wrong_event_id_and_too_many_streams_are_refused(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = problem(
        await http.get("/v1/stream", headers={"Last-Event-ID": "x"}), 422, "invalid_input"
    )
    assert told["errors"][0]["field"] == "Last-Event-ID"
    monkeypatch.setattr("tickwork.ops.stream.STREAMS_MAX", 0)
    refused = await http.get("/v1/stream")
    assert problem(refused, 429, "too_many")["limit"] == "streams"
