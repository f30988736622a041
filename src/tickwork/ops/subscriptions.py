"""Subscriptions: queues that get copies of messages and events by their type."""

from __future__ import annotations

from tickwork.core.message.subscription import Subscription
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.queues import check_visible


async def subscribe(context: Context, types: str, queue: str) -> Subscription:
    """Subscribes a queue to types; a repeat has no effect. Raises `InvalidInput`, and `NotFound`
    if there is no such queue."""
    check_visible(queue)
    async with recorded(context, "subscription.put", f"{types} → {queue}"):
        return await context.store.subscriptions.put(context.scope, types, queue)


async def list_subscriptions(context: Context) -> tuple[Subscription, ...]:
    """Returns the subscriptions of a tenant."""
    return await context.store.subscriptions.list(context.scope)


async def unsubscribe(context: Context, types: str, queue: str) -> bool:
    """Deletes a subscription; returns False if there is none."""
    async with recorded(context, "subscription.delete", f"{types} → {queue}"):
        return await context.store.subscriptions.delete(context.scope, types, queue)
