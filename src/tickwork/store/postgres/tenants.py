"""Tenants on PostgreSQL, and their quotas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope, Tenant
from tickwork.core.tenant_limits import MessageQuota, check_tenant, spend_rate
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import FIRST_TENANT, LAST_TENANT, Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.columns import read_tenant, tenant_values
from tickwork.store.shared.message_quotas import MessageQuotas


class PostgresTenants:
    """Tenants and their limits."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment
        self._quotas = MessageQuotas(moment, self._read, self._count, self._spend)

    async def put(self, scope: Scope, tenant: Tenant, *, replaces: bool = True) -> None:
        check_tenant(scope, tenant)

        await self._database.change(
            lambda connection: _write(connection, tenant, replaces=replaces)
        )
        self._quotas.forget(tenant.id)

    async def change(
        self, scope: Scope, tenant_id: str, decide: Callable[[Tenant], Tenant]
    ) -> Tenant:
        async def work(connection: Connection) -> Tenant:
            row = None
            if is_name(tenant_id):
                row = await connection.fetchrow(SQL.lock_tenant_settings, tenant_id)
            if row is None:
                raise NotFound("tenant", tenant_id)
            check_tenant(scope, decided := decide(read_tenant(row)))
            await _write(connection, decided)
            return decided

        changed = await self._database.change(work)
        self._quotas.forget(tenant_id)
        return changed

    async def get(self, scope: Scope, tenant_id: str) -> Tenant:
        found = None
        if scope.is_system or scope.tenant == tenant_id:
            found = await self._read(tenant_id)
        if found is None:
            raise NotFound("tenant", tenant_id)
        return found

    async def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> tuple[Tenant, ...]:
        check_limit(limit)
        bounds = (scope.tenant or FIRST_TENANT, scope.tenant or LAST_TENANT)
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_tenants, *bounds, after or "", limit)
        )
        return tuple(map(read_tenant, found))

    async def quota(self, scope: Scope) -> MessageQuota:
        return await self._quotas.quota(own_tenant(scope))

    async def admit(self, scope: Scope, messages: int, payload_bytes: int) -> None:
        await self._quotas.admit(own_tenant(scope), messages, payload_bytes)

    async def take_emails(self, scope: Scope, emails: int) -> int | None:
        values = (own_tenant(scope), emails, self._moment())
        day: int | None = await self._database.run(
            lambda connection: connection.fetchval(SQL.take_emails, *values), repeatable=False
        )
        return day

    async def return_emails(self, scope: Scope, emails: int, day: int) -> None:
        values = (own_tenant(scope), emails, day)
        await self._database.run(
            lambda connection: connection.execute(SQL.return_emails, *values), repeatable=False
        )

    async def _read(self, tenant: str) -> Tenant | None:
        if not is_name(tenant):
            return None
        row = await self._database.run(
            lambda connection: connection.fetchrow(SQL.get_tenant, tenant)
        )
        return None if row is None else read_tenant(row)

    async def _count(self, tenant: str, limit: int) -> int:
        messages: int = await self._database.run(
            lambda connection: connection.fetchval(SQL.count_tenant_messages, tenant, limit)
        )
        return messages

    async def _spend(self, tenant: str, messages: int) -> None:
        async def work(connection: Connection) -> None:
            row = await connection.fetchrow(SQL.lock_message_rate, tenant, self._moment())
            if row is not None:
                spent_until = spend_rate(
                    tenant, "messages_per_second", row["messages_per_second"],
                    row["messages_spent_until"], row["now"], messages,
                )  # fmt: skip
                await connection.execute(SQL.spend_message_rate, tenant, spent_until)

        await self._database.transact(work, repeatable=False)


async def _write(connection: Connection, tenant: Tenant, *, replaces: bool = True) -> None:
    if not await connection.fetchval(SQL.put_tenant, *tenant_values(tenant), replaces):
        raise Conflict(f"tenant {tenant.id} exists already")
    if tenant.claimed_max is not None:
        await connection.execute(SQL.count_tenant_claims, tenant.id)


async def claim_rooms(connection: Connection, tenants: Sequence[str]) -> dict[str, int]:
    """How many more messages of each of these tenants may be claimed; those without a quota are
    left out. Locks the tenants until the end of the transaction."""
    # Two statements, so that the second sees claims that committed while the first waited.
    locked = await connection.fetch(SQL.lock_claim_quotas, tenants)
    counted = await connection.fetch(SQL.count_claimed_of_tenants, [row["id"] for row in locked])
    claimed = {row["tenant"]: row["messages"] for row in counted}
    return {row["id"]: max(row["claimed_max"] - claimed.get(row["id"], 0), 0) for row in locked}
