"""Tenants, and their quotas."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope, Tenant
from tickwork.core.tenant_limits import QuotaUse, check_tenant, spend_rate
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import FIRST_TENANT, LAST_TENANT, Moment, own_tenant
from tickwork.store.shared.columns import Kind
from tickwork.store.shared.message_quotas import MessageQuotas
from tickwork.store.steps import (
    NOW,
    After,
    Noun,
    Port,
    Row,
    Statement,
    Steps,
    changes,
    reads,
    writes,
)

_GET = Statement("get_tenant", Tenant)
_LIST = Statement("list_tenants", Tenant)
_LOCK = Statement("lock_tenant_settings", Tenant)
_PUT = Statement("put_tenant")
_COUNT_CLAIMS = Statement("count_tenant_claims")
_TAKE_EMAILS = Statement("take_emails")
_RETURN_EMAILS = Statement("return_emails")
_COUNT_MESSAGES = Statement("count_tenant_messages")
_QUOTA_USE = Statement("quota_use")
_LOCK_RATE = Statement("lock_message_rate", messages_spent_until=Kind.TIME, now=Kind.TIME)
_SPEND_RATE = Statement("spend_message_rate")
LOCK_QUOTAS = Statement("lock_counted_quotas")
"""How many of some nouns a tenant may have. Locks the tenant while they are counted and created."""


class Tenants(Noun):
    """Tenants and their limits."""

    def __init__(self, port: Port, moment: Moment, shared: Tenants | None = None) -> None:
        """`shared` has the cached quotas, for a store of callers' transactions."""
        super().__init__(port)
        known: MessageQuotas | None = None
        if shared is not None:
            known = shared._quotas  # noqa: SLF001  another of its class
        self._quotas: MessageQuotas = MessageQuotas(
            moment, self._read, self._count, self._spend, known
        )
        self.quota, self.admit = self._quotas.quota, self._quotas.admit

    @changes
    def put(self, scope: Scope, tenant: Tenant, *, replaces: bool = True) -> Steps[None]:
        check_tenant(scope, tenant)
        yield from _write(tenant, replaces=replaces)
        yield After(lambda: self._quotas.forget(tenant.id))

    @changes
    def change(
        self, scope: Scope, tenant_id: str, decide: Callable[[Tenant], Tenant]
    ) -> Steps[Tenant]:
        row = (yield from _LOCK.fetch_row(tenant_id)) if is_name(tenant_id) else None
        if row is None:
            raise NotFound("tenant", tenant_id)
        check_tenant(scope, decided := decide(_tenant(row)))
        yield from _write(decided)
        yield After(lambda: self._quotas.forget(tenant_id))
        return decided

    @reads
    def get(self, scope: Scope, tenant_id: str) -> Steps[Tenant]:
        tenant = None
        if scope.is_system or scope.tenant == tenant_id:
            tenant = yield from find_tenant(tenant_id)
        if tenant is None:
            raise NotFound("tenant", tenant_id)
        return tenant

    @reads
    def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> Steps[tuple[Tenant, ...]]:
        check_limit(limit)
        bounds = (scope.tenant or FIRST_TENANT, scope.tenant or LAST_TENANT)
        rows = yield from _LIST.fetch(*bounds, after or "", limit)
        return tuple(map(_tenant, rows))

    @writes(repeatable=False, is_single=True)
    def take_emails(self, scope: Scope, emails: int) -> Steps[int | None]:
        day: int | None = yield from _TAKE_EMAILS.fetch_value(own_tenant(scope), emails, NOW)
        return day

    @writes(repeatable=False, is_single=True)
    def return_emails(self, scope: Scope, emails: int, day: int) -> Steps[None]:
        yield from _RETURN_EMAILS.execute(own_tenant(scope), emails, day)

    @reads
    def quota_use(self, scope: Scope) -> Steps[tuple[QuotaUse, ...]]:
        tenant = yield from find_tenant(own_tenant(scope))
        if tenant is None:
            raise NotFound("tenant", own_tenant(scope))
        used = dict((yield from _QUOTA_USE.fetch_row(tenant.id, NOW)) or {})
        if tenant.backlog_max is not None:
            used["backlog_max"] = yield from _COUNT_MESSAGES.fetch_value(
                tenant.id, tenant.backlog_max
            )
        limits = ((name, getattr(tenant, name)) for name in sorted(used))
        return tuple(QuotaUse(name, used[name], most) for name, most in limits if most is not None)

    @reads
    def _read(self, tenant_id: str) -> Steps[Tenant | None]:
        return (yield from find_tenant(tenant_id))

    @reads
    def _count(self, tenant_id: str, limit: int) -> Steps[int]:
        messages: int = yield from _COUNT_MESSAGES.fetch_value(tenant_id, limit)
        return messages

    @writes(repeatable=False)
    def _spend(self, tenant_id: str, messages: int) -> Steps[None]:
        row = yield from _LOCK_RATE.fetch_row(tenant_id, NOW)
        if row is not None:
            spent_until = spend_rate(
                tenant_id, "messages_per_second", row["messages_per_second"],
                row["messages_spent_until"], row["now"], messages,
            )  # fmt: skip
            yield from _SPEND_RATE.execute(tenant_id, spent_until)


def find_tenant(tenant_id: str) -> Steps[Tenant | None]:
    """A tenant; None if there is none."""
    row = (yield from _GET.fetch_row(tenant_id)) if is_name(tenant_id) else None
    return None if row is None else _tenant(row)


def check_exists(tenant_id: str) -> Steps[None]:
    """Raises `NotFound` if there is no such tenant. A tenant is never deleted, so it stays true."""
    if (yield from find_tenant(tenant_id)) is None:
        raise NotFound("tenant", tenant_id)


def _tenant(row: Row) -> Tenant:
    owner_targets = msgspec.json.decode(row["owner_targets"], type=tuple[str, ...])
    return Tenant(**{**row, "owner_targets": owner_targets})


def _write(tenant: Tenant, *, replaces: bool = True) -> Steps[None]:
    *settings, owner_targets = (getattr(tenant, name) for name in Tenant.__struct_fields__)
    values = (*settings, msgspec.json.encode(owner_targets).decode(), replaces)
    if not (yield from _PUT.execute(*values)):
        raise Conflict(f"tenant {tenant.id} exists already")
    if tenant.claimed_max is not None:
        yield from _COUNT_CLAIMS.execute(tenant.id)
