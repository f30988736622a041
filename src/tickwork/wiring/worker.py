"""Builds the worker of a process from settings, with its logs, metrics and watchdog."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import (
    ExitStack,
    asynccontextmanager,
)
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from tickwork import clock, spans
from tickwork.core.model import Scope
from tickwork.extras import otel_extra
from tickwork.ops.context import Context
from tickwork.settings import Role, Settings, read_topology
from tickwork.store.shared.archive import open_archive
from tickwork.wiring.assembly import assemble
from tickwork.wiring.database import open_store
from tickwork.wiring.deliveries import lease_pager, open_deliveries, outside_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    from tickwork.app.declarations import Consumer, Registry
    from tickwork.app.message import Composer
    from tickwork.channel.channels import Channels
    from tickwork.service.maintenance import MaintenanceTask
    from tickwork.service.observe import ClockOffset, Observer
    from tickwork.service.observe.watchdog import Watchdog
    from tickwork.service.worker.worker import Worker
    from tickwork.store.contract import Store
    from tickwork.workflow.consumer import WorkflowConsumers

_HOST_LENGTH_MAX = 100
"""Characters of the host in the name of a node."""


class ObservedWorker(NamedTuple):
    """A worker that is not started, with its metrics and watchdog."""

    worker: Worker
    collectors: Sequence[Collector]
    watchdog: Watchdog
    depth_task: MaintenanceTask
    channels: Channels | None = None

    @asynccontextmanager
    async def running(
        self, *, drain_seconds: float, registry: CollectorRegistry | None
    ) -> AsyncIterator[Worker]:
        """Runs the worker inside the context, with its metrics in the registry. Raises
        `HeartbeatEnded` if the heartbeat thread ends."""
        with ExitStack() as observing:
            if registry is not None:
                for collector in self.collectors:
                    registry.register(collector)
                    observing.callback(registry.unregister, collector)
            observing.enter_context(self.watchdog)
            await self.worker.start()
            if registry is not None:
                self.worker.run_beside(*self.depth_task)
            try:
                async with self.worker.guarded():
                    yield self.worker
            finally:
                await self.worker.stop(drain_seconds)
                if self.channels is not None:
                    await self.channels.close()


async def build_worker(
    store: Store,
    registry: Registry,
    settings: Settings,
    scope_of: Callable[[str], Scope],
    compose: Composer,
    *,
    folder: Path,
    serves: bool,
    declare_again: Callable[[], Awaitable[None]] | None = None,
    entities: Iterable[Consumer] = (),
) -> ObservedWorker:
    """The worker of an app on its store, with the roles of the settings: consumers, a scheduler,
    both on one node, or with neither role only the maintenance of the store. The topology file in
    the folder sets the concurrency of consumers; an invalid file is refused. `serves`: this process
    also serves the API, so its node has that role too. `declare_again` is called when a declared
    queue is gone. `entities` handle the messages of entities."""
    start_tracing(settings)
    from tickwork.service.maintenance import depth_task
    from tickwork.service.observe import ClockOffset, Observers
    from tickwork.service.observe.metrics import WorkerMetrics
    from tickwork.service.observe.schedule_metrics import ScheduleMetrics
    from tickwork.service.observe.watchdog import Watchdog, running_invocations_of

    clock_offset = ClockOffset()
    metrics = WorkerMetrics(clock_offset)
    schedule_metrics = ScheduleMetrics(is_leading=Role.SCHEDULER in settings.roles)
    observer = Observers(metrics, schedule_metrics, *_logs(settings, clock_offset))
    runs = _runs(store, registry, settings, observer)
    consumers = [*_consumers(registry, runs.consumers, folder), *entities]
    is_idle = not consumers
    channels, find = None, [runs.find]
    if Role.WORKER not in settings.roles:
        consumers, find = [], []
    elif (deliveries := await open_deliveries(store, settings)) is not None:
        channels, built_in, find_pushed = deliveries
        consumers += built_in
        find.append(find_pushed)
    is_idle = is_idle and (registry.needs_handlers or channels is None)
    if Role.WORKER in settings.roles and is_idle and serves is False:
        text = "this app has no handlers, and handles nothing; declare one with @app.on(…)"
        logging.getLogger("tickwork").warning(text)
    worker, _, isolator = await assemble(
        store,
        registry,
        observer,
        compose=compose,
        scope_of=scope_of,
        consumers=consumers,
        roles=settings.roles if serves else settings.roles - {Role.API},
        open_node_store=lambda: open_store(settings),
        node_name=node_name(),
        clock_offset=clock_offset,
        declare_again=declare_again,
        find=find,
        archive=open_archive(settings.archive_directory),
        pager=lease_pager(settings),
    )
    limit_seconds = float(settings.loop_blocked_seconds)
    running = running_invocations_of(worker.consumers)
    watchdog = Watchdog(running, observer, limit_seconds=limit_seconds)
    metrics.watch(worker.consumers, isolator, watchdog)
    scheduler = worker.scheduler
    leads = (lambda: False) if scheduler is None else (lambda: scheduler.leadership.leads_first)
    depths = depth_task(store, metrics, leads)
    return ObservedWorker(worker, (metrics, schedule_metrics), watchdog, depths, channels)


def _logs(settings: Settings, clock_offset: ClockOffset) -> tuple[Observer, ...]:
    """The log lines of a worker."""
    from tickwork.service.observe.log_events import EventLog
    from tickwork.service.observe.message_log import MessageLog
    from tickwork.service.observe.repeats import RepeatedLines
    from tickwork.service.observe.schedule_log import ScheduleLog

    repeats, successes = RepeatedLines(), settings.log_successes_per_second
    return (
        MessageLog(clock_offset, repeats, successes_per_second=successes),
        EventLog(repeats),
        ScheduleLog(repeats),
    )


def start_tracing(settings: Settings) -> None:
    """Traces if the settings say so."""
    if settings.tracing == "on" and not spans.is_on():
        with otel_extra():
            spans.start()


def context_of(settings: Settings, store: Store, scope: Scope) -> Context:
    """What verbs work with in a process without an app, such as a command."""
    return Context(
        store,
        scope,
        lambda: settings.schedule_limits,
        outside=outside_of(settings),
        unknown_types=lambda: settings.unknown_types,
    )


def node_name() -> str:
    """The name of this process in the cluster."""
    return f"{socket.gethostname()[:_HOST_LENGTH_MAX]}:{os.getpid()}"


def _runs(
    store: Store, registry: Registry, settings: Settings, observer: Observer
) -> WorkflowConsumers:
    """The consumers of the workflows of an app."""
    from tickwork.workflow.consumer import workflow_consumers

    return workflow_consumers(
        store,
        registry.workflows,
        monotonic=clock.monotonic,
        grace_seconds=settings.version_grace_seconds,
        observer=observer,
    )


def _consumers(registry: Registry, runs: Iterable[Consumer], folder: Path) -> list[Consumer]:
    """The consumers of an app and of its workflows, with the concurrency that the topology file
    sets for them."""
    topology = read_topology(folder)
    concurrency = {consumer.queue: consumer.max_concurrency for consumer in topology.consumers}
    return [
        structs.replace(consumer, operator_concurrency=concurrency.get(consumer.queue.name))
        for consumer in (*registry.consumers(), *runs)
    ]
