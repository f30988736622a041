"""`tickwork schedules`: lists, creates, changes, pauses and deletes schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli import timing_options
from tickwork.cli.command import Group
from tickwork.cli.options import After, Database, Json, LimitText, Option, ScheduleName, Tenant, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    fail,
    in_zone,
    print_json,
    print_table,
    refuse,
    shortened,
)
from tickwork.cli.schedule_output import choice, json_of, object_of, show
from tickwork.cli.session import after_of, ask, is_remote, named_schedule
from tickwork.cli.store_session import confirm, whole_number
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.client.answers import ScheduleAnswer
    from tickwork.client.client import Client


app = Group(
    help="Schedules: list, create, update, pause, resume, trigger, backfill, firings.",
)

LISTED = 100

Status = Annotated[
    str | None,
    Option(metavar="STATUS", help="Only this status: active, paused, completed, parked, deleted."),
]
By = Annotated[
    str | None,
    Option(
        name="--order", metavar="ORDER", help="Sort order: created (default), name, next_due_at."
    ),
]
Queue = Annotated[str | None, Option(metavar="QUEUE", help="Queue that receives its messages.")]
Url = Annotated[
    str | None,
    Option(name="--target-url", metavar="URL", help="URL that receives its webhooks, signed."),
]
ToEndpoint = Annotated[
    str | None, Option(metavar="NAME", help="Endpoint that receives its webhooks.")
]
MessageType = Annotated[
    str | None, Option(name="--message-type", metavar="TYPE", help="Type of its messages.")
]
Payload = Annotated[str | None, Option(metavar="JSON", help="Body of its messages.")]
Name = Annotated[str | None, Option(metavar="NAME", help="Unique name of the schedule.")]
Owner = Annotated[str | None, Option(metavar="OWNER", help="Only schedules of this user.")]
NamePrefix = Annotated[
    str | None, Option(metavar="TEXT", help="Only schedules whose name starts with this.")
]
Metadata = Annotated[
    str | None, Option(metavar="JSON", help="Only schedules with these metadata values.")
]
Fields = Annotated[
    str | None,
    Option(metavar="JSON", help="Further fields of the API; null removes a field."),
]


@app.plain_command("list")
def list_command(
    status: Status = None,
    order: By = None,
    owner: Owner = None,
    name_prefix: NamePrefix = None,
    metadata: Metadata = None,
    limit: LimitText = None,
    after: After = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List schedules; without --status all but the deleted ones."""
    from tickwork.core.schedule.model import ScheduleOrder, ScheduleStatus

    wanted = object_of(metadata, "--metadata")
    if wanted and is_remote(database):
        fail("--metadata needs --database", code=EXIT_BAD_USAGE)
    more = after_of(after, "schedule", database, tenant) | ({"metadata": wanted} if wanted else {})
    selection: dict[str, Any] = {
        "status": None if status is None else choice(ScheduleStatus, status, "--status"),
        "order": ScheduleOrder.CREATED
        if order is None
        else choice(ScheduleOrder, order, "--order"),
        "owner": owner,
        "name_prefix": name_prefix,
        "limit": whole_number(limit, "--limit", LISTED),
        **more,
    }
    found = ask(database, tenant, lambda client: client.schedules.list(**selection))
    if as_json:
        print_json(found)
        return
    heading = (
        *("schedule", "name", "status", "kind", "next_fire_at", "last_fire_at", "timezone"),
        *("error_count", "target"),
    )
    print_table(heading, _rows(found), none="there are no schedules")


@app.plain_command("show")
def show_command(
    schedule: ScheduleName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show all fields of a schedule."""
    reference = named_schedule(schedule, database, tenant)
    show(database, tenant, lambda client: client.schedules.get(reference), as_json=as_json)


@app.plain_command("create")
@timing_options.timed(without="begin")
def create_command(
    options: timing_options.TimingOptions = timing_options.NO_OPTIONS,
    queue: Queue = None,
    url: Url = None,
    endpoint: ToEndpoint = None,
    message_type: MessageType = None,
    payload: Payload = None,
    name: Name = None,
    fields: Fields = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create a schedule that sends messages to a queue, or webhooks to a URL or an endpoint."""
    further = object_of(fields, "--fields")
    when = _timing_fields(options, needs_timing=not _has_timing(further))
    body: Any = {
        **when,
        **_target_fields(queue, url, endpoint, message_type, payload, name),
        **further,
    }
    show(
        database,
        tenant,
        lambda client: client.schedules.create(**body),
        as_json=as_json,
        create=True,
        fields=further,
    )


@app.plain_command("update")
@timing_options.timed(without="begin")
def update_command(
    schedule: ScheduleName = None,
    options: timing_options.TimingOptions = timing_options.NO_OPTIONS,
    queue: Queue = None,
    url: Url = None,
    endpoint: ToEndpoint = None,
    message_type: MessageType = None,
    payload: Payload = None,
    name: Name = None,
    fields: Fields = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Change fields of a schedule; a new timing replaces the old one, other fields stay."""
    reference = named_schedule(schedule, database, tenant)
    further = object_of(fields, "--fields")
    when = _timing_fields(options, needs_timing=False)
    patch: Any = {
        **when,
        **_target_fields(queue, url, endpoint, message_type, payload, name),
        **further,
    }
    if not patch:
        fail("nothing to change; see --help", code=EXIT_BAD_USAGE)
    show(
        database,
        tenant,
        lambda client: client.schedules.update(reference, **patch),
        as_json=as_json,
        fields=further,
    )


def _register(operation: str, help_text: str) -> None:
    """Registers a command that runs one verb on a schedule and shows the result."""

    def command(
        schedule: ScheduleName = None,
        database: Database = None,
        tenant: Tenant = None,
        as_json: Json = False,
    ) -> None:
        reference = named_schedule(schedule, database, tenant)
        show(
            database,
            tenant,
            lambda client: getattr(client.schedules, operation)(reference),
            as_json=as_json,
        )

    command.__doc__ = help_text
    app.plain_command(operation)(command)


_register("pause", "Pause a schedule and withdraw the slots that no worker has started.")
_register("resume", "Resume a paused or parked schedule from now on.")
_register("trigger", "Fire a schedule once, now, as an extra run.")


@app.plain_command("delete")
def delete_command(
    schedule: ScheduleName = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Delete a schedule; its firings are kept for their retention."""
    reference = named_schedule(schedule, database, tenant)
    found = ask(database, tenant, lambda client: client.schedules.get(reference))
    confirm(f"Permanently delete schedule {found.name or found.id}?", yes=yes)

    async def delete(client: Client) -> ScheduleAnswer:
        await client.schedules.delete(found.id)
        return await client.schedules.get(found.id)

    show(database, tenant, delete, as_json=as_json)


def _rows(found: Sequence[ScheduleAnswer]) -> Iterator[Sequence[object]]:
    for schedule in found:
        yield (
            schedule.id,
            shortened(schedule.name, 30),
            schedule.status,
            schedule.kind,
            in_zone(schedule.next_fire_at, schedule.timezone),
            in_zone(schedule.last_fire_at, schedule.timezone),
            schedule.timezone,
            schedule.error_count,
            _target_shown(schedule.target),
        )


def _target_shown(target: dict[str, Any]) -> str:
    """The queue of a target, or where it goes outside."""
    fields = ("queue", "url", "endpoint", "workflow", "entity", "type")
    names = (target.get(field) for field in fields)
    return shortened(str(next(filter(None, names))), 40)


def _target_fields(
    queue: str | None,
    url: str | None,
    endpoint: str | None,
    message_type: str | None,
    payload: str | None,
    name: str | None,
) -> dict[str, object]:
    target = {"queue": queue, "message_type": message_type}
    named = {key: value for key, value in target.items() if value is not None}
    fields: dict[str, object] = {"target": named} if named else {}
    if endpoint is not None:
        fields["target"] = {**named, "type": "webhook", "endpoint": endpoint}
    if url is not None:
        fields["target_url"] = url
    if payload is not None:
        fields["payload"] = json_of(payload, "--payload")
    if name is not None:
        fields["name"] = name
    return fields


def _timing_fields(
    options: timing_options.TimingOptions, *, needs_timing: bool
) -> dict[str, object]:
    try:
        return options.body(needs_timing=needs_timing)
    except InvalidInput as error:
        refuse(error, timing_options.OPTION_NAMES)


def _has_timing(fields: dict[str, object]) -> bool:
    from tickwork.core.when import TIMING_FIELDS

    return any(fields.get(name) is not None for name in TIMING_FIELDS)
