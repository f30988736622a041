"""Messages as JSON objects, as HTTP sends them: alone, many at once, or as items of a batch."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from msgspec import structs

from tickwork.core.fields import FAULTS_MAX, Reader, read_id, shown, unknown_faults
from tickwork.core.limits import BATCH_MESSAGES_MAX, check_item
from tickwork.core.message.batch import BATCH_ITEMS_MAX, Batch, NewBatch
from tickwork.core.model import ContentType, NewMessage
from tickwork.core.options import names_of
from tickwork.core.options.message import SendOptions
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.queues import queue_names
from tickwork.ops.quotas import admit
from tickwork.ops.requests import ids_from
from tickwork.ops.send import compose
from tickwork.ops.types import check_messages, known_types

T = TypeVar("T")

MESSAGE_FIELDS = names_of(SendOptions) | {"body", "id"}
"""The fields of a message as JSON."""

INLINE_MAX = 100
"""Number of messages that are read in the event loop; more are read in a thread."""

_UUID_VERSION = 7


def read_message(fields: Mapping[str, object], *, message_id: UUID | None = None) -> NewMessage:
    """The message that an object describes. The body of content type `bytes` is base64.

    Without an `id` it has `message_id`, or a new one. Raises `InvalidInput`.
    """
    faults: list[FieldError] = []
    Reader(fields, faults).refuse_unknown(MESSAGE_FIELDS)
    if "body" not in fields:
        faults.append(FieldError("body", "is missing; null is a body, too"))
    if faults:
        raise InvalidInput(faults)
    options: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    given_id, body = options.pop("id", None), fields["body"]
    options.pop("body", None)
    if options.get("content_type") == ContentType.BYTES:
        body = _from_base64(body)
    message = compose(body, **options)
    chosen = message_id if given_id is None else _read_own_id(given_id)
    return message if chosen is None else structs.replace(message, id=chosen)


def read_messages(
    given: object,
    *,
    common: Mapping[str, object],
    field: str,
    ids: Sequence[UUID] = (),
    count_max: int = BATCH_MESSAGES_MAX,
) -> list[NewMessage]:
    """The messages that a list of objects describes. Their own fields replace the `common` ones.
    Raises `InvalidInput` with the faults of all of them, such as `messages[3].priority`."""
    if not isinstance(given, list):
        raise InvalidInput([FieldError(field, f"must be a list of messages, not {shown(given)}")])
    if len(given) > count_max:
        fault = f"has {len(given)} messages; at most {count_max}"
        raise InvalidInput([FieldError(field, fault)])
    faults: list[FieldError] = []
    messages: list[NewMessage] = []
    for index, fields in enumerate(given):
        where = f"{field}[{index}]"
        if not isinstance(fields, dict):
            fault = f'must be an object such as {{"body": …}}, not {shown(fields)}'
            faults.append(FieldError(where, fault))
            continue
        try:
            own_id = ids[index] if index < len(ids) else None
            messages.append(read_message({**common, **fields}, message_id=own_id))
        except InvalidInput as error:
            faults += [fault._replace(field=f"{where}.{fault.field}") for fault in error.errors]
        if len(faults) >= FAULTS_MAX:
            break
    if faults:
        raise InvalidInput(faults)
    return messages


async def read_batch(
    context: Context, queue: str, given: object, *, common: Mapping[str, object], seed: UUID
) -> list[NewMessage]:
    """The messages of a `send_batch`, with ids from the seed unless they have their own. They fit
    the types that are declared for the queue, or `InvalidInput` is raised."""
    types = await known_types(context, (queue,))
    count = min(len(given), BATCH_MESSAGES_MAX) if isinstance(given, list) else 0

    def read() -> list[NewMessage]:
        messages = read_messages(given, common=common, field="messages", ids=ids_from(seed, count))
        check_messages(types, queue, messages, field="messages")
        return messages

    return await _aside(count, read)


async def _aside(count: int, work: Callable[[], T]) -> T:
    """Does the work on so many messages in the event loop, or in a thread."""
    return work() if count <= INLINE_MAX else await asyncio.to_thread(work)


async def create_from_objects(
    context: Context,
    queue: str,
    given: list[Any],
    *,
    batch_id: UUID,
    completion_queue: str | None = None,
    is_open: bool = False,
) -> Batch:
    """Creates a batch from items as JSON objects, each with a body and options of its own. Raises
    `InvalidInput`, before anything is stored, for `items[7].priority`, and for a body that does not
    fit the types that are declared for the queue. One that `is_open` takes more items until
    `close_batch`."""
    items = await _read_items(given, batch_id)
    await _check_types(context, queue, items)
    await admit(context, items)
    batch = NewBatch(id=batch_id, queue=queue, completion_queue=completion_queue)
    if not is_open:
        return await context.store.batches.create(context.scope, batch, items)
    opened = await context.store.batches.open(context.scope, batch)
    return await context.store.batches.add(context.scope, batch, items) if items else opened


async def add_objects(context: Context, batch_id: UUID, given: list[Any], *, seed: UUID) -> Batch:
    """Adds items as JSON objects to an open batch, all or none. They are checked as those of a new
    batch are. Raises `Conflict` if it is closed."""
    items = await _read_items(given, seed)
    known = await context.store.batches.get(context.scope, batch_id)
    queue = (await queue_names(context)).get(known.queue_id)
    if queue is None:
        raise NotFound("queue", known.queue_id)
    await _check_types(context, queue, items)
    await admit(context, items)
    return await context.store.batches.add(context.scope, NewBatch(id=batch_id, queue=queue), items)


async def _read_items(given: list[Any], seed: UUID) -> list[NewMessage]:
    return await _aside(len(given), partial(_items, given, seed))


async def _check_types(context: Context, queue: str, items: list[NewMessage]) -> None:
    types = await known_types(context, (queue,))
    await _aside(len(items), partial(check_messages, types, queue, items, field="items"))


def _items(given: list[Any], seed: UUID) -> list[NewMessage]:
    ids = ids_from(seed, len(given))
    items = read_messages(given, common={}, field="items", ids=ids, count_max=BATCH_ITEMS_MAX)
    for index, item in enumerate(items):
        check_item(item, index)
    return items


def read_body(fields: Mapping[str, object]) -> tuple[bytes, ContentType]:
    """The encoded body of an object with a `body` and a `content_type`. Raises `InvalidInput`."""
    unknown = unknown_faults(fields, frozenset({"body", "content_type"}))
    if unknown:
        raise InvalidInput(unknown)
    message = read_message(fields)
    return message.body, message.content_type


def _from_base64(body: object) -> bytes:
    try:
        if isinstance(body, str):
            return b64decode(body, validate=True)
    except (Base64Error, ValueError):
        pass
    raise InvalidInput([FieldError("body", "must be base64, as content_type is bytes")])


def _read_own_id(given: object) -> UUID:
    found = read_id("id", given)
    if found.version != _UUID_VERSION:
        fault = f"must be a UUIDv7, which sorts by its time, not {shown(given)}"
        raise InvalidInput([FieldError("id", fault)])
    return found
