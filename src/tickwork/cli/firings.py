"""The history of schedules: `tickwork schedules firings | backfill | upcoming`, `tickwork why`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tickwork.cli.options import NAMES, Database, Json, Limit, ScheduleName, Tenant
from tickwork.cli.output import print_json, print_lines, print_table
from tickwork.cli.schedule_output import choice, instant_of
from tickwork.cli.schedules import LISTED, app
from tickwork.cli.store_session import ask, required, scope_of, whole_number
from tickwork.cli.typer_commands import Command

if TYPE_CHECKING:
    from tickwork.core.schedule.model import Schedule
    from tickwork.ops.stores import Store

UPCOMING = 10

FiringStatusOption = Annotated[
    str | None,
    typer.Option("--status", metavar="STATUS", help="Such as running, failed or skipped."),
]
Since = Annotated[str | None, typer.Option("--from", metavar="ISO", help="From this time on.")]
Until = Annotated[str | None, typer.Option("--to", metavar="ISO", help="Up to this time.")]
Force = Annotated[bool, typer.Option("--force", help="Also what succeeded.")]
At = Annotated[str | None, typer.Option(metavar="ISO", help="Which slot; default the latest.")]
Count = Annotated[str | None, typer.Option(metavar="N", help="How many; default 10.")]


@app.command("backfill", cls=Command)
def backfill_command(
    schedule: ScheduleName = None,
    since: Since = None,
    until: Until = None,
    force: Force = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Fire a schedule for slots of the past that did not succeed."""
    from tickwork.core.when import iso
    from tickwork.ops.schedules.change import backfill

    reference, scope = required(schedule, "SCHEDULE"), scope_of(tenant)
    first, last = instant_of(since, "--from"), instant_of(until, "--to")
    slots = ask(
        database,
        scope,
        lambda store: backfill(store, scope, reference, since=first, until=last, force=force),
        names=NAMES | {"from": "--from", "to": "--to"},
    )
    if as_json:
        print_json({"slots": [iso(slot) for slot in slots]})
    else:
        print_lines([f"{len(slots)} slots are filled", *map(iso, slots[:LISTED])])


@app.command("firings", cls=Command)
def firings_command(
    schedule: ScheduleName = None,
    status: FiringStatusOption = None,
    limit: Limit = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show what became of a schedule's slots, newest first, and what is planned or running."""
    from tickwork.core.schedule.firing import FiringStatus
    from tickwork.ops.schedules.views import list_firings, show_firing

    reference, scope = required(schedule, "SCHEDULE"), scope_of(tenant)
    wanted = None if status is None else choice(FiringStatus, status, "--status")
    most = whole_number(limit, "--limit", LISTED)

    async def find(store: Store) -> list[dict[str, Any]]:
        found = await list_firings(store, scope, reference, limit=most, status=wanted)
        return [show_firing(each) for each in found]

    found = ask(database, scope, find)
    if as_json:
        print_json(found)
        return
    columns = ("slot", "status", "reason", "attempt", "run", "count", "catch_up", "finished_at")
    rows = [[each[column] for column in columns] for each in found]
    print_table(columns, rows, none="nothing is planned or recorded yet")


@app.command("upcoming", cls=Command)
def upcoming_command(
    schedule: ScheduleName = None,
    count: Count = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show the next times that a schedule fires."""
    from tickwork.core.when import iso
    from tickwork.ops.schedules.lookup import get_schedule
    from tickwork.ops.schedules.views import upcoming

    reference, scope = required(schedule, "SCHEDULE"), scope_of(tenant)
    most = whole_number(count, "--count", UPCOMING)

    async def find(store: Store) -> tuple[Schedule, Sequence[str]]:
        known = await get_schedule(store, scope, reference)
        fires = await upcoming(store, scope, known.id, count=most)
        return known, [iso(each.fire_at) for each in fires]

    known, slots = ask(database, scope, find, names=NAMES | {"count": "--count"})
    if as_json:
        print_json({"fires": slots})
    else:
        print_lines(slots or [_why_none(known)])


def _why_none(schedule: Schedule) -> str:
    """What is said of a schedule that has no next time."""
    from tickwork.core.schedule.model import ScheduleStatus
    from tickwork.core.when import is_fixed_delay

    if schedule.status in (ScheduleStatus.PAUSED, ScheduleStatus.PARKED):
        return f"it is {schedule.status}, and does not fire until it is resumed"
    most = schedule.definition.rule.max_firings
    if (
        schedule.status is ScheduleStatus.ACTIVE
        and is_fixed_delay(schedule.definition.rule)
        and (most is None or schedule.fired < most)
    ):
        return "when it fires next is known when the run that is under way has ended"
    return "it does not fire any more"


def why_command(
    schedule: ScheduleName = None,
    at: At = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Say why a schedule fired, or did not, at a time."""
    from tickwork.core.when import iso
    from tickwork.ops.schedules.why import why

    reference, scope = required(schedule, "SCHEDULE"), scope_of(tenant)
    instant = None if at is None else instant_of(at, "--at")
    found = ask(database, scope, lambda store: why(store, scope, reference, instant))
    if as_json:
        print_json(found.show())
        return
    lines = [f"{iso(found.at)}: {found.answer}"]
    if found.previous_slot is not None:
        lines.append(f"the slot before it: {iso(found.previous_slot)}")
    if found.next_slot is not None:
        lines.append(f"the slot after it: {iso(found.next_slot)}")
    print_lines(lines)
