"""`tickwork batches`: lists, watches and cancels batches.

`watch` shows a progress bar at a terminal, otherwise lines, or JSON lines with --json.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tickwork.cli.options import After, BatchId, Database, Json, Limit, Tenant, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    bar,
    fail,
    print_json,
    print_json_line,
    print_lines,
    print_table,
    shortened,
)
from tickwork.cli.store_session import (
    confirm,
    identity,
    number,
    scope_of,
    whole_number,
    with_store,
)
from tickwork.cli.typer_commands import Command, Group
from tickwork.clock import monotonic

if TYPE_CHECKING:
    from tickwork.core.message.batch import Batch, BatchItem, ItemStatus
    from tickwork.core.model import Scope
    from tickwork.ops.batches import Progress
    from tickwork.ops.stores import Store

    Work = Callable[[Store], Awaitable[Sequence[Batch]]]

LINE_SECONDS = 5.0
"""Seconds between two lines of progress without a terminal."""


async def show(polls: AsyncIterator[Progress], *, as_json: bool) -> Batch:
    """Shows the progress of a batch and returns the batch as it was last seen."""
    look, printed, printed_at = None, None, 0.0
    with nullcontext() if as_json else bar() as update:
        async for look in polls:
            batch = look.batch
            if update is not None:
                update(sentence(look), batch.completed + batch.failed, batch.total)
            elif batch != printed and (
                as_json or printed is None or monotonic() >= printed_at + LINE_SECONDS
            ):
                _print_progress(look, as_json=as_json)
                printed, printed_at = batch, monotonic()
    assert look is not None, "watch yields at least once"
    if look.batch != printed:
        _print_progress(look, as_json=as_json)
    return look.batch


def sentence(look: Progress) -> str:
    """Describes the progress of a batch on one line."""
    from tickwork.core.message.batch import BatchStatus

    batch = look.batch
    so_far = " so far" if batch.status is BatchStatus.FILLING else ""
    counts = (
        f"{batch.pending} pending, {batch.processing} processing, {batch.completed} completed, "
        f"{batch.failed} failed, of {batch.total}{so_far}"
    )
    if batch.status is BatchStatus.COMPLETED or look.rate_per_second is None:
        return counts
    rate = f"{look.rate_per_second:.1f} per second"
    if look.remaining_seconds is None:
        return f"{counts}; {rate}"
    return f"{counts}; {rate}, {timedelta(seconds=round(look.remaining_seconds))} left"


def _print_progress(look: Progress, *, as_json: bool) -> None:
    from msgspec import structs

    if as_json:
        fields = structs.asdict(look)
        print_json_line({**structs.asdict(fields.pop("batch")), **fields})
    else:
        print_lines([sentence(look)])


app = typer.Typer(cls=Group, help="Batches: list, show, watch, items, cancel.")

LISTED = 100

Status = Annotated[
    str | None,
    typer.Option(
        metavar="STATUS",
        help="Status of the items: pending, processing, completed, failed (default).",
    ),
]

Timeout = Annotated[
    str | None,
    typer.Option(metavar="SECONDS", help="Seconds to watch; default until it is completed."),
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
    "created_at": "created_at",
}


@app.command("list", cls=Command)
def list_command(
    limit: Limit = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """List the latest batches, newest first."""
    from tickwork.ops.batches import list_batches

    scope, most = scope_of(tenant), whole_number(limit, "--limit", LISTED)
    batches = _with_queue_names(
        database, scope, lambda store: list_batches(store, scope, limit=most)
    )
    if as_json:
        print_json(batches)
    else:
        print_table([*_COLUMNS], _rows(batches), none="there are no batches")


@app.command("show", cls=Command)
def show_command(
    batch: BatchId = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Show the progress of a batch."""
    from tickwork.ops.batches import get_batch

    scope = scope_of(tenant)
    batch_id = identity(batch, "ID", "batch", database, scope)
    _print(database, scope, lambda store: get_batch(store, scope, batch_id), as_json=as_json)


@app.command("watch", cls=Command)
def watch_command(
    batch: BatchId = None,
    timeout: Timeout = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show the progress of a batch until it is completed.

    Exits with 1 if items failed or the timeout expired. With --json every change is a line.
    """
    from tickwork.core.message.batch import BatchStatus
    from tickwork.ops.batches import watch

    scope = scope_of(tenant)
    batch_id = identity(batch, "ID", "batch", database, scope)
    seconds = None if timeout is None else number(timeout, "--timeout")
    last = with_store(
        database,
        scope,
        lambda store: show(watch(store, scope, batch_id, timeout_seconds=seconds), as_json=as_json),
    )
    if last.status is not BatchStatus.COMPLETED:
        fail(f"batch {batch_id} was not completed within the timeout")
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
    """List the items of a batch by status."""
    from tickwork.ops.batches import list_items

    scope = scope_of(tenant)
    batch_id = identity(batch, "ID", "batch", database, scope)
    wanted, most = _status(status), whole_number(limit, "--limit", LISTED)
    begin = None if after is None else identity(after, "--after", "message", database, scope)
    items = with_store(
        database,
        scope,
        lambda store: list_items(store, scope, batch_id, wanted, limit=most, after=begin),
    )
    if as_json:
        print_json(items)
        return
    heading = ("item", "status", "attempts", "started_at", "ended_at", "reason", "error")
    rows = [
        (
            *(each.id, each.status, each.attempts, each.started_at, each.ended_at),
            *(each.reason, _error(each)),
        )
        for each in items
    ]
    print_table(heading, rows, none=f"no item is {wanted}")


@app.command("cancel", cls=Command)
def cancel_command(
    batch: BatchId = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Delete the items of a batch that no worker has claimed; they count as failed."""
    from tickwork.core.message.batch import BatchStatus
    from tickwork.ops.batches import cancel_batch, get_batch

    scope = scope_of(tenant)
    batch_id = identity(batch, "ID", "batch", database, scope)
    found = with_store(database, scope, lambda store: get_batch(store, scope, batch_id))
    if found.status is not BatchStatus.COMPLETED:
        items = "item" if found.pending == 1 else "items"
        confirm(f"Permanently delete {found.pending} unclaimed {items} of {batch_id}?", yes=yes)
    _print(database, scope, lambda store: cancel_batch(store, scope, batch_id), as_json=as_json)


def _print(
    database: str | None,
    scope: Scope,
    work: Callable[[Store], Awaitable[Batch]],
    *,
    as_json: bool,
) -> None:
    """Prints the batch that the work returns."""

    async def one(store: Store) -> Sequence[Batch]:
        return [await work(store)]

    (batch,) = _with_queue_names(database, scope, one)
    if as_json:
        print_json(batch)
    else:
        print_table([*_COLUMNS], _rows([batch]), none="")


def _with_queue_names(database: str | None, scope: Scope, work: Work) -> list[dict[str, Any]]:
    """Returns the batches that the work returns, each with the name of its queue."""
    from msgspec import structs

    from tickwork.ops.queues import queue_names

    async def find(store: Store) -> list[dict[str, Any]]:
        batches = await work(store)
        names = await queue_names(store, scope)
        return [{**structs.asdict(each), "queue": names.get(each.queue_id)} for each in batches]

    return with_store(database, scope, find)


def _rows(batches: Sequence[dict[str, Any]]) -> Iterator[Sequence[object]]:
    for each in batches:
        yield [each[field] for field in _COLUMNS.values()]


def _error(item: BatchItem) -> str:
    from tickwork.core.message.error_summary import summary_line

    return shortened(summary_line(item.error))


def _status(given: str | None) -> ItemStatus:
    from tickwork.core.fields import choice_error
    from tickwork.core.message.batch import ItemStatus

    if given is None:
        return ItemStatus.FAILED
    if (message := choice_error(given, ItemStatus)) is not None:
        fail(f"--status: {message}", code=EXIT_BAD_USAGE)
    return ItemStatus(given)
