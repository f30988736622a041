"""`tickwork tenants`: who shares the database, and what each may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tickwork.cli.options import OPTION_OF_FIELD, Database, Json, Yes
from tickwork.cli.output import field_lines, print_json, print_lines, print_table
from tickwork.cli.store_session import confirm, number, required, whole_number, with_store
from tickwork.cli.typer_commands import Command, Group

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tickwork.core.model import Tenant
    from tickwork.ops.stores import Store

app = typer.Typer(cls=Group, help="Tenants: who shares this database.")

TenantId = Annotated[str | None, typer.Argument(metavar="TENANT", help="Id of the tenant.")]
Weight = Annotated[
    str | None, typer.Option(metavar="N", help="Share of shared queues, 1 to 1000; default 1.")
]
MinInterval = Annotated[
    str | None,
    typer.Option("--min-interval", metavar="SECONDS", help="Shortest interval of a schedule."),
]
SchedulesMax = Annotated[str | None, typer.Option(metavar="N", help="Most schedules it may have.")]
SchedulesRate = Annotated[
    str | None,
    typer.Option("--schedules-rate", metavar="N", help="Most schedules it may create a second."),
]
OwnerTarget = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TARGET", help="Target its owners may use, such as queue:reminders; repeatable."
    ),
]
Unlimited = Annotated[
    bool, typer.Option("--reset", help="Remove the limits that are not given, instead of keeping.")
]

_OPTIONS = OPTION_OF_FIELD | {
    "id": "TENANT",
    "weight": "--weight",
    "min_interval_seconds": "--min-interval",
    "schedules_max": "--schedules-max",
    "schedules_per_second": "--schedules-rate",
    "owner_targets": "--owner-target",
}


@app.command("create", cls=Command)
def create_command(
    tenant: TenantId = None,
    weight: Weight = None,
    min_interval: MinInterval = None,
    schedules_max: SchedulesMax = None,
    schedules_rate: SchedulesRate = None,
    owner_target: OwnerTarget = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Create a tenant."""
    from tickwork.ops.tenants import create_tenant

    tenant_id = required(tenant, "TENANT")
    limits = _limits(weight, min_interval, schedules_max, schedules_rate, owner_target)
    given = {name: each for name, each in limits.items() if each is not None}
    _run(database, lambda store: create_tenant(store, tenant_id, given), "created", as_json=as_json)


@app.command("list", cls=Command)
def list_command(database: Database = None, as_json: Json = False) -> None:
    """List tenants by id."""
    from tickwork.core.model import SYSTEM
    from tickwork.ops.tenants import list_tenants

    found = with_store(database, SYSTEM, lambda store: list_tenants(store, SYSTEM))
    if as_json:
        print_json(found)
        return
    heading = ("tenant", "status", "weight", "schedules_max")
    rows = [
        (each.id, "suspended" if each.suspended else "active", each.weight, each.schedules_max)
        for each in found
    ]
    print_table(heading, rows, none="there are no tenants")


@app.command("show", cls=Command)
def show_command(tenant: TenantId = None, database: Database = None, as_json: Json = False) -> None:
    """Show a tenant and its limits."""
    from tickwork.core.model import SYSTEM
    from tickwork.ops.tenants import get_tenant

    tenant_id = required(tenant, "TENANT")
    found = with_store(database, SYSTEM, lambda store: get_tenant(store, SYSTEM, tenant_id))
    if as_json:
        print_json(found)
    else:
        print_lines(field_lines(found))


@app.command("limits", cls=Command)
def limits_command(
    tenant: TenantId = None,
    weight: Weight = None,
    min_interval: MinInterval = None,
    schedules_max: SchedulesMax = None,
    schedules_rate: SchedulesRate = None,
    owner_target: OwnerTarget = None,
    reset: Unlimited = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Change limits of a tenant; those that are not given stay."""
    from tickwork.ops.tenants import set_tenant_limits

    tenant_id = required(tenant, "TENANT")
    limits = _limits(weight, min_interval, schedules_max, schedules_rate, owner_target)
    given = {name: each for name, each in limits.items() if reset or each is not None}
    _run(
        database, lambda store: set_tenant_limits(store, tenant_id, given), "changed",
        as_json=as_json,
    )  # fmt: skip


@app.command("suspend", cls=Command)
def suspend_command(
    tenant: TenantId = None, database: Database = None, yes: Yes = False, as_json: Json = False
) -> None:
    """Refuse a tenant's API keys and hand out none of its messages."""
    from tickwork.ops.tenants import suspend_tenant

    tenant_id = required(tenant, "TENANT")
    confirm(f"suspend tenant {tenant_id}? Its work waits until you resume it", yes=yes)
    _run(database, lambda store: suspend_tenant(store, tenant_id), "suspended", as_json=as_json)


@app.command("resume", cls=Command)
def resume_command(
    tenant: TenantId = None, database: Database = None, as_json: Json = False
) -> None:
    """End a suspension."""
    from tickwork.ops.tenants import resume_tenant

    tenant_id = required(tenant, "TENANT")
    _run(database, lambda store: resume_tenant(store, tenant_id), "resumed", as_json=as_json)


def _limits(
    weight: str | None,
    min_interval: str | None,
    schedules_max: str | None,
    schedules_rate: str | None,
    owner_targets: list[str] | None,
) -> dict[str, object]:
    """The limits by their fields; None if an option was not given."""
    return {
        "weight": _whole(weight, "--weight"),
        "min_interval_seconds": _whole(min_interval, "--min-interval"),
        "schedules_max": _whole(schedules_max, "--schedules-max"),
        "schedules_per_second": (
            None if schedules_rate is None else number(schedules_rate, "--schedules-rate")
        ),
        "owner_targets": owner_targets or None,
    }


def _whole(value: str | None, name: str) -> int | None:
    return None if value is None else whole_number(value, name, 0)


def _run(
    database: str | None, work: Callable[[Store], Awaitable[Tenant]], done: str, *, as_json: bool
) -> None:
    from tickwork.core.model import SYSTEM

    tenant = with_store(database, SYSTEM, work, names=_OPTIONS)
    if as_json:
        print_json(tenant)
    else:
        typer.echo(f"{done} {tenant.id}")
