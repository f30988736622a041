"""Who may use the HTTP API, and who changed what: `app.keys`, `app.tenants` and `app.audit`.

Each call is done when it returns, also inside a handler.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

from tickwork.core.api_key import ROTATION_SECONDS, ApiKey, CreatedKey
from tickwork.core.audit import AuditRecord
from tickwork.core.model import SYSTEM, Tenant
from tickwork.core.options.tenant import TenantLimits
from tickwork.engine.app_engine import AppEngine
from tickwork.ops import audit, keys, tenants


class Keys:
    """The API keys of the tenant."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def create(
        self,
        name: str,
        *,
        scopes: Sequence[str],
        owner: str | None = None,
        expires_at: datetime | None = None,
    ) -> CreatedKey:
        """Makes a key. Its `token` is what programs send; it is not shown again.

        Args:
            name: What the key is for.
            scopes: Of `read`, `send`, `consume`, `manage` and `admin`.
            owner: One user of the tenant: the key reaches only that user's schedules.
            expires_at: When the key stops working.
        """
        fields = {"name": name, "scopes": scopes, "owner": owner, "expires_at": expires_at}
        return await keys.create_key(await self._engine.context(), fields)

    async def list(self) -> tuple[ApiKey, ...]:
        """All keys, oldest first, also expired and revoked ones; without secrets."""
        return await keys.list_keys(await self._engine.context())

    async def get(self, key_id: str) -> ApiKey:
        """One key, without its secret. Raises `NotFound`."""
        return await keys.get_key(await self._engine.context(), key_id)

    async def rotate(self, key_id: str, *, keep_seconds: float = ROTATION_SECONDS) -> CreatedKey:
        """Gives a key a new secret; the one before works for `keep_seconds`, by default a day."""
        context = await self._engine.context()
        return await keys.rotate_key(context, key_id, keep_seconds=keep_seconds)

    async def revoke(self, key_id: str) -> ApiKey:
        """Ends a key for ever. API processes notice within three seconds."""
        return await keys.revoke_key(await self._engine.context(), key_id)


class Tenants:
    """All tenants of the database."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def create(self, tenant_id: str, **limits: Unpack[TenantLimits]) -> Tenant:
        """Creates a tenant. Raises `Conflict` if it exists."""
        return await tenants.create_tenant(await self._engine.ready(), tenant_id, {**limits})

    async def get(self, tenant_id: str) -> Tenant:
        """One tenant with its limits. Raises `NotFound`."""
        return await tenants.get_tenant((await self._engine.context()).within(SYSTEM), tenant_id)

    async def list(self) -> tuple[Tenant, ...]:
        """All tenants, by id."""
        return await tenants.list_tenants((await self._engine.context()).within(SYSTEM))

    async def suspend(self, tenant_id: str) -> Tenant:
        """Refuses the tenant's API keys and claims none of its messages; running handlers
        finish."""
        return await tenants.suspend_tenant(await self._engine.ready(), tenant_id)

    async def resume(self, tenant_id: str) -> Tenant:
        """Ends a suspension. What waited goes on; `missed` decides about late slots."""
        return await tenants.resume_tenant(await self._engine.ready(), tenant_id)

    async def set_limits(self, tenant_id: str, **limits: Unpack[TenantLimits]) -> Tenant:
        """Changes limits of a tenant; those that are not given stay, None removes one."""
        return await tenants.set_tenant_limits(await self._engine.ready(), tenant_id, {**limits})


class Audit:
    """Who changed what."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def list(self, *, limit: int = 100) -> tuple[AuditRecord, ...]:
        """The latest changes of the tenant, newest first, without secrets; kept for a year."""
        context = await self._engine.context()
        return await audit.list_audit(context, limit=limit)
