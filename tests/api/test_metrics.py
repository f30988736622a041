"""`/metrics` is served to this machine only."""

from __future__ import annotations

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tests.api.test_server import started
from tests.kit.process import Children
from tickwork.api.routes.operations import is_loopback

Client = TestClient[Litestar]


async def test_metrics_are_for_this_machine_and_not_for_a_proxy(children: Children) -> None:
    server, url = await started(children)
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        answer = await client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        assert "process_resident_memory_bytes" in answer.text
        for name in ("X-Forwarded-For", "Forwarded", "X-Real-IP"):
            brought = await client.get("/metrics", headers={name: "127.0.0.1"})
            assert brought.status_code == 403
    server.terminate()
    await server.succeeded()


def test_another_machine_is_refused(client: Client) -> None:
    answer = client.get("/metrics")  # The test's client says that it is "testclient".
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "forbidden"


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
        ("localhost", False),
        ("", False),
    ],
)
def test_only_loopback_addresses_count_as_this_machine(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own
