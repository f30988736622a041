"""Named limits, which queues and endpoints share: set, shown and deleted."""

from __future__ import annotations

from collections.abc import Mapping

from tickwork.core.queue.named_limit import NamedLimit, read_limit
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context


async def put_limit(context: Context, name: str, fields: Mapping[str, object]) -> NamedLimit:
    """Creates a limit or replaces its numbers. Raises `InvalidInput`, `TooMany`."""
    limit = read_limit(name, fields)
    async with recorded(context, "limit.put", name, after=limit):
        return await context.store.limits.put(context.scope, limit)


async def get_limit(context: Context, name: str) -> NamedLimit:
    """One limit. Raises `NotFound`."""
    return await context.store.limits.get(context.scope, name)


async def list_limits(context: Context) -> tuple[NamedLimit, ...]:
    """All limits, by name."""
    return await context.store.limits.list(context.scope)


async def delete_limit(context: Context, name: str) -> None:
    """Deletes a limit. Who names it is not limited any more. Raises `NotFound`."""
    async with recorded(context, "limit.delete", name):
        await context.store.limits.delete(context.scope, name)
