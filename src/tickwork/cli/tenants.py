"""`tickwork tenants`: who shares the database, and what each may use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import click

from tickwork.cli.command import Group
from tickwork.cli.options import OPTION_OF_FIELD, Argument, Database, Json, Option, Yes
from tickwork.cli.output import field_lines, print_json, print_lines, print_table
from tickwork.cli.session import ask
from tickwork.cli.store_session import confirm, number, required, whole_number

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tickwork.client.client import Client
    from tickwork.core.model import Tenant

app = Group(help="Tenants: who shares this database.")

TenantId = Annotated[str | None, Argument(metavar="TENANT", help="Id of the tenant.")]
Weight = Annotated[
    str | None, Option(metavar="N", help="Share of shared queues, 1 to 1000; default 1.")
]
MinInterval = Annotated[
    str | None,
    Option(
        name="--min-interval-seconds", metavar="SECONDS", help="Shortest interval of a schedule."
    ),
]
OwnerMinInterval = Annotated[
    str | None,
    Option(
        name="--owner-min-interval-seconds",
        metavar="SECONDS",
        help="Shortest interval of a schedule that has an owner.",
    ),
]
SchedulesMax = Annotated[str | None, Option(metavar="N", help="Most schedules it may have.")]
OwnerSchedulesMax = Annotated[
    str | None, Option(metavar="N", help="Most schedules that one owner may have.")
]
SchedulesRate = Annotated[
    str | None,
    Option(
        name="--schedules-per-second", metavar="N", help="Most schedules it may create a second."
    ),
]
MessagesRate = Annotated[
    str | None,
    Option(name="--messages-per-second", metavar="N", help="Most messages it may send a second."),
]
RequestsRate = Annotated[
    str | None,
    Option(
        name="--requests-per-second",
        metavar="N",
        help="Most HTTP requests its keys may make a second.",
    ),
]
PayloadMax = Annotated[
    str | None,
    Option(name="--payload-bytes-max", metavar="BYTES", help="Largest body it may send."),
]
BacklogMax = Annotated[
    str | None, Option(metavar="N", help="Most messages it may have in all queues.")
]
ClaimedMax = Annotated[
    str | None, Option(metavar="N", help="Most messages that may run at a time.")
]
EmailsPerDay = Annotated[
    str | None, Option(metavar="N", help="Most emails it may send in a day of UTC.")
]
QueuesMax = Annotated[str | None, Option(metavar="N", help="Most queues it may have.")]
EndpointsMax = Annotated[
    str | None, Option(metavar="N", help="Most endpoints it may have; default 1000.")
]
SubscriptionsMax = Annotated[
    str | None, Option(metavar="N", help="Most subscriptions it may have; default 1000.")
]
SessionsMax = Annotated[
    str | None,
    Option(metavar="N", help="Most sessions of the console; default 10000."),
]
OwnerTarget = Annotated[
    list[str] | None,
    Option(
        metavar="TARGET", help="Target its owners may use, such as queue:reminders; repeatable."
    ),
]
Unlimited = Annotated[
    bool, Option(name="--reset", help="Remove the limits that are not given, instead of keeping.")
]

LISTED = 1_000

_OPTIONS = OPTION_OF_FIELD | {
    "id": "TENANT",
    "weight": "--weight",
    "min_interval_seconds": "--min-interval-seconds",
    "owner_min_interval_seconds": "--owner-min-interval-seconds",
    "schedules_max": "--schedules-max",
    "owner_schedules_max": "--owner-schedules-max",
    "schedules_per_second": "--schedules-per-second",
    "messages_per_second": "--messages-per-second",
    "requests_per_second": "--requests-per-second",
    "payload_bytes_max": "--payload-bytes-max",
    "backlog_max": "--backlog-max",
    "claimed_max": "--claimed-max",
    "emails_per_day": "--emails-per-day",
    "queues_max": "--queues-max",
    "endpoints_max": "--endpoints-max",
    "subscriptions_max": "--subscriptions-max",
    "sessions_max": "--sessions-max",
    "owner_targets": "--owner-target",
}


@app.plain_command("create")
def create_command(
    tenant: TenantId = None,
    weight: Weight = None,
    min_interval: MinInterval = None,
    owner_min_interval: OwnerMinInterval = None,
    schedules_max: SchedulesMax = None,
    owner_schedules_max: OwnerSchedulesMax = None,
    schedules_rate: SchedulesRate = None,
    messages_rate: MessagesRate = None,
    requests_rate: RequestsRate = None,
    payload_max: PayloadMax = None,
    backlog_max: BacklogMax = None,
    claimed_max: ClaimedMax = None,
    emails_per_day: EmailsPerDay = None,
    queues_max: QueuesMax = None,
    endpoints_max: EndpointsMax = None,
    subscriptions_max: SubscriptionsMax = None,
    sessions_max: SessionsMax = None,
    owner_target: OwnerTarget = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Create a tenant."""
    tenant_id = required(tenant, "TENANT")
    limits = _limits(
        {
            "weight": weight,
            "min_interval_seconds": min_interval,
            "owner_min_interval_seconds": owner_min_interval,
            "schedules_max": schedules_max,
            "owner_schedules_max": owner_schedules_max,
            "schedules_per_second": schedules_rate,
            "messages_per_second": messages_rate,
            "requests_per_second": requests_rate,
            "payload_bytes_max": payload_max,
            "backlog_max": backlog_max,
            "claimed_max": claimed_max,
            "emails_per_day": emails_per_day,
            "queues_max": queues_max,
            "endpoints_max": endpoints_max,
            "subscriptions_max": subscriptions_max,
            "sessions_max": sessions_max,
        },
        owner_target,
    )
    given: Any = {name: limit for name, limit in limits.items() if limit is not None}
    _run(
        database,
        lambda client: client.tenants.create(tenant_id, **given),
        "created",
        as_json=as_json,
        create=True,
    )


@app.plain_command("list")
def list_command(database: Database = None, as_json: Json = False) -> None:
    """List tenants by id."""
    found = ask(database, None, lambda client: client.tenants.list(limit=LISTED))
    if as_json:
        print_json(found)
        return
    heading = ("tenant", "status", "weight", "schedules_max")
    rows = [
        (
            tenant.id,
            "suspended" if tenant.suspended else "active",
            tenant.weight,
            tenant.schedules_max,
        )
        for tenant in found
    ]
    print_table(heading, rows, none="there are no tenants")


@app.plain_command("show")
def show_command(tenant: TenantId = None, database: Database = None, as_json: Json = False) -> None:
    """Show a tenant and its limits."""
    tenant_id = required(tenant, "TENANT")
    found = ask(database, None, lambda client: client.tenants.get(tenant_id))
    if as_json:
        print_json(found)
    else:
        print_lines(field_lines(found))


@app.plain_command("limits")
def limits_command(
    tenant: TenantId = None,
    weight: Weight = None,
    min_interval: MinInterval = None,
    owner_min_interval: OwnerMinInterval = None,
    schedules_max: SchedulesMax = None,
    owner_schedules_max: OwnerSchedulesMax = None,
    schedules_rate: SchedulesRate = None,
    messages_rate: MessagesRate = None,
    requests_rate: RequestsRate = None,
    payload_max: PayloadMax = None,
    backlog_max: BacklogMax = None,
    claimed_max: ClaimedMax = None,
    emails_per_day: EmailsPerDay = None,
    queues_max: QueuesMax = None,
    endpoints_max: EndpointsMax = None,
    subscriptions_max: SubscriptionsMax = None,
    sessions_max: SessionsMax = None,
    owner_target: OwnerTarget = None,
    reset: Unlimited = False,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Change limits of a tenant; those that are not given stay."""
    tenant_id = required(tenant, "TENANT")
    limits = _limits(
        {
            "weight": weight,
            "min_interval_seconds": min_interval,
            "owner_min_interval_seconds": owner_min_interval,
            "schedules_max": schedules_max,
            "owner_schedules_max": owner_schedules_max,
            "schedules_per_second": schedules_rate,
            "messages_per_second": messages_rate,
            "requests_per_second": requests_rate,
            "payload_bytes_max": payload_max,
            "backlog_max": backlog_max,
            "claimed_max": claimed_max,
            "emails_per_day": emails_per_day,
            "queues_max": queues_max,
            "endpoints_max": endpoints_max,
            "subscriptions_max": subscriptions_max,
            "sessions_max": sessions_max,
        },
        owner_target,
    )
    given: Any = {name: limit for name, limit in limits.items() if reset or limit is not None}
    _run(
        database, lambda client: client.tenants.set_limits(tenant_id, **given), "changed",
        as_json=as_json,
    )  # fmt: skip


@app.plain_command("suspend")
def suspend_command(
    tenant: TenantId = None, database: Database = None, yes: Yes = False, as_json: Json = False
) -> None:
    """Refuse a tenant's API keys and hand out none of its messages."""
    tenant_id = required(tenant, "TENANT")
    confirm(f"suspend tenant {tenant_id}? Its work waits until you resume it", yes=yes)
    _run(database, lambda client: client.tenants.suspend(tenant_id), "suspended", as_json=as_json)


@app.plain_command("resume")
def resume_command(
    tenant: TenantId = None, database: Database = None, as_json: Json = False
) -> None:
    """End a suspension."""
    tenant_id = required(tenant, "TENANT")
    _run(database, lambda client: client.tenants.resume(tenant_id), "resumed", as_json=as_json)


def _limits(numbers: dict[str, str | None], owner_targets: list[str] | None) -> dict[str, object]:
    """The limits by their fields; None if an option was not given."""
    read = {
        name: None if value is None else _number(value, name) for name, value in numbers.items()
    }
    return {**read, "owner_targets": owner_targets or None}


def _number(value: str, name: str) -> float:
    if name.endswith("_per_second"):
        return number(value, _OPTIONS[name])
    return whole_number(value, _OPTIONS[name], 0)


def _run(
    database: str | None,
    work: Callable[[Client], Awaitable[Tenant]],
    done: str,
    *,
    as_json: bool,
    create: bool = False,
) -> None:
    tenant = ask(database, None, work, names=_OPTIONS, create=create)
    if as_json:
        print_json(tenant)
    else:
        click.echo(f"{done} {tenant.id}")
