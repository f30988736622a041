"""`tickwork messages`: where a message is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tickwork.cli.options import Database, Json, Tenant
from tickwork.cli.output import field_lines, local_time, print_json, print_lines
from tickwork.cli.store_session import identity, scope_of, with_store
from tickwork.cli.typer_commands import Command, Group

if TYPE_CHECKING:
    from tickwork.ops.messages import MessageLocation

app = typer.Typer(cls=Group, help="Messages that are not settled yet: show.")

MessageId = Annotated[str | None, typer.Argument(metavar="ID", help="Id of the message.")]
Queue = Annotated[
    str | None, typer.Option(metavar="QUEUE", help="Queue of the message; default all queues.")
]


@app.command("show", cls=Command)
def show_command(
    message: MessageId = None,
    queue: Queue = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show where a message is: its queue and state, which process has it, and its body."""
    from tickwork.ops.messages import locate_message

    scope = scope_of(tenant)
    message_id = identity(message, "ID", "message", database, scope)
    found = with_store(
        database, scope, lambda store: locate_message(store, scope, message_id, queue=queue)
    )
    if as_json:
        print_json(found)
    else:
        print_lines([*_answer(found), "", *field_lines(found.message)])


def _answer(found: MessageLocation) -> Iterator[str]:
    """Says in sentences where the message is and what it waits for."""
    message, node = found.message, found.node
    where = f"in queue {message.queue}, {message.state}"
    since = "" if message.claimed_at is None else f" since {local_time(message.claimed_at)}"
    match message.state:
        case "ready":
            yield f"{where} since {local_time(message.visible_at)}: it waits for a worker"
        case "delayed":
            yield f"{where} until {local_time(message.visible_at)}"
        case "blocked":
            yield f"{where}: it waits for an earlier message of its key {message.key!r}"
        case _ if node is None:
            yield f"{where}{since} with a lease of its own, by {message.claimed_by}"
        case _ if node.is_alive:
            process = node.host if node.pid is None else f"{node.host}, process {node.pid}"
            yield f"{where}{since} by {process} (node {node.id})"
        case _:
            gone = f"by a process on {node.host} whose lease expired"
            yield f"{where}{since} {gone}; it is released soon"
    if message.last_error is not None:
        words = f"{message.attempts} attempts failed, the last with: {message.last_error}"
        yield f"it {message.last_error}" if message.waits_for_completion else words
