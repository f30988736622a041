"""`tickwork limits`: limits that queues and endpoints share by name."""

from __future__ import annotations

from typing import Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import OPTION_OF_FIELD, Argument, Database, Json, Option, Shared, Tenant
from tickwork.cli.output import print_json, print_lines, print_table
from tickwork.cli.session import ask
from tickwork.cli.store_session import number, required, whole_number

app = Group(help="Limits that queues and endpoints share: list, put, delete.")

LimitName = Annotated[str | None, Argument(metavar="LIMIT", help="Name of the limit.")]
Rate = Annotated[str | None, Option(metavar="N", help="Messages in a period.")]
Period = Annotated[
    str | None,
    Option(name="--period-seconds", metavar="SECONDS", help="Seconds of a period; default 1."),
]
Concurrency = Annotated[str | None, Option(metavar="N", help="Messages at a time.")]

LISTED = 1_000

_OPTIONS = OPTION_OF_FIELD | {
    "name": "LIMIT",
    "rate": "--rate",
    "period_seconds": "--period-seconds",
    "concurrency": "--concurrency",
}


@app.plain_command("list")
def list_command(
    database: Database = None, tenant: Tenant = None, shared: Shared = False, as_json: Json = False
) -> None:
    """List the limits of a tenant, or with --shared those of shared queues."""
    found = ask(database, tenant, lambda client: client.limits.list(limit=LISTED), shared=shared)
    if as_json:
        print_json(found)
        return
    rows = [(limit.name, limit.rate, limit.period_seconds, limit.concurrency) for limit in found]
    heading = ("limit", "rate", "period_seconds", "concurrency")
    print_table(heading, rows, none="there are no limits")


@app.plain_command("put")
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
    which = required(name, "LIMIT")
    per = None if rate is None else number(rate, "--rate")
    seconds = 1.0 if period is None else number(period, "--period-seconds")
    at_once = None if concurrency is None else whole_number(concurrency, "--concurrency", 0)
    made = ask(
        database,
        tenant,
        lambda client: client.limits.put(
            which, rate=per, period_seconds=seconds, concurrency=at_once
        ),
        shared=shared,
        create=True,
        names=_OPTIONS,
    )
    if as_json:
        print_json(made)
    else:
        print_lines([f"{which} is set"])


@app.plain_command("delete")
def delete_command(
    name: LimitName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Delete a limit; who names it is not limited any more."""
    which = required(name, "LIMIT")
    ask(database, tenant, lambda client: client.limits.delete(which), shared=shared)
    if as_json:
        print_json({"limit": which, "deleted": True})
    else:
        print_lines([f"{which} is deleted"])
