"""Subscriptions on PostgreSQL, cached briefly: every send needs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import asyncpg

from tickwork.clock import monotonic
from tickwork.core.limits import check_subscription, is_name
from tickwork.core.message.subscription import SUBSCRIPTIONS_MAX, Subscription, pattern_faults
from tickwork.core.model import Scope
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.queues import PostgresQueues

REMEMBERED_SECONDS = 1.0
"""Seconds to cache subscriptions. Another process may change them."""

REMEMBERED_MAX = 10_000
"""Maximum number of subscriptions cached for all tenants. With more, they are cached by tenant."""


class _Known(NamedTuple):
    """Cached subscriptions: of all tenants, or (`is_whole` False) of those that were read."""

    of: dict[str | None, tuple[Subscription, ...]]
    is_whole: bool
    until_monotonic: float


_NOTHING_KNOWN = _Known({}, is_whole=False, until_monotonic=0.0)


class PostgresSubscriptions:
    """Subscriptions of queues."""

    def __init__(self, database: Database, moment: Moment, queues: PostgresQueues) -> None:
        self._database, self._moment, self._queues = database, moment, queues
        self._known = _NOTHING_KNOWN
        self._forgotten = 0

    async def put(self, scope: Scope, types: str, queue: str) -> Subscription:
        check_subscription(types)
        target = await self._queues.get(scope, queue)
        try:
            subscribed = await self._database.run(
                lambda connection: connection.fetchval(
                    SQL.put_subscription, scope.tenant, types, target.id, SUBSCRIPTIONS_MAX
                )
            )
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("queue", queue) from None
        if not subscribed:
            raise Conflict(
                f"there are {SUBSCRIPTIONS_MAX} subscriptions already; delete some first"
            )
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
        ended = await self._database.run(
            lambda connection: connection.fetchval(
                SQL.delete_subscription, scope.tenant, types, queue
            ),
            repeatable=False,
        )
        self.forget()
        return ended is not None

    async def of(self, tenant: str) -> tuple[Subscription, ...]:
        """Returns the subscriptions that apply to a tenant's messages: its own and the system's."""
        if self._moment() is not None:
            return await self._read(tenant)
        known, forgotten = self._known, self._forgotten
        if known.until_monotonic < monotonic():
            known = await self._read_all()
            # What was read before a change is not remembered after it.
            if forgotten == self._forgotten:
                self._known = known
        if known.is_whole:
            return known.of.get(tenant, ()) + known.of.get(None, ())
        if tenant not in known.of:
            if len(known.of) >= REMEMBERED_MAX:
                known.of.clear()
            known.of[tenant] = await self._read(tenant)
        return known.of[tenant]

    def forget(self) -> None:
        """Clears the cache."""
        self._known = _NOTHING_KNOWN
        self._forgotten += 1

    async def _read(self, tenant: str) -> tuple[Subscription, ...]:
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.subscriptions_of, tenant)
        )
        return tuple(_subscription(row) for row in found)

    async def _read_all(self) -> _Known:
        until = monotonic() + REMEMBERED_SECONDS
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.all_subscriptions, REMEMBERED_MAX + 1)
        )
        if len(found) > REMEMBERED_MAX:
            return _Known({}, is_whole=False, until_monotonic=until)
        return _Known(_by_tenant(found), is_whole=True, until_monotonic=until)


def _by_tenant(found: Iterable[Any]) -> dict[str | None, tuple[Subscription, ...]]:
    known: dict[str | None, list[Subscription]] = {}
    for row in found:
        known.setdefault(row["tenant"], []).append(_subscription(row))
    return {tenant: tuple(own) for tenant, own in known.items()}


def _subscription(row: Any) -> Subscription:
    return Subscription(row["tenant"], row["types"], row["queue_id"], row["queue"])
