"""What handlers raised, for a test that wants to know."""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import Any
from uuid import UUID

from msgspec import structs

from tickwork.app.declarations import Consumer, HandlerDeclaration, Isolation
from tickwork.app.message import Snooze, single_error
from tickwork.core.model import Message, Queue, Reaped, SettleResult
from tickwork.errors import TickworkError
from tickwork.service.observe import Unmoved
from tickwork.service.observe.log_events import EventLog
from tickwork.service.observe.schedule_metrics import ScheduleCounters
from tickwork.service.worker.settle import FinishedMessage


class HandlerFailed(TickworkError):
    """A message was not handled as it should be, and there is no error of a handler to raise."""

    code = "handler_failed"


class NeverEnds(TickworkError):
    """What a test waits for does not come to its end."""

    code = "never_ends"


class Notes(Unmoved):
    """Remembers every message that came to an end, and the first error; counts slots."""

    def __init__(self, slots: ScheduleCounters) -> None:
        self._slots = slots
        self.handled_messages: dict[UUID, dict[UUID, Message]] = {}
        self.settlements = 0
        self._raised: list[BaseException] = []
        self._failed: list[str] = []
        self._lines = EventLog()

    def settled(self, queue: Queue, ends: Sequence[FinishedMessage], result: SettleResult) -> None:
        self.settlements += 1
        self._slots.settled(ends, result)
        for end in ends:
            message, ending = end.message, end.ending
            self.handled_messages.setdefault(queue.id, {})[message.id] = message
            if ending.error is not None or ending.reason is not None:
                what = ending.error or ending.reason
                self._failed.append(f"a message of {queue.name!r} failed: {what}")

    def reaped(self, reaped: Reaped) -> None:
        self._slots.expired(reaped.expired_slots)

    def trouble(self, what: str, error: Exception) -> None:
        self._lines.trouble(what, error)

    def take_error(self) -> BaseException | None:
        """The first error since the last call: a handler's own, if there was one."""
        raised, failed = self._raised, self._failed
        self._raised, self._failed = [], []
        if raised:
            return raised[0]
        return HandlerFailed(failed[0]) if failed else None

    def watched(self, consumers: Iterable[Consumer]) -> Iterator[Consumer]:
        """The same consumers; what their handlers raise is noted on its way."""
        for each in consumers:
            yield Consumer(
                each.queue,
                each.batch and self._watched(each.batch),
                {type_: self._watched(handler) for type_, handler in each.by_type.items()},
            )

    def _watched(self, handler: HandlerDeclaration) -> HandlerDeclaration:
        if handler.isolation is Isolation.PROCESS:  # It is called by its name, elsewhere.
            return handler
        watched = self._awaited if inspect.iscoroutinefunction(handler.function) else self._called
        return structs.replace(handler, function=watched(handler.function))

    def _awaited(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        async def noting(given: Any) -> Any:
            with self._noting():
                return await function(given)

        return noting

    def _called(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def noting(given: Any) -> Any:
            with self._noting():
                return function(given)

        return noting

    def _noting(self) -> ExitStack:
        def note(_: object, error: BaseException | None, __: object) -> None:
            if error is not None and not isinstance(single_error(error), Snooze | CancelledError):
                self._raised.append(error)

        stack = ExitStack()
        stack.push(note)
        return stack
