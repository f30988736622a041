"""A lean HTTP client for benchmarks: connections that each send one request after the other.

It writes bytes that were made before and finds the end of an answer by its `Content-Length`, so it
costs a server's core little. Answers must have that header, and a status below 300.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import cast
from urllib.parse import urlsplit

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


def request_bytes(
    url: str, method: str, path: str, *, body: bytes = b"", key: str | None = None
) -> bytes:
    """One request, ready to send."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {urlsplit(url).netloc}"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Connection(asyncio.Protocol):
    def __init__(self, requests: list[bytes], done: asyncio.Future[None]) -> None:
        self._requests, self._done, self._seen = requests, done, b""
        self.answers: list[bytes] = []
        self.keep = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # That of uvloop has no base class.
        self._next()

    def _next(self) -> None:
        if self._requests:
            self._transport.write(self._requests.pop())
        else:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._seen += data
        end = self._seen.find(_END)
        if end < 0:
            return
        head = self._seen[:end].lower()
        at = head.index(_LENGTH) + len(_LENGTH)
        length = int(head[at : head.find(b"\r", at) if b"\r" in head[at:] else None])
        if len(self._seen) < end + len(_END) + length:
            return
        if head[9:10] != b"2":
            self._done.set_exception(AssertionError(self._seen[:2_000]))
            self._transport.close()
            return
        if self.keep:
            self.answers.append(self._seen[end + len(_END) :])
        self._seen = b""
        self._next()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(None)


def _same(connection: _Connection) -> _Connection:
    return connection


async def load(
    url: str, requests: Sequence[bytes], *, connections: int, keep: bool = False
) -> list[bytes]:
    """Sends all requests over some connections, each as soon as the answer before it is there.
    Returns the bodies of the answers if they are to be kept."""
    loop, parts = asyncio.get_running_loop(), urlsplit(url)
    made: list[_Connection] = []
    waiting: list[asyncio.Future[None]] = []
    for number in range(connections):
        done = loop.create_future()
        own = _Connection([*requests[number::connections]], done)
        own.keep = keep
        made.append(own)
        waiting.append(done)
        await loop.create_connection(partial(_same, own), parts.hostname or "", parts.port or 80)
    await asyncio.gather(*waiting)
    return [answer for own in made for answer in own.answers]
