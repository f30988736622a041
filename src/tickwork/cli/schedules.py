"""`tickwork schedules`: lists, creates, changes, pauses and deletes schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tickwork.cli import timing_options
from tickwork.cli.options import After, Database, Json, Limit, ScheduleName, Tenant, Yes
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
from tickwork.cli.store_session import (
    confirm,
    identity,
    load_settings,
    schedule_reference,
    scope_of,
    whole_number,
    with_store,
)
from tickwork.cli.typer_commands import Command, Group
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.core.when import Limits
    from tickwork.ops.schedules.outside import OutsideRules
    from tickwork.ops.stores import Store


app = typer.Typer(
    cls=Group,
    help="Schedules: list, create, update, pause, resume, trigger, backfill, firings.",
)

LISTED = 100

Status = Annotated[
    str | None,
    typer.Option(
        metavar="STATUS", help="Only this status: active, paused, completed, parked, deleted."
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        "--order", metavar="ORDER", help="Sort order: created (default), name, next_due_at."
    ),
]
Queue = Annotated[
    str | None, typer.Option(metavar="QUEUE", help="Queue that receives its messages.")
]
Url = Annotated[
    str | None, typer.Option(metavar="URL", help="URL that receives its webhooks, signed.")
]
MessageType = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Type of its messages.")
]
Payload = Annotated[str | None, typer.Option(metavar="JSON", help="Body of its messages.")]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="Unique name of the schedule.")]
Owner = Annotated[str | None, typer.Option(metavar="OWNER", help="Only schedules of this user.")]
NamePrefix = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only schedules whose name starts with this.")
]
Metadata = Annotated[
    str | None, typer.Option(metavar="JSON", help="Only schedules with these metadata values.")
]
Fields = Annotated[
    str | None,
    typer.Option(metavar="JSON", help="Further fields of the API; null removes a field."),
]


@app.command("list", cls=Command)
def list_command(
    status: Status = None,
    order: By = None,
    owner: Owner = None,
    name_prefix: NamePrefix = None,
    metadata: Metadata = None,
    limit: Limit = None,
    after: After = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List schedules; without --status all but the deleted ones."""
    from tickwork.core.schedule.model import ScheduleOrder, ScheduleSelection, ScheduleStatus
    from tickwork.ops.schedules.lookup import list_schedules, metadata_filter
    from tickwork.ops.schedules.views import show_schedules

    wanted = object_of(metadata, "--metadata")
    scope, most = scope_of(tenant), whole_number(limit, "--limit", LISTED)
    selection = ScheduleSelection(
        status=None if status is None else choice(ScheduleStatus, status, "--status"),
        order=ScheduleOrder.CREATED if order is None else choice(ScheduleOrder, order, "--order"),
        after=None if after is None else identity(after, "--after", "schedule", database, scope),
        owner=owner,
        name_prefix=name_prefix,
        metadata=metadata_filter(wanted) if wanted else None,
    )

    async def find(store: Store) -> list[dict[str, Any]]:
        return await show_schedules(
            store, scope, await list_schedules(store, scope, selection, limit=most)
        )

    found = with_store(database, scope, find)
    if as_json:
        print_json(found)
        return
    heading = (
        *("schedule", "name", "status", "kind", "next_fire_at", "last_fire_at", "timezone"),
        *("error_count", "target"),
    )
    print_table(heading, _rows(found), none="there are no schedules")


@app.command("show", cls=Command)
def show_command(
    schedule: ScheduleName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show all fields of a schedule."""
    from tickwork.ops.schedules.lookup import get_schedule

    scope = scope_of(tenant)
    reference = schedule_reference(schedule, database, scope)
    show(database, scope, lambda store: get_schedule(store, scope, reference), as_json=as_json)


@app.command("create", cls=Command)
@timing_options.timed(without="begin")
def create_command(
    options: timing_options.TimingOptions = timing_options.NO_OPTIONS,
    queue: Queue = None,
    url: Url = None,
    message_type: MessageType = None,
    payload: Payload = None,
    name: Name = None,
    fields: Fields = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create a schedule that sends messages to a queue, or webhooks to a URL."""
    from tickwork.ops.schedules.create import create

    further = object_of(fields, "--fields")
    when = _timing_fields(options, needs_timing=not _has_timing(further))
    body = {**when, **_target_fields(queue, url, message_type, payload, name), **further}
    scope, limits = scope_of(tenant), _limits(database)
    show(
        database,
        scope,
        lambda store: create(store, scope, body, limits=limits, outside=_outside(database)),
        as_json=as_json,
        create=True,
        fields=further,
    )


@app.command("update", cls=Command)
@timing_options.timed(without="begin")
def update_command(
    schedule: ScheduleName = None,
    options: timing_options.TimingOptions = timing_options.NO_OPTIONS,
    queue: Queue = None,
    url: Url = None,
    message_type: MessageType = None,
    payload: Payload = None,
    name: Name = None,
    fields: Fields = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Change fields of a schedule; a new timing replaces the old one, other fields stay."""
    from tickwork.ops.schedules.change import update

    scope = scope_of(tenant)
    reference = schedule_reference(schedule, database, scope)
    further = object_of(fields, "--fields")
    when = _timing_fields(options, needs_timing=False)
    patch = {**when, **_target_fields(queue, url, message_type, payload, name), **further}
    if not patch:
        fail("nothing to change; see --help", code=EXIT_BAD_USAGE)
    limits = _limits(database)
    show(
        database,
        scope,
        lambda store: update(
            store, scope, reference, patch, limits=limits, outside=_outside(database)
        ),
        as_json=as_json,
        fields=further,
    )


def _register(operation: str, help_text: str) -> None:
    """Registers a command that runs one verb on a schedule and shows the result."""

    @app.command(operation, cls=Command, help=help_text)
    def command(
        schedule: ScheduleName = None,
        database: Database = None,
        tenant: Tenant = None,
        as_json: Json = False,
    ) -> None:
        from tickwork.ops.schedules import change

        work = getattr(change, operation)
        scope = scope_of(tenant)
        reference = schedule_reference(schedule, database, scope)
        show(database, scope, lambda store: work(store, scope, reference), as_json=as_json)


_register("pause", "Pause a schedule and withdraw the slots that no worker has started.")
_register("resume", "Resume a paused or parked schedule from now on.")
_register("trigger", "Fire a schedule once, now, as an extra run.")


@app.command("delete", cls=Command)
def delete_command(
    schedule: ScheduleName = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Delete a schedule; its firings are kept for their retention."""
    from tickwork.ops.schedules.change import delete
    from tickwork.ops.schedules.lookup import get_schedule

    scope = scope_of(tenant)
    reference = schedule_reference(schedule, database, scope)
    found = with_store(database, scope, lambda store: get_schedule(store, scope, reference))
    confirm(f"Permanently delete schedule {found.name or found.id}?", yes=yes)
    show(database, scope, lambda store: delete(store, scope, found.id), as_json=as_json)


def _rows(found: Sequence[dict[str, Any]]) -> Iterator[Sequence[object]]:
    from uuid import UUID

    for each in found:
        yield (
            UUID(each["id"]),
            shortened(each["name"], 30),
            each["status"],
            each["kind"],
            in_zone(each["next_fire_at"], each["timezone"]),
            in_zone(each["last_fire_at"], each["timezone"]),
            each["timezone"],
            each["error_count"],
            _target_shown(each["target"]),
        )


def _target_shown(target: dict[str, Any]) -> str:
    """The queue of a target, or where it goes outside."""
    return shortened(str(target.get("queue") or target.get("url") or target["type"]), 40)


def _target_fields(
    queue: str | None,
    url: str | None,
    message_type: str | None,
    payload: str | None,
    name: str | None,
) -> dict[str, object]:
    target = {"queue": queue, "message_type": message_type}
    named = {key: value for key, value in target.items() if value is not None}
    fields: dict[str, object] = {"target": named} if named else {}
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


def _outside(database: str | None) -> OutsideRules:
    """Which targets outside are allowed."""
    from tickwork.ops.schedules.outside import OutsideRules
    from tickwork.wiring import guard

    return OutsideRules(
        lambda url: guard(load_settings(database)).check_url(url),
        lambda: load_settings(database).public_url,
    )


def _limits(database: str | None) -> Limits:
    from tickwork.core.when import Limits

    return Limits(min_interval_seconds=load_settings(database).min_interval_seconds)
