"""Who may use the API, over HTTP: `client.keys`, `client.tenants` and `client.audit`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

from tickwork.client.call import (
    Call,
    M,
    Noun,
    Pages,
    Repeat,
    Runner,
    answer,
    at,
    given,
    listed,
    verb,
)
from tickwork.core.api_key import ROTATION_SECONDS, ApiKey, CreatedKey
from tickwork.core.audit import AuditRecord
from tickwork.core.model import Tenant
from tickwork.core.options.tenant import TenantLimits

_TENANT = answer(Tenant)


class Keys(Noun[M]):
    """The API keys of the tenant. They need a key with the scope `admin`."""

    def __init__(self, runner: Runner, tenant: str) -> None:
        super().__init__(runner)
        self._tenant = tenant

    def _path(self, *parts: str) -> str:
        return at("v1", "tenants", self._tenant, "keys", *parts)

    @verb
    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str],
        owner: str | None = None,
        expires_at: datetime | None = None,
    ) -> Call[CreatedKey]:
        """Makes a key. Its `token` is what programs send; it is not shown again.

        Args:
            name: What the key is for.
            scopes: Of `read`, `send`, `consume`, `manage` and `admin`.
            owner: One user of the tenant: the key reaches only that user's schedules.
            expires_at: When the key stops working.
        """
        body = given(name=name, scopes=[*scopes], owner=owner, expires_at=expires_at)
        return Call(
            "POST",
            self._path(),
            answer(CreatedKey),
            body=body,
            repeat=Repeat.KEYED,
            secret="token",  # noqa: S106  the name of a field
        )

    @listed
    def list(self, *, limit: int | None = None) -> Pages[ApiKey]:
        """All keys, oldest first, also expired and revoked ones; without secrets."""
        return Pages(self._path(), ApiKey, limit)

    @verb
    def get(self, key_id: str) -> Call[ApiKey]:
        """One key, without its secret. Raises `NotFound`."""
        return Call("GET", self._path(key_id), answer(ApiKey))

    @verb
    def rotate(self, key_id: str, *, keep_seconds: float = ROTATION_SECONDS) -> Call[CreatedKey]:
        """Gives a key a new secret; the one before works for `keep_seconds`, by default a day."""
        body = {"keep_seconds": keep_seconds}
        return Call("POST", self._path(key_id, "rotate"), answer(CreatedKey), body=body)

    @verb
    def revoke(self, key_id: str) -> Call[ApiKey]:
        """Ends a key for ever. API processes notice within three seconds."""
        return Call("DELETE", self._path(key_id), answer(ApiKey))


class Tenants(Noun[M]):
    """All tenants. They need a key with the scope `admin`."""

    @verb
    def create(self, tenant_id: str, **limits: Unpack[TenantLimits]) -> Call[Tenant]:
        """Creates a tenant. Raises `Conflict` if it exists."""
        body = {"id": tenant_id, **given(**limits)}
        return Call("POST", at("v1", "tenants"), _TENANT, body=body, repeat=Repeat.KEYED)

    @verb
    def get(self, tenant_id: str) -> Call[Tenant]:
        """One tenant with its limits. Raises `NotFound`."""
        return Call("GET", at("v1", "tenants", tenant_id), _TENANT)

    @listed
    def list(self, *, limit: int | None = None) -> Pages[Tenant]:
        """All tenants, by id."""
        return Pages(at("v1", "tenants"), Tenant, limit)

    @verb
    def suspend(self, tenant_id: str) -> Call[Tenant]:
        """Refuses the tenant's API keys and claims none of its messages; running handlers
        finish."""
        return Call("POST", at("v1", "tenants", tenant_id, "suspend"), _TENANT, repeat=Repeat.SAFE)

    @verb
    def resume(self, tenant_id: str) -> Call[Tenant]:
        """Ends a suspension. What waited goes on; `missed` decides about late slots."""
        return Call("POST", at("v1", "tenants", tenant_id, "resume"), _TENANT, repeat=Repeat.SAFE)

    @verb
    def set_limits(self, tenant_id: str, **limits: Unpack[TenantLimits]) -> Call[Tenant]:
        """Changes limits of a tenant; those that are not given stay, None removes one."""
        path = at("v1", "tenants", tenant_id)
        return Call("PATCH", path, _TENANT, body=limits, repeat=Repeat.SAFE)


class Audit(Noun[M]):
    """Who changed what."""

    @listed
    def list(self, *, limit: int | None = None) -> Pages[AuditRecord]:
        """Changes of the tenant, newest first, without secrets; kept for a year."""
        return Pages(at("v1", "audit"), AuditRecord, limit)
