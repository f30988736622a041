"""Compares a topology file with the database and applies it; lists what the database has.

Applying is idempotent and deletes nothing: what only the database has is reported and kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct, structs

from tickwork.app.declarations import Registry
from tickwork.core.message.subscription import Subscription
from tickwork.core.model import SYSTEM, QueueSettings, StoredQueue
from tickwork.core.topology import Consumer, QueueEntry, ServiceEntry, SubscriptionEntry, Topology
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.queues import list_queues, pause_queue, resume_queue
from tickwork.ops.subscriptions import subscribe


class Action(StrEnum):
    """What applying a topology does with a queue or subscription."""

    CREATE = "create"
    CHANGE = "change"
    KEEP = "keep"
    EXTRA = "extra"


class Kind(StrEnum):
    """Whether a step concerns a queue or a subscription."""

    QUEUE = "queue"
    SUBSCRIPTION = "subscription"


class Change(Struct, frozen=True):
    """One setting that differs from the file."""

    field: str
    before: object
    after: object


class Step(Struct, frozen=True, kw_only=True):
    """One queue or subscription and the action on it; `extra` is only in the database."""

    action: Action
    kind: Kind
    name: str
    queue: str
    shared: bool
    changes: tuple[Change, ...] = ()


class _Pair(Struct, frozen=True):
    """A step and its entry in the file, if it has one."""

    step: Step
    entry: QueueEntry | SubscriptionEntry | None


def topology_of(registry: Registry) -> Topology:
    """Returns the topology of an app: its queues, and each of its handlers as a consumer.

    Raises `InvalidInput` for a handler whose queue is not declared.
    """
    registry.check()
    return Topology(
        queues=tuple(
            QueueEntry(
                name=queue.name,
                settings=queue.settings,
                shared=queue.is_shared,
                implied=queue.is_implied,
            )
            for queue in registry.queues.values()
        ),
        consumers=tuple(
            Consumer(
                queue=handler.queue,
                name=handler.name,
                max_concurrency=handler.max_concurrency,
                type=handler.type,
            )
            for handler in registry.handlers
        ),
        services=tuple(
            ServiceEntry(
                name=service.name, url=service.target if isinstance(service.target, str) else None
            )
            for service in registry.services.values()
        ),
    )


async def stored_topology(context: Context) -> Topology:
    """Returns what the database has for a tenant: its queues and the shared ones, the apps that
    declare them or the endpoints that they are pushed to as consumers, and the subscriptions."""
    queues, subscriptions = await _stored(context)
    return Topology(
        queues=tuple(
            QueueEntry(
                name=queue.name,
                settings=queue.settings,
                shared=queue.tenant is None,
                paused=queue.paused,
            )
            for queue in queues
        ),
        consumers=tuple(
            Consumer(queue=queue.name, name=queue.settings.push_to or queue.declared_by)
            for queue in queues
            if queue.settings.push_to or queue.declared_by
        ),
        subscriptions=tuple(
            SubscriptionEntry(
                types=subscription.types,
                queue=subscription.queue,
                shared=subscription.tenant is None,
            )
            for subscription in subscriptions
        ),
    )


async def plan(context: Context, topology: Topology) -> tuple[Step, ...]:
    """Returns the steps that `apply` would take for a tenant."""
    return tuple([pair.step for pair in await _compared(context, topology)])


async def apply(context: Context, topology: Topology) -> tuple[Step, ...]:
    """Creates and changes what differs, queues before subscriptions, and returns the steps.

    Each step is its own transaction: after a failure, apply again.
    """
    pairs = await _compared(context, topology)
    for pair in pairs:
        if pair.step.action not in (Action.CREATE, Action.CHANGE) or pair.entry is None:
            continue
        owner = SYSTEM if pair.step.shared else context.scope
        if isinstance(pair.entry, QueueEntry):
            await _put_queue(context.within(owner), pair.entry, pair.step)
        else:
            await subscribe(context.within(owner), pair.entry.types, pair.entry.queue)
    return tuple(pair.step for pair in pairs)


async def _put_queue(context: Context, entry: QueueEntry, step: Step) -> None:
    changed = {change.field for change in step.changes}
    if step.action is Action.CREATE or changed - {"paused"}:
        async with recorded(context, "queue.put", entry.name, after=entry.settings):
            await context.store.queues.put(context.scope, entry.name, entry.settings)
    if "paused" in changed or (step.action is Action.CREATE and entry.paused):
        act = pause_queue if entry.paused else resume_queue
        await act(context, entry.name)


async def _compared(context: Context, topology: Topology) -> list[_Pair]:
    if context.scope.is_system:
        raise InvalidInput(
            [FieldError("tenant", "is missing: a topology is applied to one tenant")]
        )
    queues, subscriptions = await _stored(context)
    return [*_queue_pairs(topology, queues), *_subscription_pairs(topology, subscriptions)]


async def _stored(context: Context) -> tuple[list[StoredQueue], list[Subscription]]:
    """The queues and subscriptions of a tenant, and the shared ones."""
    queues = [
        queue
        for queue in await list_queues(context)
        if queue.tenant is None or queue.tenant == context.scope.tenant
    ]
    return queues, await visible_subscriptions(context)


async def visible_subscriptions(context: Context) -> list[Subscription]:
    """The subscriptions of a tenant, and the shared ones."""
    subscriptions = [
        *await context.store.subscriptions.list(context.scope),
        *(
            subscription
            for subscription in await context.store.subscriptions.list(SYSTEM)
            if subscription.tenant is None
        ),
    ]
    return [*dict.fromkeys(subscriptions)]


def _queue_pairs(topology: Topology, found: list[StoredQueue]) -> Iterator[_Pair]:
    stored = {(queue.tenant is None, queue.name): queue for queue in found}
    for entry in topology.queues:
        queue = stored.pop((entry.shared, entry.name), None)
        if queue is None and entry.implied:
            queue = stored.pop((True, entry.name), None)  # A shared queue satisfies it, too.
        changes = () if queue is None or entry.implied else tuple(_changes(entry, queue))
        action = Action.CREATE if queue is None else Action.CHANGE if changes else Action.KEEP
        yield _Pair(_queue_step(action, entry.name, shared=entry.shared, changes=changes), entry)
    for shared, name in stored:
        yield _Pair(_queue_step(Action.EXTRA, name, shared=shared), None)


def _queue_step(
    action: Action, name: str, *, shared: bool, changes: tuple[Change, ...] = ()
) -> Step:
    return Step(
        action=action, kind=Kind.QUEUE, name=name, queue=name, shared=shared, changes=changes
    )


def _changes(entry: QueueEntry, queue: StoredQueue) -> Iterator[Change]:
    for field in structs.fields(QueueSettings):
        before, after = getattr(queue.settings, field.name), getattr(entry.settings, field.name)
        if before != after:
            yield Change(field.name, before, after)
    if entry.paused is not None and entry.paused != queue.paused:
        yield Change("paused", queue.paused, entry.paused)


def _subscription_pairs(topology: Topology, found: list[Subscription]) -> Iterator[_Pair]:
    stored = dict.fromkeys(
        (subscription.tenant is None, subscription.types, subscription.queue)
        for subscription in found
    )
    for entry in topology.subscriptions:
        key = (entry.shared, entry.types, entry.queue)
        action = Action.KEEP if key in stored else Action.CREATE
        stored.pop(key, None)
        yield _Pair(_subscription_step(action, *key), entry)
    for key in stored:
        yield _Pair(_subscription_step(Action.EXTRA, *key), None)


def _subscription_step(action: Action, shared: bool, types: str, queue: str) -> Step:
    return Step(action=action, kind=Kind.SUBSCRIPTION, name=types, queue=queue, shared=shared)
