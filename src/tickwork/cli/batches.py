"""`tickwork batches`: creates, lists, watches and cancels batches.

`watch` shows a progress bar at a terminal, otherwise lines, or JSON lines with --json.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

from tickwork.cli.command import Group
from tickwork.cli.options import (
    OPTION_OF_FIELD,
    After,
    Argument,
    BatchId,
    Database,
    Json,
    LimitText,
    Option,
    QueueText,
    Tenant,
    Yes,
)
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
from tickwork.cli.session import after_of, ask, chosen_types, reference_of
from tickwork.cli.store_session import confirm, number, required, scope_of, whole_number
from tickwork.clock import monotonic
from tickwork.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from tickwork.app.payloads import Payload
    from tickwork.client.answers import BatchAnswer, ItemAnswer
    from tickwork.client.client import Client
    from tickwork.core.message.batch import ItemStatus

LINE_SECONDS = 5.0
"""Seconds between two lines of progress without a terminal."""


POLL_SECONDS_MIN = 0.1
POLL_SECONDS_MAX = 1.0
"""Seconds between two looks at a batch; longer while nothing changes."""

SPOOLED_BYTES = 16_000_000
"""Bytes of stdin that are kept in memory; what is longer goes to a temporary file."""

WATCH_SECONDS_MAX = 30 * 86_400.0
"""Maximum number of seconds to watch a batch."""


class Progress(NamedTuple):
    """The progress and rate of a batch. `remaining_seconds` is None while no item completes, and
    while the batch is filling, because its total is not known yet."""

    batch: BatchAnswer
    rate_per_second: float | None = None
    remaining_seconds: float | None = None


async def watch(
    look: Callable[[], Awaitable[BatchAnswer]], *, timeout_seconds: float | None = None
) -> AsyncIterator[Progress]:
    """Polls a batch and yields its progress, until it is completed or the timeout expires."""
    from tickwork.core.message.batch import BatchStatus, ProgressRate

    if timeout_seconds is not None and not 0 <= timeout_seconds <= WATCH_SECONDS_MAX:
        fault = f"must be from 0 to {WATCH_SECONDS_MAX:.0f}, not {timeout_seconds:g}"
        raise InvalidInput([FieldError("timeout_seconds", fault)])
    speed = ProgressRate()
    seen = None
    pause = POLL_SECONDS_MIN
    until = monotonic() + (WATCH_SECONDS_MAX if timeout_seconds is None else timeout_seconds)
    while True:
        batch, now = await look(), monotonic()
        speed.add(now, batch.completed + batch.failed)
        is_whole = batch.status is not BatchStatus.FILLING
        left = speed.remaining_seconds(batch.total) if is_whole else None
        yield Progress(batch, speed.per_second, left)
        if batch.status is BatchStatus.COMPLETED or now >= until:
            return
        pause = min(pause * 2, POLL_SECONDS_MAX) if batch == seen else POLL_SECONDS_MIN
        seen = batch
        await asyncio.sleep(min(pause, until - now))


async def show(polls: AsyncIterator[Progress], *, as_json: bool) -> BatchAnswer:
    """Shows the progress of a batch and returns the batch as it was last seen."""
    look = None
    printed = None
    printed_at = 0.0
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
        fields = look._asdict()
        print_json_line({**structs.asdict(fields.pop("batch")), **fields})
    else:
        print_lines([sentence(look)])


app = Group(help="Batches: create, list, show, watch, items, cancel.")

LISTED = 100

Status = Annotated[
    str | None,
    Option(
        metavar="STATUS",
        help="Status of the items: pending, processing, completed, failed (default).",
    ),
]

Timeout = Annotated[
    str | None,
    Option(
        name="--timeout-seconds",
        metavar="SECONDS",
        help="Seconds to watch; default until it is completed.",
    ),
]

Lines = Annotated[
    str | None,
    Argument(metavar="FILE|-", help="File of JSON lines, one body each; - reads stdin."),
]
MessageType = Annotated[
    str | None, Option(name="--type", metavar="TYPE", help="Type of the messages.")
]
CompletionQueue = Annotated[
    str | None, Option(metavar="QUEUE", help="Queue that is told when it is completed.")
]

PROGRESS_ITEMS = 1_000
"""Items between two updates of the progress bar."""

_OPTIONS = OPTION_OF_FIELD | {"queue": "QUEUE", "completion_queue": "--completion-queue"}

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


@app.plain_command("create")
def create_command(
    queue: QueueText = None,
    lines: Lines = None,
    message_type: MessageType = None,
    completion_queue: CompletionQueue = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create a batch with one message for each line of a file. Nothing is sent if a line is wrong.

    Empty lines are left out. `tickwork batches watch ID` shows the progress of the batch."""
    name, path = required(queue, "QUEUE"), required(lines, "FILE")
    given: dict[str, Any] = {} if message_type is None else {"type": message_type}
    with _opened(path) as file, bar() as update:
        total = _check_lines(file, path, chosen_types(scope_of(tenant))(name, message_type))

        async def create(client: Client) -> BatchAnswer:
            await client.queues.get(name)  # Raises if there is none.
            file.seek(0)
            items = _counted(_bodies(file, path), update, total)
            made = await client.batch(name, items, completion_queue=completion_queue, **given)
            return await client.batches.get(made.id)

        batch = ask(database, tenant, create, names=_OPTIONS)
    _print(batch, as_json=as_json)


def _opened(path: str) -> IO[bytes]:
    """The file, or stdin, which is read to its end."""
    if path == "-":
        spooled = SpooledTemporaryFile(max_size=SPOOLED_BYTES)  # noqa: SIM115  the caller closes it
        shutil.copyfileobj(sys.stdin.buffer, spooled)
        spooled.seek(0)
        return spooled
    try:
        return Path(path).open("rb")
    except OSError as error:
        fail(f"FILE: {path} cannot be read: {error.strerror}", code=EXIT_BAD_USAGE)


def _check_lines(file: IO[bytes], path: str, payload: Payload[Any] | None) -> int:
    """The number of bodies in a file of JSON lines. A line that is no JSON, or that does not fit
    the type of the queue, ends the command."""
    total = 0
    for line_number, body in _bodies(file, path):
        total += 1
        try:
            if payload is not None:
                payload.encode(body)
        except InvalidInput as error:
            fault = "; ".join(fault.message for fault in error.errors)
            fail(f"FILE: line {line_number} of {_source(path)} {fault}", code=EXIT_BAD_USAGE)
    return total


def _counted(
    bodies: Iterable[tuple[int, Any]], update: Callable[[str, int, int], None] | None, total: int
) -> Iterator[Any]:
    """The bodies alone. The progress bar is updated as they are taken."""
    for done, (_, body) in enumerate(bodies, start=1):
        yield body
        if update is not None and (done % PROGRESS_ITEMS == 0 or done == total):
            update("store items", done, total)


def _bodies(file: IO[bytes], path: str) -> Iterator[tuple[int, Any]]:
    """The bodies in a file of JSON lines, each with the number of its line. A line that is no JSON
    ends the command."""
    for line_number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            yield line_number, json.loads(line)
        except ValueError as error:
            fault = f"line {line_number} of {_source(path)} is not JSON: {error}"
            fail(f"FILE: {fault}", code=EXIT_BAD_USAGE)


def _source(path: str) -> str:
    return "stdin" if path == "-" else path


@app.plain_command("list")
def list_command(
    limit: LimitText = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """List the latest batches, newest first."""
    most = whole_number(limit, "--limit", LISTED)
    batches = ask(database, tenant, lambda client: client.batches.list(limit=most))
    if as_json:
        print_json(batches)
    else:
        print_table([*_COLUMNS], _rows(batches), none="there are no batches")


@app.plain_command("show")
def show_command(
    batch: BatchId = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Show the progress of a batch."""
    batch_id = reference_of(batch, "ID", "batch", database, tenant)
    _print(ask(database, tenant, lambda client: client.batches.get(batch_id)), as_json=as_json)


@app.plain_command("watch")
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

    batch_id = reference_of(batch, "ID", "batch", database, tenant)
    seconds = None if timeout is None else number(timeout, "--timeout-seconds")
    last = ask(
        database,
        tenant,
        lambda client: show(
            watch(lambda: client.batches.get(batch_id), timeout_seconds=seconds), as_json=as_json
        ),
    )
    if last.status is not BatchStatus.COMPLETED:
        fail(f"batch {batch_id} was not completed within the timeout")
    if last.failed:
        fail(f"{last.failed} of {last.total} items failed; see `tickwork batches items {batch_id}`")


@app.plain_command("items")
def items_command(
    batch: BatchId = None,
    status: Status = None,
    limit: LimitText = None,
    after: After = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List the items of a batch by status."""
    batch_id = reference_of(batch, "ID", "batch", database, tenant)
    wanted, most = _status(status), whole_number(limit, "--limit", LISTED)
    more = after_of(after, "message", database, tenant)
    items = ask(
        database,
        tenant,
        lambda client: client.batches.items(batch_id, wanted, limit=most, **more),
    )
    if as_json:
        print_json(items)
        return
    heading = ("item", "status", "attempts", "started_at", "finished_at", "reason", "error")
    rows = [
        (
            *(item.id, item.status, item.attempts, item.started_at, item.finished_at),
            *(item.reason, _error(item)),
        )
        for item in items
    ]
    print_table(heading, rows, none=f"no item is {wanted}")


@app.plain_command("cancel")
def cancel_command(
    batch: BatchId = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Delete the items of a batch that no worker has claimed; they count as failed."""
    from tickwork.core.message.batch import BatchStatus

    batch_id = reference_of(batch, "ID", "batch", database, tenant)
    found = ask(database, tenant, lambda client: client.batches.get(batch_id))
    if found.status is not BatchStatus.COMPLETED:
        items = "item" if found.pending == 1 else "items"
        confirm(f"Permanently delete {found.pending} unclaimed {items} of {batch_id}?", yes=yes)
    _print(ask(database, tenant, lambda client: client.batches.cancel(batch_id)), as_json=as_json)


def _print(batch: BatchAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(batch)
    else:
        print_table([*_COLUMNS], _rows([batch]), none="")


def _rows(batches: Sequence[BatchAnswer]) -> Iterator[Sequence[object]]:
    for batch in batches:
        yield [getattr(batch, field) for field in _COLUMNS.values()]


def _error(item: ItemAnswer) -> str:
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
