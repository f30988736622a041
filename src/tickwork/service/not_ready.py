"""Answers HTTP requests while a process waits for its database: it is alive, and not ready.

The API itself needs the database to start. Until then this answers at its socket, without a
framework: `/healthz` with 200, everything else with a problem and 503.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from tickwork.core.problem import MEDIA_TYPE, problem

REQUEST_SECONDS = 5.0
"""Seconds that a request may take to arrive."""

_DETAIL = "This process waits for its database; it is not ready yet."
_BROKEN = (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


@asynccontextmanager
async def answer_not_ready(listener: socket.socket) -> AsyncIterator[None]:
    """Answers requests at a socket inside the context, and closes it."""
    listener.setblocking(False)
    async with await asyncio.start_server(_answer, sock=listener):
        yield


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(*_BROKEN):
        async with asyncio.timeout(REQUEST_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        writer.write(_answer_to(head.split(b" ", 2)[1:2] == [b"/healthz"]))
        await writer.drain()
    with suppress(*_BROKEN):
        writer.close()
        await writer.wait_closed()


def _answer_to(is_health: bool) -> bytes:
    status = HTTPStatus.OK
    kind = "application/json"
    body = b'{"status":"ok"}'
    if not is_health:
        refusal = problem(HTTPStatus.SERVICE_UNAVAILABLE, code="not_ready", detail=_DETAIL)
        status = HTTPStatus.SERVICE_UNAVAILABLE
        kind = MEDIA_TYPE
        body = refusal.encoded()
    lines = (
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        "retry-after: 1",
        "connection: close",
    )
    return "\r\n".join([*lines, "", ""]).encode() + body
