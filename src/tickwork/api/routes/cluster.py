"""Routes for operators: nodes, statistics of queues, topology, types of messages, forecast."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, QueryParameter
from msgspec import Meta, Struct

from tickwork.api.operation import Routes
from tickwork.api.pages import Cursor, page_of, read_cursor
from tickwork.api.schedule_access import NamedTenant, named_scope
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.cluster import ClusterView
from tickwork.core.answers.message_type import MessageType
from tickwork.core.answers.queue import Statistics, Usage
from tickwork.core.health import HealthReport
from tickwork.core.model import QueuePosition
from tickwork.core.queue.capacity import Capacity
from tickwork.core.schedule.forecast import (
    DUE_TIMES_MAX,
    FORECAST_HOURS,
    FORECAST_HOURS_MAX,
    WINDOW_SECONDS_MAX,
    Forecast,
)
from tickwork.core.schedule.widen import WIDEN_SECONDS_MAX
from tickwork.core.topology import Topology
from tickwork.core.usage import UsageWidth
from tickwork.ops.capacity import look_at_capacity
from tickwork.ops.cluster import describe_cluster, pause_all, resume_all, widen_windows
from tickwork.ops.context import Context
from tickwork.ops.forecast import forecast as count_firings
from tickwork.ops.health import look_at_health
from tickwork.ops.queues import (
    QUEUES_MAX,
    overview,
)
from tickwork.ops.topology import stored_topology
from tickwork.ops.type_list import get_type, list_types
from tickwork.ops.usage import show_usage

routes = Routes("operating")

Hours = Annotated[
    int, QueryParameter(ge=1, le=FORECAST_HOURS_MAX, description="Hours to look ahead.")
]
WindowSeconds = Annotated[
    int | None,
    QueryParameter(
        ge=1,
        le=WINDOW_SECONDS_MAX,
        description="Also show the busiest minute with a fire window of this length.",
    ),
]


class WidenRequest(Struct, frozen=True):
    """A window for all schedules."""

    seconds: Annotated[int, Meta(ge=0, le=WIDEN_SECONDS_MAX, description="0: none.")]


_WIDEN = [Example(value={"seconds": 600})]


class Types(Struct, frozen=True):
    """The types of messages by name."""

    items: tuple[MessageType, ...]
    truncated: Annotated[
        bool, Meta(description="There are more than 100 queues; types of the others are missing.")
    ] = False


@routes.get("/v1/cluster", "Describe the cluster", needs=Permission.ADMIN)
async def cluster(context: NamedDependency[Context]) -> ClusterView:
    """Returns the nodes with their leases and the shards of schedules that they lead."""
    return await describe_cluster(context.store)


@routes.post("/v1/cluster/pause", "Pause everything", needs=Permission.ADMIN)
async def pause_cluster(context: NamedDependency[Context]) -> ClusterView:
    """No message of any tenant is claimed until `resume`, those of due slots among them. What runs
    finishes; what is sent is stored and waits."""
    await pause_all(context.store)
    return await describe_cluster(context.store)


@routes.post("/v1/cluster/resume", "End the pause of everything", needs=Permission.ADMIN)
async def resume_cluster(context: NamedDependency[Context]) -> ClusterView:
    """Messages are claimed again. The `missed` policy decides about slots that are late."""
    await resume_all(context.store)
    return await describe_cluster(context.store)


@routes.post(
    "/v1/cluster/widen", "Widen the fire windows", needs=Permission.ADMIN, body=WidenRequest
)
async def widen_cluster(
    data: Annotated[dict[str, Any], Body(examples=_WIDEN)], context: NamedDependency[Context]
) -> ClusterView:
    """The firings of all schedules are spread over at least so many seconds, except for those with
    `fire_window_seconds: 0`. It holds for slots that are planned from now on; 0 ends it."""
    await widen_windows(context.store, data)
    return await describe_cluster(context.store)


@routes.get("/v1/stats", "Queue statistics", needs=Permission.READ, problems=(404,))
async def stats(
    context: NamedDependency[Context],
    queue: Annotated[str | None, QueryParameter(description="Only this queue.")] = None,
    limit: Annotated[
        int, QueryParameter(ge=1, le=QUEUES_MAX, description="Maximum number of queues.")
    ] = QUEUES_MAX,
    cursor: Cursor = None,
) -> Statistics:
    """Returns each queue's message counts, how many messages are late, the age of the oldest one,
    and the counters: by minute (30 minutes), by type and source (1 hour), and of dead messages by
    type (24 hours). The counter `lost` counts claims of dead workers that came back."""
    after: QueuePosition | None = read_cursor(cursor, QueuePosition)
    found = await overview(context, queue=queue, limit=limit + 1, after=after)
    page = page_of(found, limit, lambda view: (view.queue, view.tenant or ""), lambda view: view)
    return Statistics(page.items, page.next_cursor)


@routes.get("/v1/health", "What is wrong", needs=Permission.READ, is_for_owners=True)
async def health(
    context: NamedDependency[Context],
    check: Annotated[
        str | None, QueryParameter(description="Only these checks, separated by commas.")
    ] = None,
) -> HealthReport:
    """Returns what is wrong with the tenant and the processes, worst first, each with what to do.
    All is well only if `ok` is true and `checked` names every check. A caller that is bound to an
    owner gets the check `pauses` alone."""
    checks = None if check is None else check.split(",")
    return await look_at_health(context, checks=checks)


@routes.get("/v1/usage", "Usage of the tenant", needs=Permission.READ, problems=(404,))
async def usage(
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    by: Annotated[
        UsageWidth | None, QueryParameter(description="Length of the periods of `used`, in UTC.")
    ] = None,
    since: Annotated[
        datetime | None, QueryParameter(description="Start of `used`: 24 hours or 30 days ago.")
    ] = None,
    until: Annotated[datetime | None, QueryParameter(description="End of `used`: now.")] = None,
    tenant: NamedTenant = None,
) -> Usage:
    """Returns how many queues the tenant has, and how many messages in each state. With `by`,
    `since` or `until` also what it used in that time, kept for 400 days: `used`, in whole periods.
    """
    scope = await named_scope(context, caller, tenant)
    return await show_usage(context.within(scope), by=by, since=since, until=until)


@routes.get("/v1/topology", "Topology of the tenant", needs=Permission.READ)
async def topology(context: NamedDependency[Context]) -> Topology:
    """Returns the queues with their settings, who consumes them, and the subscriptions."""
    return await stored_topology(context)


@routes.get("/v1/types", "Types of messages", needs=Permission.READ)
async def types(context: NamedDependency[Context]) -> Types:
    """Returns the types that apps declare, those of the last hour, and those that queues and
    endpoints subscribe to; without schemas."""
    found = await list_types(context)
    return Types(found.items, found.truncated)


@routes.get("/v1/types/{message_type:str}", "Get a type", needs=Permission.READ)
async def type_of_messages(
    message_type: FromPath[str], context: NamedDependency[Context]
) -> MessageType:
    """Returns a type of messages with the JSON Schema of each app that declares it. `*` is what
    queues take of any other type."""
    return await get_type(context, message_type)


@routes.get(
    "/v1/forecast", "Forecast of firings per minute", needs=Permission.READ, problems=(404,)
)
async def forecast(
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    hours: Hours = FORECAST_HOURS,
    window_seconds: WindowSeconds = None,
    tenant: NamedTenant = None,
) -> Forecast:
    """Returns the number of firings of each minute, the crowded minutes with the rules that cause
    them, and what a fire window would make of the busiest one."""
    scope = await named_scope(context, caller, tenant)
    return await count_firings(
        context.within(scope),
        hours=hours,
        window_seconds=window_seconds,
        due_times_max=DUE_TIMES_MAX,
    )


@routes.get("/v1/capacity", "Headroom of the workers", needs=Permission.READ)
async def capacity(context: NamedDependency[Context], hours: Hours = FORECAST_HOURS) -> Capacity:
    """Returns whether the workers that run keep up with the slots of the coming hours: what each
    queue, named limit and endpoint lets through in a minute, by what was measured in the last day,
    the permits and the limits, and when one falls behind. The worst are first."""
    return await look_at_capacity(context, hours=hours, due_times_max=DUE_TIMES_MAX)
