"""Routes for messages: send, list, get, delete."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, FromQuery, QueryParameter

from tickwork.api.once import IdempotencyKey, once
from tickwork.api.operation import Routes
from tickwork.api.pages import (
    PAGE_LIMIT,
    Cursor,
    Limit,
    Listed,
    Page,
    read_cursor,
    read_filtered,
)
from tickwork.api.query import body_reader, finished
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.ids import Id, Prefix, read_path_id
from tickwork.core.answers.message import Sent, SentBatch, StoredMessage
from tickwork.core.limits import DELAY_SECONDS_MAX
from tickwork.core.message.message_list import MessagePosition, MessageSelection, ShownState
from tickwork.core.options.message import ManyMessages, MessageFields
from tickwork.errors import NotFound
from tickwork.ops import messages, queues, send, types
from tickwork.ops.context import Context
from tickwork.ops.read_message import read_batch, read_message

routes = Routes("messages")

_AGE_SECONDS_MAX = 400 * 86_400.0


_SEND = [
    Example(summary="A message", value={"body": {"to": "ada@example.com"}}),
    Example(
        summary="An event, in a minute",
        value={
            "body": {"order": 17},
            "type": "order.paid",
            "event_id": "order-17-paid",
            "key": "order-17",
            "delay_seconds": 60,
        },
    ),
]
_SEND_BATCH = [
    Example(
        summary="Two messages with their own delays",
        value={"messages": [{"body": 1, "delay_seconds": 0}, {"body": 2, "delay_seconds": 60}]},
    )
]


@routes.post(
    "/v1/queues/{queue:str}/messages",
    "Send a message",
    needs=Permission.SEND,
    status=201,
    body=MessageFields,
    problems=(409, 429),
)
async def send_message(
    queue: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_SEND)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[Sent]:
    """Stores a message durably before it answers."""
    queues.check_visible(queue)

    async def make(seed: UUID) -> Sent:
        message = read_message(data, message_id=seed)
        await types.check_sends(context, queue, [message])
        await send.send(context, queue, message)
        return Sent(Id.of(Prefix.MESSAGE, message.id), message.event_id)

    return await once(make, context=context, caller=caller, request=request, key=idempotency_key)


@routes.post(
    "/v1/queues/{queue:str}/messages/batch",
    "Send up to 10,000 messages",
    needs=Permission.SEND,
    status=201,
    body=ManyMessages,
    problems=(409, 429),
)
async def send_messages(
    queue: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_SEND_BATCH)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[SentBatch]:
    """Stores all of the messages or none."""
    queues.check_visible(queue)
    reader = body_reader(data, "messages", "delay_seconds")
    common: dict[str, object] = {}
    if reader.has("delay_seconds"):
        delay = reader.number_between("delay_seconds", 0, DELAY_SECONDS_MAX, "a number of seconds")
        common["delay_seconds"] = delay
    finished(reader)
    given = data.get("messages")

    async def make(seed: UUID) -> SentBatch:
        new = await read_batch(context, queue, given, common=common, seed=seed)
        sent = await send.send_batch(context, queue, new)
        return SentBatch(tuple(Id.of(Prefix.MESSAGE, message_id) for message_id in sent))

    return await once(make, context=context, caller=caller, request=request, key=idempotency_key)


@routes.get("/v1/queues/{queue:str}/messages", "List messages", needs=Permission.READ)
async def list_messages(
    queue: FromPath[str],
    context: NamedDependency[Context],
    in_state: Annotated[ShownState | None, QueryParameter(name="state")] = None,
    of_type: Annotated[str | None, QueryParameter(name="type")] = None,
    key: FromQuery[str | None] = None,
    correlation_id: FromQuery[str | None] = None,
    older_than: Annotated[
        float | None,
        QueryParameter(ge=0, le=_AGE_SECONDS_MAX, description="Seconds since it was sent."),
    ] = None,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[StoredMessage]:
    """Returns the messages of a queue that are not settled: claimed ones, then ready and delayed
    ones in the order in which they are handed out, then blocked ones by key. Those of one
    `correlation_id` come by id.

    A page looks at 10,000 messages for each 64 that it shows. Where few match it is short or empty,
    and its `next_cursor` goes on behind them: the last page is the one without a `next_cursor`.
    """
    queues.check_visible(queue)
    store = context.store
    sent_until = None
    if older_than is not None:
        sent_until = await messages.database_time(store) - timedelta(seconds=older_than)
    selection = MessageSelection(
        state=in_state,
        type=of_type,
        key=key,
        correlation_id=correlation_id,
        sent_until=sent_until,
    )
    after: MessagePosition | None = read_cursor(cursor, MessagePosition)

    async def read(
        count: int, after: MessagePosition | None
    ) -> Listed[StoredMessage, MessagePosition]:
        found = await messages.list_messages(
            context, queue, selection, limit=count, after=after, as_json=True
        )
        return Listed(found.messages, found.next)

    return await read_filtered(read, limit, after)


@routes.get(
    "/v1/queues/{queue:str}/messages/{message_id:str}",
    "Get a message of a queue",
    needs=Permission.READ,
)
async def get_queue_message(
    queue: FromPath[str], message_id: FromPath[str], context: NamedDependency[Context]
) -> StoredMessage:
    """Returns one message that is not settled yet."""
    queues.check_visible(queue)
    wanted = read_path_id(Prefix.MESSAGE, message_id, "message")
    return await messages.show_message(context, wanted, queue=queue, as_json=True)


@routes.get("/v1/messages/{message_id:str}", "Get a message", needs=Permission.READ)
async def get_message(
    message_id: FromPath[str], context: NamedDependency[Context]
) -> StoredMessage:
    """Returns one message that is not settled yet, in whatever queue it is."""
    wanted = read_path_id(Prefix.MESSAGE, message_id, "message")
    return await messages.show_message(context, wanted, as_json=True)


@routes.delete(
    "/v1/queues/{queue:str}/messages/{message_id:str}",
    "Delete a message",
    needs=Permission.MANAGE,
    status=204,
)
async def delete_message(
    queue: FromPath[str], message_id: FromPath[str], context: NamedDependency[Context]
) -> None:
    """Deletes a message that is not claimed; 404 if there is none."""
    queues.check_visible(queue)
    wanted = read_path_id(Prefix.MESSAGE, message_id, "message")
    if not await messages.delete_message(context, queue, wanted):
        raise NotFound("message", message_id, "it is settled, or claimed by a worker")
