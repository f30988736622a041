"""Creates batches, reports their progress, and cancels them.

Where an app creates a batch decides when its items are stored:

```
  outside a handler ─────────────▶ at once, in chunks
  in a handler ──────────────────▶ with the ack, in one transaction
  in a handler, detached ────────▶ at once, in chunks; a retry of the handler continues it
  with a connection ─────────────▶ in the transaction that is open on it
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial, wraps
from itertools import islice
from math import inf
from reprlib import repr as shortened
from typing import Any
from uuid import UUID

from tickwork.app.declarations import Registry
from tickwork.app.handlers import name_of, shape_fault
from tickwork.app.invocation import BatchNotStored, Handling, current_handling
from tickwork.app.message import Message as HandlerMessage
from tickwork.clock import monotonic
from tickwork.core.answers.batch import BatchAnswer, ItemAnswer
from tickwork.core.answers.ids import Id, Prefix, parse_public_id, public_id
from tickwork.core.fields import choice_error, read_id, type_faults
from tickwork.core.limits import ENDING_ITEMS_MAX, check_item, check_new_batch
from tickwork.core.message.batch import (
    Batch,
    BatchStatus,
    ItemStatus,
    NewBatch,
)
from tickwork.core.message.body import is_collection
from tickwork.core.message.decide import caused_by
from tickwork.core.model import BatchWithItems, ContentType, Message, NewMessage, Scope
from tickwork.core.options.message import GivenContentType
from tickwork.errors import FieldError, InvalidInput, NotFound, TickworkError
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.queues import check_queues_exist, queue_names
from tickwork.ops.quotas import admit_items
from tickwork.ops.send import RegistryComposer, check_one_event, compose
from tickwork.ops.stores import LoopStores
from tickwork.ops.types import KnownTypes, check_messages
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

PROGRESS_ITEMS = 1_000
"""Number of items between two calls of `on_progress`."""

LIST_LIMIT = 100
"""Number of batches or items that a list returns unless the caller gives a limit."""

OnProgress = Callable[[int], None]


async def get_batch(context: Context, batch_id: UUID) -> BatchAnswer:
    """Returns a batch with its exact progress; raises `NotFound` if there is none of that id."""
    return await show_batch(context, await context.store.batches.get(context.scope, batch_id))


async def show_batch(context: Context, batch: Batch) -> BatchAnswer:
    """A stored batch as users see it."""
    names = await queue_names(context)
    return BatchAnswer.of(batch, names.get(batch.queue_id))


async def list_batches(
    context: Context,
    *,
    limit: int = LIST_LIMIT,
    before: tuple[datetime, UUID] | None = None,
) -> tuple[BatchAnswer, ...]:
    """Returns the latest batches, newest first, before a time of creation and id."""
    found = await context.store.batches.list(context.scope, limit, before=before)
    names = await queue_names(context)
    return tuple(BatchAnswer.of(batch, names.get(batch.queue_id)) for batch in found)


async def list_items(
    context: Context,
    batch_id: UUID,
    status: ItemStatus,
    *,
    limit: int = LIST_LIMIT,
    after: UUID | None = None,
) -> tuple[ItemAnswer, ...]:
    """Returns the items of a batch that have a status, by id, starting after the item `after`."""
    found = await context.store.batches.items(context.scope, batch_id, status, limit, after=after)
    return tuple(map(ItemAnswer.of, found))


async def cancel_batch(context: Context, batch_id: UUID) -> BatchAnswer:
    """Deletes the items of a batch that no worker has claimed; they count as failed.

    A batch that is still being filled takes no more items. Its completion event is sent.
    """
    async with recorded(context, "batch.cancel", batch_id):
        cancelled = await context.store.batches.cancel(context.scope, batch_id)
    return await show_batch(context, cancelled)


async def create_batch(
    context: Context,
    queue: str,
    bodies: Iterable[object],
    *,
    batch_id: UUID | None = None,
    completion_queue: str | None = None,
    content_type: GivenContentType = ContentType.JSON,
    on_progress: OnProgress | None = None,
    composing: Callable[..., NewMessage] = compose,
    **options: Any,
) -> Batch:
    """Creates a batch with one message per body; the options apply to every message.

    A repeated call with the same `batch_id` continues after the items that are stored. A body that
    cannot be stored raises `InvalidInput` for `items[7].body`; the items before it stay stored.
    """
    batch = NewBatch(id=batch_id or new_id(), queue=queue, completion_queue=completion_queue)
    options["content_type"] = content_type
    items = compose_items(check_single_event(bodies, options), composing, options, on_progress)
    return await context.store.batches.create(
        context.scope, batch, await admit_items(context, items)
    )


async def close_batch(context: Context, batch_id: UUID) -> BatchAnswer:
    """Closes an open batch: it completes with the items that it has."""
    return await show_batch(context, await context.store.batches.close(context.scope, batch_id))


def check_single_event(bodies: Iterable[object], options: dict[str, Any]) -> Iterable[object]:
    """Returns the bodies unchanged. Raises `InvalidInput` before anything is stored if the options
    have an `event_id` and there is more than one body."""
    if options.get("event_id") is None:
        return bodies
    few = [*islice(bodies, 2)]
    check_one_event(len(few), options["event_id"])
    return few


def compose_items(
    bodies: Iterable[object],
    composing: Callable[..., NewMessage],
    options: dict[str, Any],
    on_progress: OnProgress | None = None,
) -> Iterator[NewMessage]:
    """Yields one message per body; the fields of a fault start with the item's index."""
    number = 0
    for number, body in enumerate(bodies, start=1):
        try:
            message = composing(body, **options)
        except InvalidInput as error:
            item = f"items[{number - 1}]"
            faults = [FieldError(f"{item}.{fault.field}", fault.message) for fault in error.errors]
            raise InvalidInput(faults) from None
        yield message
        if on_progress is not None and number % PROGRESS_ITEMS == 0:
            on_progress(number)
    if on_progress is not None and number % PROGRESS_ITEMS:
        on_progress(number)


WAIT_SECONDS_MIN = 0.05
WAIT_SECONDS_MAX = 2.0
"""Seconds between two polls of `wait`, which doubles them up to this maximum."""


_COMPLETED = BatchStatus.COMPLETED


class BatchHandle:
    """A batch that was created, with its progress.

    Inside the handler that created it, it is not stored yet: its methods raise `BatchNotStored`.
    """

    def __init__(
        self,
        stores: LoopStores,
        scope: Scope,
        batch_id: UUID,
        created_in: Handling | None = None,
    ) -> None:
        self._stores = stores
        self._scope = scope
        self._id = batch_id
        self._created_in = created_in

    @property
    def id(self) -> Id:
        return Id.of(Prefix.BATCH, self._id)

    async def progress(self) -> BatchAnswer:
        """Returns the batch with the exact number of items in each status."""
        return await get_batch(await self._context(), self._id)

    async def items(self, status: ItemStatus, limit: int = 100) -> tuple[ItemAnswer, ...]:
        """Returns the first items that have a status, such as `"failed"`."""
        faults = type_faults("limit", limit, int)
        if (message := choice_error(status, ItemStatus)) is not None:
            faults.append(FieldError("status", message))
        if faults:
            raise InvalidInput(faults)
        status = ItemStatus(status)
        return await list_items(await self._context(), self._id, status, limit=limit)

    async def wait(self, timeout_seconds: float | None = None) -> BatchAnswer:
        """Waits until every item has completed or failed, and returns the batch.

        Raises `TimeoutError` after `timeout_seconds`. Under a test harness, items complete only
        while it drains: there, a call without a timeout outside a handler raises `InvalidInput`.
        """
        faults = type_faults("timeout_seconds", timeout_seconds, float | None)
        if timeout_seconds != timeout_seconds:
            faults.append(FieldError("timeout_seconds", "must be a number of seconds, not NaN"))
        if faults:
            raise InvalidInput(faults)
        pause = WAIT_SECONDS_MIN
        until = inf if timeout_seconds is None else monotonic() + timeout_seconds
        context = await self._context()
        batches = context.store.batches
        while (progress := await batches.get(self._scope, self._id)).status is not _COMPLETED:
            if timeout_seconds is None and current_handling() is None:
                self._stores.check_not_in_harness("batch.wait()")
            left = until - monotonic()
            if left <= 0:
                ended = progress.completed + progress.failed
                raise TimeoutError(
                    f"batch {self.id}: {ended} of {progress.total} items completed or failed "
                    f"within {timeout_seconds:g} s"
                )
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, WAIT_SECONDS_MAX)
        return await show_batch(context, progress)

    async def cancel(self) -> BatchAnswer:
        """Deletes the items that no worker has claimed; they count as failed."""
        return await cancel_batch(await self._context(), self._id)

    async def _context(self) -> Context:
        if self._created_in is not None and not self._created_in.has_ended:
            raise BatchNotStored(self.id)
        return Context(await self._stores.get(), self._scope)


async def check_batch_queues(context: Context, registry: Registry, **named: str | None) -> None:
    """Raises `InvalidInput` unless the queues of a batch exist."""

    async def opened() -> Store:
        return context.store

    await check_queues_exist(opened, registry, context.scope, **named)


def check_batch_arguments(items: object, batch_id: object) -> None:
    """Raises `InvalidInput` for wrong arguments, before anything is stored."""
    faults: list[FieldError] = []
    if not is_collection(items):
        fault = (
            f"must be a list or another iterable of bodies, not {shortened(items)}; "
            "for a single body use [body]"
        )
        faults.append(FieldError("items", fault))
    is_text = isinstance(batch_id, str) and parse_public_id(batch_id, Prefix.BATCH) is not None
    if not is_text and not isinstance(batch_id, UUID | None):
        fault = (
            f"must be a UUID, such as uuid.uuid4(), or the id of a batch, not {shortened(batch_id)}"
        )
        faults.append(FieldError("batch_id", fault))
    if faults:
        raise InvalidInput(faults)


def completion_handler(
    function: Callable[..., Any],
    open_store: Callable[[], Awaitable[Store]],
    options: Mapping[str, object],
) -> Callable[..., Any]:
    """Wraps a function into a handler of completion events; the function receives the batch.

    Raises `InvalidInput` for a function that cannot handle them.
    """
    if not asyncio.iscoroutinefunction(function) or "isolation" in options:
        fault = "handles completed batches: it must be a coroutine function, without isolation"
        raise InvalidInput([FieldError(name_of(function), fault)])
    if (misshapen := shape_fault(function)) is not None:
        raise InvalidInput([FieldError(name_of(function), misshapen)])

    @wraps(function)
    async def handle(message: HandlerMessage[Any]) -> None:
        store, batch_id = await open_store(), read_id("batch_id", message.body["batch_id"])
        await function(await get_batch(Context(store, Scope(message.tenant)), batch_id))

    return handle


class BatchMaker:
    """Creates the batches of an app."""

    def __init__(
        self,
        stores: LoopStores,
        ensure: Callable[[str], Awaitable[None]],
        compose: RegistryComposer,
        types_of_others: Callable[[str], Awaitable[KnownTypes | None]],
    ) -> None:
        self._stores = stores
        self._ensure = ensure
        self._compose = compose
        self._types_of_others = types_of_others

    async def make(
        self,
        scope: Scope,
        queue: str,
        bodies: Iterable[object],
        *,
        completion_queue: str | None,
        batch_id: UUID | None,
        detached: bool,
        options: dict[str, Any],
    ) -> BatchHandle:
        """Creates a batch with one message per body."""
        handling = self._compose.handling()
        if handling is None:
            batch = NewBatch(
                id=batch_id or new_id(), queue=queue, completion_queue=completion_queue
            )
            is_ours = batch_id is None
            return await self._store(scope, batch, bodies, options, is_ours=is_ours)
        # Before the first await, so that batches created concurrently are numbered in order.
        number, cause = handling.number_batch(), handling.cause
        scope = Scope(cause.tenant) if cause else scope
        if not detached:
            batch = NewBatch(
                id=batch_id or new_id(), queue=queue, completion_queue=completion_queue
            )
            return await self._add_to_ack(handling, scope, batch, bodies, options)
        batch_id = batch_id or handling.detached_id(number)
        if batch_id is None:
            fault = (
                "is required for a detached batch in a handler of message batches: a retry may "
                "get other messages together, so only the batch_id identifies the batch"
            )
            raise InvalidInput([FieldError("batch_id", fault)])
        batch = NewBatch(id=batch_id, queue=queue, completion_queue=completion_queue)
        return await self._store(scope, batch, bodies, options, cause)

    async def _store(
        self,
        scope: Scope,
        batch: NewBatch,
        bodies: Iterable[object],
        options: dict[str, Any],
        cause: Message | None = None,
        *,
        is_ours: bool = False,
    ) -> BatchHandle:
        """Stores the batch now, in chunks.

        If we chose the id (`is_ours`), the caller could neither continue nor cancel the batch: if
        an item is refused, the items stored before it are deleted.
        """
        store = await self._stores.get()
        await self._ensure_queues(batch)

        composing = await self._composing(batch.queue, cause)
        async with AsyncExitStack() as on_error:
            if is_ours:
                on_error.push_async_exit(partial(_withdraw, Context(store, scope), batch.id))
            await create_batch(
                Context(store, scope),
                batch.queue,
                bodies,
                batch_id=batch.id,
                completion_queue=batch.completion_queue,
                composing=composing,
                **options,
            )
        return BatchHandle(self._stores, scope, batch.id)

    async def make_for_caller(
        self,
        context: Context,
        queue: str,
        bodies: Iterable[object],
        *,
        completion_queue: str | None,
        batch_id: UUID | None,
        options: dict[str, Any],
    ) -> BatchHandle:
        """Creates the batch in a caller's transaction."""
        batch = NewBatch(id=batch_id or new_id(), queue=queue, completion_queue=completion_queue)
        handling = self._compose.handling()
        cause = None if handling is None else handling.cause

        composing = await self._composing(queue, cause)
        # One more than the limit, so that the check refuses it; the iterable may be endless.
        few = islice(check_single_event(bodies, options), ENDING_ITEMS_MAX + 1)
        items = tuple(compose_items(few, composing, options))
        if len(items) > ENDING_ITEMS_MAX:
            fault = (
                f"are more than {ENDING_ITEMS_MAX}, which is too much for your transaction; leave "
                "out the connection, or create several batches"
            )
            raise InvalidInput([FieldError("items", fault)])
        admitted = await admit_items(context, items)
        await context.store.batches.create(context.scope, batch, admitted)
        return BatchHandle(self._stores, context.scope, batch.id)

    async def _add_to_ack(
        self,
        handling: Handling,
        scope: Scope,
        batch: NewBatch,
        bodies: Iterable[object],
        options: dict[str, Any],
    ) -> BatchHandle:
        """Adds the batch to the handler's ack. What the commit would refuse is refused now."""
        check_new_batch(batch)
        await self._ensure_queues(batch)

        composing = await self._composing(batch.queue)
        # One more than the limit, so that the check refuses it; the iterable may be endless.
        few = islice(check_single_event(bodies, options), handling.room() + 1)
        items = tuple(compose_items(few, composing, options))
        for index, item in enumerate(items):
            check_item(item, index)
        handling.batch(
            BatchWithItems(
                id=batch.id,
                queue=batch.queue,
                completion_queue=batch.completion_queue,
                items=items,
            )
        )
        return BatchHandle(self._stores, scope, batch.id, handling)

    async def _composing(
        self, queue: str, cause: Message | None = None
    ) -> Callable[..., NewMessage]:
        """What makes a message of a body. It refuses those that do not fit the types of the queue,
        which this app declares or others."""
        types = await self._types_of_others(queue)

        def composing(body: object, **options: Any) -> NewMessage:
            message = self._compose(queue, body, **options).message
            if types is not None:
                check_messages(types, queue, [message])
            return caused_by(cause, message) if cause else message

        return composing

    async def _ensure_queues(self, batch: NewBatch) -> None:
        await self._ensure(batch.queue)
        if batch.completion_queue is not None:
            await self._ensure(batch.completion_queue)


async def _withdraw(
    context: Context,
    batch_id: UUID,
    _kind: object,
    error: BaseException | None,
    _trace: object,
) -> None:
    """After an error, cancels a batch that is stored in part, without a completion event.

    If that fails, a note on the error names the batch.
    """
    if not isinstance(error, Exception | asyncio.CancelledError):
        return  # No error, or the event loop is ending and can run nothing more.
    try:
        await context.store.batches.cancel(context.scope, batch_id, publish_event=False)
    except NotFound:
        return  # Nothing of it was stored.
    except TickworkError as failure:
        name = public_id(Prefix.BATCH, batch_id)
        error.add_note(
            f"batch {name} is stored in part and could not be cancelled ({failure}); before "
            f"you try again: tickwork batches cancel {name}"
        )
