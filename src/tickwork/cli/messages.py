"""`tickwork messages`: where a message is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Limit, Option, QueueName
from tickwork.cli.output import Report, Shown, field_lines, local_time
from tickwork.cli.queues import message_table
from tickwork.cli.session import local_context
from tickwork.cli.values import choice

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.message import StoredMessage
    from tickwork.ops.messages import MessageLocation

messages = Group("Messages: list, show, delete.")

LISTED = 100

State = Annotated[str, Option("Only ready, delayed, claimed or blocked ones.", "STATE")]
Type = Annotated[str, Option("Only of this type.", "TYPE", name="--type", fields=("type",))]
Key = Annotated[str, Option("Only with this key, which orders them.", "KEY")]
Correlation = Annotated[str, Option("Only with this correlation id.", "ID")]
OlderThan = Annotated[float, Option("Only sent at least so many seconds ago.", "N")]
MessageId = Annotated[str, Argument("Id of the message.", "ID", id_of="message")]
Queue = Annotated[str, Option("Queue of the message; default all queues.", "QUEUE")]


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


@messages.client_command("show")
async def show_message(client: Client, message: MessageId, queue: Queue | None = None) -> Report:
    """Show where a message is: its queue and state, which process has it, and its body. Of one that
    has ended: what became of it."""
    from tickwork.core.answers.ids import Prefix, read_path_id
    from tickwork.errors import NotFound
    from tickwork.ops.messages import locate_message

    try:
        context = local_context()
        if context is None:
            found = await client.messages.get(message, queue=queue)
            wait = await client.why(message)
            return Report(found, wait.answer, "", *field_lines(found))
        message_id = read_path_id(Prefix.MESSAGE, message, "message")
        here = await locate_message(context, message_id, queue=queue)
        return Report(here, *_answer(here), "", *field_lines(here.message))
    except NotFound:
        with suppress(NotFound):
            record = await client.history.get(message)
            wait = await client.why(message)
            return Report(record, wait.answer, "", *field_lines(record))
        raise


def _listed(found: Iterable[StoredMessage]) -> Shown:
    return message_table(found, "there are no such messages")


@messages.client_command("list", show=_listed)
async def list_messages(
    client: Client,
    queue: QueueName,
    state: State | None = None,
    kind: Type | None = None,
    key: Key | None = None,
    correlation_id: Correlation | None = None,
    older_than: OlderThan | None = None,
    limit: Limit = LISTED,
) -> Sequence[StoredMessage]:
    """List the messages of a queue: claimed, ready and delayed, then blocked ones."""
    from tickwork.core.message.message_list import ShownState

    wanted: Any = choice(ShownState, state, "--state")
    return await client.messages.list(
        queue,
        state=wanted,
        type=kind,
        key=key,
        correlation_id=correlation_id,
        older_than=older_than,
        limit=limit,
    )


@messages.client_command("delete")
async def delete_message(client: Client, queue: QueueName, message: MessageId) -> Report:
    """Delete a message that no worker has claimed."""
    await client.messages.delete(queue, message)
    return Report({"queue": queue, "id": message, "deleted": True}, f"{message} is deleted")
