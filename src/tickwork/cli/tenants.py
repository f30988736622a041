"""`tickwork tenants`: who shares the database, and what each may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Option, OptionsOf, Yes
from tickwork.cli.output import Report, columns, field_lines
from tickwork.cli.store_session import confirm
from tickwork.core.options import names_of
from tickwork.core.options.tenant import TenantLimits

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.model import Tenant

tenants = Group("Tenants: who shares this database.")

LISTED = 1_000

TenantId = Annotated[str, Argument("Id of the tenant.", "TENANT", fields=("id",))]
OwnerTargets = Annotated[
    list[str] | None,
    Option(
        "Target its owners may use, such as queue:reminders; repeatable.",
        "TARGET",
        name="--owner-target",
    ),
]
Reset = Annotated[bool, Option("Remove the limits that are not given, instead of keeping.")]


Limits = Annotated[TenantLimits, OptionsOf({"owner_targets": OwnerTargets})]


def _status(tenant: Tenant) -> str:
    return "suspended" if tenant.suspended else "active"


@tenants.client_command("create", tenant=False, create=True)
async def create_tenant(client: Client, tenant_id: TenantId, limits: Limits) -> Report:
    """Create a tenant."""
    made = await client.tenants.create(tenant_id, **limits)
    return Report(made, f"created {made.id}")


@tenants.client_command(
    "list",
    show=columns(
        ("tenant", "id"),
        ("status", _status),
        "weight",
        "schedules_max",
        none="there are no tenants",
    ),
    tenant=False,
)
async def list_tenants(client: Client) -> tuple[Tenant, ...]:
    """List tenants by id."""
    return await client.tenants.list(limit=LISTED)


@tenants.client_command("show", show=field_lines, tenant=False)
async def show_tenant(client: Client, tenant_id: TenantId) -> Tenant:
    """Show a tenant and its limits."""
    return await client.tenants.get(tenant_id)


@tenants.client_command("limits", tenant=False)
async def set_limits(
    client: Client, tenant_id: TenantId, limits: Limits, reset: Reset = False
) -> Report:
    """Change limits of a tenant; those that are not given stay."""
    if reset:
        limits = {name: limits.get(name) for name in names_of(TenantLimits)}  # type: ignore[assignment]
    changed = await client.tenants.set_limits(tenant_id, **limits)
    return Report(changed, f"changed {changed.id}")


@tenants.client_command("suspend", tenant=False)
async def suspend_tenant(client: Client, tenant_id: TenantId, yes: Yes = False) -> Report:
    """Refuse a tenant's API keys and hand out none of its messages."""
    confirm(f"suspend tenant {tenant_id}? Its work waits until you resume it", yes=yes)
    suspended = await client.tenants.suspend(tenant_id)
    return Report(suspended, f"suspended {suspended.id}")


@tenants.client_command("resume", tenant=False)
async def resume_tenant(client: Client, tenant_id: TenantId) -> Report:
    """End a suspension."""
    resumed = await client.tenants.resume(tenant_id)
    return Report(resumed, f"resumed {resumed.id}")
