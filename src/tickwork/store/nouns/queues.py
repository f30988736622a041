"""Queues. Purging and counting them, and what a process remembers of them, is in each store:
PostgreSQL counts many in one statement and caches those that it sends to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import datetime
from uuid import UUID

import msgspec

from tickwork.core.limits import check_limit, check_system, is_name
from tickwork.core.model import (
    BEFORE_QUEUES,
    QueuePosition,
    QueueSettings,
    Scope,
    StoredQueue,
)
from tickwork.core.options.tenant import QUEUES_MAX
from tickwork.core.queue.fields import check_queue
from tickwork.core.tenant_limits import check_room
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import new_id
from tickwork.store.message_contract import CheckQueue
from tickwork.store.nouns.tenants import LOCK_QUOTAS
from tickwork.store.shared.columns import Kind, read_declared_by, settings_text
from tickwork.store.steps import NOW, After, Noun, Row, Statement, Steps, Wake, changes, reads

_FIND = Statement("find_queue", StoredQueue)
_LIST = Statement("list_queues", StoredQueue)
_PAGE = Statement("page_queues", StoredQueue)
_LOCK = Statement("lock_queue", id=Kind.ID)
_LOCK_OWN = Statement("lock_own_queue", StoredQueue)
_DELETE = Statement("delete_queue")
_PAUSE = Statement("pause_queue")
_COUNT = Statement("count_queues")
_COUNT_CLAIMS = Statement("count_claims")
_MARK_PULLED = Statement("mark_pulled")
_BACKLOG_BYTES = Statement("backlog_bytes", id=Kind.ID)
_PULLED_AT = Statement("pulled_at", pulled_at=Kind.TIME)

_SETTINGS = msgspec.json.Decoder(QueueSettings)


class Queues(Noun, ABC):
    """Queues by name."""

    @changes
    def put(
        self,
        scope: Scope,
        name: str,
        settings: QueueSettings,
        *,
        declared_by: str | None = None,
        check: CheckQueue | None = None,
    ) -> Steps[StoredQueue]:
        check_queue(name, settings)
        if scope.tenant is not None:
            yield from _check_room(scope.tenant, name)
        yield from _check(scope, name, check)
        text = settings_text(settings, declared_by)
        row = yield from self._store(scope.tenant, name, text, settings)
        queue = read_queue(row)
        if settings.counts_claims:
            yield from _COUNT_CLAIMS.execute(queue.id)
        yield After(self._forget_all)
        return queue

    @reads
    def get(self, scope: Scope, name: str) -> Steps[StoredQueue]:
        return (yield from find_queue(scope, name))

    @reads
    def list(
        self, scope: Scope, *, limit: int | None = None, after: QueuePosition | None = None
    ) -> Steps[tuple[StoredQueue, ...]]:
        if limit is not None:
            check_limit(limit)
        is_page = limit is not None and not scope.is_system
        # No tenant has an empty name: a tenant that cannot exist sees only the shared queues.
        tenant = scope.tenant if scope.tenant is None or is_name(scope.tenant) else ""
        values = (tenant, *(after or BEFORE_QUEUES), limit)
        rows = yield from (_PAGE if is_page else _LIST).fetch(*values)
        return tuple(map(read_queue, rows))

    @changes
    def delete(self, scope: Scope, name: str, *, check: CheckQueue | None = None) -> Steps[None]:
        queue = yield from _find_own(scope, name)
        # Two statements, so that the second sees messages sent while the first waited.
        yield from _LOCK.fetch_row(queue.id)
        yield from _check(scope, name, check)
        if not (yield from _DELETE.execute(queue.id)):
            raise Conflict(
                f"queue {name} still has messages or dead letters; purge and discard them first"
            )
        yield After(self._forget_all)

    @changes
    def pause(self, scope: Scope, name: str) -> Steps[None]:
        queue = yield from _find_own(scope, name)
        yield from _PAUSE.execute(queue.id, True)

    @changes
    def resume(self, scope: Scope, name: str) -> Steps[None]:
        queue = yield from _find_own(scope, name)
        yield from _PAUSE.execute(queue.id, False)
        yield Wake(frozenset({queue.id}))

    @reads
    def backlog_bytes(self, scope: Scope, ids: Collection[UUID]) -> Steps[dict[UUID, int]]:
        check_system(scope)
        rows = yield from _BACKLOG_BYTES.fetch_each([(queue_id,) for queue_id in ids])
        return {row["id"]: row["bytes"] for row in rows}

    @changes
    def mark_pulled(self, scope: Scope, name: str) -> Steps[None]:
        queue = yield from find_queue(scope, name)
        yield from _MARK_PULLED.execute(queue.id, NOW)

    @reads
    def pulled_at(self, scope: Scope, name: str) -> Steps[datetime | None]:
        queue = yield from find_queue(scope, name)
        at: datetime | None = yield from _PULLED_AT.fetch_value(queue.id)
        return at

    @abstractmethod
    def _store(
        self, tenant: str | None, name: str, text: str, settings: QueueSettings
    ) -> Steps[Row]:
        """Stores a queue with its settings as text, and counts its backlog if that is limited."""

    def _forget_all(self) -> None:
        """Drops what the process remembers of queues: nothing, unless a store does."""


def find_queue(scope: Scope, name: str) -> Steps[StoredQueue]:
    """The queue of a name; a tenant's own one takes precedence over a shared one."""
    row = None
    if is_name(name) and (scope.tenant is None or is_name(scope.tenant)):
        row = yield from _FIND.fetch_row(scope.tenant, name)
    if row is None:
        raise NotFound("queue", name)
    return read_queue(row)


def read_queue(row: Row) -> StoredQueue:
    """A queue from its row."""
    return StoredQueue(
        id=row["id"],
        tenant=row["tenant"],
        name=row["name"],
        settings=_SETTINGS.decode(row["settings"]),
        paused=row["paused"],
        declared_by=read_declared_by(row["settings"]),
    )


def queue_values(
    tenant: str | None, name: str, text: str, settings: QueueSettings
) -> tuple[UUID, str | None, str, str, int, int]:
    """What every store keeps of a new queue, or of new settings."""
    return new_id(), tenant, name, text, settings.max_retries, settings.retention_seconds


def _find_own(scope: Scope, name: str) -> Steps[StoredQueue]:
    """The queue, if the scope may change it; only the system may change a shared one."""
    queue = yield from find_queue(scope, name)
    if queue.tenant != scope.tenant:
        raise Conflict(f"queue {name} is shared; only the system may change it")
    return queue


def _check_room(tenant: str, name: str) -> Steps[None]:
    """Raises `TooMany` if the tenant may not have a new queue of that name, `NotFound` if there is
    no such tenant."""
    if not is_name(tenant):
        raise NotFound("tenant", tenant)
    known = yield from _FIND.fetch_row(tenant, name)
    if known is not None and known["tenant"] is not None:
        return
    # Before the queue, in the same order as when schedules are created.
    quotas = yield from LOCK_QUOTAS.fetch_row(tenant)
    if quotas is None:
        raise NotFound("tenant", tenant)
    if quotas["queues_max"] is not None:
        count = yield from _COUNT.fetch_value(tenant, QUEUES_MAX)
        check_room(tenant, "queues_max", count, quotas["queues_max"])


def _check(scope: Scope, name: str, check: CheckQueue | None) -> Steps[None]:
    """Locks a queue and lets the caller refuse the change."""
    if check is not None:
        row = yield from _LOCK_OWN.fetch_row(scope.tenant, name)
        check(None if row is None else read_queue(row))
