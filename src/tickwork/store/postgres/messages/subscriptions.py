"""Subscriptions on PostgreSQL, cached for a second because every send reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from tickwork.clock import monotonic
from tickwork.core.limits import check_subscription, is_name
from tickwork.core.message.subscription import Subscription, pattern_faults
from tickwork.core.model import Scope
from tickwork.core.tenant_limits import check_room
from tickwork.errors import NotFound
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.queues import PostgresQueues

CACHED_SUBSCRIPTIONS_SECONDS = 1.0
"""Seconds to cache subscriptions, which other processes may change."""

CACHED_SUBSCRIPTIONS_MAX = 10_000
"""Maximum number of subscriptions to cache for all tenants. If there are more, each tenant's are
read when they are needed."""


class _Cache(NamedTuple):
    """Cached subscriptions: of all tenants (`is_complete`), or of those that were read."""

    of: dict[str | None, tuple[Subscription, ...]]
    is_complete: bool
    until_monotonic: float


_EMPTY_CACHE = _Cache({}, is_complete=False, until_monotonic=0.0)


class PostgresSubscriptions:
    """Which queues get copies of which types."""

    def __init__(self, database: Database, moment: Moment, queues: PostgresQueues) -> None:
        self._database = database
        self._moment = moment
        self._queues = queues
        self._cache = _EMPTY_CACHE
        self._generation = 0

    async def put(self, scope: Scope, types: str, queue: str) -> Subscription:
        check_subscription(types)
        target = await self._queues.get(scope, queue)
        values = (scope.tenant, types, target.id)
        try:
            await self._database.change(lambda connection: _put(connection, *values))
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("queue", queue) from None
        self.forget()
        return Subscription(scope.tenant, types, target.id, target.name)

    async def list(self, scope: Scope) -> tuple[Subscription, ...]:
        if scope.tenant is not None and not is_name(scope.tenant):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_subscriptions, scope.tenant)
        )
        return tuple(_subscription(row) for row in found)

    async def delete(self, scope: Scope, types: str, queue: str) -> bool:
        names = (queue,) if scope.tenant is None else (queue, scope.tenant)
        if any(pattern_faults(types)) or not all(is_name(name) for name in names):
            return False

        async def work(connection: Connection) -> bool:
            given = (scope.tenant, types, queue)
            return await connection.fetchval(SQL.delete_subscription, *given) is not None

        is_deleted = await self._database.change(work, repeatable=False)
        self.forget()
        return is_deleted

    async def of(self, tenant: str) -> tuple[Subscription, ...]:
        """Returns the subscriptions that apply to a tenant's messages: its own and the system's."""
        if self._moment() is not None:
            return await self._read(tenant)
        cache, generation = self._cache, self._generation
        if cache.until_monotonic < monotonic():
            cache = await self._read_all()
            # Not cached if a change has cleared the cache since the read.
            if generation == self._generation:
                self._cache = cache
        if cache.is_complete:
            return cache.of.get(tenant, ()) + cache.of.get(None, ())
        if tenant not in cache.of:
            if len(cache.of) >= CACHED_SUBSCRIPTIONS_MAX:
                cache.of.clear()
            cache.of[tenant] = await self._read(tenant)
        return cache.of[tenant]

    def forget(self) -> None:
        """Clears the cache."""
        self._cache = _EMPTY_CACHE
        self._generation += 1

    async def _read(self, tenant: str) -> tuple[Subscription, ...]:
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.subscriptions_of, tenant)
        )
        return tuple(_subscription(row) for row in found)

    async def _read_all(self) -> _Cache:
        until = monotonic() + CACHED_SUBSCRIPTIONS_SECONDS
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.all_subscriptions, CACHED_SUBSCRIPTIONS_MAX + 1)
        )
        if len(found) > CACHED_SUBSCRIPTIONS_MAX:
            return _Cache({}, is_complete=False, until_monotonic=until)
        return _Cache(_by_tenant(found), is_complete=True, until_monotonic=until)


async def _put(connection: Connection, tenant: str | None, types: str, queue_id: UUID) -> None:
    """Stores a subscription. Raises `TooMany` if it is new and there are too many."""
    if not await connection.fetchval(SQL.put_subscription, tenant, types, queue_id):
        return
    quotas = await connection.fetchrow(SQL.lock_counted_quotas, tenant)
    count = await connection.fetchval(SQL.count_subscriptions, tenant)
    most = None if quotas is None else quotas["subscriptions_max"]
    check_room(tenant, "subscriptions_max", count - 1, most)


def _by_tenant(found: Iterable[Any]) -> dict[str | None, tuple[Subscription, ...]]:
    cache: dict[str | None, list[Subscription]] = {}
    for row in found:
        cache.setdefault(row["tenant"], []).append(_subscription(row))
    return {tenant: tuple(own) for tenant, own in cache.items()}


def _subscription(row: Any) -> Subscription:
    return Subscription(row["tenant"], row["types"], row["queue_id"], row["queue"])
