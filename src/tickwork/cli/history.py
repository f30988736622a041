"""`tickwork history`: what became of messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Limit, Option
from tickwork.cli.output import Report, Shown, columns, field_lines, took
from tickwork.cli.values import choice, instant

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.history import HistoryRecord

history = Group("Messages that have ended: list, show, and what queues keep of them.")

LISTED = 50
KEPT = ("all", "failures", "off")

InQueue = Annotated[str, Option("Only of this queue.", "QUEUE")]
Type = Annotated[str, Option("Only of this type.", "TYPE", name="--type", fields=("type",))]
OfOutcome = Annotated[
    str, Option("Only done, dead, expired or discarded ones.", "OUTCOME", name="--outcome")
]
Key = Annotated[str, Option("Only with this key.", "KEY")]
EventId = Annotated[str, Option("Only with this event id.", "ID")]
Correlation = Annotated[str, Option("Only with this correlation id.", "ID")]
OfBatch = Annotated[str, Option("Only items of this batch.", "ID", name="--batch")]
Since = Annotated[datetime, Option("Ended at or after this time.", "TIME", read=instant)]
Until = Annotated[datetime, Option("Ended before this time.", "TIME", read=instant)]
MessageId = Annotated[str, Argument("Id of the message.", "ID", id_of="message")]
Event = Annotated[str, Argument("Event id.", "EVENT_ID")]
Kept = Annotated[str, Option("Records of ended messages.", "|".join(KEPT), name="--history")]
Seconds = Annotated[int, Option("Seconds to keep these records.", "N", name="--history-seconds")]


def _ran(record: HistoryRecord) -> str:
    return took(record.duration_seconds)


def history_table(found: Iterable[HistoryRecord], none: str) -> Shown:
    """A table of records."""
    shown = columns(
        *(("message", "id"), "queue", "type", "outcome", "reason", "attempts"),
        *("ended_at", ("ran", _ran), "node"),
        none=none,
    )
    return shown(found)


def _listed(found: Iterable[HistoryRecord]) -> Shown:
    return history_table(found, "there are no such records")


@history.client_command("list", show=_listed)
async def list_history(
    client: Client,
    queue: InQueue | None = None,
    kind: Type | None = None,
    outcome: OfOutcome | None = None,
    key: Key | None = None,
    event_id: EventId | None = None,
    correlation_id: Correlation | None = None,
    batch_id: OfBatch | None = None,
    since: Since | None = None,
    until: Until | None = None,
    limit: Limit = LISTED,
) -> Sequence[HistoryRecord]:
    """List messages that have ended, newest first."""
    from tickwork.core.message.history import Outcome

    return await client.history.list(
        queue=queue,
        type=kind,
        outcome=choice(Outcome, outcome, "--outcome"),
        key=key,
        event_id=event_id,
        correlation_id=correlation_id,
        batch_id=batch_id,
        since=since,
        until=until,
        limit=limit,
    )


@history.client_command("show")
async def show_record(client: Client, message: MessageId) -> Report:
    """Show what became of a message."""
    found = await client.history.get(message)
    return Report(found, *field_lines(found))


@history.client_command("handled")
async def was_handled(client: Client, event_id: Event, queue: InQueue | None = None) -> Report:
    """Say whether an event was handled in the last 15 days."""
    handled = await client.history.was_handled(event_id, queue=queue)
    where = "" if queue is None else f" in queue {queue}"
    line = f"event {event_id} was {'' if handled else 'not '}handled{where} in the last 15 days"
    return Report({"event_id": event_id, "was_handled": handled}, line)


@history.client_command("default")
async def show_default(
    client: Client, kept: Kept | None = None, seconds: Seconds | None = None
) -> Report:
    """Show or set what queues keep that have no setting of their own."""
    current = await client.history.default()
    if kept is not None or seconds is not None:
        wanted: Any = kept or current.history
        current = await client.history.set_default(
            wanted, history_seconds=seconds or current.history_seconds
        )
    hours = current.history_seconds / 3_600
    line = f"queues without a setting of their own keep: {current.history}, for {hours:g} hours"
    return Report(current, line)
