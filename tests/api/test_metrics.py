"""`/metrics` is open only if the server listens on this machine's own address."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.api.test_server import key_of, started
from tests.kit.api import bearer
from tests.kit.process import Children
from tickwork.core.http.client_address import is_loopback


async def test_metrics_are_open_on_this_machine_and_not_through_a_proxy(
    children: Children, tmp_path: Path
) -> None:
    server, url = await started(children, tmp_path)
    key = await key_of(server)
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        answer = await client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        assert "process_resident_memory_bytes" in answer.text
        for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP"):
            brought = await client.get("/metrics", headers={name: "127.0.0.1"})
            assert brought.status_code == 401
            brought = await client.get("/metrics", headers=bearer(key) | {name: "127.0.0.1"})
            assert brought.status_code == 200
    server.terminate()
    await server.succeeded()


async def test_a_server_on_another_address_needs_a_key_for_its_metrics(
    children: Children, tmp_path: Path
) -> None:
    server, url = await started(children, tmp_path, "--host", "0.0.0.0")  # noqa: S104 (what is tested)
    key, port = await key_of(server), url.rpartition(":")[2]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        answer = await client.get("/metrics")
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
        assert (await client.get("/metrics", headers=bearer(key))).status_code == 200
    server.terminate()
    await server.succeeded()


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 (an address that somebody claims to have)
        ("localhost", True),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_only_loopback_addresses_count_as_this_machine(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own
