"""`tickwork schedules firings | backfill | upcoming`, `tickwork firings`, `tickwork upcoming`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import (
    OPTION_OF_FIELD,
    Database,
    Json,
    LimitText,
    Option,
    ScheduleName,
    Tenant,
)
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    fail,
    in_zone,
    print_json,
    print_lines,
    print_table,
    shortened,
)
from tickwork.cli.schedule_output import choice, instant_of
from tickwork.cli.schedules import LISTED, app
from tickwork.cli.session import ask, named_schedule
from tickwork.cli.store_session import required, whole_number

if TYPE_CHECKING:
    from datetime import datetime

    from tickwork.client.answers import FiringAnswer, ScheduleAnswer, UpcomingAnswer
    from tickwork.client.client import Client

firings = Group(help="Firings that their receivers complete.")

UPCOMING = 10

MORNING_HOUR = 6
"""Hour at which the night of --tonight ends."""

FiringStatusOption = Annotated[
    str | None,
    Option(
        name="--status",
        metavar="STATUS",
        help="Only this status, such as running, failed or skipped.",
    ),
]
Since = Annotated[
    str | None,
    Option(name="--from", metavar="ISO", help="First slot of the range, with an offset."),
]
Until = Annotated[
    str | None, Option(name="--to", metavar="ISO", help="Last slot of the range, with an offset.")
]
Force = Annotated[bool, Option(name="--force", help="Include slots that succeeded.")]
FireLimit = Annotated[
    str | None, Option(name="--limit", metavar="N", help="Maximum number of fires; default 100.")
]
Tonight = Annotated[
    bool, Option(name="--tonight", help="Only until 06:00, in the time zone of this machine.")
]
UpTo = Annotated[
    str | None,
    Option(name="--until", metavar="ISO", help="Only before this time, with an offset."),
]
OfOwner = Annotated[
    str | None, Option(name="--owner", metavar="OWNER", help="Only schedules of this user.")
]
CompletionToken = Annotated[
    str | None,
    Option(name="--token", metavar="TOKEN", help="The value of Tickwork-Complete-Token."),
]
Failed = Annotated[bool, Option(name="--failed", help="The attempt failed; it is retried.")]
ErrorText = Annotated[
    str | None, Option(name="--error", metavar="TEXT", help="Why it failed; with --failed.")
]
NextLimit = Annotated[str | None, Option(metavar="N", help="Maximum number of fires; default 10.")]


@app.plain_command("backfill")
def backfill_command(
    schedule: ScheduleName = None,
    since: Since = None,
    until: Until = None,
    force: Force = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Fire a schedule for past slots that did not succeed."""
    from tickwork.core.when import iso

    reference = named_schedule(schedule, database, tenant)
    first, last = instant_of(since, "--from"), instant_of(until, "--to")
    names = {"from": "--from", "to": "--to", "since": "--from", "until": "--to"}
    slots = ask(
        database,
        tenant,
        lambda client: client.schedules.backfill(reference, since=first, until=last, force=force),
        names=OPTION_OF_FIELD | names,
    )
    if as_json:
        print_json({"slots": [iso(slot) for slot in slots]})
    else:
        print_lines([f"{len(slots)} slots backfilled", *map(iso, slots[:LISTED])])


@app.plain_command("firings")
def firings_command(
    schedule: ScheduleName = None,
    status: FiringStatusOption = None,
    limit: LimitText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List the firings of a schedule: planned and running ones, then finished, newest first."""
    from tickwork.core.schedule.firing import FiringStatus

    reference = named_schedule(schedule, database, tenant)
    wanted = None if status is None else choice(FiringStatus, status, "--status")
    most = whole_number(limit, "--limit", LISTED)

    async def find(client: Client) -> tuple[Sequence[FiringAnswer], str]:
        known = await client.schedules.get(reference)
        found = await client.schedules.firings(known.id, limit=most, status=wanted)
        return found, known.timezone

    found, zone = ask(database, tenant, find)
    if as_json:
        print_json(found)
        return
    times = ("slot", "started_at", "finished_at")
    columns = ("slot", "status", "reason", "attempt", "run", "count", "catch_up", *times[1:])
    rows = [
        [
            *(_cell(firing, name, zone if name in times else None) for name in columns),
            _result(firing),
        ]
        for firing in found
    ]
    print_table((*columns, "result"), rows, none="there are no firings")


def _result(firing: FiringAnswer) -> str:
    """The status or error of an attempt, and of each channel that did not succeed."""
    own = [str(part) for part in (firing.result_code, firing.excerpt) if part is not None]
    failed = [
        f"{channel.channel} {channel.status}{f': {channel.detail}' if channel.detail else ''}"
        for channel in firing.channels
        if channel.status != "succeeded"
    ]
    return shortened("; ".join(filter(None, (" ".join(own), *failed))))


def _cell(firing: FiringAnswer, name: str, zone: str | None) -> object:
    value: Any = getattr(firing, name)
    return value if zone is None else in_zone(value, zone)


@firings.plain_command("complete")
def complete_command(
    token: CompletionToken = None,
    failed: Failed = False,
    error: ErrorText = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Complete a firing that its receiver accepted with 202."""
    given = required(token, "--token")
    done = ask(
        database,
        None,
        lambda client: client.firings.complete(given, failed=failed, error=error),
        names={"token": "--token", "error": "--error", "status": "--failed"},
    )
    if as_json:
        print_json(done)
    else:
        print_lines([f"attempt {done.attempt} of firing {done.id}: {done.status}"])


@app.plain_command("upcoming")
def upcoming_command(
    schedule: ScheduleName = None,
    limit: NextLimit = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show the next fires of a schedule."""
    from tickwork.core.when import iso

    reference = named_schedule(schedule, database, tenant)
    most = whole_number(limit, "--limit", UPCOMING)

    async def find(client: Client) -> tuple[ScheduleAnswer, Sequence[UpcomingAnswer]]:
        known = await client.schedules.get(reference)
        return known, await client.schedules.upcoming(known.id, limit=most)

    known, fires = ask(database, tenant, find, names=OPTION_OF_FIELD)
    if as_json:
        print_json({"fires": [iso(fire.fire_at) for fire in fires]})
    else:
        rows = [(in_zone(fire.fire_at, fire.timezone), iso(fire.fire_at)) for fire in fires]
        print_table(("fire_at", "UTC"), rows, none=_why_none(known))


def upcoming_all_command(
    limit: FireLimit = None,
    tonight: Tonight = False,
    until: UpTo = None,
    owner: OfOwner = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show the next fires of all schedules, soonest first, in each schedule's time zone."""
    if tonight and until is not None:
        fail("give --tonight or --until, not both", code=EXIT_BAD_USAGE)
    end = _next_morning() if tonight else None if until is None else instant_of(until, "--until")
    most = whole_number(limit, "--limit", LISTED)
    fires = ask(
        database,
        tenant,
        lambda client: client.schedules.upcoming(limit=most, until=end, owner=owner),
        names=OPTION_OF_FIELD | {"until": "--until"},
    )
    if as_json:
        print_json(fires)
        return
    rows = [
        (in_zone(fire.fire_at, fire.timezone), fire.timezone, fire.schedule_id, fire.name)
        for fire in fires
    ]
    print_table(("fire_at", "timezone", "schedule", "name"), rows, none="nothing will fire")


def _next_morning() -> datetime:
    """Returns the next time that it is 06:00 in the zone of this machine."""
    from datetime import timedelta

    from tickwork import clock

    now = clock.now().astimezone()
    morning = now.replace(hour=MORNING_HOUR, minute=0, second=0, microsecond=0)
    # Without the offset, so that the clock may change in the night.
    return morning if morning > now else (morning.replace(tzinfo=None) + timedelta(1)).astimezone()


def _why_none(schedule: ScheduleAnswer) -> str:
    """Explains why a schedule has no next fire."""
    if schedule.status in ("paused", "parked"):
        return f"it is {schedule.status}, and will not fire until it is resumed"
    most = schedule.max_firings
    if (
        schedule.status == "active"
        and schedule.interval_mode == "fixed_delay"
        and (most is None or schedule.fired < most)
    ):
        return "its next fire is set when the current run finishes"
    return "it will not fire again"
