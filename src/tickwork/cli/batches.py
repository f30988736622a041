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
from tickwork.cli.options import Argument, Json, Limit, Option, QueueName, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    Report,
    bar,
    columns,
    counted,
    fail,
    print_json_line,
    print_lines,
    shortened,
)
from tickwork.cli.session import chosen_types
from tickwork.cli.store_session import confirm, scope_of
from tickwork.cli.values import choice, given
from tickwork.clock import monotonic
from tickwork.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from tickwork.app.payloads import Payload
    from tickwork.client.client import Client
    from tickwork.core.answers.batch import BatchAnswer, ItemAnswer

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


async def polled(
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
    assert look is not None, "polled yields at least once"
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


batches = Group("Batches: create, list, show, watch, items, cancel.")

LISTED = 100

PROGRESS_ITEMS = 1_000
"""Items between two updates of the progress bar."""

BatchId = Annotated[str, Argument("Id of the batch.", "ID", id_of="batch")]
Status = Annotated[
    str, Option("Status of the items: pending, processing, completed, failed (default).", "STATUS")
]
Timeout = Annotated[float, Option("Seconds to watch; default until it is completed.", "SECONDS")]
After = Annotated[
    str,
    Option(
        "Start after this id.",
        "ID",
        id_of="message",
        database_only="; with --server give a larger --limit",
    ),
]
Lines = Annotated[str, Argument("File of JSON lines, one body each; - reads stdin.", "FILE|-")]
MessageType = Annotated[str, Option("Type of the messages.", "TYPE", name="--type")]
CompletionQueue = Annotated[str, Option("Queue that is told when it is completed.", "QUEUE")]

_table = columns(
    *(("batch", "id"), "queue", "status", "total", "pending", "processing", "completed"),
    *("failed", "created_at"),
    none="there are no batches",
)


@batches.client_command("create")
async def create_batch(
    client: Client,
    queue: QueueName,
    lines: Lines,
    kind: MessageType | None = None,
    completion_queue: CompletionQueue | None = None,
) -> Report:
    """Create a batch with one message for each line of a file. Nothing is sent if a line is wrong.

    Empty lines are left out. `tickwork batches watch ID` shows the progress of the batch."""
    with _opened(lines) as file, bar() as update:
        total = _check_lines(file, lines, chosen_types(scope_of())(queue, kind))
        await client.queues.get(queue)  # Raises if there is none.
        file.seek(0)
        items = _counted(_bodies(file, lines), update, total)
        more = given(type=kind)
        made = await client.batch(queue, items, completion_queue=completion_queue, **more)
        batch = await client.batches.get(made.id)
    return Report(batch, *_table([batch]))


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


@batches.client_command("list", show=_table)
async def list_batches(client: Client, limit: Limit = LISTED) -> Sequence[BatchAnswer]:
    """List the latest batches, newest first."""
    return await client.batches.list(limit=limit)


@batches.client_command("show")
async def show_batch(client: Client, batch: BatchId) -> Report:
    """Show the progress of a batch."""
    found = await client.batches.get(batch)
    return Report(found, *_table([found]))


@batches.client_command("watch")
async def watch_batch(
    client: Client,
    batch: BatchId,
    timeout_seconds: Timeout | None = None,
    as_json: Json = False,
) -> None:
    """Show the progress of a batch until it is completed.

    Exits with 1 if items failed or the timeout expired. With --json every change is a line.
    """
    from tickwork.core.message.batch import BatchStatus

    polls = polled(lambda: client.batches.get(batch), timeout_seconds=timeout_seconds)
    last = await show(polls, as_json=as_json)
    if last.status is not BatchStatus.COMPLETED:
        fail(f"batch {batch} was not completed within the timeout")
    if last.failed:
        fail(f"{last.failed} of {last.total} items failed; see `tickwork batches items {batch}`")


def _error(item: ItemAnswer) -> str:
    from tickwork.core.message.error_summary import summary_line

    return shortened(summary_line(item.error))


@batches.client_command("items")
async def list_items(
    client: Client,
    batch: BatchId,
    status: Status | None = None,
    limit: Limit = LISTED,
    after: After | None = None,
) -> Report:
    """List the items of a batch by status."""
    from tickwork.core.message.batch import ItemStatus

    wanted = choice(ItemStatus, status, "--status") or ItemStatus.FAILED
    items = await client.batches.items(batch, wanted, limit=limit, **given(after=after))
    shown = columns(
        *(("item", "id"), "status", "attempts", "started_at", "finished_at", "reason"),
        ("error", _error),
        none=f"no item is {wanted}",
    )
    return Report(items, *shown(items))


@batches.client_command("cancel")
async def cancel_batch(client: Client, batch: BatchId, yes: Yes = False) -> Report:
    """Delete the items of a batch that no worker has claimed; they count as failed."""
    from tickwork.core.message.batch import BatchStatus

    found = await client.batches.get(batch)
    if found.status is not BatchStatus.COMPLETED:
        items = counted(found.pending, "unclaimed item")
        confirm(f"Permanently delete {items} of {batch}?", yes=yes)
    cancelled = await client.batches.cancel(batch)
    return Report(cancelled, *_table([cancelled]))
