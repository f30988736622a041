"""Named limits, which queues and endpoints share: set, shown and deleted."""

from __future__ import annotations

from collections.abc import Mapping

from tickwork.core.model import Scope
from tickwork.core.queue.named_limit import NamedLimit, read_limit
from tickwork.ops.audit import recorded
from tickwork.store.contract import Store


async def put_limit(
    store: Store, scope: Scope, name: str, fields: Mapping[str, object]
) -> NamedLimit:
    """Creates a limit or replaces its numbers. Raises `InvalidInput`, `TooMany`."""
    limit = read_limit(name, fields)
    async with recorded(store, scope, "limit.put", name, after=limit):
        return await store.limits.put(scope, limit)


async def get_limit(store: Store, scope: Scope, name: str) -> NamedLimit:
    """One limit. Raises `NotFound`."""
    return await store.limits.get(scope, name)


async def list_limits(store: Store, scope: Scope) -> tuple[NamedLimit, ...]:
    """All limits, by name."""
    return await store.limits.list(scope)


async def delete_limit(store: Store, scope: Scope, name: str) -> None:
    """Deletes a limit. Who names it is not limited any more. Raises `NotFound`."""
    async with recorded(store, scope, "limit.delete", name):
        await store.limits.delete(scope, name)
