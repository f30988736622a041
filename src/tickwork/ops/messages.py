"""Reads messages: one by its id, or the next ones of a queue."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct

from tickwork.core.message.body import decode_body
from tickwork.core.message.dead_letter import Death, read_death
from tickwork.core.message.message_list import MessagePosition, MessageSelection, position_of
from tickwork.core.model import ContentType, Message, Scope, State
from tickwork.errors import NotFound
from tickwork.ops.cluster import Node, list_nodes
from tickwork.store.contract import Store

PEEK_LIMIT = 100
"""Number of messages that `peek` returns unless the caller gives a limit."""


async def get_message(
    store: Store, scope: Scope, message_id: UUID, *, queue: str | None = None
) -> Message:
    """Returns one message that is not settled yet; raises `NotFound` if there is none.

    Without a `queue` it looks in every queue of the scope, one query per queue.
    """
    if queue is not None:
        return await store.messages.get(scope, queue, message_id)
    for each in await store.queues.list(scope):
        # In the system scope a name finds only the shared queue: ask as the queue's owner.
        owner = Scope(each.tenant) if scope.is_system else scope
        try:
            return await store.messages.get(owner, each.name, message_id)
        except NotFound:
            continue
    raise NotFound("message", message_id)


async def peek(
    store: Store, scope: Scope, queue: str, *, limit: int = PEEK_LIMIT
) -> tuple[Message, ...]:
    """Returns the next ready messages of a queue, oldest visible first, without claiming them."""
    return await store.messages.peek(scope, queue, limit)


async def delete_message(store: Store, scope: Scope, queue: str, message_id: UUID) -> bool:
    """Deletes a message that no worker has claimed; returns False if there is none to delete."""
    return await store.messages.delete(scope, queue, message_id)


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A message that is not settled yet, as users see it.

    `state` is ready, delayed until `visible_at`, claimed, or blocked behind an earlier message of
    its key. `claimed_by` and `claimed_at` tell who has a claimed
    message, and since when. `attempts` counts handlers that ran and failed, `lost_claims` workers
    that died with it.
    """

    id: UUID
    tenant: str
    queue: str
    state: str
    body: Any
    content_type: ContentType
    type: str | None
    key: str | None
    priority: int
    attempts: int
    lost_claims: int
    claim: int
    claimed_by: UUID | None
    claimed_at: datetime | None
    visible_at: datetime
    sent_at: datetime
    event_id: str | None
    source: str | None
    correlation_id: str | None
    causation_id: str | None
    hops: int
    batch_id: UUID | None
    schedule_id: UUID | None
    slot: datetime | None
    idempotency_key: str | None
    died: Death | None
    last_error: str | None
    waits_for_completion: bool


async def show_message(
    store: Store, scope: Scope, message_id: UUID, *, queue: str | None = None
) -> StoredMessage:
    """Returns one message as users see it; raises `NotFound` if there is none."""
    found = await get_message(store, scope, message_id, queue=queue)
    names = {each.id: each.name for each in await store.queues.list(scope)}
    return _shown(found, names.get(found.queue_id, queue or ""), await store.now())


async def show_next(
    store: Store, scope: Scope, queue: str, *, limit: int = PEEK_LIMIT
) -> tuple[StoredMessage, ...]:
    """Returns the next ready messages of a queue as users see them."""
    found, now = await peek(store, scope, queue, limit=limit), await store.now()
    return tuple(_shown(each, queue, now) for each in found)


async def list_messages(
    store: Store,
    scope: Scope,
    queue: str,
    selection: MessageSelection,
    *,
    limit: int,
    after: MessagePosition | None = None,
) -> tuple[ListedMessage, ...]:
    """Returns the selected messages of a queue after a position, as users see them."""
    found = await store.messages.list(scope, queue, selection, limit, after=after)
    now = await store.now()
    return tuple(ListedMessage(_shown(each, queue, now), position_of(each)) for each in found)


async def database_time(store: Store) -> datetime:
    """Returns the database's time."""
    return await store.now()


class ListedMessage(NamedTuple):
    """A message in a list, and its position there."""

    message: StoredMessage
    position: MessagePosition


class MessageLocation(Struct, frozen=True, kw_only=True):
    """Where a message is: the message, and the process that has claimed it, if any."""

    message: StoredMessage
    node: Node | None = None


async def locate_message(
    store: Store, scope: Scope, message_id: UUID, *, queue: str | None = None
) -> MessageLocation:
    """Returns a message and the process that has claimed it; raises `NotFound` if it is gone."""
    try:
        message = await show_message(store, scope, message_id, queue=queue)
    except NotFound as error:
        raise await _why_gone(store, scope, message_id, error) from None
    nodes = await list_nodes(store) if message.claimed_by is not None else ()
    holder = str(message.claimed_by)
    return MessageLocation(
        message=message, node=next((node for node in nodes if node.id == holder), None)
    )


async def _why_gone(store: Store, scope: Scope, message_id: UUID, error: NotFound) -> NotFound:
    if error.kind != "message":
        return error
    try:
        await store.dead_letters.get(scope, message_id)
    except NotFound:
        hint = "it was handled, deleted or died; `tickwork dead list QUEUE` lists dead letters"
    else:
        hint = "this is the id of a dead letter: see `tickwork dead show`"
    return NotFound("message", message_id, hint)


def shown_state(message: Message, now: datetime) -> str:
    """The state of a message as people see it. A delayed message is stored as ready, and a blocked
    one as held."""
    if message.state is State.READY and message.visible_at > now:
        return "delayed"
    return "blocked" if message.state is State.BLOCKED else str(message.state)


def _shown(message: Message, queue: str, now: datetime) -> StoredMessage:
    return StoredMessage(
        id=message.id,
        tenant=message.tenant,
        queue=queue,
        state=shown_state(message, now),
        body=decode_body(message.body, message.content_type),
        content_type=message.content_type,
        type=message.type,
        key=message.key,
        priority=message.priority,
        attempts=message.attempts,
        lost_claims=message.lost,
        claim=message.claim,
        claimed_by=message.holder,
        claimed_at=message.claimed_at,
        visible_at=message.visible_at,
        sent_at=message.sent_at,
        event_id=message.event_id,
        source=message.source,
        correlation_id=message.correlation_id,
        causation_id=message.causation_id,
        hops=message.hops,
        batch_id=message.batch_id,
        schedule_id=message.schedule_id,
        slot=message.slot,
        idempotency_key=message.idempotency_key,
        died=read_death(message.death),
        last_error=message.last_error,
        waits_for_completion=message.waits_since is not None,
    )
