"""`tickwork schedules`: lists, creates, changes, pauses and deletes schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Limit, Option, Yes
from tickwork.cli.output import EXIT_BAD_USAGE, columns, fail, in_zone, shortened
from tickwork.cli.store_session import confirm
from tickwork.cli.timing_options import TimingOptions
from tickwork.cli.values import choice, given, json_object, json_value

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.schedule import ScheduleAnswer

schedules = Group("Schedules: list, create, update, pause, resume, trigger, backfill, firings.")

LISTED = 100

ScheduleName = Annotated[
    str, Argument("Id or name of the schedule.", "SCHEDULE", id_of="schedule name")
]
Status = Annotated[
    str, Option("Only this status: active, paused, completed, parked, deleted.", "STATUS")
]
Order = Annotated[str, Option("Sort order: created (default), name, next_due_at.", "ORDER")]
Owner = Annotated[str, Option("Only schedules of this user.", "OWNER")]
NamePrefix = Annotated[str, Option("Only schedules whose name starts with this.", "TEXT")]
Metadata = Annotated[
    dict[str, Any],
    Option(
        "Only schedules with these metadata values.",
        "JSON",
        read=json_object('{"overlap": "skip"}'),
        database_only="",
    ),
]
After = Annotated[
    str,
    Option(
        "Start after this id.",
        "ID",
        id_of="schedule",
        database_only="; with --server give a larger --limit",
    ),
]
Queue = Annotated[
    str | None, Option("Queue that receives its messages.", "QUEUE", fields=("target.queue",))
]
Url = Annotated[
    str | None,
    Option("URL that receives its webhooks, signed.", "URL", fields=("target.url",)),
]
ToEndpoint = Annotated[
    str | None, Option("Endpoint that receives its webhooks.", "NAME", fields=("target.endpoint",))
]
MessageType = Annotated[
    str | None, Option("Type of its messages.", "TYPE", fields=("target.message_type",))
]
Payload = Annotated[Any, Option("Body of its messages.", "JSON", read=json_value)]
Name = Annotated[str | None, Option("Unique name of the schedule.", "NAME")]
Fields = Annotated[
    dict[str, Any] | None,
    Option(
        "Further fields of the API; null removes a field.",
        "JSON",
        read=json_object('{"overlap": "skip"}'),
    ),
]

NO_PAYLOAD = object()
"""Without --payload; null is a payload."""


class TargetOptions(Struct, frozen=True):
    """What a schedule sends, and where to."""

    queue: Queue = None
    target_url: Url = None
    endpoint: ToEndpoint = None
    message_type: MessageType = None
    payload: Payload = NO_PAYLOAD
    name: Name = None

    def body(self) -> dict[str, object]:
        """The API fields."""
        target = given(queue=self.queue, message_type=self.message_type)
        if self.endpoint is not None:
            target |= {"type": "webhook", "endpoint": self.endpoint}
        fields = given(target=target or None, target_url=self.target_url, name=self.name)
        return fields if self.payload is NO_PAYLOAD else {**fields, "payload": self.payload}


def _lines(schedule: ScheduleAnswer) -> Iterator[str]:
    import json

    import msgspec

    shown = msgspec.to_builtins(schedule, enc_hook=str)
    width = max(map(len, shown))
    for name, value in shown.items():
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"{name:{width}}  {text}"


def _name(schedule: ScheduleAnswer) -> str:
    return shortened(schedule.name, 30)


def _next(schedule: ScheduleAnswer) -> object:
    return in_zone(schedule.next_fire_at, schedule.timezone)


def _last(schedule: ScheduleAnswer) -> object:
    return in_zone(schedule.last_fire_at, schedule.timezone)


def _target(schedule: ScheduleAnswer) -> str:
    """The queue of a target, or where it goes outside."""
    fields = ("queue", "url", "endpoint", "workflow", "entity", "type")
    names = (schedule.target.get(field) for field in fields)
    return shortened(str(next(filter(None, names))), 40)


@schedules.client_command(
    "list",
    show=columns(
        *(("schedule", "id"), ("name", _name), "status", "kind", ("next_fire_at", _next)),
        *(("last_fire_at", _last), "timezone", "error_count", ("target", _target)),
        none="there are no schedules",
    ),
)
async def list_schedules(
    client: Client,
    status: Status | None = None,
    order: Order | None = None,
    owner: Owner | None = None,
    name_prefix: NamePrefix | None = None,
    metadata: Metadata | None = None,
    limit: Limit = LISTED,
    after: After | None = None,
) -> Sequence[ScheduleAnswer]:
    """List schedules; without --status all but the deleted ones."""
    from tickwork.core.schedule.model import ScheduleOrder, ScheduleStatus

    return await client.schedules.list(
        status=choice(ScheduleStatus, status, "--status"),
        order=choice(ScheduleOrder, order, "--order") or ScheduleOrder.CREATED,
        owner=owner,
        name_prefix=name_prefix,
        limit=limit,
        **given(metadata=metadata or None, after=after),
    )


@schedules.client_command("show", show=_lines)
async def show_schedule(client: Client, schedule: ScheduleName) -> ScheduleAnswer:
    """Show all fields of a schedule."""
    return await client.schedules.get(schedule)


@schedules.client_command("create", show=_lines, create=True)
async def create_schedule(
    client: Client, timing: TimingOptions, target: TargetOptions, fields: Fields = None
) -> ScheduleAnswer:
    """Create a schedule that sends messages to a queue, or webhooks to a URL or an endpoint."""
    from tickwork.core.when import TIMING_FIELDS

    further = fields or {}
    needs_timing = all(further.get(name) is None for name in TIMING_FIELDS)
    body: Any = {**timing.body(needs_timing=needs_timing), **target.body(), **further}
    if not {"target", "target_url"} & {*body}:
        fail("a target is missing; give --queue, --target-url or --endpoint", code=EXIT_BAD_USAGE)
    return await client.schedules.create(**body)


@schedules.client_command("update", show=_lines)
async def update_schedule(
    client: Client,
    schedule: ScheduleName,
    timing: TimingOptions,
    target: TargetOptions,
    fields: Fields = None,
) -> ScheduleAnswer:
    """Change fields of a schedule; a new timing replaces the old one, other fields stay."""
    patch: Any = {**timing.body(needs_timing=False), **target.body(), **(fields or {})}
    if not patch:
        fail("nothing to change; see --help", code=EXIT_BAD_USAGE)
    return await client.schedules.update(schedule, **patch)


@schedules.client_command("pause", show=_lines)
async def pause_schedule(client: Client, schedule: ScheduleName) -> ScheduleAnswer:
    """Pause a schedule and withdraw the slots that no worker has started."""
    return await client.schedules.pause(schedule)


@schedules.client_command("resume", show=_lines)
async def resume_schedule(client: Client, schedule: ScheduleName) -> ScheduleAnswer:
    """Resume a paused or parked schedule from now on."""
    return await client.schedules.resume(schedule)


@schedules.client_command("trigger", show=_lines)
async def trigger_schedule(client: Client, schedule: ScheduleName) -> ScheduleAnswer:
    """Fire a schedule once, now, as an extra run."""
    return await client.schedules.trigger(schedule)


@schedules.client_command("delete", show=_lines)
async def delete_schedule(
    client: Client, schedule: ScheduleName, yes: Yes = False
) -> ScheduleAnswer:
    """Delete a schedule; its firings are kept for their retention."""
    found = await client.schedules.get(schedule)
    confirm(f"Permanently delete schedule {found.name or found.id}?", yes=yes)
    await client.schedules.delete(found.id)
    return await client.schedules.get(found.id)
