"""Batches of plain bodies: composed one by one while the store takes them in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any
from uuid import UUID

from tickwork.core.message.batch import Batch, NewBatch
from tickwork.core.message.body import GivenContentType
from tickwork.core.model import ContentType, NewMessage, Scope
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.sending import check_one_event, compose
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

PROGRESS_ITEMS = 1_000
"""After so many items their number is told."""

OnProgress = Callable[[int], None]


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
