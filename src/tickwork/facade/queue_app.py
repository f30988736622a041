"""The part of an app that is about queues: declares them and their handlers, and makes batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, Unpack, overload

from tickwork.app.declarations import HandlerDeclaration, QueueDeclaration
from tickwork.app.handlers import check_own_queue, check_type_name, queue_settings
from tickwork.app.isolation import handler_options
from tickwork.app.message import Message, MessageBatch, queue_name
from tickwork.app.payloads import Payload, declared_payload
from tickwork.core.answers.ids import GivenId
from tickwork.core.fields import read_id
from tickwork.core.message.batch import BATCH_COMPLETED
from tickwork.core.message.body import Outgoing
from tickwork.core.options import BatchOptions, Given, HandlerOptions
from tickwork.core.options.message import SendOptions
from tickwork.core.options.queue import QueueOptions
from tickwork.facade.handlers import (
    HandlesBatchesOf,
    HandlesMessagesOf,
    OnBatch,
    OnCompletion,
    OnMessage,
)
from tickwork.facade.overview import Overview
from tickwork.facade.queue import Queue
from tickwork.ops.batches import (
    BatchHandle,
    check_batch_arguments,
    check_batch_queues,
    completion_handler,
)
from tickwork.ops.queues import check_queues_exist

T = TypeVar("T")


class QueueApp(Overview):
    """Queues, their handlers and their batches.

    A queue is given by its name or as the object that `queue` returns. With the object, type
    checkers compare handlers and bodies with its payload.
    """

    @overload
    def queue(
        self,
        name: str,
        *,
        payload: type[T],
        shared: bool = False,
        **settings: Unpack[QueueOptions],
    ) -> Queue[T]: ...

    @overload  # No payload, or one that type checkers cannot name: a union, an `Annotated[…]`.
    def queue(
        self,
        name: str,
        *,
        payload: object = None,
        shared: bool = False,
        **settings: Unpack[QueueOptions],
    ) -> Queue[Any]: ...

    def queue(
        self,
        name: str,
        *,
        payload: Any = None,
        shared: bool = False,
        **settings: Unpack[QueueOptions],
    ) -> Queue[Any]:
        """Declares a queue, and returns it to send to.

        A queue declared without settings keeps the stored ones. `payload` is the type of its
        bodies: a msgspec struct, a dataclass or a Pydantic model. A `shared` queue takes messages
        of all tenants.

        Settings: `max_batch_size`, `max_batch_timeout`, `max_retries`, `dead_letter_queue`,
        `retention_seconds`, `visibility_timeout_seconds`, `timeout_seconds`, `backoff`,
        `tenant_claimed_max`, `rate_per_second`, `backlog_bytes_max`, `push_to` (an endpoint, which
        then consumes the queue), `limit` (a named one, which it shares); `history`,
        `history_seconds`, `history_bodies` (which records of ended messages it keeps).
        """
        check_own_queue("name", name)
        registry = self._engine.registry
        is_bare = not settings and not shared and payload is None
        if not (is_bare and name in registry.queues):
            registry.add_queue(
                QueueDeclaration(
                    name=name,
                    settings=queue_settings(name, {**settings}),
                    payload=Payload(Any if payload is None else payload),
                    is_shared=shared,
                    has_settings=bool(settings),
                )
            )
        return Queue(self._engine, name)

    @overload
    def consumer(self, queue: Queue[T], **options: Unpack[BatchOptions]) -> HandlesBatchesOf[T]: ...

    @overload
    def consumer(
        self, queue: str, **options: Unpack[BatchOptions]
    ) -> Callable[[OnBatch], OnBatch]: ...

    def consumer(self, queue: Queue[Any] | str, **options: Unpack[BatchOptions]) -> Any:
        """Declares a function that handles the queue's messages in batches.

        Options: `isolation` (task or thread; a process handles one message at a time: `app.on`),
        `max_concurrency`.
        """

        name = queue_name(queue)

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            self._declare(name, None, function, is_batch=True, options={**options})
            return function

        check_own_queue("queue", name)
        return declare

    @overload
    def on(
        self,
        queue: Queue[T],
        type: str | None = None,
        **options: Unpack[HandlerOptions],
    ) -> HandlesMessagesOf[T]: ...

    @overload
    def on(
        self,
        queue: str,
        type: str | None = None,
        **options: Unpack[HandlerOptions],
    ) -> Callable[[OnMessage], OnMessage]: ...

    def on(
        self,
        queue: Queue[Any] | str,
        type: str | None = None,  # noqa: A002  the common word for it
        **options: Unpack[HandlerOptions],
    ) -> Any:
        """Declares a function that handles the queue's messages of one type, one at a time.
        Without a type it gets the messages that no other handler takes.

        Options: `isolation`, `max_concurrency`, `cpu_seconds`, `memory_bytes`.
        """
        name = queue_name(queue)

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            self._declare(name, type, function, is_batch=False, options={**options})
            return function

        check_own_queue("queue", name)
        check_type_name(type)
        return declare

    def on_completed(
        self, queue: Queue[Any] | str, *, max_concurrency: int | None = None
    ) -> Callable[[OnCompletion], OnCompletion]:
        """Declares a coroutine function that gets each completed batch of the queue. Like every
        handler it is retried when it fails."""
        name = queue_name(queue)
        check_own_queue("queue", name)
        options = {} if max_concurrency is None else {"max_concurrency": max_concurrency}

        def declare(function: OnCompletion) -> OnCompletion:
            handler = completion_handler(function, self._engine.open, options)
            registry = self._engine.registry
            with registry.atomic():
                completions = registry.add_completion(name)
                self._declare(
                    completions, BATCH_COMPLETED, handler, is_batch=False, options=options
                )
            return function

        return declare

    @overload
    async def batch(
        self,
        queue: Queue[T],
        items: Iterable[Given[T | Outgoing[T]]],
        *,
        completion_queue: Queue[Any] | str | None = None,
        batch_id: GivenId | None = None,
        detached: bool = False,
        connection: object = None,
        **options: Unpack[SendOptions],
    ) -> BatchHandle: ...

    @overload
    async def batch(
        self,
        queue: str,
        items: Iterable[object],
        *,
        completion_queue: Queue[Any] | str | None = None,
        batch_id: GivenId | None = None,
        detached: bool = False,
        connection: object = None,
        **options: Unpack[SendOptions],
    ) -> BatchHandle: ...

    async def batch(
        self,
        queue: Queue[Any] | str,
        items: Iterable[object],
        *,
        completion_queue: Queue[Any] | str | None = None,
        batch_id: GivenId | None = None,
        detached: bool = False,
        connection: object = None,
        **options: Unpack[SendOptions],
    ) -> BatchHandle:
        """Sends a message for each item and counts them together. The options apply to each;
        an item `Outgoing(body, …)` has its own, which replace them.

        Inside a handler the batch commits with the ack of the handled message. With `detached` it
        is stored at once: for more items than fit into one transaction. With your own `connection`
        it commits with the transaction that is open on it, and has at most 10,000 items. The same
        `batch_id` makes the same batch, however often it is sent.
        """
        check_batch_arguments(items, batch_id)
        own_id = None if batch_id is None else read_id("batch_id", batch_id)
        engine, name = self._engine, queue_name(queue)
        completions = None if completion_queue is None else queue_name(completion_queue)
        if connection is not None:
            async with engine.verb_context(connection) as context:
                await check_batch_queues(
                    context, engine.registry, queue=name, completion_queue=completions
                )
                return await engine.batch_maker.make_for_caller(
                    context,
                    name,
                    items,
                    completion_queue=completions or engine.registry.completions.get(name),
                    batch_id=own_id,
                    options={**options},
                )
        await check_queues_exist(
            engine.open,
            engine.registry,
            engine.scope,
            queue=name,
            completion_queue=completions,
        )
        return await engine.batch_maker.make(
            engine.scope,
            name,
            items,
            completion_queue=completions or engine.registry.completions.get(name),
            batch_id=own_id,
            detached=detached,
            options={**options},
        )

    def _declare(
        self,
        queue: str,
        type_: str | None,
        function: Callable[..., Any],
        *,
        is_batch: bool,
        options: dict[str, Any],
        payload: Payload[Any] | None = None,
        is_firing: bool = False,
    ) -> None:
        if payload is None:
            payload = Payload(declared_payload(function, MessageBatch if is_batch else Message))
        is_coroutine = asyncio.iscoroutinefunction(function)
        self._engine.registry.add_handler(
            HandlerDeclaration(
                queue=queue,
                function=function,
                payload=payload,
                is_batch=is_batch,
                is_firing=is_firing,
                type=type_,
                **handler_options(options, is_coroutine=is_coroutine, is_batch=is_batch),
            )
        )
