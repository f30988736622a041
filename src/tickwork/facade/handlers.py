"""The functions that an app declares, as types."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from tickwork.app.firing import Firing
from tickwork.app.message import Message, MessageBatch
from tickwork.core.answers.batch import BatchAnswer
from tickwork.core.http.message import HttpRequest
from tickwork.facade.workflows import Workflow

if TYPE_CHECKING:
    from tickwork.workflow.step import Step


class MessageHandler(Protocol):
    """A function that handles one message: `async def handle(message: Message[Order]) -> None`.
    A plain function runs in a thread."""

    def __call__(self, message: Message[Any], /) -> Awaitable[None] | None: ...


class BatchHandler(Protocol):
    """A function that handles messages in batches."""

    def __call__(self, batch: MessageBatch[Any], /) -> Awaitable[None] | None: ...


class FiringHandler(Protocol):
    """A function that runs on a schedule."""

    def __call__(self, firing: Firing[Any], /) -> Awaitable[None] | None: ...


class RequestHandler(Protocol):
    """A function that answers HTTP requests. A plain function runs in a thread."""

    def __call__(self, request: HttpRequest, /) -> Any: ...


class CompletionHandler(Protocol):
    """A coroutine function that gets a completed batch."""

    def __call__(self, batch: BatchAnswer, /) -> Awaitable[None]: ...


OnMessage = TypeVar("OnMessage", bound=MessageHandler)
OnBatch = TypeVar("OnBatch", bound=BatchHandler)
OnFiring = TypeVar("OnFiring", bound=FiringHandler)
OnRequest = TypeVar("OnRequest", bound=RequestHandler)
OnCompletion = TypeVar("OnCompletion", bound=CompletionHandler)

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
Returned = TypeVar("Returned", bound=Awaitable[None] | None)


class HandlesMessagesOf(Protocol[T]):
    """Declares a function that handles messages of a queue's type."""

    def __call__(
        self, function: Callable[[Message[T]], Returned], /
    ) -> Callable[[Message[T]], Returned]: ...


class HandlesBatchesOf(Protocol[T]):
    """Declares a function that handles batches of messages of a queue's type."""

    def __call__(
        self, function: Callable[[MessageBatch[T]], Returned], /
    ) -> Callable[[MessageBatch[T]], Returned]: ...


class DeclaresWorkflow(Protocol):
    """Declares a workflow from its function."""

    @overload
    def __call__(
        self, function: Callable[[Step, P], Coroutine[Any, Any, R]], /
    ) -> Workflow[P, R]: ...

    @overload
    def __call__(
        self, function: Callable[[Step], Coroutine[Any, Any, R]], /
    ) -> Workflow[None, R]: ...
