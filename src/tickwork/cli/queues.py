"""`tickwork queues`: lists, inspects, sends to, changes, pauses, purges and deletes queues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tickwork.cli.options import (
    OPTION_OF_FIELD,
    Database,
    Json,
    Limit,
    QueueName,
    Shared,
    Tenant,
    Watch,
    Yes,
)
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    fail,
    json_text,
    print_error,
    print_json,
    print_lines,
    print_table,
    shortened,
    table,
)
from tickwork.cli.schedule_output import json_of
from tickwork.cli.session import ask
from tickwork.cli.store_session import confirm, number, required, whole_number
from tickwork.cli.typer_commands import Command, Group
from tickwork.cli.watch import watched

if TYPE_CHECKING:
    from tickwork.client.answers import LabeledCounts, MessageAnswer, QueueAnswer, QueueView
    from tickwork.client.client import Client

T = TypeVar("T")

app = typer.Typer(
    cls=Group, help="Queues: list, stats, peek, send, create, update, pause, resume, purge, delete."
)

_MINUTES_SHOWN = 10
PEEKED = 10
LISTED = 1_000

_OPTIONS = OPTION_OF_FIELD | {"max_retries": "--max-retries", "queue": "QUEUE", "name": "QUEUE"}

Body = Annotated[str | None, typer.Argument(metavar="BODY", help="Body as JSON, in quotes.")]
MessageType = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Type of the message.")
]
Delay = Annotated[
    str | None,
    typer.Option(
        "--delay-seconds",
        metavar="SECONDS",
        help="Seconds before the message becomes visible; default 0.",
    ),
]


PushTo = Annotated[
    str | None,
    typer.Option(
        metavar="ENDPOINT", help="Push the messages to this endpoint, which consumes them."
    ),
]
NoPush = Annotated[bool, typer.Option("--no-push", help="Push to no endpoint any more.")]
NamedLimit = Annotated[
    str | None,
    typer.Option("--limit", metavar="LIMIT", help="Share this named limit with others."),
]
NoLimit = Annotated[bool, typer.Option("--no-limit", help="Share no named limit any more.")]
MaxRetries = Annotated[
    str | None, typer.Option(metavar="N", help="Retries after the first attempt.")
]
Rate = Annotated[
    str | None,
    typer.Option(
        "--rate-per-second", metavar="N", help="Messages claimed per second, by all workers."
    ),
]


@app.command("list", cls=Command)
def list_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """List the queues of a tenant and the shared queues."""
    queues = ask(database, tenant, lambda client: client.queues.list(limit=LISTED))
    if as_json:
        print_json(queues)
        return
    heading = ("queue", "shared", "paused", "max_batch_size", "max_retries", "dead_letter_queue")
    print_table(heading, _rows(queues), none="there are no queues")


@app.command("stats", cls=Command)
def stats_command(
    name: QueueName = None,
    watch: Watch = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Show the message counts and recent throughput of a queue."""
    queue = required(name, "QUEUE")

    def show() -> None:
        stats = ask(database, tenant, lambda client: client.queues.stats(queue), shared=shared)
        if as_json:
            print_json(stats)
        else:
            print_lines(_stats_lines(stats))

    watched(show, watch)


@app.command("peek", cls=Command)
def peek_command(
    name: QueueName = None,
    limit: Limit = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Show the next ready messages of a queue, without claiming them."""
    queue, most = required(name, "QUEUE"), whole_number(limit, "--limit", PEEKED)
    found = ask(
        database, tenant, lambda client: client.messages.peek(queue, limit=most), shared=shared
    )
    print_messages(found, none="no message is ready", as_json=as_json)


@app.command("send", cls=Command)
def send_command(
    name: QueueName = None,
    body: Body = None,
    message_type: MessageType = None,
    delay: Delay = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Send a message to a queue."""
    queue, given = required(name, "QUEUE"), json_of(required(body, "BODY"), "BODY")
    delay_seconds = 0.0 if delay is None else number(delay, "--delay-seconds")
    sent = ask(
        database,
        tenant,
        lambda client: client.queue(queue).send(
            given, type=message_type, delay_seconds=delay_seconds
        ),
        names=_OPTIONS | {"body": "BODY", "type": "--type"},
    )
    _answer({"queue": queue, "id": sent}, f"sent {sent} to {queue}", as_json=as_json)


@app.command("create", cls=Command)
def create_command(
    name: QueueName = None,
    max_retries: MaxRetries = None,
    rate: Rate = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create a queue for consumers that pull over HTTP; a repeat replaces its settings."""
    queue, settings = required(name, "QUEUE"), _numbers(max_retries, rate)
    made = ask(
        database,
        tenant,
        lambda client: client.queues.put(queue, **settings),
        create=True,
        names=_OPTIONS,
    )
    _answer(made, f"{queue} is created", as_json=as_json)


@app.command("update", cls=Command)
def update_command(
    name: QueueName = None,
    push_to: PushTo = None,
    no_push: NoPush = False,
    limit: NamedLimit = None,
    no_limit: NoLimit = False,
    max_retries: MaxRetries = None,
    rate: Rate = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Change the given settings of a queue; the others stay."""
    queue = required(name, "QUEUE")
    changes: dict[str, Any] = _numbers(max_retries, rate)
    if push_to is not None and no_push:
        fail("give --push-to or --no-push, not both", code=EXIT_BAD_USAGE)
    if push_to is not None or no_push:
        changes["push_to"] = push_to
    if limit is not None and no_limit:
        fail("give --limit or --no-limit, not both", code=EXIT_BAD_USAGE)
    if limit is not None or no_limit:
        changes["limit"] = limit
    if not changes:
        fail("nothing to change; give an option, see --help", code=EXIT_BAD_USAGE)
    changed = _change(
        database,
        tenant,
        queue,
        lambda client: client.queues.update(queue, **changes),
        shared=shared,
    )
    if push_to is not None and not shared:
        _warn_of_missing(push_to, database, tenant)
    _answer(changed, f"{queue} is changed", as_json=as_json)


def _warn_of_missing(endpoint: str, database: str | None, tenant: str | None) -> None:
    """Prints a warning if there is no such endpoint."""
    from tickwork.errors import NotFound

    async def is_missing(client: Client) -> bool:
        try:
            await client.endpoints.get(endpoint)
        except NotFound:
            return True
        return False

    if ask(database, tenant, is_missing):
        wait = "messages wait until it is created"
        print_error(f"warning: there is no endpoint {endpoint}; {wait}")


def _numbers(max_retries: str | None, rate: str | None) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    if max_retries is not None:
        numbers["max_retries"] = whole_number(max_retries, "--max-retries", 0)
    if rate is not None:
        numbers["rate_per_second"] = number(rate, "--rate-per-second")
    return numbers


@app.command("pause", cls=Command)
def pause_command(
    name: QueueName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Let workers claim no more messages of a queue."""
    queue = required(name, "QUEUE")
    _change(database, tenant, queue, lambda client: client.queues.pause(queue), shared=shared)
    _answer({"queue": queue, "paused": True}, f"{queue} is paused", as_json=as_json)


@app.command("resume", cls=Command)
def resume_command(
    name: QueueName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Let workers claim messages of a queue again."""
    queue = required(name, "QUEUE")
    _change(database, tenant, queue, lambda client: client.queues.resume(queue), shared=shared)
    _answer({"queue": queue, "paused": False}, f"{queue} is resumed", as_json=as_json)


@app.command("purge", cls=Command)
def purge_command(
    name: QueueName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete every message that no worker has claimed."""
    queue = required(name, "QUEUE")
    stats = ask(database, tenant, lambda client: client.queues.stats(queue), shared=shared)
    counts = stats.counts
    unclaimed = counts.ready + counts.delayed + counts.blocked
    if unclaimed:
        messages = "message" if unclaimed == 1 else "messages"
        confirm(f"Permanently delete {unclaimed} unclaimed {messages} of {queue}?", yes=yes)
    purged = ask(database, tenant, lambda client: client.queues.purge(queue), shared=shared)
    _answer({"queue": queue, "purged": purged}, f"{purged} deleted", as_json=as_json)


@app.command("delete", cls=Command)
def delete_command(
    name: QueueName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Remove a queue that has neither messages nor open dead letters."""
    queue = required(name, "QUEUE")
    _change(database, tenant, queue, lambda client: client.queues.delete(queue), shared=shared)
    _answer({"queue": queue, "deleted": True}, f"{queue} is deleted", as_json=as_json)


def _change(
    database: str | None,
    tenant: str | None,
    queue: str,
    work: Callable[[Client], Awaitable[T]],
    *,
    shared: bool,
) -> T:
    """As `ask`; if a tenant may not change a shared queue, the error names --shared."""
    from tickwork.errors import Conflict

    async def change(client: Client) -> T:
        try:
            return await work(client)
        except Conflict:
            if shared or not (await client.queues.get(queue)).shared:
                raise
            fault = f"queue {queue} is shared; pass --shared to change it for every tenant"
            raise Conflict(fault) from None

    return ask(database, tenant, change, shared=shared, names=_OPTIONS)


def _answer(value: object, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        print_lines([sentence])


def _rows(queues: Iterable[QueueAnswer]) -> Iterator[Sequence[object]]:
    for queue in queues:
        yield (
            *(queue.name, queue.shared, queue.paused, queue.max_batch_size, queue.max_retries),
            queue.dead_letter_queue,
        )


def print_messages(found: Iterable[MessageAnswer], *, none: str, as_json: bool) -> None:
    """Prints messages as a table."""
    if as_json:
        print_json(found)
        return
    shown = [*found]
    heading = ("message", "visible_at", "type", "key", "priority", "attempts", "body")
    claims = ("claimed_at", "node") if any(message.claimed_at for message in shown) else ()
    rows = [
        (
            *(
                message.id,
                message.visible_at,
                message.type,
                message.key,
                message.priority,
                message.attempts,
            ),
            *(getattr(message, name) for name in claims),
            shortened(json_text(message.body)),
        )
        for message in shown
    ]
    print_table((*heading[:-1], *claims, heading[-1]), rows, none=none)


def _stats_lines(stats: QueueView) -> Iterator[str]:
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


def _counter_lines(heading: str, rows: Sequence[LabeledCounts]) -> Iterator[str]:
    """Yields a table of the counters that are not all zero."""
    from tickwork.core.queue.stats import CounterName

    seen = [kind for kind in CounterName if any(kind in row.counts for row in rows)]
    if seen:
        cells = [[row.label, *(row.counts.get(kind, 0) for kind in seen)] for row in rows]
        yield ""
        yield from table([heading, *seen], cells)
