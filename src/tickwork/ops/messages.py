"""Reads messages: one by its id, or the next ones of a queue."""

from __future__ import annotations

from uuid import UUID

from tickwork.core.model import Message, Scope
from tickwork.errors import NotFound
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
