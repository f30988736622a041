"""What an app is asked as a whole: why something waits, traces, numbers, nodes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from tickwork.core.answers.cluster import ClusterView
from tickwork.core.answers.message_type import MessageType
from tickwork.core.answers.performance import PerformanceAnswer
from tickwork.core.answers.queue import QueueView, Usage
from tickwork.core.answers.search import Findings
from tickwork.core.answers.wait import Wait
from tickwork.core.fields import read_choice, read_instant
from tickwork.core.health import HealthReport
from tickwork.core.queue.capacity import Capacity
from tickwork.core.queue.performance import Width
from tickwork.core.schedule.forecast import FORECAST_HOURS
from tickwork.core.topology import Topology
from tickwork.core.trace import Trace
from tickwork.core.usage import UsageWidth
from tickwork.engine.app_engine import AppEngine
from tickwork.ops import type_list
from tickwork.ops.capacity import look_at_capacity
from tickwork.ops.cluster import describe_cluster
from tickwork.ops.cluster import pause_all as pause_cluster
from tickwork.ops.cluster import resume_all as resume_cluster
from tickwork.ops.cluster import widen_windows as widen_cluster
from tickwork.ops.health import look_at_health
from tickwork.ops.performance import show_performance
from tickwork.ops.queues import overview
from tickwork.ops.search import search
from tickwork.ops.topology import stored_topology
from tickwork.ops.trace import trace_anything
from tickwork.ops.usage import show_usage, within_tenant
from tickwork.ops.why import why_waits


class Overview:
    """The questions that concern no single noun."""

    _engine: AppEngine

    async def why(self, reference: str) -> Wait:
        """Explains what a message, a dead letter, a delivery, an endpoint (or its name) or a run
        waits for, by its id: since when, until when, and what happens next; and the slot of a
        schedule, by the `webhook-id` of its webhook. `app.schedules.why` explains schedules."""
        engine = self._engine
        context = await engine.context()
        return await why_waits(context, str(reference))

    async def trace(self, reference: str) -> Trace:
        """Everything of one correlation, as a tree: messages, dead letters, deliveries, runs with
        their steps, firings. `reference` is a correlation id, or the id of a message or run."""
        return await trace_anything(await self._engine.context(), str(reference))

    async def search(self, text: str) -> Findings:
        """Things of all kinds by an id, or by a part of a name, key or correlation id."""
        return await search(await self._engine.context(), text)

    async def stats(self, *, limit: int | None = None) -> tuple[QueueView, ...]:
        """Numbers of each queue, or of the first ones: messages by state, how many are late, the
        age of the oldest, counters."""
        return await overview(await self._engine.context(), limit=limit)

    async def status(self, *, checks: Collection[str] | None = None) -> HealthReport:
        """What is wrong with the tenant and the processes, worst first, each with what to do. With
        `checks` it looks at these alone, such as `["queues", "runs"]`."""
        context = await self._engine.context()
        return await look_at_health(context, checks=checks)

    async def usage(
        self,
        *,
        by: UsageWidth | str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        tenant: str | None = None,
    ) -> Usage:
        """How much the tenant has now: schedules, queues, messages in each state. With `by`
        (`hour` or `day`), `since` or `until` also what it used in that time, by default in the last
        24 hours or 30 days: `used`, kept for 400 days. `tenant` is another tenant, or
        `*` for all."""
        context = await self._engine.context()
        if tenant is not None:
            context = await within_tenant(context, tenant)
        return await show_usage(
            context,
            by=None if by is None else read_choice("by", by, UsageWidth),
            since=read_instant("since", since),
            until=read_instant("until", until),
        )

    async def performance(
        self,
        *,
        by: Width | str = Width.HOUR,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        queue: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
    ) -> PerformanceAnswer:
        """How messages fared that ended at or after `since` and before `until`: for each queue and
        type how many were done, failed or were discarded, and percentiles of waits and runs; by
        `minute` (the last hour, kept for two days), `hour` (24 hours) or `day` (30 days; both kept
        for 90)."""
        return await show_performance(
            await self._engine.context(),
            by=read_choice("by", by, Width),
            since=read_instant("since", since),
            until=read_instant("until", until),
            queue=queue,
            type=type,
        )

    async def capacity(self, *, hours: int = FORECAST_HOURS) -> Capacity:
        """Whether the workers that run keep up with the slots of the coming hours: what each queue,
        named limit and endpoint lets through, and when one falls behind."""
        return await look_at_capacity(await self._engine.context(), hours=hours)

    async def topology(self) -> Topology:
        """The queues with their settings, who consumes them, and the subscriptions."""
        return await stored_topology(await self._engine.context())

    async def pause_all(self) -> ClusterView:
        """No message of any tenant is claimed until `resume_all`. What runs finishes; what
        is sent is stored and waits."""
        context = await self._engine.context()
        await pause_cluster(context.store)
        return await describe_cluster(context.store)

    async def resume_all(self) -> ClusterView:
        """Messages are claimed again. The `missed` policy decides about slots that are late."""
        context = await self._engine.context()
        await resume_cluster(context.store)
        return await describe_cluster(context.store)

    async def widen_windows(self, seconds: int) -> ClusterView:
        """Spreads the firings of all schedules over at least so many seconds, except for those with
        `fire_window_seconds=0`. It holds for slots that are planned from now on; 0 ends it."""
        context = await self._engine.context()
        await widen_cluster(context.store, {"seconds": seconds})
        return await describe_cluster(context.store)

    async def cluster(self) -> ClusterView:
        """The nodes with their leases and the shards they lead, and shards without a leader."""
        return await describe_cluster(await self._engine.ready())


class Types:
    """The types of messages: what apps declare about them, who sends them and who subscribes."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def list(self) -> tuple[MessageType, ...]:
        """The types that apps declare, those of the last hour, and those that queues and endpoints
        subscribe to. `*` is what a queue takes of any other type. Without schemas."""
        return (await type_list.list_types(await self._engine.context())).items

    async def get(self, name: str) -> MessageType:
        """One type, with the JSON Schema of each app that declares it. Raises `NotFound`."""
        return await type_list.get_type(await self._engine.context(), name)
