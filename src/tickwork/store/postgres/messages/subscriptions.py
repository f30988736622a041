"""Subscriptions on PostgreSQL, cached for a second because every send reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import asyncpg

from tickwork.clock import monotonic
from tickwork.core.message.subscription import Subscription
from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.ids import Moment
from tickwork.store.nouns.subscriptions import Subscriptions
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.steps import Port

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


class PostgresSubscriptions(Subscriptions):
    """Which queues get copies of which types."""

    def __init__(self, port: Port, database: Database, moment: Moment) -> None:
        super().__init__(port)
        self._database, self._moment = database, moment
        self._cache = _EMPTY_CACHE
        self._generation = 0

    async def put(self, scope: Scope, types: str, queue: str) -> Subscription:
        try:
            return await super().put(scope, types, queue)
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("queue", queue) from None

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


def _by_tenant(found: Iterable[Any]) -> dict[str | None, tuple[Subscription, ...]]:
    cache: dict[str | None, list[Subscription]] = {}
    for row in found:
        cache.setdefault(row["tenant"], []).append(_subscription(row))
    return {tenant: tuple(own) for tenant, own in cache.items()}


def _subscription(row: Any) -> Subscription:
    return Subscription(row["tenant"], row["types"], row["queue_id"], row["queue"])
