"""Routes for operators: the nodes of the cluster, and statistics of its queues."""

from __future__ import annotations

from litestar import get
from litestar.di import NamedDependency

from tickwork.api.context import Context, store_of
from tickwork.api.operation import operation
from tickwork.api.problems import described
from tickwork.core.access import Caller, Permission
from tickwork.ops.cluster import ClusterView, describe_cluster
from tickwork.ops.queues import QueueUsage, QueueView, overview, queue_usage


@get(
    "/v1/cluster",
    opt={"permission": "admin"},
    operation_id="cluster",
    summary="Describe the cluster",
    tags=["operating"],
    responses=described(401, 403, 503),
)
async def cluster(context: NamedDependency[Context]) -> ClusterView:
    """Returns the nodes with their leases and the shards of schedules that they lead."""
    return await describe_cluster(store_of(context))


@get(
    "/v1/stats",
    opt={"permission": "read"},
    operation_id="stats",
    summary="Queue statistics",
    tags=["operating"],
    responses=described(401, 403, 503),
)
async def stats(
    context: NamedDependency[Context], caller: NamedDependency[Caller]
) -> dict[str, tuple[QueueView, ...]]:
    """Returns each queue's message counts, the age of its oldest message, and its counters."""
    return {"queues": await overview(store_of(context), caller.scope)}


@operation(
    "GET", "/v1/usage", needs=Permission.READ, tag="operating", summary="Usage of the tenant"
)
async def usage(context: NamedDependency[Context], caller: NamedDependency[Caller]) -> QueueUsage:
    """Returns how many queues the tenant has, and how many messages in each state."""
    return await queue_usage(store_of(context), caller.scope)
