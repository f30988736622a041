"""`tickwork nodes` and `tickwork late`: which processes run, and what is overdue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tickwork.cli.options import OPTION_OF_FIELD, Database, Json, Limit, Tenant
from tickwork.cli.output import in_zone, print_json, print_lines, print_table
from tickwork.cli.store_session import number, scope_of, whole_number, with_store

if TYPE_CHECKING:
    from tickwork.ops.late import Late

LISTED = 100

Seconds = Annotated[
    str | None,
    typer.Option(metavar="N", help="Seconds after which something counts as late; default 60."),
]


def nodes_command(database: Database = None, as_json: Json = False) -> None:
    """List the processes that run on the database, and what each holds."""
    from uuid import UUID

    from tickwork.core.model import SYSTEM
    from tickwork.ops.cluster import list_nodes

    found = with_store(database, SYSTEM, list_nodes)
    if as_json:
        print_json(found)
        return
    heading = ("node", "host", "pid", "roles", "started_at", "lease", "messages", "shards")
    rows = [
        (
            *(UUID(each.id), each.host, each.pid, ",".join(each.roles), each.started_at),
            *("valid" if each.is_alive else "expired", each.claims, len(each.shards)),
        )
        for each in found
    ]
    print_table(heading, rows, none="no process runs on this database")


def late_command(
    seconds: Seconds = None,
    limit: Limit = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List what is overdue: schedules that no scheduler planned, and queues whose messages wait."""
    from tickwork.ops.late import LATE_SECONDS, list_late

    scope, most = scope_of(tenant), whole_number(limit, "--limit", LISTED)
    after = LATE_SECONDS if seconds is None else number(seconds, "--seconds")
    found = with_store(
        database,
        scope,
        lambda store: list_late(store, scope, seconds=after, limit=most),
        names=OPTION_OF_FIELD | {"seconds": "--seconds"},
    )
    if as_json:
        print_json(found)
    else:
        _print_late(found)


def _print_late(found: Late) -> None:
    if found.schedules:
        heading = ("schedule", "name", "due_at", "timezone", "late")
        rows = [
            (
                *(each.id, each.name, in_zone(each.due_at, each.timezone), each.timezone),
                f"{each.late_seconds:.0f} s",
            )
            for each in found.schedules
        ]
        print_table(heading, rows, none="")
    if found.queues:
        queues = [
            (each.queue, each.messages, each.visible_at, f"{each.late_seconds:.0f} s", each.paused)
            for each in found.queues
        ]
        if found.schedules:
            print_lines([""])
        print_table(("queue", "ready", "oldest", "late", "paused"), queues, none="")
    if not found.schedules and not found.queues:
        print_lines(["nothing is late"])
