"""A process as a node: renews its lease in the background, and joins again after it expired."""

import asyncio
from typing import Self
from uuid import UUID

from tests.kit.waiting import delay
from tickwork.core.model import SYSTEM
from tickwork.errors import NodeExpired, StoreUnavailable
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

TTL_SECONDS = 2.0
BEATS_PER_TTL = 8
BEAT_SECONDS_MAX = 0.25


class Membership:
    """Open with `async with`; `node_id` is the current identity."""

    def __init__(self, store: Store, name: str, *, ttl_seconds: float = TTL_SECONDS) -> None:
        self._store, self._name, self._ttl_seconds = store, name, ttl_seconds
        self._beating: asyncio.Task[None] | None = None
        self.node_id = new_id()

    async def __aenter__(self) -> Self:
        await self._join()
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._beating is not None
        self._beating.cancel()
        await asyncio.wait([self._beating])
        await self._store.nodes.leave(SYSTEM, self.node_id)

    async def join_again(self, lost: UUID) -> None:
        """Joins under a new identity, unless `lost` was replaced already."""
        if self.node_id == lost:
            self.node_id = new_id()
            await self._join()

    async def _join(self) -> None:
        await self._store.nodes.join(
            SYSTEM, self.node_id, name=self._name, roles=["worker"], ttl_seconds=self._ttl_seconds
        )

    async def _beat(self) -> None:
        while True:
            await delay(min(self._ttl_seconds / BEATS_PER_TTL, BEAT_SECONDS_MAX))
            node_id = self.node_id
            try:
                await self._store.nodes.heartbeat(SYSTEM, node_id, self._ttl_seconds)
            except NodeExpired:
                await self.join_again(node_id)
            except StoreUnavailable:
                continue
