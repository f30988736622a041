"""Tenants on SQLite, and their quotas."""

from __future__ import annotations

from collections.abc import Callable

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope, Tenant
from tickwork.core.tenant_limits import MessageQuota, check_tenant, spend_rate
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import FIRST_TENANT, LAST_TENANT, Moment, own_tenant
from tickwork.store.shared.columns import read_tenant, tenant_values
from tickwork.store.shared.message_quotas import MessageQuotas
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction

_DAY_MICROSECONDS = 86_400_000_000


class SqliteTenants:
    """Tenants and their limits."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database = database
        self._quotas = MessageQuotas(moment, self._read, self._count, self._spend)

    async def put(self, scope: Scope, tenant: Tenant, *, replaces: bool = True) -> None:
        check_tenant(scope, tenant)
        await self._database.change(
            lambda transaction: _write(transaction, tenant, replaces=replaces)
        )
        self._quotas.forget(tenant.id)

    async def change(
        self, scope: Scope, tenant_id: str, decide: Callable[[Tenant], Tenant]
    ) -> Tenant:
        def work(transaction: Transaction) -> Tenant:
            row = None
            if is_name(tenant_id):
                row = transaction.execute(SQL.get_tenant, (tenant_id,)).fetchone()
            if row is None:
                raise NotFound("tenant", tenant_id)
            check_tenant(scope, decided := decide(read_tenant(row)))
            _write(transaction, decided)
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
        found = await self._database.read(
            lambda transaction: transaction.execute(
                SQL.list_tenants, (*bounds, after or "", limit)
            ).fetchall()
        )
        return tuple(map(read_tenant, found))

    async def quota(self, scope: Scope) -> MessageQuota:
        return await self._quotas.quota(own_tenant(scope))

    async def admit(self, scope: Scope, messages: int, payload_bytes: int) -> None:
        await self._quotas.admit(own_tenant(scope), messages, payload_bytes)

    async def take_emails(self, scope: Scope, emails: int) -> int | None:
        tenant = own_tenant(scope)

        def work(transaction: Transaction) -> int | None:
            values = (tenant, emails, transaction.now // _DAY_MICROSECONDS)
            row = transaction.execute(SQL.take_emails, values).fetchone()
            return None if row is None else int(row[0])

        return await self._database.write(work)

    async def return_emails(self, scope: Scope, emails: int, day: int) -> None:
        values = (own_tenant(scope), emails, day)
        await self._database.write(
            lambda transaction: transaction.execute(SQL.return_emails, values).rowcount
        )

    async def _read(self, tenant: str) -> Tenant | None:
        if not is_name(tenant):
            return None
        row = await self._database.read(
            lambda transaction: transaction.execute(SQL.get_tenant, (tenant,)).fetchone()
        )
        return None if row is None else read_tenant(row)

    async def _count(self, tenant: str, limit: int) -> int:
        (messages,) = await self._database.read(
            lambda transaction: transaction.execute(
                SQL.count_tenant_messages, (tenant, limit)
            ).fetchone()
        )
        return int(messages)

    async def _spend(self, tenant: str, messages: int) -> None:
        def work(transaction: Transaction) -> None:
            row = transaction.execute(SQL.lock_message_rate, (tenant,)).fetchone()
            if row is not None:
                rate, spent = row
                until = spend_rate(
                    tenant, "messages_per_second", rate,
                    None if spent is None else from_microseconds(spent),
                    from_microseconds(transaction.now), messages,
                )  # fmt: skip
                transaction.execute(SQL.spend_message_rate, (tenant, to_microseconds(until)))

        await self._database.write(work)


def _write(transaction: Transaction, tenant: Tenant, *, replaces: bool = True) -> None:
    values = (*tenant_values(tenant), replaces)
    if transaction.execute(SQL.put_tenant, values).rowcount == 0:
        raise Conflict(f"tenant {tenant.id} exists already")
    if tenant.claimed_max is not None:
        transaction.execute(SQL.count_tenant_claims, (tenant.id,))
