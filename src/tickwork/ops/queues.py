"""Lists, configures, pauses, purges and deletes queues, and summarises their throughput."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from msgspec import Struct, structs

from tickwork.app.declarations import Registry
from tickwork.app.handlers import check_own_queue, queue_settings
from tickwork.app.invocation import current_handling
from tickwork.core.answers.queue import LabeledCounts, QueueAnswer, QueueView, Usage
from tickwork.core.answers.usage import UsageAnswer
from tickwork.core.limits import is_hidden
from tickwork.core.model import (
    SYSTEM,
    Counts,
    QueuePosition,
    QueueSettings,
    Scope,
    StoredQueue,
)
from tickwork.core.near_names import nearest
from tickwork.core.queue.stats import QueueStats
from tickwork.errors import Conflict, FieldError, InvalidInput, NotFound, PreconditionFailed
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import has_queue
from tickwork.store.contract import Store
from tickwork.store.message_contract import CheckQueue

CHANGE_ATTEMPTS_MAX = 100
"""Maximum number of attempts at a change of some fields while others change the same thing."""

_log = logging.getLogger("tickwork")


async def list_queues(
    context: Context,
    *,
    limit: int | None = None,
    after: QueuePosition | None = None,
) -> tuple[StoredQueue, ...]:
    """Returns the queues of a scope by name and tenant; those of a tenant include the shared
    queues. With a limit the first ones after a position. Hidden queues are left out."""
    return await _list(context, limit, after, with_hidden=False)


async def list_queues_in_use(
    context: Context,
    *,
    limit: int | None = None,
    after: QueuePosition | None = None,
) -> tuple[StoredQueue, ...]:
    """As `list_queues`, with the hidden queues that have messages or open dead letters."""
    return await _list(context, limit, after, with_hidden=True)


async def show_queues(context: Context, *, limit: int) -> tuple[QueueAnswer, ...]:
    """As `list_queues_in_use`, as users see them."""
    return tuple(map(QueueAnswer.of, await list_queues_in_use(context, limit=limit)))


async def _list(
    context: Context,
    limit: int | None,
    after: QueuePosition | None,
    *,
    with_hidden: bool,
) -> tuple[StoredQueue, ...]:
    found: list[StoredQueue] = []
    while True:
        page = await context.store.queues.list(context.scope, limit=limit, after=after)
        hidden = [queue for queue in page if is_hidden(queue.name)]
        shown = await _in_use(context, hidden) if with_hidden else frozenset()
        found += [queue for queue in page if not is_hidden(queue.name) or queue.id in shown]
        if limit is None or len(page) < limit or len(found) >= limit:
            return tuple(found[:limit])
        after = page[-1].position


async def _in_use(context: Context, queues: Sequence[StoredQueue]) -> frozenset[UUID]:
    """The ids of the queues in which the scope has messages or open dead letters."""
    if not queues:
        return frozenset()
    stats = await context.store.stats.queues(context.scope, queues, at_most=1)
    measured = zip(queues, stats, strict=True)
    return frozenset(queue.id for queue, found in measured if found.counts != Counts())


QUEUES_COMPARED_MAX = 1_000
"""Maximum number of names that are compared with the name of a queue that does not exist."""


async def with_nearest(context: Context, error: NotFound) -> NotFound:
    """Returns the error, for a queue that does not exist with the nearest name."""
    if error.kind != "queue" or error.hint is not None:
        return error
    name = str(error.name)
    known = {queue.name for queue in await list_queues(context, limit=QUEUES_COMPARED_MAX)}
    near = nearest(name, known - {name})
    return error if near is None else NotFound("queue", name, f"did you mean {near!r}?")


async def find_queue(context: Context, name: str) -> StoredQueue:
    """Returns a stored queue; raises `NotFound` if the scope has none of that name."""
    return await context.store.queues.get(context.scope, name)


async def get_queue(context: Context, name: str, *, is_counted: bool = True) -> QueueAnswer:
    """Returns one queue with how many messages are in each state, unless they are not to be
    counted; raises `NotFound` if the scope has none of that name."""
    stored = await find_queue(context, name)
    if not is_counted:
        return QueueAnswer.of(stored)
    return QueueAnswer.of(stored, *await count_messages(context, name))


def check_visible(name: str) -> None:
    """Raises `NotFound` for a queue that Tickwork itself uses, which users do not see."""
    if is_hidden(name):
        raise NotFound("queue", name)


async def check_readable(context: Context, name: str) -> None:
    """Raises `NotFound` for a hidden queue that is not listed, because nothing is in it."""
    if is_hidden(name) and not await _in_use(context, [await find_queue(context, name)]):
        raise NotFound("queue", name)


async def put_queue(
    context: Context,
    name: str,
    fields: Mapping[str, object],
    *,
    check: CheckQueue | None = None,
) -> tuple[QueueAnswer, bool]:
    """Creates a queue or replaces its settings; returns it, and whether it is new.

    `check` may refuse the stored queue, such as for an old `If-Match`. Raises `Conflict` for a
    queue that an app declares, because its code gives the settings.
    """
    settings = queue_settings(name, fields)
    check_visible(name)

    def refuse(stored: StoredQueue | None) -> None:
        if stored is not None and stored.declared_by is not None:
            raise Conflict(
                f"queue {name} is declared by the app {stored.declared_by}; change its settings "
                "there"
            )
        if check is not None:
            check(stored)

    try:
        known = await context.store.queues.get(context.scope, name)
    except NotFound:
        known = None
    if known is not None and known.tenant != context.scope.tenant:
        known = None  # A shared queue: the tenant's own one takes precedence.
    stored = await _put(context, name, settings, before=known, check=refuse)
    return QueueAnswer.of(stored), known is None


async def _put(
    context: Context,
    name: str,
    settings: QueueSettings,
    *,
    before: StoredQueue | None,
    declared_by: str | None = None,
    check: CheckQueue | None = None,
) -> StoredQueue:
    """Stores the settings of a queue, with a record if they change. Creates its dead-letter queue
    if there is none."""
    onward = settings.dead_letter_queue
    if onward is not None and not await has_queue(context, onward):
        if check is not None:
            check(before)  # What is refused makes no queue.
        async with recorded(context, "queue.put", onward, after=QueueSettings()):
            await context.store.queues.put(context.scope, onward, QueueSettings())
    known = None if before is None else before.settings
    async with recorded(context, "queue.put", name, before=known, after=settings) as change:
        change.is_void = change.before == change.after
        return await context.store.queues.put(
            context.scope, name, settings, declared_by=declared_by, check=check
        )


async def queue_names(context: Context) -> Mapping[UUID, str]:
    """Returns the names of the scope's queues by queue id."""
    return {queue.id: queue.name for queue in await context.store.queues.list(context.scope)}


async def declare_queue(
    context: Context,
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
        known = await context.store.queues.get(context.scope, name)
    except NotFound:
        declared_by = app if has_settings or has_handlers else None
        await _put(context, name, settings, before=None, declared_by=declared_by)
        return
    if not has_settings:
        if has_handlers and known.declared_by is None and known.tenant == context.scope.tenant:
            await _put(context, name, known.settings, before=known, declared_by=app)
        return
    is_twice = known.declared_by not in (None, app) and known.settings != QueueSettings()
    if is_twice and known.settings != settings:
        _log.warning(
            _DECLARED_TWICE, name, known.declared_by, app, _differences(known.settings, settings)
        )
    await _put(context, name, settings, before=known, declared_by=app)


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
    context: Context,
    name: str,
    changes: Mapping[str, object],
    *,
    check: CheckQueue | None = None,
) -> QueueAnswer:
    """Changes the given settings of a queue; None means the default again. An app that declares
    settings for it sets them again when it starts. `check` as for `put_queue`.

    Raises `InvalidInput`, and `Conflict` if a tenant tries to change a shared queue.
    """
    check_own_queue("queue", name)
    for _ in range(CHANGE_ATTEMPTS_MAX):
        known = await context.store.queues.get(context.scope, name)
        if known.tenant != context.scope.tenant:
            raise Conflict(f"queue {name} is shared; only the system may change it")
        if check is not None:
            check(known)
        merged = {**structs.asdict(known.settings), **changes}
        given = {field: value for field, value in merged.items() if value is not None}
        settings, same = queue_settings(name, given), _unchanged(known, check)
        app = known.declared_by
        with suppress(PreconditionFailed):
            changed = await _put(context, name, settings, before=known, declared_by=app, check=same)
            return QueueAnswer.of(changed)
    raise Conflict(f"others change queue {name} all the time; try again")


def _unchanged(known: StoredQueue, check: CheckQueue | None) -> CheckQueue:
    """Refuses a queue that somebody has changed since it was read, or that `check` refuses."""

    def refuse(stored: StoredQueue | None) -> None:
        before = (known.settings, known.declared_by)
        if stored is None or (stored.settings, stored.declared_by) != before:
            raise PreconditionFailed("queue", known.name)
        if check is not None:
            check(stored)

    return refuse


async def pause_queue(context: Context, name: str) -> None:
    """Stops workers from claiming messages of a queue. Sending continues.

    Raises `Conflict` if a tenant tries to pause a shared queue.
    """
    async with recorded(context, "queue.pause", name):
        await context.store.queues.pause(context.scope, name)


async def resume_queue(context: Context, name: str) -> None:
    """Lets workers claim messages of a paused queue again.

    Raises `Conflict` if a tenant tries to resume a shared queue.
    """
    async with recorded(context, "queue.resume", name):
        await context.store.queues.resume(context.scope, name)


async def purge_queue(context: Context, name: str) -> int:
    """Deletes every message that no worker has claimed and returns how many it deleted.

    On a shared queue a tenant deletes only its own messages. Deleted items of a batch count as
    failed.
    """
    async with recorded(context, "queue.purge", name):
        return await context.store.queues.purge(context.scope, name)


async def delete_queue(context: Context, name: str, *, check: CheckQueue | None = None) -> None:
    """Removes an empty queue. `check` may refuse it, such as for an old `If-Match`.

    Raises `Conflict` if it still has messages or open dead letters, or if a tenant tries to
    delete a shared queue.
    """
    async with recorded(context, "queue.delete", name):
        await context.store.queues.delete(context.scope, name, check=check)


async def count_messages(context: Context, name: str) -> tuple[Counts, tuple[str, ...]]:
    """Returns how many messages of a queue are in each state, and the states of which there may be
    more: counting stops at `COUNTED_MAX`."""
    counts = await context.store.queues.counts(context.scope, name, at_most=COUNTED_MAX)
    return counts, stopped_counts(counts, COUNTED_MAX)


async def queue_stats(context: Context, name: str) -> QueueStats:
    """Returns a queue's message counts, the age of its oldest message and its recent throughput."""
    return await context.store.stats.queue(context.scope, name)


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
        if not await has_queue(Context(await open_store(), scope), name):
            raise InvalidInput([FieldError(field, registry.no_queue(name))])


QUEUES_MAX = 100
"""Maximum number of queues on a page of an overview."""

COUNTED_MAX = 50_000
"""Messages in each state that one answer counts, over all its queues: some tens of milliseconds. A
count that stops is marked."""

COUNTED_OF_QUEUE_MIN = 1_000
"""Messages in each state that are counted of a queue, however many queues share the answer."""


def _counted_per_queue(queues: int) -> int:
    return max(COUNTED_OF_QUEUE_MIN, COUNTED_MAX // max(queues, 1))


def stopped_counts(counts: Counts, at_most: int) -> tuple[str, ...]:
    """Returns the states whose count stopped at a bound: there may be more messages."""
    return tuple(name for name in counts.__struct_fields__ if getattr(counts, name) >= at_most)


QUEUES_MEASURED_MAX = 1_000
"""Maximum number of queues, by name, whose depth is measured."""


class QueueDepth(Struct, frozen=True):
    """Number of messages that wait for a worker in the queues of a name, and how long the oldest
    one has waited."""

    name: str
    messages: int
    oldest_seconds: float


async def queue_depths(store: Store) -> tuple[QueueDepth, ...]:
    """Returns the depths of the first `QUEUES_MEASURED_MAX` queues of all tenants, by name; hidden
    queues are left out. Queues of one name count together, so that tenants add no names. Counting
    stops at `COUNTED_MAX` messages in all, or `COUNTED_OF_QUEUE_MIN` of a queue."""
    queues = await list_queues(Context(store, SYSTEM), limit=QUEUES_MEASURED_MAX)
    ids, at_most = [stored.id for stored in queues], _counted_per_queue(len(queues))
    found: dict[str, QueueDepth] = {}
    for start in range(0, len(ids), QUEUES_MAX):
        part = slice(start, start + QUEUES_MAX)
        measured = await store.stats.waiting(SYSTEM, ids[part], at_most=at_most)
        for queue, waiting in zip(queues[part], measured, strict=True):
            known = found.get(queue.name, QueueDepth(queue.name, 0, 0.0))
            oldest_seconds = max(known.oldest_seconds, waiting.oldest_age_seconds or 0.0)
            messages = known.messages + waiting.messages
            found[queue.name] = QueueDepth(queue.name, messages, oldest_seconds)
    return tuple(found.values())


def by_minute(stats: QueueStats) -> tuple[LabeledCounts, ...]:
    """Returns the counters of the recent minutes that have any, oldest first."""
    found: dict[datetime, dict[str, int]] = {}
    for minute in stats.minutes:
        counts = found.setdefault(minute.minute, {})
        counts[minute.counter] = counts.get(minute.counter, 0) + minute.messages
    return tuple(
        LabeledCounts(f"{at:%Y-%m-%d %H:%M}", counts) for at, counts in sorted(found.items())
    )


def by_kind(stats: QueueStats) -> tuple[LabeledCounts, ...]:
    """Returns the counters of the last hour by message type and source."""
    found: dict[str, dict[str, int]] = {}
    for kind in stats.kinds:
        label = f"{kind.type or '(no type)'} from {kind.source or '(no source)'}"
        counts = found.setdefault(label, {})
        counts[kind.counter] = counts.get(kind.counter, 0) + kind.messages
    return tuple(LabeledCounts(label, counts) for label, counts in sorted(found.items()))


def dead_types(stats: QueueStats) -> Mapping[str, int]:
    """Returns how many messages of each type died in the last 24 hours."""
    return {kind.type or "(no type)": kind.messages for kind in stats.dead}


def queue_view(
    queue: StoredQueue, stats: QueueStats, *, at_least: tuple[str, ...] = ()
) -> QueueView:
    """A queue with its statistics."""
    return QueueView(
        queue=queue.name,
        tenant=queue.tenant,
        counts=stats.counts,
        late=stats.late,
        oldest_age_seconds=stats.oldest_age_seconds,
        minutes=by_minute(stats),
        kinds=by_kind(stats),
        dead_types=dead_types(stats),
        at_least=at_least,
    )


async def overview(
    context: Context,
    *,
    queue: str | None = None,
    limit: int | None = None,
    after: QueuePosition | None = None,
) -> tuple[QueueView, ...]:
    """Returns the queues of a scope, or the one of a name, by name and tenant, with their
    statistics; those after a given one, up to a limit. Hidden queues only if something is in
    them."""
    if queue is not None:
        await check_readable(context, queue)
        return await _views(context, [await find_queue(context, queue)], COUNTED_MAX)
    wanted = await list_queues_in_use(context, limit=limit, after=after)
    return await _views(context, wanted, _counted_per_queue(len(wanted)))


async def _views(
    context: Context, queues: Sequence[StoredQueue], at_most: int
) -> tuple[QueueView, ...]:
    found = await context.store.stats.queues(context.scope, queues, at_most=at_most)
    return tuple(
        queue_view(queue, stats, at_least=stopped_counts(stats.counts, at_most))
        for queue, stats in zip(queues, found, strict=True)
    )


async def tenant_usage(context: Context, used: UsageAnswer | None = None) -> Usage:
    """Returns what a tenant uses now, with what it used in a time."""
    found = await list_queues(context)
    at_most = _counted_per_queue(min(len(found), QUEUES_MAX))
    stats = await context.store.stats.queues(context.scope, found[:QUEUES_MAX], at_most=at_most)
    counted = [stat.counts for stat in stats]
    fields = Counts.__struct_fields__
    totals = {name: sum(getattr(counts, name) for counts in counted) for name in fields}
    stopped = {name for counts in counted for name in stopped_counts(counts, at_most)}
    own = sum(queue.tenant == context.scope.tenant for queue in found)
    schedules = await context.store.schedules.count(context.scope)
    return Usage(
        tenant=context.scope.tenant,
        schedules=schedules,
        queues=own,
        messages=Counts(**totals),
        at_least=tuple(name for name in fields if name in stopped),
        truncated=len(found) > QUEUES_MAX,
        used=used,
    )
