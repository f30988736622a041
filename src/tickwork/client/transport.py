"""Sends requests over HTTP: one transport for asyncio, one for plain sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import httpcore

from tickwork.client.call import AsyncListing, Pause, Plan, SyncListing
from tickwork.client.exchange import Answer, Lost, Request, Server

T = TypeVar("T")

CONNECTIONS_MAX = 20
"""Connections that a client keeps open at most."""

IDLE_SECONDS = 30.0
"""Seconds after which an unused connection is closed."""

SILENCE_SECONDS_MAX = 60.0
"""Seconds after which a stream that sends nothing is lost. The server sends something in 15."""

_NOT_SENT = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)
_LOST = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
_POOL: dict[str, Any] = {"max_connections": CONNECTIONS_MAX, "keepalive_expiry": IDLE_SECONDS}


class AsyncTransport(Protocol):
    """Sends a request and returns its answer; never raises for a network that fails."""

    async def send(self, request: Request) -> Answer | Lost: ...

    def pieces(self, request: Request) -> AsyncIterator[Answer | Lost | bytes]: ...

    async def close(self) -> None: ...


class SyncTransport(Protocol):
    """As `AsyncTransport`, without asyncio."""

    def send(self, request: Request) -> Answer | Lost: ...

    def pieces(self, request: Request) -> Iterator[Answer | Lost | bytes]: ...

    def close(self) -> None: ...


class AsyncHttp:
    """HTTP over asyncio."""

    def __init__(self) -> None:
        self._pool = httpcore.AsyncConnectionPool(**_POOL)

    async def send(self, request: Request) -> Answer | Lost:
        try:
            return _answer(await self._pool.request(**_arguments(request)))
        except (*_NOT_SENT, *_LOST) as error:
            return _lost(error, request.timeout_seconds)

    async def pieces(self, request: Request) -> AsyncIterator[Answer | Lost | bytes]:
        """The head of the answer, with its body if it is an error; then the body in pieces. The
        last one is `Lost` if the connection is."""
        try:
            async with self._pool.stream(**_arguments(request, SILENCE_SECONDS_MAX)) as response:
                if response.status >= _ERRORS_FROM:
                    await response.aread()
                    yield _answer(response)
                    return
                yield Answer(response.status, {}, b"")
                async for piece in response.aiter_stream():
                    yield piece
        except (*_NOT_SENT, *_LOST) as error:
            yield _lost(error, SILENCE_SECONDS_MAX)

    async def close(self) -> None:
        await self._pool.aclose()


class SyncHttp:
    """HTTP over plain sockets. Threads may share it."""

    def __init__(self) -> None:
        self._pool = httpcore.ConnectionPool(**_POOL)

    def send(self, request: Request) -> Answer | Lost:
        try:
            return _answer(self._pool.request(**_arguments(request)))
        except (*_NOT_SENT, *_LOST) as error:
            return _lost(error, request.timeout_seconds)

    def pieces(self, request: Request) -> Iterator[Answer | Lost | bytes]:
        """The head of the answer, with its body if it is an error; then the body in pieces. The
        last one is `Lost` if the connection is."""
        try:
            with self._pool.stream(**_arguments(request, SILENCE_SECONDS_MAX)) as response:
                if response.status >= _ERRORS_FROM:
                    response.read()
                    yield _answer(response)
                    return
                yield Answer(response.status, {}, b"")
                yield from response.iter_stream()
        except (*_NOT_SENT, *_LOST) as error:
            yield _lost(error, SILENCE_SECONDS_MAX)

    def close(self) -> None:
        self._pool.close()


_ERRORS_FROM = 400


class AsyncRunner:
    """Carries out plans over asyncio."""

    listing = AsyncListing

    def __init__(self, server: Server, transport: AsyncTransport) -> None:
        self.server, self.transport = server, transport

    async def run(self, plan: Plan[T]) -> T:
        """The result of a plan."""
        steps = self.server.steps(plan)
        got: Answer | Lost | None = None
        while True:
            try:
                step = steps.send(got)
            except StopIteration as ended:
                result: T = ended.value
                return result
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                got = None
            else:
                got = await self.transport.send(step)


class SyncRunner:
    """Carries out plans in the calling thread."""

    listing = SyncListing

    def __init__(self, server: Server, transport: SyncTransport) -> None:
        self.server, self.transport = server, transport

    def run(self, plan: Plan[T]) -> T:
        """The result of a plan."""
        steps = self.server.steps(plan)
        got: Answer | Lost | None = None
        while True:
            try:
                step = steps.send(got)
            except StopIteration as ended:
                result: T = ended.value
                return result
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                got = None
            else:
                got = self.transport.send(step)


def _arguments(request: Request, read_seconds: float | None = None) -> dict[str, Any]:
    seconds = request.timeout_seconds
    timeout = {"connect": seconds, "write": seconds, "pool": seconds}
    timeout["read"] = seconds if read_seconds is None else read_seconds
    return {
        "method": request.method,
        "url": request.url,
        "headers": [(name.encode(), value.encode()) for name, value in request.headers.items()],
        "content": request.body,
        "extensions": {"timeout": timeout},
    }


def _answer(response: httpcore.Response) -> Answer:
    headers: Sequence[tuple[bytes, bytes]] = response.headers
    names = {name.decode().lower(): value.decode("latin-1") for name, value in headers}
    return Answer(response.status, names, response.content)


def _lost(error: Exception, seconds: float) -> Lost:
    if isinstance(error, httpcore.TimeoutException):
        reason = f"did not answer within {seconds:g} s"
    else:
        reason = str(error) or "the connection was lost"
    if isinstance(error, _NOT_SENT):
        reason = f"cannot be reached: {reason}"
    return Lost(not isinstance(error, _NOT_SENT), reason)
