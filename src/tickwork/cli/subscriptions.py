"""`tickwork subscriptions`: queues that get copies of messages and events by type."""

from __future__ import annotations

from typing import Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import OPTION_OF_FIELD, Argument, Database, Json, QueueText, Tenant
from tickwork.cli.output import print_json, print_lines, print_table
from tickwork.cli.session import ask
from tickwork.cli.store_session import required

app = Group(help="Subscriptions of queues to types: list, create, delete.")

LISTED = 1_000

Types = Annotated[
    str | None,
    Argument(metavar="TYPES", help="A type, a prefix such as order.*, or * for all."),
]

_OPTIONS = OPTION_OF_FIELD | {"types": "TYPES", "queue": "QUEUE"}


@app.plain_command("list")
def list_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """List the subscriptions by types and queue."""
    found = ask(database, tenant, lambda client: client.subscriptions.list(limit=LISTED))
    if as_json:
        print_json(found)
        return
    rows = [(subscription.types, subscription.queue) for subscription in found]
    print_table(("types", "queue"), rows, none="there are no subscriptions")


@app.plain_command("create")
def create_command(
    types: Types = None,
    name: QueueText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Copy messages and events of these types to a queue. A repeat has no effect."""
    which, queue = required(types, "TYPES"), required(name, "QUEUE")
    made = ask(
        database, tenant, lambda client: client.subscriptions.create(which, queue), names=_OPTIONS
    )
    if as_json:
        print_json(made)
    else:
        print_lines([f"{queue} gets copies of {which}"])


@app.plain_command("delete")
def delete_command(
    types: Types = None,
    name: QueueText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """End a subscription."""
    which, queue = required(types, "TYPES"), required(name, "QUEUE")
    ask(database, tenant, lambda client: client.subscriptions.delete(which, queue), names=_OPTIONS)
    if as_json:
        print_json({"types": which, "queue": queue, "deleted": True})
    else:
        print_lines([f"{queue} gets no more copies of {which}"])
