"""The stream of a tenant: what happened since an event, and whether there is something new.

A reader looks back a few seconds, because an event becomes visible with its transaction, perhaps
after one with a higher id. `StreamReader` leaves out what it has returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from tickwork.core.model import SYSTEM, Scope
from tickwork.core.stream import StreamEvent, look_back
from tickwork.errors import StoreError, TooMany
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

PAGE_EVENTS = 500
"""Number of events that one query returns."""

BEHIND_EVENTS_MAX = 5_000
"""Maximum number of events that a reader may be behind; beyond it the reader must start anew."""

STREAMS_MAX = 1_000
"""Maximum number of open streams of a process."""

LOOK_SECONDS = 1.0
"""Seconds between two looks for new events, for all streams of a process together."""


class StreamBehind(Exception):
    """There are more events than a reader may be behind."""


class StreamReader:
    """Reads the stream of a tenant from an event on."""

    def __init__(self, store: Store, scope: Scope, last_id: UUID | None) -> None:
        self._store, self._scope = store, scope
        self._last = last_id or new_id()
        # Without an id to resume from, what happened before the stream was opened is old.
        self._start = look_back(self._last) if last_id is not None else self._last
        self._seen: set[UUID] = set() if last_id is None else {last_id}

    async def new_events(self) -> list[StreamEvent]:
        """The events since the last call, oldest first. Raises `StreamBehind`."""
        fresh: list[StreamEvent] = []
        seen, position = set[UUID](), max(look_back(self._last), self._start)
        while True:
            page = await self._store.stream.after(self._scope, position, PAGE_EVENTS)
            fresh += [each for each in page if each.id not in self._seen]
            seen.update(each.id for each in page)
            if len(seen) > BEHIND_EVENTS_MAX:
                raise StreamBehind
            if len(page) < PAGE_EVENTS:
                break
            position = page[-1].id
        self._seen = seen | {each for each in self._seen if each > look_back(self._last)}
        if fresh:
            self._last = max(self._last, fresh[-1].id)
        return fresh


class StreamWatch:
    """Looks for new events once a second for all streams of a process, and wakes those of the
    tenants that have some."""

    def __init__(self) -> None:
        self._streams: dict[asyncio.Event, str | None] = {}
        self._looking: asyncio.Task[None] | None = None

    def check_room(self) -> None:
        """Raises `TooMany` if there are too many open streams."""
        if len(self._streams) >= STREAMS_MAX:
            raise TooMany(
                f"this process has {STREAMS_MAX} open streams; try again later", "streams", 10.0
            )

    @contextmanager
    def watching(self, store: Store, tenant: str | None) -> Iterator[asyncio.Event]:
        """Sets the event whenever there may be something new."""
        news = asyncio.Event()
        self._streams[news] = tenant
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(store))
        try:
            yield news
        finally:
            del self._streams[news]
            if not self._streams:
                self._looking.cancel()
                self._looking = None

    async def _look(self, store: Store) -> None:
        last = new_id()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(StoreError):  # Streams stay open while the database is away.
                found = await store.stream.after(SYSTEM, look_back(last), PAGE_EVENTS)
                tenants = {each.tenant for each in found}
                last = max(last, found[-1].id) if found else last
                for news, tenant in self._streams.items():
                    if tenant in tenants or len(found) == PAGE_EVENTS:
                        news.set()
