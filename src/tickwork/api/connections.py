"""Connections of the server: clients that are silent, slow or too many do not keep it from
answering others.

```
 accept ──▶ header ──▶ body ──▶ answer ──▶ idle ──▶ header …
            10 s       30 s                5 s
```

A connection is *silent* while it has no request: before the end of its first header, and between
two requests. Where there are too many connections, the one that has been silent for the longest is
closed. If none is silent, a new one may ask for the health of the process only.

What comes at once may be ten thousand requests, or parts of a body with one byte each. It is parsed
in slices, and the rest of it later, when other connections had their turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tickwork.core.problem import MEDIA_TYPE, Problem, problem

HEADER_BYTES_MAX = 65_536
"""Maximum size of the header of a request with its URL, and of the trailer of its body."""

URL_BYTES_MAX = 16_384
"""Maximum size of a URL. Litestar keeps the paths and queries of the last thousand requests."""

SLICE_BYTES = 8_192
"""Bytes that are parsed before the limits below are looked at."""

PARSED_MAX = 1_000
"""Number of requests, fields of headers and parts of bodies that are parsed at once."""

PIPELINED_MAX = 16
"""Number of requests of a connection that wait for the answer to an earlier one. The bytes of more
are kept."""

UNPARSED_BYTES_MAX = 2_000_000
"""Maximum number of bytes of a connection that are kept to be parsed later."""

RESERVED_CONNECTIONS = 32
"""Number of connections beyond the limit, for health checks only."""

BODY_SECONDS_FACTOR = 10
"""Factor of the time without progress: seconds that a whole body may take."""

SPARE_FILES = 200
"""Number of files that a process has open besides its connections."""

_HEALTH_PATHS = frozenset({b"/healthz", b"/readyz"})


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """Seconds that a client may take for the header of a request, and to go on with its body or
    its answer; seconds that a connection may be idle; how many connections there may be."""

    header_seconds: float = 10.0
    body_seconds: float = 30.0
    keep_alive_seconds: float = 5.0
    connections_max: int = 4_000


def room_for(connections_max: int) -> int:
    """How many connections this process may have: as many as wanted, or as the system lets it have
    files. Raises the soft limit of open files if that helps."""
    try:
        import resource
    except ImportError:  # Not on this system.
        return connections_max
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max + RESERVED_CONNECTIONS + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        connections_max = soft - RESERVED_CONNECTIONS - SPARE_FILES
    return max(connections_max, 1)


class _Connections:
    """The connections of one server: how many there are, and which are silent, since when."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits, self.count_max = limits, room_for(limits.connections_max)
        self.count = 0
        self.silent: OrderedDict[_GuardedProtocol, None] = OrderedDict()

    def make_room(self) -> bool:
        """Closes the connection that has been silent for the longest if there are too many.
        Returns whether there is room for one more."""
        if self.count < self.count_max:
            return True
        if not self.silent:
            return False
        oldest, _ = self.silent.popitem(last=False)
        oldest.drop()
        return True


def guarded_protocol(limits: ConnectionLimits) -> type[HttpToolsProtocol]:
    """The protocol of the connections of one server, for `uvicorn.Config(http=…)`."""
    return type("GuardedProtocol", (_GuardedProtocol,), {"shared": _Connections(limits)})


class _GuardedProtocol(HttpToolsProtocol):
    """A connection with limits for the time and size of what a client sends."""

    shared: _Connections
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _is_counted = False
    _is_refused = False
    _is_head_done = False
    _is_body_done = True
    _is_begun = False
    _head_bytes = 0
    _parsed_bytes = 0
    _parsed = 0
    _unparsed = b""
    _body_deadline = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        has_room = self.shared.make_room()
        if not has_room:
            if self.shared.count >= self.shared.count_max + RESERVED_CONNECTIONS:
                self._is_refused = True
                transport.abort()
                return
            self.app = _only_health(self.app)
        self._is_counted = True
        self.shared.count += 1
        self.shared.silent[self] = None
        self._arm(self.shared.limits.header_seconds, self._on_slow_header)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        self._disarm()
        self._stop_write_timer()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Closes the connection, which has no request."""
        self._leave()
        self._disarm()
        self._is_refused = True
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if not self._unparsed:
            self._parse(data)
        elif len(self._unparsed) + len(data) <= UNPARSED_BYTES_MAX:
            self._unparsed += data
        else:
            self.drop()

    def _parse(self, data: bytes) -> None:
        """Parses the first bytes of the data, and keeps the rest for later if they were much."""
        self._parsed = 0
        for start in range(0, len(data), SLICE_BYTES):
            is_full = len(self.pipeline) >= PIPELINED_MAX
            if is_full or self._parsed >= PARSED_MAX:
                self._unparsed = data[start:]
                self.flow.pause_reading()
                if not is_full:
                    self.loop.call_soon(self._parse_rest)
                return
            self._parse_slice(data[start : start + SLICE_BYTES])
            if self._is_refused or self.transport.is_closing():
                return

    def _parse_rest(self) -> None:
        if not self._unparsed or self._is_refused or self.transport.is_closing():
            return
        rest, self._unparsed = self._unparsed, b""
        self.flow.resume_reading()
        self._parse(rest)

    def _parse_slice(self, data: bytes) -> None:
        if not self._is_head_done:
            self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._is_head_done:
            if self._head_bytes > HEADER_BYTES_MAX:
                self._refuse(_header_too_large())
            elif self._timer is None:  # The first bytes after another request.
                self._arm(self.shared.limits.header_seconds, self._on_slow_header)
        elif not self._is_body_done:
            self._wait_for_body()
        else:
            self._disarm()

    def on_message_begin(self) -> None:
        self._parsed += 1
        super().on_message_begin()
        self._is_begun, self._is_head_done = True, False
        self._parsed_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)
        if not self._is_refused and len(self.url) > URL_BYTES_MAX:
            self._refuse(_header_too_large())

    def on_header(self, name: bytes, value: bytes) -> None:
        self._parsed += 1
        self._count_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._is_refused:
            return
        self._is_begun = False
        self._is_head_done = True
        self._is_body_done = False
        self._head_bytes = 0
        self._body_deadline = (
            self.loop.time() + BODY_SECONDS_FACTOR * self.shared.limits.body_seconds
        )
        self.shared.silent.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._parsed += 1
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_refused:
            self._is_body_done = True
            super().on_message_complete()

    def on_response_complete(self) -> None:
        has_next = bool(self.pipeline) or bool(self._unparsed)
        super().on_response_complete()
        if self._unparsed and len(self.pipeline) < PIPELINED_MAX:
            self.loop.call_soon(self._parse_rest)
        if self._is_counted and not has_next and not self.transport.is_closing():
            self.shared.silent[self] = None

    def pause_writing(self) -> None:
        super().pause_writing()
        seconds = 2 * self.shared.limits.body_seconds
        self._write_timer = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _count_head(self, size: int) -> None:
        """Counts what is parsed: many bytes of a header may come at once, and trailers with the
        body."""
        if self._is_refused:
            return
        self._parsed_bytes += size
        if self._parsed_bytes > HEADER_BYTES_MAX:
            self._refuse(_header_too_large())

    def _wait_for_body(self) -> None:
        """Waits for more of the body: there was some progress."""
        rest = self._body_deadline - self.loop.time()
        self._arm(max(min(self.shared.limits.body_seconds, rest), 0.0), self._on_slow_body)

    def _on_slow_header(self) -> None:
        if self._unparsed:  # It has come, and waits for us.
            self._arm(self.shared.limits.header_seconds, self._on_slow_header)
        elif self._is_begun:
            self._refuse(_too_slow("the header", self.shared.limits.header_seconds))
        else:
            self.drop()

    def _on_slow_body(self) -> None:
        # We stop reading while an application is busy. Then the client need not go on.
        if self.flow.read_paused and self.loop.time() < self._body_deadline:
            self._wait_for_body()
        else:
            self._refuse(_too_slow("the body", self.shared.limits.body_seconds))

    def _refuse(self, refusal: Problem) -> None:
        """Answers with a problem, unless an answer has begun, and closes the connection."""
        self._is_refused = True
        self._disarm()
        cycle: Any = self.cycle  # None before the first request.
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(_written(refusal))
            self.transport.close()
        else:
            self.transport.abort()

    def _arm(self, seconds: float, act: Callable[[], None]) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, act)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self) -> None:
        self.shared.silent.pop(self, None)
        if self._is_counted:
            self._is_counted = False
            self.shared.count -= 1


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def _only_health(app: Any) -> Any:
    """An application that answers health checks only."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("raw_path") in _HEALTH_PATHS:
            await app(scope, receive, send)
            return
        detail = "This process has as many connections as it may have; try again in a moment."
        body = problem(503, code="too_many_connections", detail=detail).encoded()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"retry-after", b"1"),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return handle


def _too_slow(what: str, seconds: float) -> Problem:
    detail = f"{what.capitalize()} of the request did not come within {seconds:g} seconds."
    return problem(408, detail=detail)


def _header_too_large() -> Problem:
    return problem(431)


def _written(refusal: Problem) -> bytes:
    body = refusal.encoded()
    head = (
        f"HTTP/1.1 {refusal.status} {refusal.title}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
