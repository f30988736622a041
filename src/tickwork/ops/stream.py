"""The stream of a tenant: what happened since an event, and whether there is something new.

A reader looks back a few seconds, because an event becomes visible with its transaction, perhaps
after one with a higher id. `StreamReader` leaves out what it has returned. The new events of a
tenant are read once for all its streams.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
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

TENANT_STREAMS_MAX = 300
"""Maximum number of open streams of a tenant in a process."""

KEY_STREAMS_MAX = 100
"""Maximum number of open streams of a key in a process."""

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
            fresh += [event for event in page if event.id not in self._seen]
            seen.update(event.id for event in page)
            if len(seen) > BEHIND_EVENTS_MAX:
                raise StreamBehind
            if len(page) < PAGE_EVENTS:
                break
            position = page[-1].id
        self._seen = seen | {
            event_id for event_id in self._seen if event_id > look_back(self._last)
        }
        if fresh:
            self._last = max(self._last, fresh[-1].id)
        return fresh


class _Feed:
    """The new events of a tenant, read once for all its streams. It has the last ones only."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self.scope = store, Scope(tenant)
        self._reader = StreamReader(store, self.scope, None)
        self._events: list[StreamEvent] = []
        self._dropped = 0
        self._reading = asyncio.Lock()
        self.is_stale = True

    @property
    def end(self) -> int:
        """The number of events so far."""
        return self._dropped + len(self._events)

    async def after(self, number: int) -> list[StreamEvent]:
        """The events after so many of them. Raises `StreamBehind`."""
        async with self._reading:
            if self.is_stale:
                await self._read()
        if number < self._dropped:
            raise StreamBehind
        return self._events[number - self._dropped :]

    async def _read(self) -> None:
        try:
            self._events += await self._reader.new_events()
        except StreamBehind:  # All streams end; those that are opened then start here.
            self._dropped, self._events = self.end + 1, []
            self._reader = StreamReader(self._store, self.scope, None)
        self.is_stale = False
        surplus = len(self._events) - BEHIND_EVENTS_MAX
        if surplus > 0:
            del self._events[:surplus]
            self._dropped += surplus


class OpenStream:
    """One stream: `news` is set when there may be something new."""

    def __init__(self, store: Store, feed: _Feed, last_id: UUID | None) -> None:
        self.news = asyncio.Event()
        self._feed, self._number = feed, feed.end
        self._start = new_id()
        self._past = None if last_id is None else StreamReader(store, feed.scope, last_id)
        self._seen: set[UUID] = set()

    async def new_events(self) -> list[StreamEvent]:
        """The events since the last call. Raises `StreamBehind`."""
        past = await self._read_past()
        found = await self._feed.after(self._number)
        self._number += len(found)
        return past + [event for event in found if self._is_new(event)]

    async def _read_past(self) -> list[StreamEvent]:
        """What happened since the last event that the reader has seen, at the first call."""
        if self._past is None:
            return []
        reader, self._past = self._past, None
        found = await reader.new_events()
        self._seen = {event.id for event in found}
        self._start = look_back(self._start)
        return found

    def _is_new(self, event: StreamEvent) -> bool:
        return event.id > self._start and event.id not in self._seen


class StreamWatch:
    """The streams of a process: how many each tenant and key has. Looks for new events once a
    second for all of them, and wakes those of the tenants that have some."""

    def __init__(self) -> None:
        self._streams: dict[OpenStream, tuple[str, str]] = {}
        self._feeds: dict[str, _Feed] = {}
        self._looking: asyncio.Task[None] | None = None

    def check_room(self, tenant: str, caller: str) -> None:
        """Raises `TooMany` if the process, the tenant or the caller has too many open streams."""
        owners = self._streams.values()
        for what, open_streams, most in (
            ("this process has", len(owners), STREAMS_MAX),
            (
                f"tenant {tenant} has",
                sum(owner[0] == tenant for owner in owners),
                TENANT_STREAMS_MAX,
            ),
            (f"{caller} has", sum(owner == (tenant, caller) for owner in owners), KEY_STREAMS_MAX),
        ):
            if open_streams >= most:
                raise TooMany(f"{what} {most} open streams; try again later", "streams", 10.0)

    def opened(
        self, store: Store, tenant: str, caller: str, last_id: UUID | None
    ) -> AbstractContextManager[OpenStream]:
        """A stream of a tenant, which is open until the end of the context. Raises `TooMany`."""
        self.check_room(tenant, caller)
        if tenant not in self._feeds:
            self._feeds[tenant] = _Feed(store, tenant)
        stream = OpenStream(store, self._feeds[tenant], last_id)
        self._streams[stream] = tenant, caller
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(store))
        return self._until_closed(stream, tenant)

    @contextmanager
    def _until_closed(self, stream: OpenStream, tenant: str) -> Iterator[OpenStream]:
        try:
            yield stream
        finally:
            assert self._looking is not None
            del self._streams[stream]
            if tenant not in {owner[0] for owner in self._streams.values()}:
                del self._feeds[tenant]
            if not self._streams:
                self._looking.cancel()
                self._looking = None

    async def _look(self, store: Store) -> None:
        last = new_id()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(StoreError):  # Streams stay open while the database is away.
                found = await store.stream.after(SYSTEM, look_back(last), PAGE_EVENTS)
                tenants = {event.tenant for event in found}
                last = max(last, found[-1].id) if found else last
                for tenant, feed in self._feeds.items():
                    feed.is_stale |= tenant in tenants or len(found) == PAGE_EVENTS
                for stream, (tenant, _) in self._streams.items():
                    if self._feeds[tenant].is_stale:
                        stream.news.set()
