"""The audit log on SQLite."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from tickwork.core.audit import AuditRecord, NewAuditRecord
from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.ids import own_tenant
from tickwork.store.shared.columns import audit_values, read_audit
from tickwork.store.shared.joined_writes import joined
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction

_AFTER_ALL = b"\xff" * 17


class SqliteAudit:
    """Changes, newest first."""

    actor: str | None = None

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, scope: Scope, record: NewAuditRecord) -> None:
        tenant = own_tenant(scope)

        def work(transaction: Transaction) -> None:
            if not transaction.execute(SQL.get_tenant, (tenant,)).fetchone():
                raise NotFound("tenant", tenant)
            _add(transaction, tenant, record)

        await self._database.write(work)

    def joined(
        self, scope: Scope, make: Callable[[], NewAuditRecord | None]
    ) -> AbstractAsyncContextManager[None]:
        def write(transaction: Transaction) -> None:
            _add(transaction, own_tenant(scope), make())

        async def write_alone() -> None:
            if (record := make()) is not None:
                await self.add(scope, record)

        return joined(write, write_alone)

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


def _add(transaction: Transaction, tenant: str, record: NewAuditRecord | None) -> None:
    if record is not None:
        values = (record.id.bytes, tenant, transaction.now, *audit_values(record))
        transaction.execute(SQL.add_audit_record, values)
