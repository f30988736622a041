"""API keys."""

from __future__ import annotations

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
from tickwork.store.nouns.tenants import check_exists
from tickwork.store.shared.columns import API_KEY, Kind
from tickwork.store.steps import NOW, Noun, Row, Statement, Steps, changes, reads, writes

_CREATE = Statement("create_api_key", ApiKey)
_GET = Statement("get_api_key", ApiKey)
_LIST = Statement("list_api_keys", ApiKey)
_LIST_ALL = Statement("list_all_api_keys", ApiKey)
_FIND = Statement("find_api_key", ApiKey, suspended=Kind.FLAG, read_at=Kind.TIME)
_ROTATE = Statement("rotate_api_key", ApiKey)
_REVOKE = Statement("revoke_api_key", ApiKey)
_LOCK_ADMINS = Statement("lock_admin_keys")
_TOUCH = Statement("touch_api_key")


class ApiKeys(Noun):
    """Keys by id."""

    @changes
    def create(self, scope: Scope, new: NewApiKey) -> Steps[ApiKey]:
        tenant = own_tenant(scope)
        yield from check_exists(tenant)
        row = yield from _CREATE.fetch_row(
            NOW, new.id, tenant, new.name, ",".join(new.scopes), new.owner, new.expires_at,
            new.secret_hash,
        )  # fmt: skip
        if row is None:
            raise Conflict(f"the id {new.id} is used by another API key")
        return _key(row)

    @reads
    def get(self, scope: Scope, key_id: str) -> Steps[ApiKey]:
        return (yield from _get(scope, key_id))

    @reads
    def list(
        self, scope: Scope, limit: int, *, after: str | None = None
    ) -> Steps[tuple[ApiKey, ...]]:
        check_limit(limit)
        if scope.tenant is None:
            rows = yield from _LIST_ALL.fetch(after or "", limit)
        else:
            rows = yield from _LIST.fetch(scope.tenant, after or "", limit)
        return tuple(map(_key, rows))

    @reads
    def find(self, scope: Scope, key_id: str) -> Steps[KeyRecord | None]:
        check_system(scope)
        row = yield from _FIND.fetch_row(NOW, key_id)
        if row is None:
            return None
        return KeyRecord(
            key=_key(row),
            secret_hash=row["secret_hash"],
            previous_hash=row["previous_hash"],
            is_suspended=row["suspended"],
            read_at=row["read_at"],
        )

    @changes
    def rotate(
        self, scope: Scope, key_id: str, secret_hash: bytes, *, keep_seconds: float
    ) -> Steps[ApiKey]:
        yield from _get(scope, key_id)
        row = yield from _ROTATE.fetch_row(NOW, key_id, scope.tenant, secret_hash, keep_seconds)
        if row is None:
            raise Conflict(f"API key {key_id} is revoked; create another one")
        return _key(row)

    @changes
    def revoke(self, scope: Scope, key_id: str, *, keep_admin: bool = False) -> Steps[ApiKey]:
        yield from _get(scope, key_id)
        if keep_admin:
            admins = yield from _LOCK_ADMINS.fetch(NOW, Permission.ADMIN)
            check_other_admin(key_id, [admin["id"] for admin in admins])
        return _found((yield from _REVOKE.fetch_row(NOW, key_id, scope.tenant)), key_id)

    @writes(repeatable=True, is_single=True)
    def touch(self, scope: Scope, key_id: str) -> Steps[None]:
        check_system(scope)
        yield from _TOUCH.execute(NOW, key_id, LAST_USED_SECONDS)


def _get(scope: Scope, key_id: str) -> Steps[ApiKey]:
    row = (yield from _GET.fetch_row(key_id, scope.tenant)) if is_name(key_id) else None
    return _found(row, key_id)


def _found(row: Row | None, key_id: str) -> ApiKey:
    if row is None:
        raise NotFound("API key", key_id)
    return _key(row)


def _key(row: Row) -> ApiKey:
    fields = {name: row[name] for name in API_KEY}
    scopes = tuple(map(Permission, fields["scopes"].split(",")))
    return ApiKey(**{**fields, "scopes": scopes})
