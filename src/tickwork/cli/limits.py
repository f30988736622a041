"""`tickwork limits`: limits that queues and endpoints share by name."""

from __future__ import annotations

from typing import Annotated

import typer

from tickwork.cli.options import OPTION_OF_FIELD, Database, Json, Shared, Tenant
from tickwork.cli.output import print_json, print_lines, print_table
from tickwork.cli.store_session import number, required, scope_of, whole_number, with_store
from tickwork.cli.typer_commands import Command, Group

app = typer.Typer(cls=Group, help="Limits that queues and endpoints share: list, put, delete.")

LimitName = Annotated[str | None, typer.Argument(metavar="LIMIT", help="Name of the limit.")]
Rate = Annotated[str | None, typer.Option(metavar="N", help="Messages in a period.")]
Period = Annotated[
    str | None, typer.Option(metavar="SECONDS", help="Seconds of a period; default 1.")
]
Concurrency = Annotated[str | None, typer.Option(metavar="N", help="Messages at a time.")]

_OPTIONS = OPTION_OF_FIELD | {
    "name": "LIMIT",
    "rate": "--rate",
    "period_seconds": "--period",
    "concurrency": "--concurrency",
}


@app.command("list", cls=Command)
def list_command(
    database: Database = None, tenant: Tenant = None, shared: Shared = False, as_json: Json = False
) -> None:
    """List the limits of a tenant, or with --shared those of shared queues."""
    from tickwork.ops.limits import list_limits

    scope = scope_of(tenant, shared=shared)
    found = with_store(database, scope, lambda store: list_limits(store, scope))
    if as_json:
        print_json(found)
        return
    rows = [(each.name, each.rate, each.period_seconds, each.concurrency) for each in found]
    heading = ("limit", "rate", "period_seconds", "concurrency")
    print_table(heading, rows, none="there are no limits")


@app.command("put", cls=Command)
def put_command(
    name: LimitName = None,
    rate: Rate = None,
    period: Period = None,
    concurrency: Concurrency = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Create a limit or replace its numbers."""
    from tickwork.ops.limits import put_limit

    which, scope = required(name, "LIMIT"), scope_of(tenant, shared=shared)
    fields = {
        "rate": None if rate is None else number(rate, "--rate"),
        "period_seconds": None if period is None else number(period, "--period"),
        "concurrency": None
        if concurrency is None
        else whole_number(concurrency, "--concurrency", 0),
    }
    made = with_store(
        database, scope, lambda store: put_limit(store, scope, which, fields), names=_OPTIONS
    )
    if as_json:
        print_json(made)
    else:
        print_lines([f"{which} is set"])


@app.command("delete", cls=Command)
def delete_command(
    name: LimitName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Delete a limit; who names it is not limited any more."""
    from tickwork.ops.limits import delete_limit

    which, scope = required(name, "LIMIT"), scope_of(tenant, shared=shared)
    with_store(database, scope, lambda store: delete_limit(store, scope, which))
    if as_json:
        print_json({"limit": which, "deleted": True})
    else:
        print_lines([f"{which} is deleted"])
