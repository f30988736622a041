"""Puts a node, the consumers of a worker and a scheduler together.

`wiring.build_worker` does it for a real process with its settings, logs and metrics; the test
harness with a virtual clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from tickwork import clock, tzdata_version
from tickwork.core.model import Scope
from tickwork.settings import Role
from tickwork.store.shared.archive import Archive

if TYPE_CHECKING:
    from tickwork.app.declarations import Consumer, Registry
    from tickwork.app.message import Composer
    from tickwork.service.isolation import Isolator
    from tickwork.service.node import Node, OpenStore
    from tickwork.service.observe import ClockOffset, Observer
    from tickwork.service.outages import Pager
    from tickwork.service.scheduler.scheduler import Scheduler
    from tickwork.service.worker.found_consumers import FindConsumers
    from tickwork.service.worker.worker import Worker
    from tickwork.store.contract import Store


class Assembly(NamedTuple):
    """A worker, its node, and the isolator that runs its handlers; none of them is started."""

    worker: Worker
    node: Node
    isolator: Isolator


async def assemble(
    store: Store,
    registry: Registry,
    observer: Observer,
    *,
    compose: Composer,
    scope_of: Callable[[str], Scope],
    consumers: Iterable[Consumer],
    roles: Collection[str],
    open_node_store: OpenStore,
    node_name: str,
    clock_offset: ClockOffset | None = None,
    virtual_clock: Callable[[], float] | None = None,
    declare_again: Callable[[], Awaitable[None]] | None = None,
    find: Sequence[FindConsumers] = (),
    archive: Archive | None = None,
    pager: Pager | None = None,
) -> Assembly:
    """Puts a node, the consumers and, with the role `scheduler`, a scheduler together.

    With `virtual_clock` (monotonic seconds) all times come from it, and the caller keeps the node's
    lease: it is always trusted. The store must use the same virtual clock.
    """
    from tickwork.service.isolation import Isolator, permits_of
    from tickwork.service.node import Node
    from tickwork.service.observe import ClockOffset
    from tickwork.service.worker.claim import Claimer, WorkerContext
    from tickwork.service.worker.worker import open_worker
    from tickwork.workflow.versions import declared_versions

    consumers = tuple(consumers)
    is_virtual = virtual_clock is not None
    node = Node(
        open_node_store,
        name=node_name,
        roles=sorted(roles),
        workflows=declared_versions(registry.workflows) if Role.WORKER in roles else (),
        permits=permits_of(consumers) if Role.WORKER in roles else (),
        observer=observer,
        pager=pager,
    )
    if is_virtual:
        node.trusted_until = inf
    isolator = Isolator(registry.handlers)
    context = WorkerContext(
        store=store,
        claimer=Claimer(store),
        holder=lambda: node.id,
        compose=compose,
        isolator=isolator,
        observer=observer,
        clock_offset=clock_offset or ClockOffset(),
        is_virtual=is_virtual,
        monotonic=virtual_clock or clock.monotonic,
        trusted_until=lambda: node.trusted_until,
        archive=archive,
    )
    if declare_again is not None:
        context = context._replace(declare_again=declare_again)
    scheduler = None
    if Role.SCHEDULER in roles:
        scheduler = _scheduler(store, node, observer, virtual_clock)
    worker = await open_worker(context, node, consumers, scope_of, scheduler, find)
    return Assembly(worker, node, isolator)


def _scheduler(
    store: Store, node: Node, observer: Observer, virtual_clock: Callable[[], float] | None
) -> Scheduler:
    from tickwork.service.scheduler.leadership import Leadership
    from tickwork.service.scheduler.scheduler import Scheduler

    monotonic = virtual_clock or clock.monotonic
    leadership = Leadership(
        store,
        lambda: node.id,
        is_trusted=lambda: monotonic() < node.trusted_until,
        term=lambda: node.term,
        # A virtual clock starts with an empty store, which has no times of other tzdata.
        tzdata=None if virtual_clock else tzdata_version.version(),
    )
    since_boot = virtual_clock or clock.since_boot
    scheduler = Scheduler(store, leadership, observer, monotonic=since_boot)
    node.hold_seconds = scheduler.hold_times.seconds
    return scheduler
