"""`tickwork queues`: lists, inspects, sends to, changes, pauses, purges and deletes queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Limit, Option, OptionsOf, QueueName, Shared, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    Report,
    Shown,
    Table,
    columns,
    counted,
    fail,
    json_text,
    print_error,
    shortened,
)
from tickwork.cli.store_session import confirm
from tickwork.cli.values import json_value
from tickwork.core.options.queue import QueueOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tickwork.client.client import Client
    from tickwork.core.answers.message import StoredMessage
    from tickwork.core.answers.queue import LabeledCounts, QueueAnswer, QueueView

queues = Group("Queues: list, stats, peek, send, create, update, pause, resume, purge, delete.")

_MINUTES_SHOWN = 10
PEEKED = 10
LISTED = 1_000

Body = Annotated[Any, Argument("Body as JSON, in quotes.", "BODY", read=json_value)]
MessageType = Annotated[
    str, Option("Type of the message.", "TYPE", name="--type", fields=("type",))
]
EventId = Annotated[
    str, Option("Id of its event, which is handled once in 15 days in this queue.", "ID")
]
Delay = Annotated[
    float, Option("Seconds before the message becomes visible; default 0.", "SECONDS")
]
PushTo = Annotated[
    str, Option("Push the messages to this endpoint, which consumes them.", "ENDPOINT")
]
Settings = Annotated[QueueOptions, OptionsOf({"push_to": PushTo})]
NoPush = Annotated[bool, Option("Push to no endpoint any more.")]
NoLimit = Annotated[bool, Option("Share no named limit any more.")]


def message_table(found: Iterable[StoredMessage], none: str) -> Shown:
    """Messages as a table; with who claimed them, if any is claimed."""
    messages = [*found]
    names = ["visible_at", "type", "key", "priority", "attempts"]
    if any(message.claimed_at for message in messages):
        names += ["claimed_at", "node"]
    rows = [
        (
            message.id,
            *(getattr(message, name) for name in names),
            shortened(json_text(message.body)),
        )
        for message in messages
    ]
    return [Table(("message", *names, "body"), rows, none)]


def _stats_lines(stats: QueueView) -> Iterator[str | Table]:
    counts = stats.counts
    yield (
        f"{counts.ready} ready, {counts.delayed} delayed, {counts.claimed} claimed, "
        f"{counts.blocked} blocked, {counts.dead} dead letters"
    )
    if stats.oldest_age_seconds is not None:
        late = f"; {stats.late} have waited for over a minute" if stats.late else ""
        yield f"the oldest message has waited {stats.oldest_age_seconds:.0f} s{late}"
    if stats.dead_types:
        died = ", ".join(f"{number} of {kind}" for kind, number in stats.dead_types.items())
        yield f"died in the last 24 hours: {died}"
    yield from _counter_lines("minute", stats.minutes[-_MINUTES_SHOWN:])
    yield from _counter_lines("last hour", stats.kinds)


def _counter_lines(heading: str, rows: Sequence[LabeledCounts]) -> Iterator[str | Table]:
    """Yields a table of the counters that are not all zero."""
    from tickwork.core.queue.stats import CounterName

    seen = [kind for kind in CounterName if any(kind in row.counts for row in rows)]
    if seen:
        cells = [[row.label, *(row.counts.get(kind, 0) for kind in seen)] for row in rows]
        yield ""
        yield Table([heading, *seen], cells)


@asynccontextmanager
async def _hint_of_shared(client: Client, queue: str, shared: bool) -> AsyncIterator[None]:
    """If a tenant may not change a shared queue, the error names --shared."""
    from tickwork.errors import Conflict

    try:
        yield
    except Conflict:
        if shared or not (await client.queues.get(queue)).shared:
            raise
        fault = f"queue {queue} is shared; pass --shared to change it for every tenant"
        raise Conflict(fault) from None


async def _warn_of_missing(client: Client, endpoint: str) -> None:
    from tickwork.errors import NotFound

    try:
        await client.endpoints.get(endpoint)
    except NotFound:
        wait = "messages wait until it is created"
        print_error(f"there is no endpoint {endpoint}; {wait}", is_warning=True)


@queues.client_command(
    "list",
    show=columns(
        *(("queue", "name"), "shared", "paused", "max_batch_size", "max_retries"),
        "dead_letter_queue",
        none="there are no queues",
    ),
)
async def list_queues(client: Client) -> tuple[QueueAnswer, ...]:
    """List the queues of a tenant and the shared queues."""
    return await client.queues.list(limit=LISTED)


@queues.client_command("stats", show=_stats_lines, shared=True, watch=True)
async def show_stats(client: Client, queue: QueueName) -> QueueView:
    """Show the message counts and recent throughput of a queue."""
    return await client.queues.stats(queue)


def _peeked(found: Iterable[StoredMessage]) -> Shown:
    return message_table(found, "no message is ready")


@queues.client_command("peek", show=_peeked, shared=True)
async def peek(client: Client, queue: QueueName, limit: Limit = PEEKED) -> Sequence[StoredMessage]:
    """Show the next ready messages of a queue, without claiming them."""
    return await client.messages.peek(queue, limit=limit)


@queues.client_command("send")
async def send(
    client: Client,
    queue: QueueName,
    body: Body,
    kind: MessageType | None = None,
    event_id: EventId | None = None,
    delay_seconds: Delay = 0.0,
) -> Report:
    """Send a message to a queue."""
    sent = await client.queue(queue).send(
        body, type=kind, event_id=event_id, delay_seconds=delay_seconds
    )
    return Report({"queue": queue, "id": sent}, f"sent {sent} to {queue}")


@queues.client_command("create", create=True)
async def create_queue(client: Client, queue: QueueName, settings: Settings) -> Report:
    """Create a queue for consumers that pull over HTTP; a repeat replaces its settings."""
    return Report(await client.queues.put(queue, **settings), f"{queue} is created")


@queues.client_command("update")
async def update_queue(
    client: Client,
    queue: QueueName,
    settings: Settings,
    no_push: NoPush = False,
    no_limit: NoLimit = False,
    shared: Shared = False,
) -> Report:
    """Change the given settings of a queue; the others stay."""
    changes: dict[str, Any] = {**settings}
    push_to = settings.get("push_to")
    if push_to is not None and no_push:
        fail("give --push-to or --no-push, not both", code=EXIT_BAD_USAGE)
    if "limit" in settings and no_limit:
        fail("give --limit or --no-limit, not both", code=EXIT_BAD_USAGE)
    changes |= {"push_to": None} if no_push else {}
    changes |= {"limit": None} if no_limit else {}
    if not changes:
        fail("nothing to change; give an option, see --help", code=EXIT_BAD_USAGE)
    async with _hint_of_shared(client, queue, shared):
        changed = await client.queues.update(queue, **changes)
    if push_to is not None and not shared:
        await _warn_of_missing(client, push_to)
    return Report(changed, f"{queue} is changed")


@queues.client_command("pause")
async def pause_queue(client: Client, queue: QueueName, shared: Shared = False) -> Report:
    """Let workers claim no more messages of a queue."""
    async with _hint_of_shared(client, queue, shared):
        await client.queues.pause(queue)
    return Report({"queue": queue, "paused": True}, f"{queue} is paused")


@queues.client_command("resume")
async def resume_queue(client: Client, queue: QueueName, shared: Shared = False) -> Report:
    """Let workers claim messages of a queue again."""
    async with _hint_of_shared(client, queue, shared):
        await client.queues.resume(queue)
    return Report({"queue": queue, "paused": False}, f"{queue} is resumed")


@queues.client_command("purge", shared=True)
async def purge_queue(client: Client, queue: QueueName, yes: Yes = False) -> Report:
    """Delete every message that no worker has claimed."""
    counts = (await client.queues.stats(queue)).counts
    unclaimed = counts.ready + counts.delayed + counts.blocked
    if unclaimed:
        messages = counted(unclaimed, "unclaimed message")
        confirm(f"Permanently delete {messages} of {queue}?", yes=yes)
    purged = await client.queues.purge(queue)
    return Report({"queue": queue, "purged": purged}, f"{purged} deleted")


@queues.client_command("delete")
async def delete_queue(client: Client, queue: QueueName, shared: Shared = False) -> Report:
    """Remove a queue that has neither messages nor open dead letters."""
    async with _hint_of_shared(client, queue, shared):
        await client.queues.delete(queue)
    return Report({"queue": queue, "deleted": True}, f"{queue} is deleted")
