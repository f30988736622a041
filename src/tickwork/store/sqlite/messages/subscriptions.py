"""Subscriptions on SQLite. Sends read them in their own transaction."""

from __future__ import annotations

from uuid import UUID

from tickwork.core.limits import check_subscription, is_name
from tickwork.core.message.subscription import Subscription, pattern_faults
from tickwork.core.model import Scope
from tickwork.core.tenant_limits import check_room
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.queue_rows import find_queue


class SqliteSubscriptions:
    """Which queues get copies of which types."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, scope: Scope, types: str, queue: str) -> Subscription:
        check_subscription(types)

        def work(transaction: Transaction) -> Subscription:
            found = find_queue(transaction, scope, queue)
            values = (scope.tenant, types, found.id)
            is_new = transaction.execute(SQL.put_subscription, values).rowcount == 1
            if is_new:
                _check_room(transaction, scope.tenant)
            return Subscription(scope.tenant, types, UUID(bytes=found.id), found.name)

        return await self._database.change(work)

    async def list(self, scope: Scope) -> tuple[Subscription, ...]:
        if not _can_exist(scope):
            return ()
        found = await self._database.read(
            lambda transaction: transaction.execute(
                SQL.list_subscriptions, (scope.tenant,)
            ).fetchall()
        )
        return tuple(
            Subscription(tenant, types, UUID(bytes=queue_id), queue)
            for tenant, types, queue_id, queue in found
        )

    async def delete(self, scope: Scope, types: str, queue: str) -> bool:
        if any(pattern_faults(types)) or not is_name(queue) or not _can_exist(scope):
            return False
        values = (scope.tenant, types, queue)
        return await self._database.change(
            lambda transaction: transaction.execute(SQL.delete_subscription, values).rowcount > 0
        )


def _can_exist(scope: Scope) -> bool:
    return scope.tenant is None or is_name(scope.tenant)


def _check_room(transaction: Transaction, tenant: str | None) -> None:
    """Raises `TooMany` if a tenant, or the system, has too many subscriptions with a new one."""
    most = None
    if tenant is not None:
        most = transaction.execute(SQL.lock_counted_quotas, (tenant,)).fetchone()[2]
    (count,) = transaction.execute(SQL.count_subscriptions, (tenant,)).fetchone()
    check_room(tenant, "subscriptions_max", count - 1, most)
