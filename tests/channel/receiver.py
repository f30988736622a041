"""A real HTTP server on loopback that counts, and receivers that misbehave on the wire."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tickwork.clock import now

KEY_OF_SECRETS = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
"""A key for the secrets of any test."""

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def allow_local_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apps may deliver to this machine, and have a key for their secrets."""
    monkeypatch.setenv("TICKWORK_ALLOW_TARGETS", "127.0.0.1,localhost")
    monkeypatch.setenv("TICKWORK_SECRET_KEY", KEY_OF_SECRETS)


class Receiver:
    """Keeps what arrived; `/hang` answers when the server ends, other paths at once."""

    def __init__(self) -> None:
        self.requests: list[tuple[web.BaseRequest, bytes]] = []
        self.connections = Counter[object]()
        self.answer: Callable[[], web.StreamResponse] = web.Response
        self.ended = asyncio.Event()
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append((request, await request.read()))
        self.connections[request.transport and request.transport.get_extra_info("peername")] += 1
        if request.path == "/hang":
            await self.ended.wait()
        return self.answer()


@asynccontextmanager
async def receiver(certificate: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver on loopback."""
    made = Receiver()
    async with served(made.handle, certificate) as made.url:
        try:
            yield made
        finally:
            made.ended.set()


@asynccontextmanager
async def served(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
    certificate: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """The URL of a server on loopback."""
    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=certificate).start()
        host, port = runner.addresses[0][:2]
        yield f"{'http' if certificate is None else 'https'}://{host}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def wire(behaviour: Behaviour, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """The URL of a receiver that reads a request and then behaves as it is told."""
    writers: list[asyncio.StreamWriter] = []

    async def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await behaviour(reader, writer)

    server = await asyncio.start_server(called, host, 0)
    try:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


async def never_answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Reads, and says nothing."""
    await reader.read()


async def answer_a_byte_a_minute(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Begins an answer that takes hours, if nobody hangs up."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    hung_up = asyncio.ensure_future(reader.read())
    while not hung_up.done():
        writer.write(b"x")
        await writer.drain()
        await asyncio.wait([hung_up], timeout=60.0)


async def answer_without_end(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends a body as fast as it can, until somebody cuts it."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


BAD: dict[str, Behaviour] = {
    "127.0.0.2": never_answer,
    "127.0.0.3": answer_a_byte_a_minute,
    "127.0.0.4": answer_without_end,
}
"""Receivers that take what they can get, each with an address of its own."""


@asynccontextmanager
async def bad_receivers() -> AsyncIterator[list[str]]:
    """The URLs of `BAD`."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(wire(value, host)) for host, value in BAD.items()]


LATENCY_GROWTH_MAX, LATENCY_SECONDS = 3.0, 2.0
"""What bad receivers may make of the latency of others, and what is quick enough in any case: a
machine that runs other tests as well is not always as fast."""


def keeps_latency(alone: Sequence[float], beside: Sequence[float]) -> bool:
    """Whether 95 of 100 deliveries beside bad receivers were as quick as those without."""
    most = max(LATENCY_GROWTH_MAX * percentile_95(alone), LATENCY_SECONDS)
    return percentile_95(beside) <= most


def percentile_95(seconds: Sequence[float]) -> float:
    return sorted(seconds)[len(seconds) * 95 // 100]


def certificate_context(
    folder: Path, *, days: int = 1, host: str = "127.0.0.1"
) -> tuple[ssl.SSLContext, Path]:
    """The TLS context of a server with a new certificate, and the certificate's file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - timedelta(days=9))
        .not_valid_after(now() + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(host))]), False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "certificate.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = folder / "key.pem"
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, secret)
    return context, pem
