"""The route for how messages of each queue and type fared."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter

from tickwork.api.operation import Routes
from tickwork.core.access import Permission
from tickwork.core.answers.performance import PerformanceAnswer
from tickwork.core.queue.performance import Width
from tickwork.ops.context import Context
from tickwork.ops.performance import show_performance

routes = Routes("queues")

By = Annotated[Width, QueryParameter(description="Length of the periods, in UTC.")]
Since = Annotated[
    datetime | None,
    QueryParameter(
        description="Only what ended then or later; by default 60 minutes, 24 hours or 30 days ago."
    ),
]
Until = Annotated[
    datetime | None, QueryParameter(description="Only what ended before that; by default now.")
]


@routes.get("/v1/performance", "How messages fared", needs=Permission.READ)
async def performance(
    context: NamedDependency[Context],
    by: By = Width.HOUR,
    since: Since = None,
    until: Until = None,
    queue: FromQuery[str | None] = None,
    of_type: Annotated[str | None, QueryParameter(name="type")] = None,
) -> PerformanceAnswer:
    """Returns how many messages of each queue and type were done, failed or were discarded, and
    percentiles of how long they waited and ran; in the whole time and in each period. Minutes are
    kept for two days, hours and days for 90. Bounds of the time count whole periods."""
    return await show_performance(
        context, by=by, since=since, until=until, queue=queue, type=of_type
    )
