"""`tickwork queues`: which there are, how they stand, and the operator's knobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tickwork.cli.options import Database, Json, QueueName, Shared, Tenant, Yes
from tickwork.cli.output import print_json, print_lines, print_table, table
from tickwork.cli.schedule_output import json_of
from tickwork.cli.store_session import ask, confirm, number, required, scope_of
from tickwork.cli.typer_commands import Command, Group

if TYPE_CHECKING:
    from uuid import UUID

    from tickwork.core.model import Queue, Scope
    from tickwork.core.queue.stats import QueueStats
    from tickwork.ops.queues import LabeledCounts
    from tickwork.ops.stores import Store

T = TypeVar("T")

app = typer.Typer(cls=Group, help="Queues: list, look at, send to, pause, resume, purge, delete.")

_SHOWN_MINUTES = 10

Body = Annotated[str | None, typer.Argument(metavar="BODY", help="JSON, in quotes.")]
MessageType = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="The type of the message.")
]
Delay = Annotated[str | None, typer.Option(metavar="SECONDS", help="Not visible before.")]


@app.command("list", cls=Command)
def list_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """List the queues of a tenant, and the shared ones."""
    from tickwork.ops.queues import list_queues

    scope = scope_of(tenant)
    queues = ask(database, scope, lambda store: list_queues(store, scope))
    if as_json:
        print_json(queues)
        return
    heading = ("queue", "shared", "paused", "batch", "retries", "dead_letter_queue")
    print_table(heading, _rows(queues), none="there are no queues")


@app.command("stats", cls=Command)
def stats_command(
    name: QueueName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Show how a queue stands, and what passed through it."""
    from tickwork.ops.queues import queue_stats

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    stats = ask(database, scope, lambda store: queue_stats(store, scope, queue))
    if as_json:
        print_json(stats)
    else:
        print_lines(_stats_lines(stats))


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

    message_id = ask(database, scope, sent)
    answer = {"queue": queue, "id": str(message_id)}
    _answer(answer, f"{message_id} is in {queue}", as_json=as_json)


@app.command("pause", cls=Command)
def pause_command(
    name: QueueName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Hand out nothing any more; sending goes on."""
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
    """Hand out again."""
    from tickwork.ops.queues import resume_queue

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    _change(database, scope, queue, lambda store: resume_queue(store, scope, queue))
    _answer({"queue": queue, "paused": False}, f"{queue} is handed out again", as_json=as_json)


@app.command("purge", cls=Command)
def purge_command(
    name: QueueName = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete every message that is not being handled."""
    from tickwork.ops.queues import purge_queue

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    confirm(f"Delete every waiting message of {queue}, for good?", yes=yes)
    purged = ask(database, scope, lambda store: purge_queue(store, scope, queue))
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
    _answer({"queue": queue, "deleted": True}, f"{queue} is gone", as_json=as_json)


def _change(
    database: str | None, scope: Scope, queue: str, work: Callable[[Store], Awaitable[T]]
) -> T:
    """As `ask`; who may not change a queue because it is shared is told how to."""
    from tickwork.errors import Conflict
    from tickwork.ops.queues import get_queue

    async def change(store: Store) -> T:
        try:
            return await work(store)
        except Conflict:
            if scope.is_system or (await get_queue(store, scope, queue)).tenant is not None:
                raise
            told = f"queue {queue} is shared: say --shared to change it for every tenant"
            raise Conflict(told) from None

    return ask(database, scope, change)


def _answer(value: object, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        print_lines([sentence])


def _rows(queues: Iterable[Queue]) -> Iterator[Sequence[object]]:
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
        f"{counts.blocked} held, {counts.dead} dead letters"
    )
    if stats.oldest_age_seconds is not None:
        yield f"the oldest has waited {stats.oldest_age_seconds:.0f} s"
    yield from _passed_lines("minute", by_minute(stats)[-_SHOWN_MINUTES:])
    yield from _passed_lines("within an hour", by_kind(stats))


def _passed_lines(heading: str, passed: Sequence[LabeledCounts]) -> Iterator[str]:
    """A table with the columns that have something in them."""
    from tickwork.core.queue.stats import CounterName

    seen = [kind for kind in CounterName if any(kind in each.counts for each in passed)]
    if seen:
        rows = [[each.label, *(each.counts.get(kind, 0) for kind in seen)] for each in passed]
        yield ""
        yield from table([heading, *seen], rows)
