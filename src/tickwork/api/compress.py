"""Compresses answers with gzip, large ones in a thread: to compress a page of four megabytes takes
a tenth of a second, in which other requests are answered.

An answer that is sent in pieces, such as the event stream, and one that is compressed already pass
as they are. `MadeOnce` is a text that is the same for every caller: it is made once, compressed
once, and not sent again to a caller who has it.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple

from litestar import Request, Response
from litestar.datastructures import Headers, MutableScopeHeaders
from litestar.types import ASGIApp, Message, Receive, Scope, Send

GZIP_BYTES_MIN = 1_000
"""Bytes of an answer from which on it is compressed, if the client accepts that."""

INLINE_BYTES_MAX = 20_000
"""Bytes of an answer that is compressed in the event loop; that takes a millisecond."""

GZIP_LEVEL = 6

_ZERO = re.compile(r"q=0(\.0*)?")


def compress_answers(app: ASGIApp) -> ASGIApp:
    """Wraps an application."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        is_http = str(scope["type"]) == "http"
        if is_http and accepts_gzip(Headers.from_scope(scope).get("accept-encoding")):
            send = _Compressing(send).send
        await app(scope, receive, send)

    return handle


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether a client takes gzip, as its header `Accept-Encoding` says."""
    for part in (accept_encoding or "").lower().split(","):
        name, _, quality = part.strip().partition(";")
        if name.strip() in ("gzip", "*"):
            return not _ZERO.fullmatch(quality.replace(" ", ""))
    return False


class _Compressing:
    """The way of one answer out. Its start waits until its body is known."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._start is not None and message["type"] == "http.response.body":
            start, self._start = self._start, None
            message = await self._compressed(start, message)
            await self._send(start)
        await self._send(message)

    async def _compressed(self, start: Message, message: Message) -> Message:
        headers = MutableScopeHeaders.from_message(start)
        body = message["body"] if message["type"] == "http.response.body" else b""
        is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not is_whole or len(body) < GZIP_BYTES_MIN or "content-encoding" in headers:
            return message
        compress = partial(gzip.compress, body, GZIP_LEVEL, mtime=0)
        packed = compress() if len(body) <= INLINE_BYTES_MAX else await asyncio.to_thread(compress)
        headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(packed))
        headers["Vary"] = "Accept-Encoding"
        changed: Message = {"type": "http.response.body", "body": packed, "more_body": False}
        return changed


CACHE_CONTROL = "no-cache"
"""A caller asks each time whether its copy is still the one that is served."""


class _Made(NamedTuple):
    plain: bytes
    gzipped: bytes
    etag: str


class MadeOnce:
    """A text that `make` returns, with its media type and headers."""

    def __init__(
        self, make: Callable[[], bytes], media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._make = make
        self._media_type = media_type
        self._headers = dict(headers or {})
        self._made: _Made | None = None
        self._making = Lock()

    async def answer(self, request: Request[Any, Any, Any]) -> Response[bytes]:
        """The text; or 304 if the caller has it already."""
        # In a thread: making it takes longer than other requests should wait.
        made = self._made if self._made is not None else await asyncio.to_thread(self._once)
        headers = {
            **self._headers,
            "ETag": made.etag,
            "Cache-Control": CACHE_CONTROL,
            "Vary": "Accept-Encoding",
        }
        if _has(request.headers.get("If-None-Match"), made.etag):
            return Response(b"", status_code=304, headers=headers, media_type=self._media_type)
        content = made.plain
        if accepts_gzip(request.headers.get("Accept-Encoding")):
            content, headers["Content-Encoding"] = made.gzipped, "gzip"
        return Response(content, headers=headers, media_type=self._media_type)

    def _once(self) -> _Made:
        with self._making:
            made = self._made
            if made is None:
                plain = self._make()
                etag = f'"{blake2b(plain, digest_size=12).hexdigest()}"'
                self._made = made = _Made(plain, gzip.compress(plain, mtime=0), etag)
            return made


def _has(if_none_match: str | None, etag: str) -> bool:
    """Whether a caller has the text with this ETag. Two encodings of it are one version."""
    if if_none_match is None:
        return False
    known = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in known or "*" in known
