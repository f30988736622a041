"""The audit log on PostgreSQL."""

from __future__ import annotations

from uuid import UUID

import asyncpg

from tickwork.core.audit import AuditRecord, NewAuditRecord
from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.columns import audit_values, read_audit

_AFTER_ALL = UUID(int=2**128 - 1)


class PostgresAudit:
    """Changes, newest first."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment

    async def add(self, scope: Scope, record: NewAuditRecord) -> None:
        tenant = own_tenant(scope)
        values = (self._moment(), record.id, tenant, *audit_values(record))
        try:
            await self._database.run(
                lambda connection: connection.execute(SQL.add_audit_record, *values)
            )
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("tenant", tenant) from None

    async def list(
        self, scope: Scope, limit: int, *, before: UUID | None = None
    ) -> tuple[AuditRecord, ...]:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_audit, tenant, before or _AFTER_ALL, limit)
        )
        return tuple(map(read_audit, found))
