"""Reads server-sent events from the pieces in which they arrive."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tickwork.client.answers import StreamedEvent
from tickwork.client.call import Call, at, nothing
from tickwork.client.exchange import Answer, Lost, Request, Server
from tickwork.client.problem import error_of
from tickwork.errors import ServiceUnavailable

CLOSED = "closed"
"""The type of the last event: its data has the reason."""

_ERRORS_FROM = 400


def stream_call(server: Server, after: str | None) -> Request:
    """The request for the event stream, behind an event."""
    headers = {"Accept": "text/event-stream"}
    if after is not None:
        headers["Last-Event-ID"] = after
    return server.request(Call("GET", at("v1", "stream"), nothing, headers=headers))


class EventLines:
    """Collects pieces of the stream and yields whole events."""

    def __init__(self, server: Server) -> None:
        self._server, self._rest = server, b""

    def events(self, piece: Answer | Lost | bytes) -> Iterator[StreamedEvent]:
        """The events that this piece completes. Raises the error of a refused request, and
        `ServiceUnavailable` if the connection is lost."""
        if isinstance(piece, Lost):
            raise ServiceUnavailable(self._server.name, piece.reason)
        if isinstance(piece, Answer):
            if piece.status >= _ERRORS_FROM:
                raise error_of(piece.status, piece.body, piece.headers, self._server.name)
            return
        *blocks, self._rest = (self._rest + piece).split(b"\n\n")
        for block in blocks:
            fields = dict(_fields(block.decode()))
            if "event" in fields:
                data = msgspec.json.decode(fields.get("data", "{}"))
                yield StreamedEvent(id=fields.get("id"), type=fields["event"], data=data)


def _fields(block: str) -> Iterator[tuple[str, str]]:
    for line in block.splitlines():
        name, _, value = line.partition(":")
        if name:
            yield name, value.removeprefix(" ")
