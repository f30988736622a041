"""An app on an empty SQLite file: a queue `work` with the handler under test, a queue `out`.

A message of `work` that fails is dead at once, so that its dead letter tells how it ended. Where a
handler has to exceed its timeout, the test sets the clock of the worker ahead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.kit.waiting import eventually
from tickwork import clock
from tickwork.clock import monotonic
from tickwork.core.fields import read_id
from tickwork.core.message.body import decode_body
from tickwork.core.message.dead_letter import Selection, StoredDeadLetter
from tickwork.core.model import DEFAULT, Message
from tickwork.facade.app import Tickwork
from tickwork.facade.queue import Queue
from tickwork.service.worker import worker
from tickwork.service.worker.worker import Worker

WAIT_SECONDS = 60
"""Nothing takes so long, not even on a busy machine that starts processes."""


class Workplace:
    """The app, and what is to be seen of its messages."""

    def __init__(self, place: Path | str, **settings: Any) -> None:
        """In a folder of its own, or at an address."""
        url = place if isinstance(place, str) else f"sqlite:///{place / 'work.db'}"
        self.app = Tickwork(url)
        self.app.queue("work", **{"max_retries": 0, "timeout_seconds": 60} | settings)
        self.app.queue("out")
        self._ahead_seconds = 0.0

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Worker]:
        """The app at work, under a clock that `pass_seconds` sets ahead."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clock, "monotonic", lambda: monotonic() + self._ahead_seconds)
            patch.setattr(worker, "OVERDUE_SECONDS", 0.01)
            async with self.app._engine.running(**options) as running:
                yield running

    def pass_seconds(self, seconds: float) -> None:
        """Sets the clock of the worker ahead: by less than a lease, or it would trust no claim."""
        self._ahead_seconds += seconds

    def handle(self, function: Callable[..., Any], **options: Any) -> None:
        """Declares the handler under test."""
        self.app.on("work", **options)(function)

    async def send(self, *bodies: Any) -> list[UUID]:
        """Sends them to `work`, in this order, and returns their ids."""
        queue: Queue[Any] = self.app.queue("work")
        return [read_id("id", await queue.send(body)) for body in bodies]

    async def out(self) -> list[Any]:
        """The bodies of what was sent to `out`."""
        return [decode_body(message.body, message.content_type) for message in await self.sent()]

    async def sent(self) -> tuple[Message, ...]:
        """What was sent to `out`."""
        store = await self.app._engine.open()
        return await store.messages.peek(DEFAULT, "out", 100)

    async def waiting(self) -> tuple[Message, ...]:
        """What is in `work`."""
        store = await self.app._engine.open()
        return await store.messages.peek(DEFAULT, "work", 100)

    async def dead(self) -> list[StoredDeadLetter]:
        """The dead letters of `work`."""
        store = await self.app._engine.open()
        return list((await store.dead_letters.list(DEFAULT, "work", Selection(limit=100))).letters)

    async def errors(self) -> list[str]:
        """What they died of."""
        return [letter.error or "" for letter in await self.dead()]

    async def errors_by_body(self) -> dict[Any, str]:
        """What each of them died of."""
        found = await self.dead()
        return {
            decode_body(letter.body, letter.content_type): letter.error or "" for letter in found
        }

    async def until_dead(self, count: int = 1) -> list[str]:
        """Waits for so many dead letters, and returns what they died of."""

        async def found() -> list[str]:
            errors = await self.errors()
            return errors if len(errors) >= count else []

        return await eventually(found, timeout_seconds=WAIT_SECONDS, what=f"{count} dead")

    async def until_out(self, count: int = 1) -> list[Any]:
        """Waits for so many messages in `out`, and returns their bodies."""

        async def found() -> list[Any]:
            bodies = await self.out()
            return bodies if len(bodies) >= count else []

        return await eventually(found, timeout_seconds=WAIT_SECONDS, what=f"{count} in out")
