"""The server as a process with real sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.kit.api import bearer
from tests.kit.process import Child, Children
from tests.kit.waiting import TIMEOUT_SECONDS

BODY = {
    "cron_expr": "30 2 * * *",
    "timezone": "America/New_York",
    "from": "2027-03-13T12:00:00Z",
    "limit": 3,
}


async def started(
    children: Children, folder: Path, *arguments: str, database: str | None = None
) -> tuple[Child, str]:
    """A server on a database, or on a new file in a folder, and its URL."""
    database = database or f"sqlite:///{folder / 'server.db'}"
    server = children.spawn("tickwork", "up", "--port", "0", "--database", database, *arguments)
    line = await server.line("listens on")
    return server, line.split()[-1]


def client_of(url: str, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """A client that waits as long as a busy machine needs; by itself it gives up after 5 s."""
    return httpx.AsyncClient(
        base_url=url, trust_env=False, headers=headers, timeout=TIMEOUT_SECONDS
    )


async def key_of(server: Child) -> str:
    """The key that the first start prints."""
    return (await server.line("  tw_")).strip()


async def test_server_and_command_line_return_the_same_preview(
    children: Children, tmp_path: Path
) -> None:
    server, url = await started(children, tmp_path)
    headers = bearer(await key_of(server))
    async with client_of(url, headers) as client:
        assert (await client.get("/healthz")).json()["status"] == "ok"
        answer = (await client.post("/v1/schedules/preview", json=BODY)).json()
        assert "<h1>Tickwork" in (await client.get("/docs")).text
        large = await client.post("/v1/schedules/preview", content=b" " * 3_000_000)
        assert large.status_code == 413
    words = ["next", BODY["cron_expr"], "--timezone", BODY["timezone"], "--from", BODY["from"]]
    command = children.spawn("tickwork", *map(str, words), "--limit", "3", "--json")
    await command.succeeded()
    assert json.loads("\n".join(command.lines())) == answer["fires"]
    server.terminate()
    await server.succeeded()


async def test_open_requests_finish_before_shutdown(children: Children, tmp_path: Path) -> None:
    server, url = await started(children, tmp_path)
    async with client_of(url) as client:
        await client.get("/healthz")
        server.terminate()
        # The connection stays open and idle: it must not hold the server back.
        await server.succeeded()
    assert server.stderr() == ""
