"""What a body gets for a step before the step has ended: something to await, once or in a task;
and how it gets the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import msgspec

from tickwork.core.workflow.model import RunEvent, RunStep, StepError
from tickwork.errors import EventTimedOut, StepFailed

T = TypeVar("T")


class StepCall(Coroutine[Any, Any, T]):
    """A step that was called. It runs whether it is awaited or not; `await`, `gather` and
    `TaskGroup.create_task` take it as a coroutine. If it fails, its key is added to `failed`."""

    __slots__ = ("_iterator", "failed", "future", "is_awaited", "key")

    def __init__(self, key: str, future: asyncio.Future[T], failed: list[str]) -> None:
        self.key = key
        self.future = future
        self.failed = failed
        self.is_awaited = False
        self._iterator: Generator[Any, None, T] | None = None

    def __await__(self) -> Generator[Any, None, T]:
        self.is_awaited = True
        return self.future.__await__()

    def send(self, value: Any) -> Any:
        return self._started().send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> Any:
        if isinstance(kind, BaseException):
            return self._started().throw(kind)
        return self._started().throw(kind, value, traceback)

    def close(self) -> None:
        if self._iterator is not None:
            self._iterator.close()

    def _started(self) -> Generator[Any, None, T]:
        if self._iterator is None:
            self._iterator = self.__await__()
        return self._iterator


class Unfit(Exception):
    """A recorded result does not fit the type that the code declares today."""

    def __init__(self, key: str, error: Exception) -> None:
        self.key, self.error_type = key, type(error).__name__
        super().__init__(f"the recorded result of step {key!r} does not fit this code: {error}")


class Waiting(NamedTuple):
    """A step that waits: until a time, or for an event of a type, or both."""

    call: StepCall[Any]
    wake_at: datetime | None
    event_type: str | None
    go_on: Callable[[RunEvent | None], None]


def resolve_call(
    call: StepCall[Any], value: Any = None, error: BaseException | None = None
) -> None:
    """Gives the body the result of a step, or its error."""
    if call.future.done():  # The body does not wait any more, such as after a timeout.
        return
    if error is None:
        call.future.set_result(value)
    else:
        call.failed.append(call.key)
        call.future.set_exception(error)
        call.future.exception()  # Marks it as retrieved: the body may never await it.


def step_failed(step: RunStep) -> StepFailed:
    """The recorded error of a step."""
    error = msgspec.json.decode(step.error or b'{"type":"","message":""}', type=StepError)
    made = EventTimedOut if error.type == EventTimedOut.__name__ else StepFailed
    return made(error.step or step.key, error.type, error.message, step.key)
