"""`tickwork queues`: lists, inspects, sends to, changes, pauses, purges and deletes queues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tickwork.cli.options import Database, Json, Limit, QueueName, Shared, Tenant, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    fail,
    json_text,
    print_json,
    print_lines,
    print_table,
    shortened,
    table,
)
from tickwork.cli.schedule_output import json_of
from tickwork.cli.store_session import (
    confirm,
    number,
    required,
    scope_of,
    whole_number,
    with_store,
)
from tickwork.cli.typer_commands import Command, Group

if TYPE_CHECKING:
    from uuid import UUID

    from tickwork.core.model import Scope, StoredQueue
    from tickwork.core.queue.stats import QueueStats
    from tickwork.ops.queues import LabeledCounts
    from tickwork.ops.stores import Store

T = TypeVar("T")

app = typer.Typer(
    cls=Group, help="Queues: list, stats, peek, send, update, pause, resume, purge, delete."
)

_MINUTES_SHOWN = 10
PEEKED = 10

Body = Annotated[str | None, typer.Argument(metavar="BODY", help="Body as JSON, in quotes.")]
MessageType = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Type of the message.")
]
Delay = Annotated[
    str | None,
    typer.Option(metavar="SECONDS", help="Seconds before the message becomes visible; default 0."),
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
    str | None, typer.Option(metavar="N", help="Messages claimed per second, by all workers.")
]


@app.command("list", cls=Command)
def list_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """List the queues of a tenant and the shared queues."""
    from tickwork.ops.queues import list_queues

    scope = scope_of(tenant)
    queues = with_store(database, scope, lambda store: list_queues(store, scope))
    if as_json:
        print_json(queues)
        return
    heading = ("queue", "shared", "paused", "max_batch_size", "max_retries", "dead_letter_queue")
    print_table(heading, _rows(queues), none="there are no queues")


@app.command("stats", cls=Command)
def stats_command(
    name: QueueName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Show the message counts and recent throughput of a queue."""
    from tickwork.ops.queues import queue_stats

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    stats = with_store(database, scope, lambda store: queue_stats(store, scope, queue))
    if as_json:
        print_json(stats)
    else:
        print_lines(_stats_lines(stats))


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
    from tickwork.ops.messages import show_next

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    most = whole_number(limit, "--limit", PEEKED)
    found = with_store(database, scope, lambda store: show_next(store, scope, queue, limit=most))
    if as_json:
        print_json(found)
        return
    heading = ("message", "visible_at", "type", "key", "priority", "attempts", "body")
    rows = [
        (
            *(each.id, each.visible_at, each.type, each.key, each.priority, each.attempts),
            shortened(json_text(each.body)),
        )
        for each in found
    ]
    print_table(heading, rows, none="no message is ready")


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
    from tickwork.ops.send import compose, send

    queue, scope = required(name, "QUEUE"), scope_of(tenant)
    given = json_of(required(body, "BODY"), "BODY")
    delay_seconds = 0.0 if delay is None else number(delay, "--delay")

    async def sent(store: Store) -> UUID:
        message = compose(given, type=message_type, delay_seconds=delay_seconds)
        return await send(store, scope, queue, message)

    message_id = with_store(database, scope, sent)
    answer = {"queue": queue, "id": str(message_id)}
    _answer(answer, f"sent {message_id} to {queue}", as_json=as_json)


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
    from tickwork.ops.queues import update_queue

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    changes: dict[str, object] = {}
    if push_to is not None and no_push:
        fail("give --push-to or --no-push, not both", code=EXIT_BAD_USAGE)
    if push_to is not None or no_push:
        changes["push_to"] = push_to
    if limit is not None and no_limit:
        fail("give --limit or --no-limit, not both", code=EXIT_BAD_USAGE)
    if limit is not None or no_limit:
        changes["limit"] = limit
    if max_retries is not None:
        changes["max_retries"] = whole_number(max_retries, "--max-retries", 0)
    if rate is not None:
        changes["rate_per_second"] = number(rate, "--rate")
    if not changes:
        fail("nothing to change; give an option, see --help", code=EXIT_BAD_USAGE)
    changed = _change(
        database, scope, queue, lambda store: update_queue(store, scope, queue, changes)
    )
    _answer(changed, f"{queue} is changed", as_json=as_json)


@app.command("pause", cls=Command)
def pause_command(
    name: QueueName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Stop workers from claiming messages of a queue; sending continues."""
    from tickwork.ops.queues import pause_queue

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    _change(database, scope, queue, lambda store: pause_queue(store, scope, queue))
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
    from tickwork.ops.queues import resume_queue

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    _change(database, scope, queue, lambda store: resume_queue(store, scope, queue))
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
    from tickwork.ops.queues import count_messages, purge_queue

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    counts = with_store(database, scope, lambda store: count_messages(store, scope, queue))
    unclaimed = counts.ready + counts.delayed + counts.blocked
    if unclaimed:
        messages = "message" if unclaimed == 1 else "messages"
        confirm(f"Permanently delete {unclaimed} unclaimed {messages} of {queue}?", yes=yes)
    purged = with_store(database, scope, lambda store: purge_queue(store, scope, queue))
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
    from tickwork.ops.queues import delete_queue

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    _change(database, scope, queue, lambda store: delete_queue(store, scope, queue))
    _answer({"queue": queue, "deleted": True}, f"{queue} is deleted", as_json=as_json)


def _change(
    database: str | None, scope: Scope, queue: str, work: Callable[[Store], Awaitable[T]]
) -> T:
    """As `with_store`; if a tenant may not change a shared queue, the error names --shared."""
    from tickwork.errors import Conflict
    from tickwork.ops.queues import get_queue

    async def change(store: Store) -> T:
        try:
            return await work(store)
        except Conflict:
            if scope.is_system or (await get_queue(store, scope, queue)).tenant is not None:
                raise
            fault = f"queue {queue} is shared; pass --shared to change it for every tenant"
            raise Conflict(fault) from None

    return with_store(database, scope, change)


def _answer(value: object, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        print_lines([sentence])


def _rows(queues: Iterable[StoredQueue]) -> Iterator[Sequence[object]]:
    for each in queues:
        settings = each.settings
        yield (
            each.name,
            each.tenant is None,
            each.paused,
            settings.max_batch_size,
            settings.max_retries,
            settings.dead_letter_queue,
        )


def _stats_lines(stats: QueueStats) -> Iterator[str]:
    from tickwork.ops.queues import by_kind, by_minute

    counts = stats.counts
    yield (
        f"{counts.ready} ready, {counts.delayed} delayed, {counts.claimed} claimed, "
        f"{counts.blocked} blocked, {counts.dead} dead letters"
    )
    if stats.oldest_age_seconds is not None:
        yield f"the oldest message has waited {stats.oldest_age_seconds:.0f} s"
    yield from _counter_lines("minute", by_minute(stats)[-_MINUTES_SHOWN:])
    yield from _counter_lines("last hour", by_kind(stats))


def _counter_lines(heading: str, rows: Sequence[LabeledCounts]) -> Iterator[str]:
    """Yields a table of the counters that are not all zero."""
    from tickwork.core.queue.stats import CounterName

    seen = [kind for kind in CounterName if any(kind in each.counts for each in rows)]
    if seen:
        cells = [[each.label, *(each.counts.get(kind, 0) for kind in seen)] for each in rows]
        yield ""
        yield from table([heading, *seen], cells)
