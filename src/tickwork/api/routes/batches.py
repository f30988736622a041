"""Routes for batches: messages that are counted together, with one event at their end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, FromQuery
from msgspec import Struct

from tickwork.api.once import IdempotencyKey, once
from tickwork.api.operation import Routes
from tickwork.api.pages import (
    PAGE_LIMIT,
    Cursor,
    Limit,
    Page,
    page_of,
    read_cursor,
    read_page,
)
from tickwork.api.query import body_reader, finished, flag
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.batch import BatchAnswer, ItemAnswer
from tickwork.core.answers.ids import Prefix, read_path_id
from tickwork.core.fields import shown
from tickwork.core.message.batch import ItemStatus
from tickwork.core.options import names_of
from tickwork.core.options.message import MoreItems, NewBatchFields
from tickwork.ops import batches
from tickwork.ops.context import Context
from tickwork.ops.queues import check_visible
from tickwork.ops.read_message import add_objects, create_from_objects

_ITEMS_MAX = 10_000
"""Maximum number of items in one request; its body has at most 1 MB."""

_CREATE = [
    Example(
        summary="Two items",
        value={"queue": "emails", "items": [{"body": {"to": "ada"}}, {"body": {"to": "bob"}}]},
    )
]
routes = Routes("batches")


@routes.post(
    "/v1/batches",
    "Create a batch",
    needs=Permission.SEND,
    status=201,
    body=NewBatchFields,
    problems=(404, 409, 429),
)
async def create_batch(
    data: Annotated[dict[str, Any], Body(examples=_CREATE)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[BatchAnswer]:
    """Creates a batch with its items. They run as soon as they are stored. A larger one is opened,
    filled in pieces, and closed."""
    reader = body_reader(data, *names_of(NewBatchFields))
    queue = reader.text("queue")
    completion = reader.text("completion_queue") if reader.has("completion_queue") else None
    is_open = flag(reader, data, "open")
    items = _items(reader)
    finished(reader)
    assert queue is not None
    for name in (queue, completion):
        if name is not None:
            check_visible(name)

    async def make(seed: UUID) -> BatchAnswer:
        made = await create_from_objects(
            context, queue, items, batch_id=seed, completion_queue=completion, is_open=bool(is_open)
        )
        return await batches.show_batch(context, made)

    return await once(make, context=context, caller=caller, request=request, key=idempotency_key)


@routes.post(
    "/v1/batches/{batch:str}/items",
    "Add items to an open batch",
    needs=Permission.SEND,
    status=201,
    body=MoreItems,
    problems=(409, 429),
)
async def add_items(
    batch: FromPath[str],
    data: Annotated[dict[str, Any], Body()],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[BatchAnswer]:
    """Adds items to a batch that was opened, all or none. Add from one place at a time: a request
    that comes while another adds items answers 409."""
    wanted = _id(batch)
    reader = body_reader(data, "items")
    if not reader.has("items"):
        reader.fault("items", "is missing; give a list of messages")
    items = _items(reader)
    finished(reader)

    async def make(seed: UUID) -> BatchAnswer:
        changed = await add_objects(context, wanted, items, seed=seed)
        return await batches.show_batch(context, changed)

    return await once(make, context=context, caller=caller, request=request, key=idempotency_key)


@routes.post("/v1/batches/{batch:str}/close", "Close a batch", needs=Permission.SEND)
async def close_batch(batch: FromPath[str], context: NamedDependency[Context]) -> BatchAnswer:
    """Closes an open batch: it completes with the items that it has."""
    return await batches.close_batch(context, _id(batch))


@routes.post("/v1/batches/{batch:str}/cancel", "Cancel a batch", needs=Permission.SEND)
async def cancel_batch(batch: FromPath[str], context: NamedDependency[Context]) -> BatchAnswer:
    """Deletes the items that no worker has claimed; they count as failed."""
    return await batches.cancel_batch(context, _id(batch))


class _Position(Struct, array_like=True):
    created_at: datetime
    id: UUID


@routes.get("/v1/batches", "List batches", needs=Permission.READ)
async def list_batches(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[BatchAnswer]:
    """Returns batches, newest first."""
    before: _Position | None = read_cursor(cursor, _Position)
    found = await batches.list_batches(
        context,
        limit=limit + 1,
        before=None if before is None else (before.created_at, before.id),
    )
    return page_of(found, limit, lambda batch: _Position(batch.created_at, batch.id.uuid))


@routes.get("/v1/batches/{batch:str}", "Get a batch", needs=Permission.READ)
async def get_batch(batch: FromPath[str], context: NamedDependency[Context]) -> BatchAnswer:
    """Returns a batch with its exact counts."""
    return await batches.get_batch(context, _id(batch))


@routes.get("/v1/batches/{batch:str}/items", "List items of a batch", needs=Permission.READ)
async def list_items(
    batch: FromPath[str],
    context: NamedDependency[Context],
    status: FromQuery[ItemStatus] = ItemStatus.FAILED,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[ItemAnswer]:
    """Returns the items that have a status, by id; by default those that failed."""
    after: UUID | None = read_cursor(cursor, UUID)

    async def read(count: int, after: UUID | None) -> Sequence[ItemAnswer]:
        return await batches.list_items(context, _id(batch), status, limit=count, after=after)

    return await read_page(read, limit, after, lambda item: item.id.uuid)


def _items(reader: Any) -> list[Any]:
    value = reader.value("items")
    if value is None:
        return []
    if not isinstance(value, list):
        reader.fault("items", f"must be a list of messages, not {shown(value)}")
        return []
    if len(value) > _ITEMS_MAX:
        fault = (
            f"has {len(value)} items; at most {_ITEMS_MAX}; open the batch and add them in pieces"
        )
        reader.fault("items", fault)
        return []
    return value


def _id(text: str) -> UUID:
    return read_path_id(Prefix.BATCH, text, "batch")
