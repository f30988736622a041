"""API keys on PostgreSQL."""

from __future__ import annotations

from typing import Any

import asyncpg

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
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.columns import API_KEY, read_scopes, scopes_text


class PostgresApiKeys:
    """Keys by id."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment

    async def create(self, scope: Scope, new: NewApiKey) -> ApiKey:
        tenant = own_tenant(scope)
        values = (
            new.id, tenant, new.name, scopes_text(new.scopes), new.owner, new.expires_at,
            new.secret_hash,
        )  # fmt: skip
        if not is_name(tenant):
            raise NotFound("tenant", tenant)

        async def work(connection: Connection) -> ApiKey:
            row = await connection.fetchrow(SQL.create_api_key, self._moment(), *values)
            if row is None:
                raise Conflict(f"the id {new.id} is used by another API key")
            return _key(row)

        try:
            return await self._database.change(work)
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("tenant", tenant) from None

    async def get(self, scope: Scope, key_id: str) -> ApiKey:
        row = None
        if is_name(key_id):
            row = await self._database.run(
                lambda connection: connection.fetchrow(SQL.get_api_key, key_id, scope.tenant)
            )
        return _found(row, key_id)

    async def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> tuple[ApiKey, ...]:
        check_limit(limit)
        tenant, rest = scope.tenant, (after or "", limit)
        values = rest if tenant is None else (tenant, *rest)
        statement = SQL.list_all_api_keys if tenant is None else SQL.list_api_keys
        found = await self._database.run(lambda connection: connection.fetch(statement, *values))
        return tuple(_key(row) for row in found)

    async def find(self, scope: Scope, key_id: str) -> KeyRecord | None:
        check_system(scope)
        row = await self._database.run(
            lambda connection: connection.fetchrow(SQL.find_api_key, self._moment(), key_id)
        )
        if row is None:
            return None
        return KeyRecord(
            key=_key(row),
            secret_hash=row["secret_hash"],
            previous_hash=row["previous_hash"],
            is_suspended=row["suspended"],
            read_at=row["read_at"],
        )

    async def rotate(
        self, scope: Scope, key_id: str, secret_hash: bytes, *, keep_seconds: float
    ) -> ApiKey:
        if not is_name(key_id):
            raise NotFound("API key", key_id)
        values = (self._moment(), key_id, scope.tenant, secret_hash, keep_seconds)

        async def work(connection: Connection) -> ApiKey:
            row = await connection.fetchrow(SQL.rotate_api_key, *values)
            if row is None:
                _found(await connection.fetchrow(SQL.get_api_key, key_id, scope.tenant), key_id)
                raise Conflict(f"API key {key_id} is revoked; create another one")
            return _key(row)

        return await self._database.change(work)

    async def revoke(self, scope: Scope, key_id: str, *, keep_admin: bool = False) -> ApiKey:
        if not is_name(key_id):
            raise NotFound("API key", key_id)

        async def work(connection: Connection) -> ApiKey:
            _found(await connection.fetchrow(SQL.get_api_key, key_id, scope.tenant), key_id)
            if keep_admin:
                admins = await connection.fetch(
                    SQL.lock_admin_keys, self._moment(), Permission.ADMIN
                )
                check_other_admin(key_id, [admin["id"] for admin in admins])
            row = await connection.fetchrow(
                SQL.revoke_api_key, self._moment(), key_id, scope.tenant
            )
            return _found(row, key_id)

        return await self._database.change(work)

    async def touch(self, scope: Scope, key_id: str) -> None:
        check_system(scope)
        await self._database.run(
            lambda connection: connection.execute(
                SQL.touch_api_key, self._moment(), key_id, LAST_USED_SECONDS
            )
        )


def _found(row: Any, key_id: str) -> ApiKey:
    if row is None:
        raise NotFound("API key", key_id)
    return _key(row)


def _key(row: Any) -> ApiKey:
    values = {name: row[name] for name in API_KEY}
    return ApiKey(**values | {"scopes": read_scopes(values["scopes"])})
