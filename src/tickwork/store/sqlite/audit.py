"""The audit log on SQLite."""

from __future__ import annotations

from uuid import UUID

from tickwork.core.audit import AuditRecord, NewAuditRecord
from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.ids import own_tenant
from tickwork.store.shared.columns import audit_values, read_audit
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction

_AFTER_ALL = b"\xff" * 17


class SqliteAudit:
    """Changes, newest first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, scope: Scope, record: NewAuditRecord) -> None:
        tenant = own_tenant(scope)

        def work(transaction: Transaction) -> None:
            if not transaction.execute(SQL.get_tenant, (tenant,)).fetchone():
                raise NotFound("tenant", tenant)
            values = (record.id.bytes, tenant, transaction.now, *audit_values(record))
            transaction.execute(SQL.add_audit_record, values)

        await self._database.write(work)

    async def list(
        self, scope: Scope, limit: int, *, before: UUID | None = None
    ) -> tuple[AuditRecord, ...]:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        values = (tenant, _AFTER_ALL if before is None else before.bytes, limit)
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.list_audit, values).fetchall()
        )
        return tuple(
            read_audit((UUID(bytes=id_), tenant, from_microseconds(at), *rest))
            for id_, tenant, at, *rest in found
        )
