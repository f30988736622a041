"""Encrypted secrets on SQLite."""

from __future__ import annotations

from uuid import UUID

from tickwork.core.model import Scope
from tickwork.errors import NotFound
from tickwork.store.ids import own_tenant
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, microseconds
from tickwork.store.sqlite.engine.work import Transaction


class SqliteSecrets:
    """Secrets by owner and field."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, scope: Scope, owner: str, field: str) -> tuple[bytes, ...]:
        named = (own_tenant(scope), owner, field)
        found = await self._database.read(
            lambda transaction: transaction.execute(
                SQL.get_secrets, (*named, transaction.now)
            ).fetchall()
        )
        return tuple(value for (value,) in found)

    async def put(self, scope: Scope, owner: str, field: str, value: bytes) -> None:
        named = (own_tenant(scope), owner, field)
        await self._database.write(lambda transaction: _put(transaction, *named, value))

    async def rotate(
        self,
        scope: Scope,
        owner: str,
        field: str,
        value: bytes,
        *,
        keep_seconds: float,
        endpoint_id: UUID | None = None,
    ) -> None:
        named = (own_tenant(scope), owner, field)

        def work(transaction: Transaction) -> None:
            transaction.execute(SQL.drop_previous_secret, named)
            until = transaction.now + microseconds(keep_seconds)
            transaction.execute(SQL.retire_secret, (*named, until))
            _put(transaction, *named, value)
            if endpoint_id is not None:
                touched = (endpoint_id.bytes, named[0], transaction.now)
                transaction.execute(SQL.touch_endpoint, touched)

        await self._database.change(work)

    async def delete(self, scope: Scope, owner: str) -> None:
        named = (own_tenant(scope), owner)

        def work(transaction: Transaction) -> None:
            transaction.execute(SQL.delete_secrets, named)

        await self._database.change(work)


def _put(transaction: Transaction, tenant: str, owner: str, field: str, value: bytes) -> None:
    if transaction.execute(SQL.get_tenant, (tenant,)).fetchone() is None:
        raise NotFound("tenant", tenant)
    transaction.execute(SQL.put_secret, (tenant, owner, field, value))
