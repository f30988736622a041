"""`tickwork messages`: where a message is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Database, Json, LimitText, Option, QueueText, Tenant
from tickwork.cli.output import (
    Report,
    field_lines,
    local_time,
    print_json,
    print_lines,
    print_report,
)
from tickwork.cli.queues import message_table
from tickwork.cli.schedule_output import choice
from tickwork.cli.session import ask, is_remote, reference_of
from tickwork.cli.store_session import (
    identity,
    number,
    required,
    scope_of,
    whole_number,
    with_context,
)

if TYPE_CHECKING:
    from tickwork.client.answers import MessageAnswer
    from tickwork.client.client import Client
    from tickwork.client.run_answers import Wait
    from tickwork.ops.messages import MessageLocation

app = Group(help="Messages that are not settled yet: list, show, delete.")

LISTED = 100

State = Annotated[
    str | None, Option(metavar="STATE", help="Only ready, delayed, claimed or blocked ones.")
]
Type = Annotated[str | None, Option(name="--type", metavar="TYPE", help="Only of this type.")]
KeyOption = Annotated[
    str | None, Option(name="--key", metavar="KEY", help="Only with this key, which orders them.")
]
Correlation = Annotated[
    str | None,
    Option(name="--correlation-id", metavar="ID", help="Only with this correlation id."),
]
OlderThan = Annotated[
    str | None,
    Option(name="--older-than", metavar="N", help="Only sent at least so many seconds ago."),
]
MessageId = Annotated[str | None, Argument(metavar="ID", help="Id of the message.")]
Queue = Annotated[
    str | None, Option(metavar="QUEUE", help="Queue of the message; default all queues.")
]


@app.plain_command("show")
def show_command(
    message: MessageId = None,
    queue: Queue = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show where a message is: its queue and state, which process has it, and its body."""
    from tickwork.ops.messages import locate_message

    if is_remote(database):
        _show_on_server(database, tenant, required(message, "ID"), queue, as_json=as_json)
        return
    scope = scope_of(tenant)
    message_id = identity(message, "ID", "message", database, scope)
    found = with_context(
        database,
        scope,
        lambda context: locate_message(context, message_id, queue=queue),
    )
    if as_json:
        print_json(found)
    else:
        print_lines([*_answer(found), "", *field_lines(found.message)])


def _show_on_server(
    database: str | None, tenant: str | None, message_id: str, queue: str | None, *, as_json: bool
) -> None:
    async def look(client: Client) -> tuple[MessageAnswer, Wait]:
        return await client.messages.get(message_id, queue=queue), await client.why(message_id)

    found, wait = ask(database, tenant, look)
    if as_json:
        print_json(found)
    else:
        print_lines([wait.answer, "", *field_lines(found)])


@app.plain_command("list")
def list_command(
    name: QueueText = None,
    state: State = None,
    kind: Type = None,
    key: KeyOption = None,
    correlation: Correlation = None,
    older_than: OlderThan = None,
    limit: LimitText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List the messages of a queue: claimed, ready and delayed, then blocked ones."""
    from tickwork.core.message.message_list import ShownState

    queue, most = required(name, "QUEUE"), whole_number(limit, "--limit", LISTED)
    wanted: Any = None if state is None else choice(ShownState, state, "--state")
    age = None if older_than is None else number(older_than, "--older-than")
    found = ask(
        database,
        tenant,
        lambda client: client.messages.list(
            queue,
            state=wanted,
            type=kind,
            key=key,
            correlation_id=correlation,
            older_than=age,
            limit=most,
        ),
    )
    report = Report(found, *message_table(found, "there are no such messages"))
    print_report(report, as_json=as_json)


@app.plain_command("delete")
def delete_command(
    name: QueueText = None,
    message: MessageId = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Delete a message that no worker has claimed."""
    queue = required(name, "QUEUE")
    message_id = reference_of(message, "ID", "message", database, tenant)
    ask(database, tenant, lambda client: client.messages.delete(queue, message_id))
    if as_json:
        print_json({"queue": queue, "id": message_id, "deleted": True})
    else:
        print_lines([f"{message_id} is deleted"])


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
