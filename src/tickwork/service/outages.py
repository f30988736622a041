"""Outages of a node: heartbeats that fail, until the lease is renewed or taken anew.

A failing heartbeat is reported at once; again when a third of the lease is left
(`node.renewal_failing`), while an operator may still help. Then the operator's alert is sent
directly, without the database (`lease_pager`). When the outage is over the system event
`node.renewal_failing` is published, once per outage: while the database did not answer it could not
be stored.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.clock import now as local_now
from tickwork.core.message.system_events import SYSTEM_TENANT, renewal_failing_event
from tickwork.core.model import NewMessage, Scope
from tickwork.errors import StoreError
from tickwork.service.observe import NodeEvents
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

_OUTAGES_MAX = 10
"""Maximum number of outages whose events wait to be published."""


class Pager(Protocol):
    """Sends alerts without the database."""

    async def refresh(self, store: Store) -> None:
        """Reads where alerts go, while the database answers."""

    async def page(self, event: NewMessage, node_id: UUID) -> bool:
        """Sends an alert; returns whether it was delivered. Never raises."""

    async def close(self) -> None:
        """Closes connections."""


class _Outage:
    """Failing heartbeats of an identity, from the first failure on (monotonic seconds).
    `is_serious` if at most a third of the lease was left."""

    def __init__(self, node_id: UUID, began: float) -> None:
        self.id = new_id()
        self.node_id = node_id
        self.began = began
        self.failed_seconds = 0.0
        self.is_serious = False
        self.is_lease_lost = False
        self.page: asyncio.Task[bool] | None = None


class Outages:
    """The outages of one node. `beat_seconds` are the seconds between two heartbeats: if no more
    than that is left of the lease, an outage is serious."""

    def __init__(
        self, name: str, *, observer: NodeEvents, beat_seconds: float, pager: Pager | None
    ) -> None:
        self._name = name
        self._observer = observer
        self._beat_seconds = beat_seconds
        self._pager = pager
        self._current: _Outage | None = None
        self._unpublished: deque[_Outage] = deque(maxlen=_OUTAGES_MAX)

    def renewal_failed(self, why: str, *, node_id: UUID, left_seconds: float) -> None:
        """A heartbeat failed, and so much of the lease is left."""
        if self._current is None:
            self._current = _Outage(node_id, monotonic())
            self._observer.renewal_failed(why, left_seconds)
        outage = self._current
        if left_seconds <= self._beat_seconds and not outage.is_serious:
            outage.is_serious = True
            self._observer.renewal_failing(why, max(left_seconds, 0.0))
            if self._pager is not None:
                event = self._event(outage, local_now(), is_alerted=True)
                outage.page = asyncio.create_task(self._pager.page(event, node_id))

    def lease_lost(self) -> None:
        """The lease expired."""
        if self._current is not None:
            self._current.is_serious = self._current.is_lease_lost = True

    def renewed(self) -> None:
        """There is a lease again. The event of a serious outage waits until it is published."""
        outage, self._current = self._current, None
        if outage is not None:
            outage.failed_seconds = monotonic() - outage.began
            self._observer.renewal_recovered(outage.failed_seconds)
            if outage.is_serious:
                self._unpublished.append(outage)

    async def publish(self, store: Store) -> None:
        """Publishes the events of outages that are over; those that fail wait for the next
        heartbeat. An event that is published again has the same id."""
        while self._unpublished:
            outage = self._unpublished.popleft()
            try:
                async with asyncio.timeout(self._beat_seconds):
                    await self._publish(store, outage)
            except (StoreError, TimeoutError):
                self._unpublished.appendleft(outage)
                return

    async def _publish(self, store: Store, outage: _Outage) -> None:
        is_alerted = outage.page is not None and await asyncio.shield(outage.page)
        event = self._event(outage, await store.now(), is_alerted=is_alerted)
        await store.messages.notify(Scope(SYSTEM_TENANT), event)

    def _event(self, outage: _Outage, at: datetime, *, is_alerted: bool) -> NewMessage:
        failing_seconds = monotonic() - outage.began
        return renewal_failing_event(
            outage.id,
            node=self._name,
            node_id=outage.node_id,
            since=at - timedelta(seconds=failing_seconds),
            failed_seconds=outage.failed_seconds or failing_seconds,
            is_lease_lost=outage.is_lease_lost,
            is_alerted=is_alerted,
        )

    async def refresh_pager(self, store: Store) -> None:
        """Reads where alerts go, while the database answers."""
        if self._pager is not None:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(self._beat_seconds):
                    await self._pager.refresh(store)

    async def close(self) -> None:
        """Closes the connections of the pager."""
        if self._pager is not None:
            await self._pager.close()
