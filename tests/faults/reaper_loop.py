"""A reaper in the background, whose results go into the history."""

import asyncio
from typing import Self

from tests.kit.history import HistoryWriter
from tests.kit.waiting import delay
from tickwork.core.model import SYSTEM
from tickwork.errors import StoreUnavailable
from tickwork.store.contract import Store

EVERY_SECONDS = 0.05
LIMIT = 1_000
PASS_SECONDS_MAX = 60.0


class Reaping:
    """Reaps until the block is left; a failure is raised then. A running pass finishes first, so
    that its results are in the history."""

    def __init__(self, store: Store, history: HistoryWriter) -> None:
        self._store, self._history = store, history
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._reap())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._task is not None
        self._is_over = True
        async with asyncio.timeout(PASS_SECONDS_MAX):
            await self._task

    async def _reap(self) -> None:
        while not self._is_over:
            call = self._history.invoke("reap")
            try:
                reaped = await self._store.reaper.reap(SYSTEM, LIMIT)
            except StoreUnavailable as error:
                self._history.info("unavailable", error=str(error))
            else:
                for node_id in reaped.nodes:
                    self._history.ok(call, node=str(node_id))
            await delay(EVERY_SECONDS)
