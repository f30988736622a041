"""Waits for the entities of blocked direct calls: one watcher for all calls of a process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

from tickwork.core.model import Scope
from tickwork.errors import StoreError
from tickwork.store.contract import Store

POLL_SECONDS_MIN = 0.05
"""Seconds between two looks after a call got its entity."""

POLL_SECONDS_MAX = 1.0
"""Maximum number of seconds between two looks. A wake-up usually comes first."""


class CallWait:
    """The blocked calls of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[UUID, dict[UUID, tuple[Scope, asyncio.Future[bool]]]] = {}
        self._tasks: dict[UUID, asyncio.Task[None]] = {}

    async def claimed(self, scope: Scope, holder: UUID, call: UUID, seconds: float) -> bool | None:
        """Waits up to `seconds` until a call is claimed: True. False if it is gone, None if it
        still waits."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(holder, {})
        waiting[call] = (scope, future)
        if holder not in self._tasks:
            self._tasks[holder] = asyncio.create_task(self._watch(holder))
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return None
        finally:
            waiting.pop(call, None)

    async def _watch(self, holder: UUID) -> None:
        """Looks at the calls of a node until none is left."""
        waiting, pause = self._waiting[holder], POLL_SECONDS_MIN
        try:
            async with self._store.wakeups.watch([holder]) as watch:
                while waiting:
                    with suppress(StoreError):  # The next look may find it.
                        if await self._look(waiting):
                            pause = POLL_SECONDS_MIN
                    if waiting and not await watch.wait(pause):
                        pause = min(pause * 2, POLL_SECONDS_MAX)
        finally:
            del self._tasks[holder]
            if not waiting:
                self._waiting.pop(holder, None)
        if waiting:  # It came while the watch ended.
            self._tasks[holder] = asyncio.create_task(self._watch(holder))

    async def _look(self, waiting: dict[UUID, tuple[Scope, asyncio.Future[bool]]]) -> bool:
        """Answers the calls that are claimed or gone; whether there were any."""
        by_scope: dict[Scope, list[UUID]] = {}
        for call, (scope, _) in waiting.items():
            by_scope.setdefault(scope, []).append(call)
        has_answered = False
        for scope, calls in by_scope.items():
            found = await self._store.entities.entered(scope, calls)
            for call in calls:
                is_claimed = found.get(call)
                if is_claimed is False or call not in waiting:
                    continue
                _, future = waiting.pop(call)
                has_answered = True
                if not future.done():
                    future.set_result(is_claimed is True)
        return has_answered
