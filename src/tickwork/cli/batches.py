"""`tickwork batches`: how far they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tickwork.cli.commands import Command, Group
from tickwork.cli.failing import EXIT_BAD_USAGE, fail
from tickwork.cli.options import After, BatchId, Database, Json, Limit, Tenant, Yes
from tickwork.cli.printing import print_json, print_table
from tickwork.cli.running import ask, confirm, identity, number, queue_names, scope_of, whole_number
from tickwork.cli.watching import show

if TYPE_CHECKING:
    from tickwork.core.message.batch import Batch, ItemStatus
    from tickwork.core.model import Scope
    from tickwork.store.contract import Store

    Work = Callable[[Store], Awaitable[Sequence[Batch]]]

app = typer.Typer(cls=Group, help="Batches: list, show, watch, their items, cancel.")

LISTED = 100

Status = Annotated[
    str | None,
    typer.Option(metavar="STATUS", help="pending, processing, completed or failed (the default)."),
]

Timeout = Annotated[
    str | None, typer.Option(metavar="SECONDS", help="How long to watch; default: to the end.")
]

_COLUMNS = {
    "batch": "id",
    "queue": "queue",
    "status": "status",
    "total": "total",
    "pending": "pending",
    "processing": "processing",
    "completed": "completed",
    "failed": "failed",
    "created": "created_at",
}


@app.command("list", cls=Command)
def list_command(
    limit: Limit = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """List the latest batches, newest first."""
    scope, most = scope_of(tenant), whole_number(limit, "--limit", LISTED)
    batches = _named(database, scope, lambda store: store.batches.list(scope, most))
    if as_json:
        print_json(batches)
    else:
        print_table([*_COLUMNS], _rows(batches), none="there are no batches")


@app.command("show", cls=Command)
def show_command(
    batch: BatchId = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Show how far a batch is."""
    scope, batch_id = scope_of(tenant), identity(batch, "ID")
    _print(database, scope, lambda store: store.batches.get(scope, batch_id), as_json=as_json)


@app.command("watch", cls=Command)
def watch_command(
    batch: BatchId = None,
    timeout: Timeout = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Watch a batch until it is completed.

    Leaves with 1 if items failed, or if the time was up. With --json every change is a line.
    """
    from tickwork.core.message.batch import BatchStatus
    from tickwork.ops.batches import watch

    scope, batch_id = scope_of(tenant), identity(batch, "ID")
    seconds = None if timeout is None else number(timeout, "--timeout")
    last = ask(
        database,
        scope,
        lambda store: show(watch(store, scope, batch_id, timeout_seconds=seconds), as_json=as_json),
    )
    if last.status is not BatchStatus.COMPLETED:
        fail(f"batch {batch_id} is not completed yet; the time is up")
    if last.failed:
        fail(f"{last.failed} of {last.total} items failed; see `tickwork batches items {batch_id}`")


@app.command("items", cls=Command)
def items_command(
    batch: BatchId = None,
    status: Status = None,
    limit: Limit = None,
    after: After = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List the items of a batch that have a status."""
    scope, batch_id = scope_of(tenant), identity(batch, "ID")
    wanted, most = _status(status), whole_number(limit, "--limit", LISTED)
    begin = None if after is None else identity(after, "--after")
    items = ask(
        database,
        scope,
        lambda store: store.batches.items(scope, batch_id, wanted, most, after=begin),
    )
    if as_json:
        print_json(items)
        return
    rows = [(each.id, each.status, each.reason, each.ended_at) for each in items]
    print_table(("item", "status", "reason", "ended"), rows, none=f"no item is {wanted}")


@app.command("cancel", cls=Command)
def cancel_command(
    batch: BatchId = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Delete the items of a batch that are not being handled; they count as failed."""
    scope, batch_id = scope_of(tenant), identity(batch, "ID")
    confirm(f"Delete every waiting item of batch {batch_id}, for good?", yes=yes)
    _print(database, scope, lambda store: store.batches.cancel(scope, batch_id), as_json=as_json)


def _print(
    database: str | None,
    scope: Scope,
    work: Callable[[Store], Awaitable[Batch]],
    *,
    as_json: bool,
) -> None:
    """The one batch that the work answers."""

    async def one(store: Store) -> Sequence[Batch]:
        return [await work(store)]

    (batch,) = _named(database, scope, one)
    if as_json:
        print_json(batch)
    else:
        print_table([*_COLUMNS], _rows([batch]), none="")


def _named(database: str | None, scope: Scope, work: Work) -> list[dict[str, Any]]:
    """The batches that the work answers, each with the name of its queue."""
    from msgspec import structs

    async def find(store: Store) -> list[dict[str, Any]]:
        batches = await work(store)
        names = await queue_names(store, scope)
        return [{**structs.asdict(each), "queue": names.get(each.queue_id)} for each in batches]

    return ask(database, scope, find)


def _rows(batches: Sequence[dict[str, Any]]) -> Iterator[Sequence[object]]:
    for each in batches:
        yield [each[field] for field in _COLUMNS.values()]


def _status(given: str | None) -> ItemStatus:
    from tickwork.core.message.batch import ItemStatus

    if given is None:
        return ItemStatus.FAILED
    if given not in [*ItemStatus]:
        known = ", ".join(ItemStatus)
        fail(f"--status: must be one of {known}, not {given!r}", code=EXIT_BAD_USAGE)
    return ItemStatus(given)
