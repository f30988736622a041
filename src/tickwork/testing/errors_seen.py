"""Records what handlers did during a test: finished messages, planned slots and errors."""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import wraps
from typing import Any
from uuid import UUID

from msgspec import structs

from tickwork.app.declarations import Consumer, HandlerDeclaration
from tickwork.app.isolation import Isolation
from tickwork.app.message import Snooze, single_error
from tickwork.core.model import Message, SettleResult, StoredQueue
from tickwork.core.schedule.plan import Plan
from tickwork.errors import TickworkError
from tickwork.service.observe.log_events import EventLog
from tickwork.service.worker.settle import FinishedMessage
from tickwork.testing.next_due import earliest


class HandlerFailed(TickworkError):
    """A message failed without an error that a handler raised."""

    code = "handler_failed"


class NeverEnds(TickworkError):
    """Work that a test waits for does not end."""

    code = "never_ends"


class HarnessObserver(EventLog):
    """Records finished messages, planned slots and errors. Logs other events as usual."""

    def __init__(self) -> None:
        super().__init__()
        self.handled_messages: dict[UUID, dict[UUID, Message]] = {}
        self.settlements = 0
        self._raised: list[BaseException] = []
        self._failed: list[str] = []
        self._first_visible_at: datetime | None = None

    def messages_settled(
        self,
        queue: StoredQueue,
        finished: Sequence[FinishedMessage],
        result: SettleResult,  # noqa: ARG002
    ) -> None:
        self.settlements += 1
        for finished_message in finished:
            message, ending = finished_message.message, finished_message.ending
            self.handled_messages.setdefault(queue.id, {})[message.id] = message
            if ending.error is not None or ending.reason is not None:
                what = ending.error or ending.reason
                self._failed.append(f"a message of {queue.name!r} failed: {what}")

    def schedules_planned(self, plans: Sequence[Plan]) -> None:
        visible = [fire.visible_at for plan in plans for fire in plan.fires]
        self._first_visible_at = earliest(self._first_visible_at, *visible)

    def take_first_visible(self) -> datetime | None:
        """When the first message planned since the last call becomes visible."""
        first, self._first_visible_at = self._first_visible_at, None
        return first

    def take_error(self) -> BaseException | None:
        """The first error since the last call; an error that a handler raised takes precedence."""
        raised, failed = self._raised, self._failed
        self._raised, self._failed = [], []
        if raised:
            return raised[0]
        return HandlerFailed(failed[0]) if failed else None

    def recording(self, consumers: Iterable[Consumer]) -> Iterator[Consumer]:
        """The same consumers, with handlers that record what they raise."""
        for consumer in consumers:
            yield Consumer(
                consumer.queue,
                consumer.batch and self._recording_handler(consumer.batch),
                {
                    type_: self._recording_handler(handler)
                    for type_, handler in consumer.by_type.items()
                },
            )

    def _recording_handler(self, handler: HandlerDeclaration) -> HandlerDeclaration:
        if handler.isolation is Isolation.PROCESS:  # Another process imports it by name.
            return handler
        is_async = inspect.iscoroutinefunction(handler.function)
        wrap = self._wrap_coroutine if is_async else self._wrap_function
        return structs.replace(handler, function=wrap(handler.function))

    def _wrap_coroutine(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        async def recorded(given: Any) -> Any:
            with self._recording_errors():
                return await function(given)

        return recorded

    def _wrap_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def recorded(given: Any) -> Any:
            with self._recording_errors():
                return function(given)

        return recorded

    def _recording_errors(self) -> ExitStack:
        def record(_: object, error: BaseException | None, __: object) -> None:
            if error is not None and not isinstance(single_error(error), Snooze | CancelledError):
                self._raised.append(error)

        stack = ExitStack()
        stack.push(record)
        return stack
