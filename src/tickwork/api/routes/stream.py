"""The event stream: server-sent events about what happens in the tenant.

An event is a hint: read again what it names. A stream ends with an event `closed` that says why: a
slow reader, a reader that is too far behind, a key that was revoked, or a server that stops. A
browser connects again by itself, with `Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Request
from litestar.di import NamedDependency
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter
from litestar.response import Stream
from msgspec import UNSET, Struct, UnsetType

from tickwork.api.access import authenticated
from tickwork.api.operation import Routes
from tickwork.api.server_state import ServerState
from tickwork.clock import monotonic
from tickwork.core.access import Caller, Permission
from tickwork.core.stream import StreamEvent
from tickwork.errors import FieldError, Forbidden, InvalidInput, TooMany, Unauthorized
from tickwork.ops.context import Context
from tickwork.ops.stream import StreamBehind

routes = Routes("operating")

HEARTBEAT_SECONDS = 15.0
"""Seconds between two comments that keep the connection open, and between two checks of the key,
however many events there are."""

WAKE_SECONDS = 1.0
"""Seconds after which a waiting stream notices that the server stops."""

SLOW_SECONDS_MAX = 30.0
"""Seconds that a reader may take for one piece; then its stream is closed."""

RETRY_MILLISECONDS = 2_000
"""Milliseconds after which a browser connects again."""


class SentEvent(Struct, frozen=True, kw_only=True):
    """An event as it is sent. `data` is a JSON object with the `type`, the time, and what the event
    is about."""

    event: str
    data: str
    id: str | UnsetType = UNSET


LastEventId = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", description="Resume after this event, of the last day."),
]


@routes.get(
    "/v1/stream",
    "Stream events",
    needs=Permission.READ,
    problems=(429,),
    answer=ResponseSpec(
        data_container=SentEvent,
        media_type="text/event-stream",
        description="Server-sent events.",
        generate_examples=False,
    ),
)
async def stream(
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    server: NamedDependency[ServerState],
    caller: NamedDependency[Caller],
    last_event_id: LastEventId = None,
) -> Stream:
    """Sends system events such as `message.dead`, and changes such as `schedule.pause`, as they
    happen. Each is a hint to read again what it names."""
    server.streams.check_room(caller.tenant, caller.name)
    last_id = _read_id(last_event_id)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(
        _pieces(context, server, caller, request, last_id),
        media_type="text/event-stream",
        headers=headers,
    )


async def _pieces(
    context: Context,
    server: ServerState,
    caller: Caller,
    request: Request[Any, Any, Any],
    last_id: UUID | None,
) -> AsyncIterator[str]:
    """The text of the stream. Nothing is kept for a reader: the next events are taken when it has
    read the last ones."""
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    streams, store = server.streams, context.store
    try:
        stream = streams.opened(store, caller.tenant, caller.name, last_id)
    except TooMany:  # Others were opened since the request was let in.
        yield _closed("too_many")
        return
    with stream as opened:
        heartbeat_at = check_at = monotonic() + HEARTBEAT_SECONDS
        while True:
            piece, reason = "", "stopping" if server.is_stopping else None
            opened.news.clear()
            try:
                piece = "".join(map(_text, await opened.new_events()))
            except StreamBehind:
                reason = "behind"
            if monotonic() >= check_at:
                check_at = monotonic() + HEARTBEAT_SECONDS
                if (refusal := await _refusal(server, request)) is not None:
                    piece, reason = "", refusal
            if not piece and monotonic() >= heartbeat_at:
                piece = ": heartbeat\n\n"
            if piece:
                began = monotonic()
                yield piece
                heartbeat_at = monotonic() + HEARTBEAT_SECONDS
                reason = "slow" if monotonic() - began > SLOW_SECONDS_MAX else reason
            if reason is not None:
                yield _closed(reason)
                return
            await _wait(server, opened.news, heartbeat_at)


def _closed(reason: str) -> str:
    return f'event: closed\ndata: {{"reason":"{reason}"}}\n\n'


async def _wait(server: ServerState, news: asyncio.Event, until: float) -> None:
    while not news.is_set() and not server.is_stopping and monotonic() < until:
        with suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), WAKE_SECONDS)


async def _refusal(server: ServerState, request: Request[Any, Any, Any]) -> str | None:
    """Why the caller may not read any more."""
    try:
        await authenticated(server, request)
    except (Unauthorized, Forbidden) as error:
        return error.code
    return None


def _text(event: StreamEvent) -> str:
    data = {"type": event.type, "at": event.at, "owner": event.owner, **event.data}
    return f"id: {event.id}\nevent: {event.type}\ndata: {msgspec.json.encode(data).decode()}\n\n"


def _read_id(text: str | None) -> UUID | None:
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError:
        fault = "must be the id of an event of this stream; leave it out to start now"
        raise InvalidInput([FieldError("Last-Event-ID", fault)]) from None
