"""Lists, configures, pauses, purges and deletes queues, and summarises their throughput."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from uuid import UUID

from msgspec import Struct, structs

from tickwork.app.declarations import Registry
from tickwork.app.handlers import check_own_queue, queue_settings
from tickwork.app.invocation import current_handling
from tickwork.core.limits import HIDDEN_QUEUES
from tickwork.core.model import Counts, QueueSettings, Scope, StoredQueue
from tickwork.core.queue.stats import CounterName, QueueStats
from tickwork.errors import Conflict, FieldError, InvalidInput, NotFound
from tickwork.ops.audit import record_change
from tickwork.ops.schedules.lookup import has_queue
from tickwork.store.contract import Store

_log = logging.getLogger("tickwork")


async def list_queues(store: Store, scope: Scope) -> tuple[StoredQueue, ...]:
    """Returns the queues of a scope by name; those of a tenant include the shared queues. Hidden
    queues are left out."""
    return tuple(each for each in await store.queues.list(scope) if each.name not in HIDDEN_QUEUES)


async def get_queue(store: Store, scope: Scope, name: str) -> StoredQueue:
    """Returns one queue; raises `NotFound` if the scope has none of that name."""
    return await store.queues.get(scope, name)


def check_visible(name: str) -> None:
    """Raises `NotFound` for a queue that Tickwork itself uses, which users do not see."""
    if name in HIDDEN_QUEUES:
        raise NotFound("queue", name)


async def put_queue(
    store: Store,
    scope: Scope,
    name: str,
    fields: Mapping[str, object],
    *,
    check: Callable[[StoredQueue | None], None],
) -> tuple[StoredQueue, bool]:
    """Creates a queue or replaces its settings; returns it, and whether it is new.

    `check` may refuse the stored queue, such as for an old `If-Match`. Raises `Conflict` for a
    queue that an app declares, because its code gives the settings.
    """
    settings = queue_settings(name, fields)
    check_visible(name)
    try:
        known = await store.queues.get(scope, name)
    except NotFound:
        known = None
    if known is not None and known.tenant != scope.tenant:
        known = None  # A shared queue: the tenant's own one takes precedence.
    if known is not None and known.declared_by is not None:
        raise Conflict(
            f"queue {name} is declared by the app {known.declared_by}; change its settings there"
        )
    check(known)
    stored = await store.queues.put(scope, name, settings)
    before = None if known is None else known.settings
    await record_change(store, scope, "queue.put", name, before=before, after=stored.settings)
    return stored, known is None


async def queue_names(store: Store, scope: Scope) -> Mapping[UUID, str]:
    """Returns the names of the scope's queues by queue id."""
    return {queue.id: queue.name for queue in await store.queues.list(scope)}


async def declare_queue(
    store: Store,
    scope: Scope,
    name: str,
    settings: QueueSettings,
    *,
    app: str,
    has_settings: bool,
    has_handlers: bool = False,
) -> None:
    """Creates a queue that an app declares, or replaces its settings if the app gives any.

    A queue with settings in code, or with handlers, is declared by that app: consumers cannot pull
    from it. Logs a warning if another app declares it with different settings.
    """
    try:
        known = await store.queues.get(scope, name)
    except NotFound:
        is_declared = has_settings or has_handlers
        await store.queues.put(scope, name, settings, declared_by=app if is_declared else None)
        return
    if not has_settings:
        if has_handlers and known.declared_by is None and known.tenant == scope.tenant:
            await store.queues.put(scope, name, known.settings, declared_by=app)
        return
    is_twice = known.declared_by not in (None, app) and known.settings != QueueSettings()
    if is_twice and known.settings != settings:
        _log.warning(
            _DECLARED_TWICE, name, known.declared_by, app, _differences(known.settings, settings)
        )
    await store.queues.put(scope, name, settings, declared_by=app)


_DECLARED_TWICE = (
    "queue %s is declared by the apps %s and %s with different settings: %s; the app that starts "
    "last wins. Give the settings in one app and only the name in the other"
)


def _differences(before: QueueSettings, after: QueueSettings) -> str:
    changed = [
        f"{name} {getattr(before, name)!r} and {getattr(after, name)!r}"
        for name in QueueSettings.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    ]
    return ", ".join(changed)


async def update_queue(
    store: Store, scope: Scope, name: str, changes: Mapping[str, object]
) -> StoredQueue:
    """Changes the given settings of a queue; None means the default again. An app that declares
    settings for it sets them again when it starts.

    Raises `InvalidInput`, and `Conflict` if a tenant tries to change a shared queue.
    """
    check_own_queue("queue", name)
    known = await store.queues.get(scope, name)
    if known.tenant != scope.tenant:
        raise Conflict(f"queue {name} is shared; only the system may change it")
    merged = {**structs.asdict(known.settings), **changes}
    given = {field: value for field, value in merged.items() if value is not None}
    settings = queue_settings(name, given)
    return await store.queues.put(scope, name, settings, declared_by=known.declared_by)


async def pause_queue(store: Store, scope: Scope, name: str) -> None:
    """Stops workers from claiming messages of a queue. Sending continues.

    Raises `Conflict` if a tenant tries to pause a shared queue.
    """
    await store.queues.pause(scope, name)
    await record_change(store, scope, "queue.pause", name)


async def resume_queue(store: Store, scope: Scope, name: str) -> None:
    """Lets workers claim messages of a paused queue again.

    Raises `Conflict` if a tenant tries to resume a shared queue.
    """
    await store.queues.resume(scope, name)
    await record_change(store, scope, "queue.resume", name)


async def purge_queue(store: Store, scope: Scope, name: str) -> int:
    """Deletes every message that no worker has claimed and returns how many it deleted.

    On a shared queue a tenant deletes only its own messages. Deleted items of a batch count as
    failed.
    """
    purged = await store.queues.purge(scope, name)
    await record_change(store, scope, "queue.purge", name, after={"purged": purged})
    return purged


async def delete_queue(store: Store, scope: Scope, name: str) -> None:
    """Removes an empty queue.

    Raises `Conflict` if it still has messages or open dead letters, or if a tenant tries to
    delete a shared queue.
    """
    await store.queues.delete(scope, name)
    await record_change(store, scope, "queue.delete", name)


async def count_messages(store: Store, scope: Scope, name: str) -> Counts:
    """Returns how many messages of a queue are in each state."""
    return await store.queues.counts(scope, name)


async def queue_stats(store: Store, scope: Scope, name: str) -> QueueStats:
    """Returns a queue's message counts, the age of its oldest message and its recent throughput."""
    return await store.stats.queue(scope, name)


async def check_queues_exist(
    open_store: Callable[[], Awaitable[Store]],
    registry: Registry,
    scope: Scope,
    **named: str | None,
) -> None:
    """Raises `InvalidInput`, by field, for queues that neither the app nor the store has.

    A handler in a child process has no database: there the check is left to the commit.
    """
    given = {field: name for field, name in named.items() if name is not None}
    for field, name in given.items():
        check_own_queue(field, name)
    handling = current_handling()
    for field, name in given.items():
        if name in registry.queues or (handling is not None and not handling.has_store):
            continue
        if not await has_queue(await open_store(), scope, name):
            fault = f"{name!r} is not declared; {registry.nearest(name)}"
            raise InvalidInput([FieldError(field, fault)])


QUEUES_MAX = 100
"""Maximum number of queues in an overview."""


class LabeledCounts(Struct, frozen=True):
    """Counters of a minute or of a kind of message; counters that are zero are left out."""

    label: str
    counts: Mapping[CounterName, int]


def by_minute(stats: QueueStats) -> tuple[LabeledCounts, ...]:
    """Returns the counters of the recent minutes that have any, oldest first."""
    found: dict[datetime, dict[CounterName, int]] = {}
    for each in stats.minutes:
        counts = found.setdefault(each.minute, {})
        counts[each.counter] = counts.get(each.counter, 0) + each.messages
    return tuple(
        LabeledCounts(f"{at:%Y-%m-%d %H:%M}", counts) for at, counts in sorted(found.items())
    )


def by_kind(stats: QueueStats) -> tuple[LabeledCounts, ...]:
    """Returns the counters of the last hour by message type and source."""
    found: dict[str, dict[CounterName, int]] = {}
    for each in stats.kinds:
        label = f"{each.type or '(no type)'} from {each.source or '(no source)'}"
        counts = found.setdefault(label, {})
        counts[each.counter] = counts.get(each.counter, 0) + each.messages
    return tuple(LabeledCounts(label, counts) for label, counts in sorted(found.items()))


class QueueView(Struct, frozen=True):
    """A queue in the overview, with its counters by minute and by kind of message."""

    queue: str
    tenant: str | None
    counts: Counts
    oldest_age_seconds: float | None
    minutes: tuple[LabeledCounts, ...]
    kinds: tuple[LabeledCounts, ...]


async def overview(store: Store, scope: Scope) -> tuple[QueueView, ...]:
    """Returns the queues of a scope with their statistics, at most `QUEUES_MAX`."""
    queues = await list_queues(store, scope)
    return tuple([await _view(store, scope, each) for each in queues[:QUEUES_MAX]])


async def _view(store: Store, scope: Scope, queue: StoredQueue) -> QueueView:
    # For the system in the owner's scope, so that a shared queue counts every tenant's messages.
    owner = Scope(queue.tenant) if scope.is_system else scope
    stats = await store.stats.queue(owner, queue.name)
    return QueueView(
        queue.name,
        queue.tenant,
        stats.counts,
        stats.oldest_age_seconds,
        by_minute(stats),
        by_kind(stats),
    )


class QueueUsage(Struct, frozen=True, kw_only=True):
    """How many queues a tenant has of its own, and its messages in each state in the first
    `QUEUES_MAX` queues that it sees."""

    tenant: str | None
    queues: int
    messages: Counts


async def queue_usage(store: Store, scope: Scope) -> QueueUsage:
    """Returns what a tenant uses now."""
    found = await list_queues(store, scope)
    counted = [await store.queues.counts(scope, each.name) for each in found[:QUEUES_MAX]]
    fields = Counts.__struct_fields__
    totals = {name: sum(getattr(each, name) for each in counted) for name in fields}
    own = sum(each.tenant == scope.tenant for each in found)
    return QueueUsage(tenant=scope.tenant, queues=own, messages=Counts(**totals))
