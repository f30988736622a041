"""API keys on SQLite."""

from __future__ import annotations

from typing import Any

from tickwork.core.access import Permission
from tickwork.core.api_key import (
    LAST_USED_SECONDS,
    ApiKey,
    KeyRecord,
    NewApiKey,
    check_other_admin,
)
from tickwork.core.limits import check_limit, check_system, is_name
from tickwork.core.model import Scope
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import own_tenant
from tickwork.store.shared.columns import API_KEY, read_scopes, scopes_text
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction

_TIMES = frozenset({"created_at", "expires_at", "last_used_at", "revoked_at", "previous_until"})


class SqliteApiKeys:
    """Keys by id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, scope: Scope, new: NewApiKey) -> ApiKey:
        tenant = own_tenant(scope)
        expires_at = None if new.expires_at is None else to_microseconds(new.expires_at)

        def work(transaction: Transaction) -> ApiKey:
            if not is_name(tenant) or not transaction.execute(SQL.get_tenant, (tenant,)).fetchone():
                raise NotFound("tenant", tenant)
            values = (
                new.id, tenant, new.name, scopes_text(new.scopes), new.owner, transaction.now,
                expires_at, new.secret_hash,
            )  # fmt: skip
            if transaction.execute(SQL.create_api_key, values).rowcount == 0:
                raise Conflict(f"the id {new.id} is used by another API key")
            return _get(transaction, scope, new.id)

        return await self._database.change(work)

    async def get(self, scope: Scope, key_id: str) -> ApiKey:
        return await self._database.read(lambda transaction: _get(transaction, scope, key_id))

    async def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> tuple[ApiKey, ...]:
        check_limit(limit)
        tenant, rest = scope.tenant, (after or "", limit)
        values = rest if tenant is None else (tenant, *rest)
        statement = SQL.list_all_api_keys if tenant is None else SQL.list_api_keys
        found = await self._database.read(
            lambda transaction: transaction.execute(statement, values).fetchall()
        )
        return tuple(_key(row) for row in found)

    async def find(self, scope: Scope, key_id: str) -> KeyRecord | None:
        check_system(scope)

        def work(transaction: Transaction) -> KeyRecord | None:
            row = transaction.execute(SQL.find_api_key, (key_id,)).fetchone()
            if row is None:
                return None
            *key, secret_hash, previous_hash, suspended = row
            return KeyRecord(
                key=_key(key),
                secret_hash=secret_hash,
                previous_hash=previous_hash,
                is_suspended=suspended == 1,
                read_at=from_microseconds(transaction.now),
            )

        return await self._database.read(work)

    async def rotate(
        self, scope: Scope, key_id: str, secret_hash: bytes, *, keep_seconds: float
    ) -> ApiKey:
        def work(transaction: Transaction) -> ApiKey:
            before = _get(transaction, scope, key_id)
            until = transaction.now + microseconds(keep_seconds)
            values = (key_id, scope.tenant, secret_hash, until)
            if transaction.execute(SQL.rotate_api_key, values).rowcount == 0:
                raise Conflict(f"API key {before.id} is revoked; create another one")
            return _get(transaction, scope, key_id)

        return await self._database.change(work)

    async def revoke(self, scope: Scope, key_id: str, *, keep_admin: bool = False) -> ApiKey:
        def work(transaction: Transaction) -> ApiKey:
            _get(transaction, scope, key_id)
            if keep_admin:
                values = (transaction.now, Permission.ADMIN)
                admins = transaction.execute(SQL.lock_admin_keys, values).fetchall()
                check_other_admin(key_id, [admin for (admin,) in admins])
            transaction.execute(SQL.revoke_api_key, (key_id, scope.tenant, transaction.now))
            return _get(transaction, scope, key_id)

        return await self._database.change(work)

    async def touch(self, scope: Scope, key_id: str) -> None:
        check_system(scope)

        def work(transaction: Transaction) -> None:
            before = transaction.now - microseconds(LAST_USED_SECONDS)
            transaction.execute(SQL.touch_api_key, (key_id, transaction.now, before))

        await self._database.write(work)


def _get(transaction: Transaction, scope: Scope, key_id: str) -> ApiKey:
    row = None
    if is_name(key_id):
        row = transaction.execute(SQL.get_api_key, (key_id, scope.tenant)).fetchone()
    if row is None:
        raise NotFound("API key", key_id)
    return _key(row)


def _key(row: Any) -> ApiKey:
    values = dict(zip(API_KEY, row, strict=True))
    for name in _TIMES:
        if values[name] is not None:
            values[name] = from_microseconds(values[name])
    return ApiKey(**values | {"scopes": read_scopes(values["scopes"])})
