"""Reads messages: one by its id, or the next ones of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.answers.cluster import Node
from tickwork.core.answers.ids import spellings
from tickwork.core.answers.message import StoredMessage
from tickwork.core.message.body import body_in_json, decode_body
from tickwork.core.message.message_list import LOOKED_AT_MAX, MessagePosition, MessageSelection
from tickwork.core.model import SYSTEM, Message, State
from tickwork.errors import NotFound
from tickwork.ops.audit import recorded
from tickwork.ops.cluster import list_nodes
from tickwork.ops.context import Context
from tickwork.store.contract import Store

PEEK_LIMIT = 100
"""Number of messages that `peek` returns unless the caller gives a limit."""


async def get_message(context: Context, message_id: UUID, *, queue: str | None = None) -> Message:
    """Returns one message that is not settled yet, of a queue or of any; raises `NotFound` if there
    is none."""
    return await context.store.messages.get(context.scope, queue, message_id)


async def peek(context: Context, queue: str, *, limit: int = PEEK_LIMIT) -> tuple[Message, ...]:
    """Returns the next ready messages of a queue, oldest visible first, without claiming them."""
    return await context.store.messages.peek(context.scope, queue, limit)


async def delete_message(context: Context, queue: str, message_id: UUID) -> bool:
    """Deletes a message that no worker has claimed; returns False if there is none to delete."""
    async with recorded(context, "message.delete", message_id):
        return await context.store.messages.delete(context.scope, queue, message_id)


async def show_message(
    context: Context, message_id: UUID, *, queue: str | None = None, as_json: bool = False
) -> StoredMessage:
    """Returns one message as users see it; raises `NotFound` if there is none. With `as_json` its
    body is one to be sent as a part of JSON."""
    found = await get_message(context, message_id, queue=queue)
    names = {stored.id: stored.name for stored in await context.store.queues.list(context.scope)}
    name = names.get(found.queue_id, queue or "")
    (shown,) = await _shown_all(context.store, (found,), name, as_json=as_json)
    return shown


async def show_next(
    context: Context, queue: str, *, limit: int = PEEK_LIMIT
) -> tuple[StoredMessage, ...]:
    """Returns the next ready messages of a queue as users see them."""
    return await _shown_all(context.store, await peek(context, queue, limit=limit), queue)


async def list_messages(
    context: Context,
    queue: str,
    selection: MessageSelection,
    *,
    limit: int,
    after: MessagePosition | None = None,
    as_json: bool = False,
) -> ListedMessages:
    """Returns the selected messages of a queue after a position, as users see them. With `as_json`
    their bodies are to be sent as a part of JSON.

    A page may be short, or empty, and have a next one: where few messages match a filter, it looks
    at `LOOKED_AT_MAX` of them.
    """
    selection = await _spelled(context, queue, selection)
    found = await context.store.messages.list(
        context.scope, queue, selection, limit, after=after, looked_at_max=LOOKED_AT_MAX
    )
    shown = await _shown_all(context.store, found.messages, queue, as_json=as_json)
    return ListedMessages(shown, found.next)


async def _spelled(context: Context, queue: str, selection: MessageSelection) -> MessageSelection:
    """The selection with its correlation id in the spelling that messages of the queue have."""
    for spelling in spellings(selection.correlation_id or ""):
        spelled = structs.replace(selection, correlation_id=spelling)
        if (await context.store.messages.list(context.scope, queue, spelled, 1)).messages:
            return spelled
    return selection


async def first_messages(
    context: Context, queue: str, selection: MessageSelection, *, limit: int
) -> tuple[StoredMessage, ...]:
    """Returns the first of the selected messages of a queue, however many it has to look at."""
    found: tuple[StoredMessage, ...] = ()
    after: MessagePosition | None = None
    while True:
        rest = limit - len(found)
        page = await list_messages(context, queue, selection, limit=rest, after=after)
        found += page.messages
        after = page.next
        if after is None or len(found) == limit:
            return found


async def database_time(store: Store) -> datetime:
    """Returns the database's time."""
    return await store.now()


class ListedMessages(NamedTuple):
    """A page of a list, and the position behind which the next one starts; None on the last."""

    messages: tuple[StoredMessage, ...]
    next: MessagePosition | None


class MessageLocation(Struct, frozen=True, kw_only=True):
    """Where a message is: the message, and the process that has claimed it, if any."""

    message: StoredMessage
    node: Node | None = None


async def locate_message(
    context: Context, message_id: UUID, *, queue: str | None = None
) -> MessageLocation:
    """Returns a message and the process that has claimed it; raises `NotFound` if it is gone."""
    try:
        message = await show_message(context, message_id, queue=queue)
    except NotFound as error:
        raise await _why_gone(context, message_id, error) from None
    nodes = await list_nodes(context.store) if message.claimed_by is not None else ()
    holder = next((node for node in nodes if node.id == message.claimed_by), None)
    return MessageLocation(message=message, node=holder)


async def _why_gone(context: Context, message_id: UUID, error: NotFound) -> NotFound:
    if error.kind != "message":
        return error
    try:
        await context.store.dead_letters.get(context.scope, message_id)
    except NotFound:
        hint = "it was handled, deleted or died; `tickwork dead list QUEUE` lists dead letters"
    else:
        hint = "this is the id of a dead letter: see `tickwork dead show`"
    return NotFound("message", message_id, hint)


def shown_state(message: Message, now: datetime) -> str:
    """The state of a message as people see it. A delayed message is stored as ready, and a blocked
    one as `held`."""
    if message.state is State.READY and message.visible_at > now:
        return "delayed"
    return "blocked" if message.state is State.BLOCKED else str(message.state)


async def _shown_all(
    store: Store, found: Sequence[Message], queue: str, *, as_json: bool = False
) -> tuple[StoredMessage, ...]:
    now, nodes = await store.now(), dict[UUID, str]()
    if any(message.holder is not None for message in found):
        nodes = {node.id: node.name for node in await store.nodes.list(SYSTEM)}
    body_of = body_in_json if as_json else decode_body
    return tuple(
        StoredMessage.of(
            message,
            queue=queue,
            state=shown_state(message, now),
            body=body_of(message.body, message.content_type),
            node=None if message.holder is None else nodes.get(message.holder),
        )
        for message in found
    )
