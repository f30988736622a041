"""Collects what `core/queue/capacity.py` judges: the forecast, the permits of the workers that run,
the limits, how messages fared in the last day, and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from tickwork.core.delivery.endpoint import Endpoint
from tickwork.core.limits import LIST_LIMIT_MAX, is_hidden, is_pulled
from tickwork.core.model import SYSTEM, QueuePermits, StoredQueue
from tickwork.core.queue.capacity import (
    MEASURED_ROWS_MAX,
    MEASURED_SECONDS,
    WAITING_MAX,
    WAITING_OF_QUEUE_MIN,
    Capacity,
    LaneFacts,
    LaneKind,
    Measured,
    judge,
    measured,
)
from tickwork.core.queue.named_limit import NamedLimit
from tickwork.core.queue.performance import Width
from tickwork.core.queue.wait_estimate import NAMED_LIMIT, RATE_LIMIT, TENANT_CAP, Cap
from tickwork.core.schedule.forecast import FORECAST_HOURS, OTHERS, Target, queue_of
from tickwork.ops.context import Context
from tickwork.ops.forecast import firings_by_target

ENDPOINT_LIMIT = "endpoint_limit"
"""The code of an endpoint's own limits."""

Minutes = Sequence[int]


async def look_at_capacity(
    context: Context, *, hours: int = FORECAST_HOURS, due_times_max: int | None = None
) -> Capacity:
    """Returns whether the workers that run keep up with the slots that a tenant's schedules have in
    the coming hours: what each queue, named limit and endpoint lets through, and when one falls
    behind. `InvalidInput` if the forecast takes more than `due_times_max`."""
    store, scope = context.store, context.scope
    start, firings = await firings_by_target(context, hours=hours, due_times_max=due_times_max)
    now = await store.now()
    since = now - timedelta(seconds=MEASURED_SECONDS)
    # The minute of now is not over.
    until = now.replace(second=0, microsecond=0)
    rows = await store.performance.list(scope, Width.MINUTE, since, until, MEASURED_ROWS_MAX)
    alive = [node for node in await store.nodes.list(SYSTEM) if node.expires_at > now]
    workers = [node for node in alive if "worker" in node.roles]
    queues = {queue.name: queue for queue in await store.queues.list(scope)}
    others = firings.pop(OTHERS, ())
    coming: dict[str, Minutes] = {}
    for target, minutes in firings.items():
        coming[queue_of(target)] = _sum([minutes, coming.get(queue_of(target), ())])
    facts = _Facts(
        queues=queues,
        coming=coming,
        measured=measured(rows),
        permits=_permits(permit for node in workers for permit in node.permits),
        is_paused=await store.nodes.paused_at(SYSTEM) is not None,
    )
    limits = {limit.name: limit for limit in await store.limits.list(scope)}
    endpoints = await _endpoints(context, firings)
    lanes = [
        *await _queue_lanes(context, facts),
        *_limit_lanes(facts, limits, endpoints, firings),
        *_endpoint_lanes(facts, endpoints, firings, len(workers)),
    ]
    if len(rows) == MEASURED_ROWS_MAX:
        since = rows[-1].period
    return judge(
        lanes,
        now=now,
        start=start,
        hours=hours,
        nodes=len(workers),
        measured_since=since,
        slots=sum(map(sum, firings.values())) + sum(others),
        uncounted_slots=sum(others),
    )


class _Permits(NamedTuple):
    """The permits of a queue, and whether each of them takes a batch."""

    permits: int
    is_batch: bool


class _Facts(NamedTuple):
    """What was read; by the name of the queue."""

    queues: Mapping[str, StoredQueue]
    coming: Mapping[str, Minutes]
    measured: Mapping[str, Measured]
    permits: Mapping[str, _Permits]
    is_paused: bool

    def messages_per_permit(self, queue: StoredQueue) -> int:
        """How many messages of a queue a permit takes at a time."""
        found = self.permits.get(queue.name)
        return queue.settings.max_batch_size if found is not None and found.is_batch else 1


def _permits(stored: Iterable[QueuePermits]) -> dict[str, _Permits]:
    permits, batches = Counter[str](), set[str]()
    for permit in stored:
        permits[permit.queue] += permit.permits
        if permit.is_batch:
            batches.add(permit.queue)
    return {queue: _Permits(number, queue in batches) for queue, number in permits.items()}


async def _queue_lanes(context: Context, facts: _Facts) -> list[LaneFacts]:
    """The lanes of queues to which slots come, in which messages wait or of which some ended."""
    tenant = await context.store.tenants.get(SYSTEM, str(context.scope.tenant))
    found = [facts.queues[name] for name in sorted(facts.queues)]
    at_most = max(WAITING_MAX // max(len(found), 1), WAITING_OF_QUEUE_MIN)
    stats = await context.store.stats.queues(context.scope, found, at_most=at_most)
    lanes = []
    for queue, stat in zip(found, stats, strict=True):
        name, waiting = queue.name, stat.counts.ready
        if not (waiting or name in facts.coming or name in facts.measured):
            continue
        caps = _queue_caps(queue)
        if tenant.claimed_max is not None:
            words = f"tenant {tenant.id} runs {tenant.claimed_max} messages at a time"
            caps.append(Cap(code=TENANT_CAP, words=words, claimed_max=tenant.claimed_max))
        permits = facts.permits.get(name)
        lanes.append(
            LaneFacts(
                kind=LaneKind.QUEUE,
                name=name,
                coming=facts.coming.get(name, ()),
                waiting=waiting,
                waits_more=waiting >= at_most,
                measured=facts.measured.get(name, Measured()),
                permits=permits.permits if permits is not None else _without_permits(queue),
                messages_per_permit=facts.messages_per_permit(queue),
                caps=tuple(caps),
                is_paused=facts.is_paused or queue.paused,
            )
        )
    return lanes


def _without_permits(queue: StoredQueue) -> int | None:
    """The permits of a queue for which no worker has stored any: not known if consumers pull it or
    workers find it while they run, as queues that push and those of runs and entities."""
    is_found_later = queue.settings.push_to is not None or is_hidden(queue.name)
    return None if is_found_later or is_pulled(queue) else 0


def _queue_caps(queue: StoredQueue) -> list[Cap]:
    settings, caps = queue.settings, list[Cap]()
    if settings.rate_per_second is not None:
        words = f"queue {queue.name} starts {settings.rate_per_second:g} messages a second"
        rate = settings.rate_per_second
        caps.append(Cap(code=RATE_LIMIT, words=words, rate_per_second=rate))
    if settings.tenant_claimed_max is not None:
        most = settings.tenant_claimed_max
        words = f"queue {queue.name} runs {most} messages of a tenant at a time"
        caps.append(Cap(code=TENANT_CAP, words=words, claimed_max=most))
    return caps


def _limit_lanes(
    facts: _Facts,
    limits: Mapping[str, NamedLimit],
    endpoints: Mapping[str, Endpoint],
    firings: Mapping[Target, Minutes],
) -> list[LaneFacts]:
    """The lanes of named limits, with what comes to all queues and endpoints that share them."""
    lanes = []
    for name, limit in sorted(limits.items()):
        queues = [queue for queue in facts.queues.values() if queue.settings.limit == name]
        names = {queue.name for queue in queues}
        minutes = [facts.coming[queue] for queue in names if queue in facts.coming]
        for target, counts in firings.items():
            endpoint = endpoints.get(target.name) if target.kind == "endpoint" else None
            if endpoint is not None and endpoint.settings.limit == name:
                minutes.append(counts)
                names.add(queue_of(target))
        if not minutes:
            continue
        allowed = [f"{limit.concurrency} at a time"] if limit.concurrency is not None else []
        if limit.rate_per_second is not None:
            allowed.append(f"{limit.rate_per_second:g} a second")
        lanes.append(
            LaneFacts(
                kind=LaneKind.LIMIT,
                name=name,
                coming=_sum(minutes),
                measured=_together(facts.measured.get(queue, Measured()) for queue in names),
                caps=(
                    Cap(
                        code=NAMED_LIMIT,
                        words=f"limit {name} lets {' and '.join(allowed)} through",
                        rate_per_second=limit.rate_per_second,
                        claimed_max=limit.concurrency,
                    ),
                ),
            )
        )
    return lanes


def _endpoint_lanes(
    facts: _Facts,
    endpoints: Mapping[str, Endpoint],
    firings: Mapping[Target, Minutes],
    workers: int,
) -> list[LaneFacts]:
    """The lanes of endpoints with limits of their own. These hold on each node."""
    lanes = []
    for target, minutes in sorted(firings.items()):
        endpoint = endpoints.get(target.name) if target.kind == "endpoint" else None
        if endpoint is None or not workers:
            continue
        rate, most = endpoint.settings.rate_per_second, endpoint.settings.concurrency
        if rate is None and most is None:
            continue
        allowed = [] if rate is None else [f"{rate:g} a second"]
        allowed += [] if most is None else [f"{most} at a time"]
        nodes = "" if workers == 1 else f" from each of {workers} workers"
        lanes.append(
            LaneFacts(
                kind=LaneKind.ENDPOINT,
                name=target.name,
                coming=minutes,
                measured=_together([facts.measured.get(queue_of(target), Measured())]),
                caps=(
                    Cap(
                        code=ENDPOINT_LIMIT,
                        words=f"endpoint {target.name} takes {' and '.join(allowed)}{nodes}",
                        rate_per_second=None if rate is None else rate * workers,
                        claimed_max=None if most is None else most * workers,
                    ),
                ),
            )
        )
    return lanes


async def _endpoints(context: Context, firings: Mapping[Target, Minutes]) -> dict[str, Endpoint]:
    """The endpoints that are targets, by name."""
    wanted = {target.name for target in firings if target.kind == "endpoint"}
    found: dict[str, Endpoint] = {}
    after = None
    while wanted - found.keys():
        page = await context.store.endpoints.list(context.scope, LIST_LIMIT_MAX, after=after)
        found.update((endpoint.name, endpoint) for endpoint in page if endpoint.name in wanted)
        if len(page) < LIST_LIMIT_MAX:
            break
        after = page[-1].name
    return found


def _together(parts: Iterable[Measured]) -> Measured:
    """What is known of the runs of several queues together; their minutes are not a lane's."""
    known = [part for part in parts if part.run_seconds is not None]
    ended = sum(part.ended for part in known)
    if not ended:
        return Measured()
    seconds = sum((part.run_seconds or 0.0) * part.ended for part in known)
    return Measured(ended=ended, run_seconds=seconds / ended)


def _sum(minutes: Sequence[Minutes]) -> tuple[int, ...]:
    """Counts of several, minute by minute."""
    filled = [counts for counts in minutes if counts]
    return tuple(map(sum, zip(*filled, strict=True)))
