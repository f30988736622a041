"""Collects what `core/health.py` judges: what is wrong with a tenant and the processes.

Each check is a few statements over all of its kind. A read that fails fails the whole: an answer
never claims more than was read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec import structs

from tickwork.core.fields import choice_error
from tickwork.core.health import Check, HealthReport, judge
from tickwork.core.health_facts import (
    LISTED_MAX,
    RECENT_SECONDS,
    Facts,
    Pauses,
    Processes,
    QueueFacts,
    ScheduleFacts,
    SilentNode,
)
from tickwork.core.model import SYSTEM, StoredQueue
from tickwork.core.queue.stats import LATE_SECONDS, CounterName, QueueStats
from tickwork.core.schedule.model import ScheduleOrder, ScheduleSelection
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.cluster import roles_without_process
from tickwork.ops.context import Context
from tickwork.ops.queues import stopped_counts
from tickwork.ops.schedules.lookup import list_schedules
from tickwork.store.contract import Store
from tickwork.store.ids import own_tenant

QUEUES_READ_MAX = 1_000
"""Maximum number of queues that one look at the health reads."""

COUNTED_MAX = 1_000
"""Messages in each state of a queue that are counted."""

TAKEN_SECONDS = 300
"""Seconds after which a queue of which nobody took a message has no consumer."""

SILENT_SECONDS = 5
"""Seconds after the end of its lease from which on a process that is still there is reported."""

_FAILED = (CounterName.RETRIED, CounterName.LOST)
_TAKEN = (*_FAILED, CounterName.DONE, CounterName.DEAD)


async def look_at_health(
    context: Context, *, checks: Collection[str] | None = None
) -> HealthReport:
    """Returns what is wrong with a tenant and the processes, worst first. With `checks` it looks
    at these alone. Raises `InvalidInput` for an unknown check.

    In the scope of an owner it looks at pauses alone: all else is about others."""
    open_checks = Check if context.scope.owner is None else (Check.PAUSES,)
    wanted = frozenset(map(_check, open_checks if checks is None else checks))
    if closed := sorted(wanted - {*open_checks}):
        fault = f"{closed[0]} is not for a caller that is bound to an owner; pauses is"
        raise InvalidInput([FieldError("check", fault)])
    now = await context.store.now()
    since = now - timedelta(seconds=RECENT_SECONDS)
    facts = Facts(now=now, tenant=own_tenant(context.scope))
    if Check.PAUSES in wanted:
        facts = structs.replace(facts, pauses=await _pauses(context))
    if Check.PROCESSES in wanted:
        facts = structs.replace(facts, processes=await _processes(context.store, now))
    if Check.QUOTAS in wanted:
        quotas = await context.store.tenants.quota_use(context.scope)
        facts = structs.replace(facts, quotas=quotas)
    if Check.QUEUES in wanted:
        queues = await context.store.queues.list(context.scope)
        read = await _queues(context, queues[:QUEUES_READ_MAX], now)
        has_more = len(queues) > QUEUES_READ_MAX
        facts = structs.replace(facts, queues=read, has_more_queues=has_more)
    if Check.SCHEDULES in wanted:
        troubled = await context.store.schedules.troubled(context.scope, LISTED_MAX)
        late = await _late(context, now)
        facts = structs.replace(facts, schedules=troubled, late_schedules=late)
    if Check.ENDPOINTS in wanted:
        endpoints = await context.store.endpoints.troubled(context.scope, LISTED_MAX)
        facts = structs.replace(facts, endpoints=endpoints)
    if Check.DELIVERIES in wanted:
        deliveries = await context.store.endpoints.dead_since(context.scope, since, LISTED_MAX)
        facts = structs.replace(facts, deliveries=deliveries)
    if Check.RUNS in wanted:
        runs = await context.store.workflows.troubled(context.scope, since=since, limit=LISTED_MAX)
        facts = structs.replace(facts, runs=runs)
    return judge(facts)


def _check(name: str) -> Check:
    if (fault := choice_error(name, Check)) is not None:
        raise InvalidInput([FieldError("check", fault)])
    return Check(name)


async def _pauses(context: Context) -> Pauses:
    tenant = await context.store.tenants.get(SYSTEM, own_tenant(context.scope))
    return Pauses(
        paused_at=await context.store.nodes.paused_at(SYSTEM),
        widened_seconds=await context.store.nodes.widened_seconds(SYSTEM),
        suspended_tenant=tenant.id if tenant.suspended else None,
    )


async def _processes(store: Store, now: datetime) -> Processes:
    shards, nodes = await store.shards.list(SYSTEM), await store.nodes.list(SYSTEM)
    silent = now - timedelta(seconds=SILENT_SECONDS)
    return Processes(
        missing_roles=await roles_without_process(store),
        shards_without_leader=sum(shard.node is None for shard in shards),
        silent_nodes=tuple(
            SilentNode(node.name, node.expires_at) for node in nodes if node.expires_at <= silent
        ),
    )


async def _queues(
    context: Context, queues: Sequence[StoredQueue], now: datetime
) -> tuple[QueueFacts, ...]:
    found = await context.store.stats.queues(context.scope, queues, at_most=COUNTED_MAX)
    capped = [queue.id for queue in queues if queue.settings.backlog_bytes_max is not None]
    waiting = await context.store.queues.backlog_bytes(SYSTEM, capped)
    return tuple(
        _queue_facts(queue, stats, waiting.get(queue.id, 0), now)
        for queue, stats in zip(queues, found, strict=True)
    )


def _queue_facts(
    queue: StoredQueue, stats: QueueStats, waiting_bytes: int, now: datetime
) -> QueueFacts:
    lately = now - timedelta(seconds=TAKEN_SECONDS)
    return QueueFacts(
        name=queue.name,
        paused=queue.paused,
        ready=stats.counts.ready,
        claimed=stats.counts.claimed,
        dead=stats.counts.dead,
        at_least=stopped_counts(stats.counts, COUNTED_MAX),
        oldest_age_seconds=stats.oldest_age_seconds,
        failed=_sum(stats, _FAILED),
        taken=_sum(stats, _TAKEN, since=lately),
        bytes=waiting_bytes,
        bytes_max=queue.settings.backlog_bytes_max,
    )


def _sum(
    stats: QueueStats, counters: Collection[CounterName], *, since: datetime | None = None
) -> int:
    return sum(
        counted.messages
        for counted in stats.minutes
        if counted.counter in counters and (since is None or counted.minute >= since)
    )


async def _late(context: Context, now: datetime) -> tuple[ScheduleFacts, ...]:
    before = now - timedelta(seconds=LATE_SECONDS)
    selection = ScheduleSelection(order=ScheduleOrder.NEXT_DUE, before=before)
    return tuple(
        ScheduleFacts(schedule.id, schedule.name, False, schedule.due_at)
        for schedule in await list_schedules(context, selection, limit=LISTED_MAX)
    )
