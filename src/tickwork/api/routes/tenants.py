"""Routes for tenants, their API keys, and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath
from msgspec import Meta, Struct, structs

from tickwork.api.once import IdempotencyKey, once
from tickwork.api.operation import Routes
from tickwork.api.pages import (
    PAGE_LIMIT,
    Cursor,
    Limit,
    Page,
    page_of,
    read_cursor,
    read_page,
)
from tickwork.core.access import Caller, Permission
from tickwork.core.api_key import (
    ROTATION_SECONDS,
    ROTATION_SECONDS_MAX,
    ApiKey,
    CreatedKey,
    KeyFields,
)
from tickwork.core.audit import AuditRecord
from tickwork.core.fields import Reader
from tickwork.core.model import SYSTEM, Scope, Tenant
from tickwork.core.options.tenant import NewTenant, TenantLimits
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops import audit, keys, tenants
from tickwork.ops.context import Context

routes = Routes("access")

TenantId = FromPath[str]
KeyId = FromPath[str]


class RotateRequest(Struct, frozen=True, kw_only=True):
    """How long the secret before stays valid."""

    keep_seconds: Annotated[float, Meta(ge=0, le=ROTATION_SECONDS_MAX)] = ROTATION_SECONDS


_TENANT = [Example(value={"id": "acme", "schedules_max": 1_000, "owner_targets": ["queue:mail"]})]
_LIMITS = [Example(value={"weight": 5, "schedules_max": None})]
_ROTATION = [Example(value={"keep_seconds": 3_600})]
_KEY = [Example(value={"name": "shop backend", "scopes": ["read", "send"]})]


@routes.get("/v1/tenants", "List tenants", needs=Permission.ADMIN)
async def list_tenants(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[Tenant]:
    """Returns all tenants by id."""
    after: str | None = read_cursor(cursor, str)
    found = await tenants.list_tenants(context.within(SYSTEM), limit=limit + 1, after=after)
    return page_of(found, limit, lambda tenant: tenant.id, lambda tenant: tenant)


@routes.post(
    "/v1/tenants",
    "Create a tenant",
    needs=Permission.ADMIN,
    status=201,
    body=NewTenant,
    problems=(409,),
)
async def create_tenant(
    data: Annotated[dict[str, Any], Body(examples=_TENANT)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[Tenant]:
    """Creates a tenant with its limits."""

    async def make(_: UUID) -> Tenant:
        limits = {name: datum for name, datum in data.items() if name != "id"}
        return await tenants.create_tenant(context.store, data.get("id"), limits)

    return await once(make, context=context, caller=caller, request=request, key=idempotency_key)


@routes.get("/v1/tenants/{tenant:str}", "Get a tenant", needs=Permission.ADMIN)
async def get_tenant(tenant: TenantId, context: NamedDependency[Context]) -> Tenant:
    """Returns one tenant with its limits."""
    return await tenants.get_tenant(context.within(SYSTEM), tenant)


@routes.patch(
    "/v1/tenants/{tenant:str}",
    "Change the limits of a tenant",
    needs=Permission.ADMIN,
    body=TenantLimits,
)
async def change_tenant(
    tenant: TenantId,
    data: Annotated[dict[str, Any], Body(examples=_LIMITS)],
    context: NamedDependency[Context],
) -> Tenant:
    """Replaces the given limits and keeps the others; null removes one."""
    return await tenants.set_tenant_limits(context.store, tenant, data)


@routes.post("/v1/tenants/{tenant:str}/suspend", "Suspend a tenant", needs=Permission.ADMIN)
async def suspend_tenant(tenant: TenantId, context: NamedDependency[Context]) -> Tenant:
    """Refuses its keys with 403, and hands out none of its messages. What runs goes on."""
    return await tenants.suspend_tenant(context.store, tenant)


@routes.post("/v1/tenants/{tenant:str}/resume", "Resume a tenant", needs=Permission.ADMIN)
async def resume_tenant(tenant: TenantId, context: NamedDependency[Context]) -> Tenant:
    """Ends a suspension. What waited goes on; `missed` decides about late slots."""
    return await tenants.resume_tenant(context.store, tenant)


@routes.get("/v1/tenants/{tenant:str}/keys", "List API keys", needs=Permission.ADMIN)
async def list_keys(
    tenant: TenantId,
    context: NamedDependency[Context],
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[ApiKey]:
    """Returns the keys of a tenant without secrets, oldest first; also revoked ones."""
    scope, after = await _scope(context, tenant), read_cursor(cursor, str)
    found = await keys.list_keys(context.within(scope), limit=limit + 1, after=after)
    return page_of(found, limit, lambda key: key.id, lambda key: key)


@routes.post(
    "/v1/tenants/{tenant:str}/keys",
    "Create an API key",
    needs=Permission.ADMIN,
    status=201,
    body=KeyFields,
    problems=(409,),
)
async def create_key(
    tenant: TenantId,
    data: Annotated[dict[str, Any], Body(examples=_KEY)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[CreatedKey]:
    """Makes a key of a tenant. `token` is not shown again, not even to a repeat of the request."""
    scope = await _scope(context, tenant)

    async def make(_: UUID) -> CreatedKey:
        return await keys.create_key(context.within(scope), data)

    return await once(
        make,
        context=context,
        caller=caller,
        request=request,
        key=idempotency_key,
        kept=lambda created: structs.replace(created, token=""),
    )


@routes.get("/v1/tenants/{tenant:str}/keys/{key:str}", "Get an API key", needs=Permission.ADMIN)
async def get_key(tenant: TenantId, key: KeyId, context: NamedDependency[Context]) -> ApiKey:
    """Returns one key, without its secret."""
    return await keys.get_key(context.within(Scope(tenant)), key)


@routes.post(
    "/v1/tenants/{tenant:str}/keys/{key:str}/rotate",
    "Rotate an API key",
    needs=Permission.ADMIN,
    body=RotateRequest,
    problems=(409,),
)
async def rotate_key(
    tenant: TenantId,
    key: KeyId,
    data: Annotated[dict[str, Any], Body(examples=_ROTATION)],
    context: NamedDependency[Context],
) -> CreatedKey:
    """Gives a key a new secret. The one before works for `keep_seconds`, by default a day."""
    faults: list[FieldError] = []
    reader = Reader(data, faults)
    reader.refuse_unknown({"keep_seconds"})
    seconds = reader.number("keep_seconds") if reader.has("keep_seconds") else ROTATION_SECONDS
    if seconds is None or faults:
        raise InvalidInput(faults)
    return await keys.rotate_key(context.within(Scope(tenant)), key, keep_seconds=seconds)


@routes.delete(
    "/v1/tenants/{tenant:str}/keys/{key:str}",
    "Revoke an API key",
    needs=Permission.ADMIN,
    problems=(409,),
)
async def revoke_key(tenant: TenantId, key: KeyId, context: NamedDependency[Context]) -> ApiKey:
    """Ends a key for ever; servers notice within three seconds. It stays in the list. The last
    valid key with the scope `admin` cannot be revoked over HTTP: that is answered with 409."""
    return await keys.revoke_key(context.within(Scope(tenant)), key, keep_admin=True)


@routes.get("/v1/audit", "List changes", needs=Permission.READ)
async def list_changes(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[AuditRecord]:
    """Returns who changed what in the tenant, newest first, without secrets; kept for a year."""
    before: UUID | None = read_cursor(cursor, UUID)

    async def read(count: int, before: UUID | None) -> Sequence[AuditRecord]:
        return await audit.list_audit(context, limit=count, before=before)

    return await read_page(read, limit, before, lambda record: record.id, lambda record: record)


async def _scope(context: Context, tenant: str) -> Scope:
    """The scope of a tenant that exists."""
    return Scope((await tenants.get_tenant(context.within(SYSTEM), tenant)).id)
