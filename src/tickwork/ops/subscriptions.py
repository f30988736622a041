"""Subscriptions: queues that get copies of messages and events by their type."""

from __future__ import annotations

from tickwork.core.message.subscription import Subscription
from tickwork.core.model import Scope
from tickwork.ops.audit import recorded
from tickwork.ops.queues import check_visible
from tickwork.store.contract import Store


async def subscribe(store: Store, scope: Scope, types: str, queue: str) -> Subscription:
    """Subscribes a queue to types; a repeat has no effect. Raises `InvalidInput`, and `NotFound`
    if there is no such queue."""
    check_visible(queue)
    async with recorded(store, scope, "subscription.put", f"{types} → {queue}"):
        return await store.subscriptions.put(scope, types, queue)


async def list_subscriptions(store: Store, scope: Scope) -> tuple[Subscription, ...]:
    """Returns the subscriptions of a tenant."""
    return await store.subscriptions.list(scope)


async def unsubscribe(store: Store, scope: Scope, types: str, queue: str) -> bool:
    """Deletes a subscription; returns False if there is none."""
    async with recorded(store, scope, "subscription.delete", f"{types} → {queue}"):
        return await store.subscriptions.delete(scope, types, queue)
