"""Polls something again and again while others work."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from tests.kit.waiting import delay

PAUSE_SECONDS = 0.015


class Watching:
    """Calls `look` until the block is left; what it raises is raised then.

    A call that has started runs to its end: its result must not get lost.
    """

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        self._look, self._is_over = look, False
        self._task: asyncio.Task[None] | None = None
        self.looks = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._look_on())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._task is not None
        self._is_over = True
        await self._task

    async def _look_on(self) -> None:
        while not self._is_over:
            await self._look()
            self.looks += 1
            await delay(PAUSE_SECONDS)
