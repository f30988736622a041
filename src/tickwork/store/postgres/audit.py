"""The audit log on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import UUID

import asyncpg

from tickwork.core.audit import AuditRecord, NewAuditRecord
from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.columns import audit_values, read_audit
from tickwork.store.shared.joined_writes import joined

_AFTER_ALL = UUID(int=2**128 - 1)


class PostgresAudit:
    """Changes, newest first."""

    actor: str | None = None

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment

    async def add(self, scope: Scope, record: NewAuditRecord) -> None:
        tenant = own_tenant(scope)
        try:
            await self._database.run(lambda connection: self._add(connection, tenant, record))
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("tenant", tenant) from None

    def joined(
        self, scope: Scope, make: Callable[[], NewAuditRecord | None]
    ) -> AbstractAsyncContextManager[None]:
        async def write(connection: Connection) -> None:
            await self._add(connection, own_tenant(scope), make())

        async def write_alone() -> None:
            if (record := make()) is not None:
                await self.add(scope, record)

        return joined(write, write_alone)

    async def _add(
        self, connection: Connection, tenant: str, record: NewAuditRecord | None
    ) -> None:
        if record is not None:
            values = (self._moment(), record.id, tenant, *audit_values(record))
            await connection.execute(SQL.add_audit_record, *values)

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
