"""Collects what decides when a waiting message runs: what is ahead of it, the current rate, and the
limits of its queue and tenant."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tickwork.core.model import SYSTEM, Message, Scope, StoredQueue
from tickwork.core.queue.rooms import Line
from tickwork.core.queue.wait_estimate import (
    AHEAD_MAX,
    NAMED_LIMIT,
    RATE_LIMIT,
    TENANT_CAP,
    Cap,
    WaitEstimate,
    estimate,
    measured_rate,
)
from tickwork.errors import NotFound
from tickwork.ops.context import Context
from tickwork.store.contract import Store


async def estimate_wait(
    store: Store,
    message: Message,
    queue: StoredQueue,
    obstacles: Sequence[str],
    line: Line | None = None,
) -> WaitEstimate:
    """When a message that is ready or delayed will run. `obstacles` are what stops its queue,
    `line` is that of its receiver, if it is a delivery."""
    scope, now = Scope(message.tenant), await store.now()
    stats = await store.stats.queue(scope, queue.name, at_most=AHEAD_MAX)
    if line is None:
        ahead = await store.messages.ahead(scope, queue.name, message, AHEAD_MAX)
    else:
        ahead = line.ahead
    return estimate(
        ahead=ahead,
        claimed=stats.counts.claimed,
        rate_per_second=measured_rate(stats.minutes, now, stats.oldest_age_seconds),
        caps=await _caps(Context(store, scope), queue, stats.counts.claimed),
        obstacles=obstacles,
        visible_at=message.visible_at,
        now=now,
    )


async def _caps(context: Context, queue: StoredQueue, claimed: int) -> list[Cap]:
    settings, caps = queue.settings, list[Cap]()
    if settings.tenant_claimed_max is not None:
        most = settings.tenant_claimed_max
        words = f"queue {queue.name} runs {most} messages of a tenant at a time"
        caps.append(Cap(code=TENANT_CAP, words=words, claimed=claimed, claimed_max=most))
    tenant = await context.store.tenants.get(SYSTEM, str(context.scope.tenant))
    if tenant.claimed_max is not None:
        busy = await _claimed(context, await context.store.queues.list(context.scope))
        words = f"tenant {tenant.id} runs {tenant.claimed_max} messages at a time"
        caps.append(Cap(code=TENANT_CAP, words=words, claimed=busy, claimed_max=tenant.claimed_max))
    if settings.rate_per_second is not None:
        words = f"queue {queue.name} starts {settings.rate_per_second:g} messages a second"
        rate = settings.rate_per_second
        caps.append(Cap(code=RATE_LIMIT, words=words, rate_per_second=rate))
    if settings.limit is not None:
        with suppress(NotFound):
            caps.append(await _named_cap(context, settings.limit))
    return caps


async def _named_cap(context: Context, name: str) -> Cap:
    limit = await context.store.limits.get(context.scope, name)
    alike = [
        queue
        for queue in await context.store.queues.list(context.scope)
        if queue.settings.limit == name
    ]
    allowed = [f"{limit.concurrency} at a time"] if limit.concurrency is not None else []
    if limit.rate_per_second is not None:
        allowed.append(f"{limit.rate_per_second:g} a second")
    return Cap(
        code=NAMED_LIMIT,
        words=f"limit {name} lets {' and '.join(allowed)} through",
        rate_per_second=limit.rate_per_second,
        claimed=await _claimed(context, alike) if limit.concurrency is not None else 0,
        claimed_max=limit.concurrency,
    )


async def _claimed(context: Context, queues: Sequence[StoredQueue]) -> int:
    stats = await context.store.stats.queues(context.scope, queues, at_most=AHEAD_MAX)
    return sum(queue.counts.claimed for queue in stats)
