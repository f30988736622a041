"""For operators: how the cluster stands, and what passes through its queues."""

from __future__ import annotations

from litestar import get
from litestar.di import NamedDependency

from tickwork.api.context import Context, store_of
from tickwork.api.problems import described
from tickwork.core.model import SYSTEM
from tickwork.ops.cluster import ClusterView, describe_cluster
from tickwork.ops.queues import QueueView, overview


@get(
    "/v1/cluster",
    operation_id="cluster",
    summary="Who is alive, and who leads what?",
    tags=["operating"],
    responses=described(503),
)
async def cluster(context: NamedDependency[Context]) -> ClusterView:
    """The nodes with their leases, and the shards of schedules that they lead."""
    return await describe_cluster(store_of(context))


@get(
    "/v1/stats",
    operation_id="stats",
    summary="What passes?",
    tags=["operating"],
    responses=described(503),
)
async def stats(context: NamedDependency[Context]) -> dict[str, tuple[QueueView, ...]]:
    """Each queue: how it stands, how old its oldest message is, what passed by minute and kind."""
    return {"queues": await overview(store_of(context), SYSTEM)}
