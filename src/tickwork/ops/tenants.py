"""Tenants, the owners of queues, messages and schedules: create, list, suspend, resume, limits.

While a tenant is suspended, its API keys are refused and its messages, those of due slots among
them, wait unclaimed. After `resume` they go on; `missed` decides about slots that are late by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import structs

from tickwork.core.fields import NAME_LENGTH_MAX, FieldReader, Reader, reader_of, shown
from tickwork.core.model import SYSTEM, Scope, Tenant
from tickwork.core.options.declared import fields_of
from tickwork.core.options.tenant import TenantLimits
from tickwork.core.owner_targets import OWNER_TARGETS_MAX
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.store.contract import Store

TENANTS_LISTED = 1_000
"""Number of tenants that a list returns unless the caller gives a limit."""


async def get_tenant(context: Context, tenant_id: str) -> Tenant:
    """Returns one tenant; raises `NotFound` if there is none of that id."""
    return await context.store.tenants.get(context.scope, tenant_id)


async def list_tenants(
    context: Context, *, limit: int = TENANTS_LISTED, after: str | None = None
) -> tuple[Tenant, ...]:
    """The tenants by id, after a given one."""
    return await context.store.tenants.list(context.scope, limit, after=after)


async def create_tenant(store: Store, tenant_id: object, limits: Mapping[str, object]) -> Tenant:
    """Creates a tenant with the given limits. Raises `Conflict` if it exists."""
    new = _with_limits(Tenant(id=_read_id(tenant_id)), limits)
    async with recorded(Context(store, Scope(new.id)), "tenant.create", new.id, after=new):
        await store.tenants.put(SYSTEM, new, replaces=False)
    return new


async def set_tenant_limits(store: Store, tenant_id: str, limits: Mapping[str, object]) -> Tenant:
    """Replaces the given limits of a tenant and keeps the others; None removes a limit."""
    change = partial(_with_limits, limits=limits)
    return await _replace(store, "tenant.limits", tenant_id, change)


async def suspend_tenant(store: Store, tenant_id: str) -> Tenant:
    """Refuses the tenant's API keys, and claims none of its messages. Running handlers finish."""
    change = partial(structs.replace, suspended=True)
    return await _replace(store, "tenant.suspend", tenant_id, change)


async def resume_tenant(store: Store, tenant_id: str) -> Tenant:
    """Ends a suspension."""
    change = partial(structs.replace, suspended=False)
    return await _replace(store, "tenant.resume", tenant_id, change)


async def _replace(
    store: Store, action: str, tenant_id: str, change: Callable[[Tenant], Tenant]
) -> Tenant:
    async with recorded(Context(store, Scope(tenant_id)), action, tenant_id) as record:

        def decide(before: Tenant) -> Tenant:
            record.before, record.after = before, (after := change(before))
            return after

        return await store.tenants.change(SYSTEM, tenant_id, decide)


def _read_id(tenant_id: object) -> str:
    if not isinstance(tenant_id, str):
        fault = f"must be a text of 1 to {NAME_LENGTH_MAX} characters, not {shown(tenant_id)}"
        raise InvalidInput([FieldError("id", fault)])
    return tenant_id


def _with_limits(tenant: Tenant, limits: Mapping[str, object]) -> Tenant:
    """A tenant with some limits changed; the store checks their ranges."""
    faults: list[FieldError] = []
    reader = Reader({name: limit for name, limit in limits.items() if limit is not None}, faults)
    reader.refuse_unknown(_READERS.keys())
    values = reader.read(_READERS)
    removed = {
        name: _DEFAULTS[name] for name in limits if limits[name] is None and name in _READERS
    }
    if faults:
        raise InvalidInput(faults)
    return structs.replace(tenant, **removed | values)


def _texts(reader: Reader, name: str) -> tuple[str, ...] | None:
    value = reader.items(name, "texts", OWNER_TARGETS_MAX, such_as="queue:reminders")
    if value is None:
        return None
    if all(isinstance(item, str) for item in value):
        return tuple(value)
    reader.fault(name, f"must be a list of texts such as queue:reminders, not {shown(value)}")
    return None


_READERS: dict[str, FieldReader] = {
    name: _texts if name == "owner_targets" else reader_of(field.kind)
    for name, field in fields_of(TenantLimits).items()
}
_DEFAULTS = {name: getattr(Tenant(id="default"), name) for name in _READERS}
