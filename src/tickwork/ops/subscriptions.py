"""Subscriptions: queues that get copies of messages and events by their type."""

from __future__ import annotations

from tickwork.core.answers.queue import SubscriptionBody
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.queues import check_visible


async def subscribe(context: Context, types: str, queue: str) -> SubscriptionBody:
    """Subscribes a queue to types; a repeat has no effect. Raises `InvalidInput`, and `NotFound`
    if there is no such queue."""
    check_visible(queue)
    async with recorded(context, "subscription.put", f"{types} → {queue}"):
        made = await context.store.subscriptions.put(context.scope, types, queue)
    return SubscriptionBody.of(made)


async def list_subscriptions(context: Context) -> tuple[SubscriptionBody, ...]:
    """Returns the subscriptions of a tenant."""
    found = await context.store.subscriptions.list(context.scope)
    return tuple(map(SubscriptionBody.of, found))


async def unsubscribe(context: Context, types: str, queue: str) -> bool:
    """Deletes a subscription; returns False if there is none."""
    async with recorded(context, "subscription.delete", f"{types} → {queue}"):
        return await context.store.subscriptions.delete(context.scope, types, queue)
