"""Batches as an app makes them: stored at once, or in a handler with the end of its message.

```
  outside a handler ─────────────▶ stored at once, in pieces
  in a handler ──────────────────▶ kept, and commits whole with the ack
  in a handler, detached ────────▶ stored at once, in pieces; made again, it is the same batch
```

Batches of plain bodies: composed one by one while the store takes them in pieces.

Watching a batch: how far it is and how fast it goes, until it is completed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import partial, wraps
from itertools import islice
from math import inf
from reprlib import repr as shortened
from typing import Any
from uuid import UUID

from msgspec import Struct

from tickwork.app.handlers import kind_faults, name_of, shape_fault
from tickwork.app.handling import BatchNotStored, Handling, current_handling
from tickwork.app.message import Message as Told
from tickwork.clock import monotonic
from tickwork.core.limits import check_item, check_new_batch
from tickwork.core.message.batch import (
    Batch,
    BatchItem,
    BatchStatus,
    ItemStatus,
    NewBatch,
    ProgressRate,
)
from tickwork.core.message.body import GivenContentType
from tickwork.core.message.decide import caused_by
from tickwork.core.model import BatchWithItems, ContentType, Message, NewMessage, Scope
from tickwork.errors import FieldError, InvalidInput, NotFound, TickworkError
from tickwork.ops.send import RegistryComposer, check_one_event, compose, is_many
from tickwork.ops.stores import LoopStores
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

PROGRESS_ITEMS = 1_000
"""After so many items their number is told."""

LIST_LIMIT = 100
"""Number of batches or items that a list returns unless the caller gives a limit."""

OnProgress = Callable[[int], None]


async def get_batch(store: Store, scope: Scope, batch_id: UUID) -> Batch:
    """Returns a batch with its exact progress; raises `NotFound` if there is none of that id."""
    return await store.batches.get(scope, batch_id)


async def list_batches(store: Store, scope: Scope, *, limit: int = LIST_LIMIT) -> tuple[Batch, ...]:
    """Returns the latest batches, newest first."""
    return await store.batches.list(scope, limit)


async def list_items(
    store: Store,
    scope: Scope,
    batch_id: UUID,
    status: ItemStatus,
    *,
    limit: int = LIST_LIMIT,
    after: UUID | None = None,
) -> tuple[BatchItem, ...]:
    """Returns the items of a batch that have a status, by id, starting after the item `after`."""
    return await store.batches.items(scope, batch_id, status, limit, after=after)


async def cancel_batch(store: Store, scope: Scope, batch_id: UUID) -> Batch:
    """Deletes the items of a batch that no worker has claimed; they count as failed.

    A batch that is still being filled takes no more items. Its completion event is sent.
    """
    return await store.batches.cancel(scope, batch_id)


async def create_batch(
    store: Store,
    scope: Scope,
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
    """Makes a batch with a message for each body; the options are those of every message.

    Whoever may have to repeat this gives the id: then it goes on after what is stored. A body
    that cannot be stored is refused as `items[7].body`, and what came before it stays.
    """
    batch = NewBatch(id=batch_id or new_id(), queue=queue, completion_queue=completion_queue)
    options["content_type"] = content_type
    items = compose_items(of_one_event(bodies, options), composing, options, on_progress)
    return await store.batches.create(scope, batch, items)


def of_one_event(bodies: Iterable[object], options: dict[str, Any]) -> Iterable[object]:
    """The bodies as they are; with an `event_id`, `InvalidInput` for more than one, before anything
    is stored."""
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
    """A message of each body, one after the other; a fault is named by the item's place."""
    number = 0
    for number, body in enumerate(bodies, start=1):
        try:
            message = composing(body, **options)
        except InvalidInput as error:
            place = f"items[{number - 1}]"
            faults = [FieldError(f"{place}.{each.field}", each.message) for each in error.errors]
            raise InvalidInput(faults) from None
        yield message
        if on_progress is not None and number % PROGRESS_ITEMS == 0:
            on_progress(number)
    if on_progress is not None and number % PROGRESS_ITEMS:
        on_progress(number)


WAIT_SECONDS_MIN = 0.05
WAIT_SECONDS_MAX = 2.0


class RunningBatch:
    """A batch that was made: how far it is.

    While the handler runs that made it, it is not there: `BatchNotStored`.
    """

    def __init__(
        self,
        stores: LoopStores,
        scope: Scope,
        batch_id: UUID,
        kept_by: Handling | None = None,
    ) -> None:
        self._stores, self._scope, self._id = stores, scope, batch_id
        self._kept_by = kept_by

    @property
    def id(self) -> str:
        return str(self._id)

    async def progress(self) -> Batch:
        """How many items are where, exactly."""
        return await (await self._stored()).batches.get(self._scope, self._id)

    async def items(self, status: ItemStatus, limit: int = 100) -> tuple[BatchItem, ...]:
        """The first items of a status; its name will do."""
        faults = kind_faults("limit", limit, int)
        if status not in [*ItemStatus]:
            fault = f"must be one of {', '.join(ItemStatus)}, not {shortened(status)}"
            faults.append(FieldError("status", fault))
        if faults:
            raise InvalidInput(faults)
        status = ItemStatus(status)
        store = await self._stored()
        return await store.batches.items(self._scope, self._id, status, limit)

    async def wait(self, timeout_seconds: float | None = None) -> Batch:
        """Returns when all items have ended; `TimeoutError` if that takes longer than this. In a
        test, where a harness has the app, they end by themselves only while it drains: without a
        limit, and outside of a handler, that is `InvalidInput`."""
        faults = kind_faults("timeout_seconds", timeout_seconds, float | None)
        if timeout_seconds != timeout_seconds:
            faults.append(FieldError("timeout_seconds", "must be a number of seconds, not NaN"))
        if faults:
            raise InvalidInput(faults)
        pause = WAIT_SECONDS_MIN
        until = inf if timeout_seconds is None else monotonic() + timeout_seconds
        while (progress := await self.progress()).status is not BatchStatus.COMPLETED:
            if timeout_seconds is None and current_handling() is None:
                self._stores.check_own("batch.wait()")
            left = until - monotonic()
            if left <= 0:
                ended = progress.completed + progress.failed
                raise TimeoutError(
                    f"batch {self.id}: {ended} of {progress.total} items have ended after "
                    f"{timeout_seconds:g} s"
                )
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, WAIT_SECONDS_MAX)
        return progress

    async def cancel(self) -> Batch:
        """Ends what has not begun."""
        return await (await self._stored()).batches.cancel(self._scope, self._id)

    async def _stored(self) -> Store:
        if self._kept_by is not None and not self._kept_by.has_ended:
            raise BatchNotStored(self.id)
        return await self._stores.get()


def check_batch_arguments(items: object, batch_id: object) -> None:
    """Raises `InvalidInput` for what is no batch, before anything is stored of it."""
    faults: list[FieldError] = []
    if not is_many(items):
        fault = (
            f"must be the bodies, such as a list of them, not {shortened(items)}; one alone: [body]"
        )
        faults.append(FieldError("items", fault))
    if not isinstance(batch_id, UUID | None):
        fault = f"must be a UUID, such as uuid.uuid4() or uuid.UUID(…), not {shortened(batch_id)}"
        faults.append(FieldError("batch_id", fault))
    if faults:
        raise InvalidInput(faults)


def told_of_ends(
    function: Callable[..., Any],
    open_store: Callable[[], Awaitable[Store]],
    options: Mapping[str, object],
) -> Callable[..., Any]:
    """A handler of messages that gives the function the batch whose end a message tells of;
    `InvalidInput` for what cannot be told."""
    if not asyncio.iscoroutinefunction(function) or "isolation" in options:
        fault = "is told of completed batches: it must be a coroutine function, in a task"
        raise InvalidInput([FieldError(name_of(function), fault)])
    if (misshapen := shape_fault(function)) is not None:
        raise InvalidInput([FieldError(name_of(function), misshapen)])

    @wraps(function)
    async def told(message: Told[Any]) -> None:
        store, batch_id = await open_store(), UUID(message.body["batch_id"])
        await function(await store.batches.get(Scope(message.tenant), batch_id))

    return told


class BatchMaker:
    """Makes the batches of an app."""

    def __init__(
        self,
        stores: LoopStores,
        ensure: Callable[[str], Awaitable[None]],
        compose: RegistryComposer,
    ) -> None:
        self._stores, self._ensure, self._compose = stores, ensure, compose

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
    ) -> RunningBatch:
        """A message of each body, counted together."""
        handling = self._compose.handling()
        if handling is None:
            batch = NewBatch(
                id=batch_id or new_id(), queue=queue, completion_queue=completion_queue
            )
            is_ours = batch_id is None
            return await self._store(scope, batch, bodies, options, is_ours=is_ours)
        # Before anything is waited for: batches that are made side by side keep their numbers.
        number, cause = handling.number_batch(), handling.cause
        scope = Scope(cause.tenant) if cause else scope
        if not detached:
            batch = NewBatch(
                id=batch_id or new_id(), queue=queue, completion_queue=completion_queue
            )
            return await self._keep(handling, scope, batch, bodies, options)
        batch_id = batch_id or handling.detached_id(number)
        if batch_id is None:
            fault = (
                "is needed for a detached batch of a handler that is given several messages: they "
                "are put together anew when they come again, and nothing else would tell that it "
                "is the same batch"
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
    ) -> RunningBatch:
        """Stores it now, in pieces. If its id `is_ours` nobody could go on with it, or cancel it:
        what is refused later is taken back."""
        store = await self._stores.get()
        await self._ensure_queues(batch)

        def composing(body: object, **options: Any) -> NewMessage:
            message = self._compose(batch.queue, body, **options).message
            return caused_by(cause, message) if cause else message

        async with AsyncExitStack() as left:
            if is_ours:
                left.push_async_exit(partial(_withdraw, store, scope, batch.id))
            await create_batch(
                store,
                scope,
                batch.queue,
                bodies,
                batch_id=batch.id,
                completion_queue=batch.completion_queue,
                composing=composing,
                **options,
            )
        return RunningBatch(self._stores, scope, batch.id)

    async def _keep(
        self,
        handling: Handling,
        scope: Scope,
        batch: NewBatch,
        bodies: Iterable[object],
        options: dict[str, Any],
    ) -> RunningBatch:
        """Keeps it until the handler ends; what cannot be stored then is refused now."""
        check_new_batch(batch)
        await self._ensure_queues(batch)

        def composing(body: object, **options: Any) -> NewMessage:
            return self._compose(batch.queue, body, **options).message

        # One more than it may have, so that it is refused; there may be any number.
        few = islice(of_one_event(bodies, options), handling.room() + 1)
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
        return RunningBatch(self._stores, scope, batch.id, handling)

    async def _ensure_queues(self, batch: NewBatch) -> None:
        await self._ensure(batch.queue)
        if batch.completion_queue is not None:
            await self._ensure(batch.completion_queue)


async def _withdraw(
    store: Store,
    scope: Scope,
    batch_id: UUID,
    _kind: object,
    error: BaseException | None,
    _trace: object,
) -> None:
    """After an error, takes back what there is of a batch, and tells nobody of its end; if that
    fails the error says which batch it is."""
    if not isinstance(error, Exception | asyncio.CancelledError):
        return  # There is none, or no loop any more in which anything could be done.
    try:
        await store.batches.cancel(scope, batch_id, is_told=False)
    except NotFound:
        return  # It was refused before anything of it was stored.
    except TickworkError as left:
        error.add_note(
            f"what is stored of batch {batch_id} could not be taken back ({left}); do that before "
            f"you repeat it: tickwork batches cancel {batch_id}"
        )


LOOK_SECONDS_MIN = 0.1
LOOK_SECONDS_MAX = 1.0
"""So often we look; less often while nothing changes."""

WATCH_SECONDS_MAX = 30 * 86_400.0


class Progress(Struct, frozen=True):
    """How far a batch is, and how fast it goes. `remaining_seconds` is None while nothing moves,
    and while the batch is filling: nobody knows its total then."""

    batch: Batch
    rate_per_second: float | None = None
    remaining_seconds: float | None = None


async def watch(
    store: Store, scope: Scope, batch_id: UUID, *, timeout_seconds: float | None = None
) -> AsyncIterator[Progress]:
    """How far the batch is, at every look. The last is the one at its completion, or the one when
    the time was up."""
    if timeout_seconds is not None and not 0 <= timeout_seconds <= WATCH_SECONDS_MAX:
        told = f"must be from 0 to {WATCH_SECONDS_MAX:.0f}, not {timeout_seconds:g}"
        raise InvalidInput([FieldError("timeout_seconds", told)])
    speed, seen, pause = ProgressRate(), None, LOOK_SECONDS_MIN
    until = monotonic() + (WATCH_SECONDS_MAX if timeout_seconds is None else timeout_seconds)
    while True:
        batch, now = await store.batches.get(scope, batch_id), monotonic()
        speed.add(now, batch.completed + batch.failed)
        is_whole = batch.status is not BatchStatus.FILLING
        left = speed.remaining_seconds(batch.total) if is_whole else None
        yield Progress(batch, speed.per_second, left)
        if batch.status is BatchStatus.COMPLETED or now >= until:
            return
        pause = min(pause * 2, LOOK_SECONDS_MAX) if batch == seen else LOOK_SECONDS_MIN
        seen = batch
        await asyncio.sleep(min(pause, until - now))
