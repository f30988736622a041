"""A queue of an app: what is sent to it, and how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as shortened
from typing import Any, Generic, Protocol, TypeVar

from tickwork.core.message.body import GivenContentType
from tickwork.core.model import ContentType, NewMessage, Scope
from tickwork.core.queue.stats import QueueStats
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.queues import queue_stats
from tickwork.ops.send import RegistryComposer, check_one_event, is_collection
from tickwork.ops.stores import Store

T = TypeVar("T")


class App(Protocol):
    """What a queue needs of its app."""

    composer: RegistryComposer

    async def open(self) -> Store:
        """The store."""

    async def send_messages(self, queue: str, messages: Sequence[NewMessage]) -> None:
        """Sends what is composed already."""

    def scope_of(self, name: str) -> Scope:
        """On whose behalf."""


class Queue(Generic[T]):
    """A queue of the app, by its name; `T` is what its messages carry."""

    def __init__(self, app: App, name: str) -> None:
        self._app, self.name = app, name

    async def send(
        self, body: T, *, content_type: GivenContentType = ContentType.JSON, **options: Any
    ) -> str:
        """Sends a message, and returns its id."""
        (message_id,) = await self.send_batch([body], content_type=content_type, **options)
        return message_id

    async def send_batch(
        self,
        bodies: Sequence[T],
        *,
        content_type: GivenContentType = ContentType.JSON,
        **options: Any,
    ) -> tuple[str, ...]:
        """Sends up to 100 messages, all or none, and returns their ids; the options are those of
        every message."""
        if not is_collection(bodies):
            fault = f"must be a list of bodies, not {shortened(bodies)}; one alone: send(…)"
            raise InvalidInput([FieldError("bodies", fault)])
        messages = [
            self._app.composer.message(self.name, body, content_type, options) for body in bodies
        ]
        check_one_event(len(messages), options.get("event_id"))
        await self._app.send_messages(self.name, messages)
        return tuple(str(message.id) for message in messages)

    async def stats(self) -> QueueStats:
        """The queue at a glance."""
        store = await self._app.open()
        return await queue_stats(store, self._app.scope_of(self.name), self.name)
