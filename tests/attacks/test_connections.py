"""Clients that are silent, slow or too many do not keep the server from answering others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.api.test_server import started
from tests.attacks.loop_holds import loop_holds
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.api.connections import (
    HEADER_BYTES_MAX,
    RESERVED_CONNECTIONS,
    URL_BYTES_MAX,
    ConnectionLimits,
    room_for,
)
from tickwork.api.serve import serving

SILENT = 2_000
"""Number of connections of an attacker."""

ANSWER_SECONDS_MAX = 1.0
"""Seconds in which a health check is answered, whatever others do."""

HOLD_SECONDS_MAX = 0.03
"""Seconds of processor time for which one connection may hold the loop, its client included."""

HEADERS = b"A: b\r\n" * HEADER_BYTES_MAX
SHORT = ConnectionLimits(header_seconds=0.2, body_seconds=0.2, keep_alive_seconds=0.2)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once at /healthz, and elsewhere when the body is complete."""
    if scope["type"] != "http":
        return
    if scope["path"] == "/big":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1_000):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return
    has_more = scope["path"] != "/healthz"
    while has_more:
        message = await receive()
        has_more = message["type"] == "http.request" and message["more_body"]
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok", "more_body": False})


class Server:
    """A server, and clients that write bytes to it."""

    def __init__(self, url: str, opened: AsyncExitStack) -> None:
        self.url, self._opened = url, opened

    async def connect(self, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        self._opened.callback(writer.close)
        writer.write(sent)
        return reader, writer

    async def is_healthy(self) -> bool:
        """Whether a health check of a new client is answered within a second. The best of three
        counts: other processes take the core."""
        took_seconds: list[float] = []
        for _ in range(3):
            async with httpx.AsyncClient(trust_env=False) as client:
                began = monotonic()
                response = await client.get(f"{self.url}/healthz")
                took_seconds.append(monotonic() - began)
            if response.status_code != 200:
                return False
        return min(took_seconds) < ANSWER_SECONDS_MAX


@asynccontextmanager
async def served(limits: ConnectionLimits) -> AsyncIterator[Server]:
    async with AsyncExitStack() as opened:
        url = await opened.enter_async_context(
            serving(application, host="127.0.0.1", port=0, limits=limits)
        )
        async with httpx.AsyncClient(trust_env=False) as client:

            async def is_up() -> bool:
                try:
                    return (await client.get(f"{url}/healthz")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(is_up)
        yield Server(url, opened)


@pytest.mark.parametrize("sent", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nA: b\r\n"])
async def test_silent_connections_do_not_keep_a_health_check_from_its_answer(sent: bytes) -> None:
    async with served(ConnectionLimits(connections_max=100)) as server:
        clients = [await server.connect(sent) for _ in range(SILENT)]
        assert await server.is_healthy()
        ended = [client for client in clients if client[0].at_eof() or client[0].exception()]
        assert len(ended) >= SILENT - 100 - RESERVED_CONNECTIONS


async def test_silent_connections_within_the_limit_are_kept() -> None:
    limits = ConnectionLimits(connections_max=SILENT + 100, header_seconds=600)
    async with served(limits) as server:
        clients = [await server.connect() for _ in range(SILENT)]
        assert await server.is_healthy()
        assert not any(reader.at_eof() for reader, _ in clients)


@pytest.mark.one_store("sqlite")
async def test_a_server_process_with_silent_connections_answers_health_checks(
    children: Children, home: Home, tmp_path: Path
) -> None:
    room_for(2 * SILENT)  # Raises the limit of files of this process, too.
    child, url = await started(children, tmp_path, database=home.url)
    async with AsyncExitStack() as opened:
        server = Server(url, opened)
        clients = [await server.connect() for _ in range(SILENT)]
        clients += [await server.connect(b"GET /heal") for _ in range(100)]
        assert await server.is_healthy()
        assert not any(reader.at_eof() for reader, _ in clients)
    child.terminate()
    await child.succeeded()


async def test_busy_connections_leave_a_reserve_for_health_checks() -> None:
    async with served(ConnectionLimits(connections_max=20)) as server:
        upload = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
        busy = [await server.connect(upload) for _ in range(20)]
        async with httpx.AsyncClient(trust_env=False) as client:

            async def is_full() -> bool:
                response = await client.get(f"{server.url}/other", headers={"Connection": "close"})
                return response.status_code == 503

            await eventually(is_full)
            refused = await client.get(f"{server.url}/other")
        assert refused.json()["code"] == "too_many_connections"
        assert refused.headers["retry-after"] == "1"
        assert await server.is_healthy()
        for reader, writer in busy:
            writer.write(b"123456789")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (b"GET / HT", b"HTTP/1.1 408"),
        (b"GET / HTTP/1.1\r\nA: b\r\n", b"HTTP/1.1 408"),
        (b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n123", b"HTTP/1.1 408"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n123", b"HTTP/1.1 408"),
        (b"GET /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200"),
        (b"GET /healthz HTTP/1.1\r\n\r\nGET / HT", b"HTTP/1.1 200"),
    ],
)
async def test_a_client_that_does_not_go_on_is_closed(sent: bytes, answered: bytes) -> None:
    async with served(SHORT) as server:
        reader, _ = await server.connect(sent)
        async with asyncio.timeout(60):
            answer = await reader.read()
        assert answer.startswith(answered)
        assert bool(answer) == bool(answered)
        assert await server.is_healthy()


async def test_a_header_in_small_pieces_gets_no_more_time() -> None:
    async with served(SHORT) as server:
        reader, writer = await server.connect(b"GET / HTTP/1.1\r\n")

        reading = asyncio.create_task(reader.read())

        def is_closed() -> bool:
            if not writer.transport.is_closing():
                writer.write(b"A: b\r\n")
            return reading.done()

        await eventually(is_closed, timeout_seconds=60)
        # What was sent after the end resets the connection, perhaps before its answer is read.
        is_reset = isinstance(reading.exception(), ConnectionError)
        assert is_reset or reading.result().startswith(b"HTTP/1.1 408")


async def test_a_body_that_makes_progress_is_not_cut_off() -> None:
    limits = ConnectionLimits(body_seconds=2.0)
    async with served(limits) as server:
        reader, writer = await server.connect(b"POST / HTTP/1.1\r\nContent-Length: 200\r\n\r\n")
        began = monotonic()
        sent = 0

        async def is_sent() -> bool:
            nonlocal sent
            if monotonic() - began > sent * 0.0125:
                writer.write(b"x")
                sent += 1
            return sent == 200

        await eventually(is_sent)
        assert monotonic() - began > limits.body_seconds
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /" + b"a" * (URL_BYTES_MAX + 10) + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"a" * 5 * HEADER_BYTES_MAX,
        b"GET / HTTP/1.1\r\n" + HEADERS + b"\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + HEADERS,
    ],
    ids=["url", "one header", "headers", "trailers"],
)
async def test_a_header_that_is_too_large_is_refused(sent: bytes) -> None:
    async with served(ConnectionLimits()) as server:
        reader, _ = await server.connect(sent)
        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 431")
        assert await server.is_healthy()


FLOODS = {
    "requests": b"GET /healthz HTTP/1.1\r\n\r\n" * 40_000,
    "chunks": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"1\r\nx\r\n" * 150_000 + b"0\r\n\r\n",
    "trailers": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a:\r\n" * 240_000,
}  # fmt: skip
"""What comes at once, a megabyte of it, and held the loop for 50 to 70 ms."""


@pytest.mark.parametrize("name", FLOODS)
async def test_many_small_parts_at_once_do_not_hold_the_loop(name: str) -> None:
    async with served(ConnectionLimits()) as server, loop_holds() as holds:
        quickest = inf
        for _ in range(3):

            async def flood() -> bytes:
                reader, _ = await server.connect(FLOODS[name])
                async with asyncio.timeout(60):
                    return await reader.readline()

            answer, seconds = await holds.during(flood())
            assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 431"))
            quickest = min(quickest, seconds)
        assert quickest < HOLD_SECONDS_MAX


async def test_requests_that_come_at_once_are_all_answered_in_order() -> None:
    paths = [b"/healthz" if number % 3 else b"/slow" for number in range(300)]
    sent = b"".join(b"POST %b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc" % path for path in paths)
    async with served(ConnectionLimits()) as server:
        reader, _ = await server.connect(sent)
        async with asyncio.timeout(60):
            for _ in paths:
                assert await reader.readuntil(b"\r\n\r\nok")


async def test_a_body_of_many_small_parts_is_read_to_its_end() -> None:
    head = b"POST /slow HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served(ConnectionLimits()) as server:
        reader, _ = await server.connect(head + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n")
        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_a_client_that_does_not_read_its_answer_is_closed() -> None:
    async with served(SHORT) as server:
        reader, writer = await server.connect(b"GET /big HTTP/1.1\r\n\r\n")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await eventually(lambda: writer.transport.is_closing() or _is_reset(writer))


def _is_reset(writer: asyncio.StreamWriter) -> bool:
    try:
        writer.write(b"x")
    except (ConnectionError, RuntimeError):
        return True
    return False


def test_there_are_no_more_connections_than_files() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
        assert room_for(2_000) == 2_000  # The soft limit is raised.
        assert 1 <= room_for(10**7) < hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
