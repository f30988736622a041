"""`tickwork tenants`: who shares the database, and what each may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct, structs

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Option, Yes
from tickwork.cli.output import Report, columns, field_lines
from tickwork.cli.store_session import confirm
from tickwork.cli.values import given

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.model import Tenant

tenants = Group("Tenants: who shares this database.")

LISTED = 1_000

TenantId = Annotated[str, Argument("Id of the tenant.", "TENANT", fields=("id",))]
Weight = Annotated[int | None, Option("Share of shared queues, 1 to 1000; default 1.", "N")]
MinInterval = Annotated[int | None, Option("Shortest interval of a schedule.", "SECONDS")]
OwnerMinInterval = Annotated[
    int | None, Option("Shortest interval of a schedule that has an owner.", "SECONDS")
]
SchedulesMax = Annotated[int | None, Option("Most schedules it may have.", "N")]
OwnerSchedulesMax = Annotated[int | None, Option("Most schedules that one owner may have.", "N")]
SchedulesRate = Annotated[float | None, Option("Most schedules it may create a second.", "N")]
MessagesRate = Annotated[float | None, Option("Most messages it may send a second.", "N")]
RequestsRate = Annotated[
    float | None, Option("Most HTTP requests its keys may make a second.", "N")
]
PayloadMax = Annotated[int | None, Option("Largest body it may send.", "BYTES")]
BacklogMax = Annotated[int | None, Option("Most messages it may have in all queues.", "N")]
ClaimedMax = Annotated[int | None, Option("Most messages that may run at a time.", "N")]
EmailsPerDay = Annotated[int | None, Option("Most emails it may send in a day of UTC.", "N")]
QueuesMax = Annotated[int | None, Option("Most queues it may have.", "N")]
EndpointsMax = Annotated[int | None, Option("Most endpoints it may have; default 1000.", "N")]
SubscriptionsMax = Annotated[
    int | None, Option("Most subscriptions it may have; default 1000.", "N")
]
SessionsMax = Annotated[int | None, Option("Most sessions of the console; default 10000.", "N")]
OwnerTargets = Annotated[
    list[str] | None,
    Option(
        "Target its owners may use, such as queue:reminders; repeatable.",
        "TARGET",
        name="--owner-target",
    ),
]
Reset = Annotated[bool, Option("Remove the limits that are not given, instead of keeping.")]


class TenantLimits(Struct, frozen=True):
    """The limits of a tenant, by their fields; None if not given."""

    weight: Weight = None
    min_interval_seconds: MinInterval = None
    owner_min_interval_seconds: OwnerMinInterval = None
    schedules_max: SchedulesMax = None
    owner_schedules_max: OwnerSchedulesMax = None
    schedules_per_second: SchedulesRate = None
    messages_per_second: MessagesRate = None
    requests_per_second: RequestsRate = None
    payload_bytes_max: PayloadMax = None
    backlog_max: BacklogMax = None
    claimed_max: ClaimedMax = None
    emails_per_day: EmailsPerDay = None
    queues_max: QueuesMax = None
    endpoints_max: EndpointsMax = None
    subscriptions_max: SubscriptionsMax = None
    sessions_max: SessionsMax = None
    owner_targets: OwnerTargets = None


def _status(tenant: Tenant) -> str:
    return "suspended" if tenant.suspended else "active"


@tenants.client_command("create", tenant=False, create=True)
async def create_tenant(client: Client, tenant_id: TenantId, limits: TenantLimits) -> Report:
    """Create a tenant."""
    made = await client.tenants.create(tenant_id, **given(limits))
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
    client: Client, tenant_id: TenantId, limits: TenantLimits, reset: Reset = False
) -> Report:
    """Change limits of a tenant; those that are not given stay."""
    changes = structs.asdict(limits) if reset else given(limits)
    changed = await client.tenants.set_limits(tenant_id, **changes)
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
