"""`tickwork schedules firings | backfill | upcoming`, `tickwork firings`, `tickwork upcoming`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Option
from tickwork.cli.output import EXIT_BAD_USAGE, Report, columns, fail, in_zone, shortened
from tickwork.cli.schedules import LISTED, ScheduleName, schedules
from tickwork.cli.values import choice, instant

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.schedule import FiringAnswer, ScheduleAnswer, UpcomingFire

firings = Group("Firings that their receivers complete.")
top = Group("What will fire.")

UPCOMING = 10

MORNING_HOUR = 6
"""Hour at which the night of --tonight ends."""

Status = Annotated[str, Option("Only this status, such as running, failed or skipped.", "STATUS")]
Limit = Annotated[int, Option("Maximum number of results.", "N")]
Since = Annotated[
    datetime,
    Option(
        "First slot of the range, with an offset.",
        "ISO",
        name="--from",
        fields=("from",),
        read=instant,
    ),
]
Until = Annotated[
    datetime,
    Option(
        "Last slot of the range, with an offset.", "ISO", name="--to", fields=("to",), read=instant
    ),
]
Force = Annotated[bool, Option("Include slots that succeeded.")]
FireLimit = Annotated[int, Option("Maximum number of fires; default 100.", "N")]
NextLimit = Annotated[int, Option("Maximum number of fires; default 10.", "N")]
Tonight = Annotated[bool, Option("Only until 06:00, in the time zone of this machine.")]
UpTo = Annotated[datetime, Option("Only before this time, with an offset.", "ISO", read=instant)]
OfOwner = Annotated[str, Option("Only schedules of this user.", "OWNER")]
CompletionToken = Annotated[str, Option("The value of Tickwork-Complete-Token.", "TOKEN")]
Failed = Annotated[bool, Option("The attempt failed; it is retried.", fields=("status",))]
ErrorText = Annotated[str, Option("Why it failed; with --failed.", "TEXT")]


@schedules.client_command("backfill")
async def backfill(
    client: Client, schedule: ScheduleName, since: Since, until: Until, force: Force = False
) -> Report:
    """Fire a schedule for past slots that did not succeed."""
    from tickwork.core.when import iso

    slots = await client.schedules.backfill(schedule, since=since, until=until, force=force)
    texts = [iso(slot) for slot in slots]
    return Report({"slots": texts}, f"{len(slots)} slots backfilled", *texts[:LISTED])


@schedules.client_command("firings")
async def list_firings(
    client: Client, schedule: ScheduleName, status: Status | None = None, limit: Limit = LISTED
) -> Report:
    """List the firings of a schedule: planned and running ones, then finished, newest first."""
    from tickwork.core.schedule.firing import FiringStatus

    wanted = choice(FiringStatus, status, "--status")
    known = await client.schedules.get(schedule)
    found = await client.schedules.firings(known.id, limit=limit, status=wanted)

    def local(name: str) -> tuple[str, Callable[[FiringAnswer], object]]:
        return name, lambda firing: in_zone(getattr(firing, name), known.timezone)

    shown = columns(
        *(local("slot"), "status", "reason", "attempt", "run", "count", "catch_up"),
        *(local("started_at"), local("finished_at"), ("result", _result)),
        none="there are no firings",
    )
    return Report(found, *shown(found))


def _result(firing: FiringAnswer) -> str:
    """The status or error of an attempt, and of each channel that did not succeed."""
    own = [str(part) for part in (firing.result_code, firing.excerpt) if part is not None]
    failed = [
        f"{channel.channel} {channel.status}{f': {channel.detail}' if channel.detail else ''}"
        for channel in firing.channels
        if channel.status != "succeeded"
    ]
    return shortened("; ".join(filter(None, (" ".join(own), *failed))))


@firings.client_command("complete", tenant=False)
async def complete(
    client: Client,
    token: CompletionToken,
    failed: Failed = False,
    error: ErrorText | None = None,
) -> Report:
    """Complete a firing that its receiver accepted with 202."""
    done = await client.firings.complete(token, failed=failed, error=error)
    return Report(done, f"attempt {done.attempt} of firing {done.id}: {done.status}")


def _in_its_zone(fire: UpcomingFire) -> object:
    return in_zone(fire.fire_at, fire.timezone)


@schedules.client_command("upcoming")
async def list_upcoming(
    client: Client, schedule: ScheduleName, limit: NextLimit = UPCOMING
) -> Report:
    """Show the next fires of a schedule."""
    from tickwork.core.when import iso

    def utc(fire: UpcomingFire) -> str:
        return iso(fire.fire_at)

    known = await client.schedules.get(schedule)
    fires = await client.schedules.upcoming(known.id, limit=limit)
    shown = columns(("fire_at", _in_its_zone), ("UTC", utc), none=_why_none(known))
    return Report({"fires": [utc(fire) for fire in fires]}, *shown(fires))


@top.client_command(
    "upcoming",
    show=columns(
        *(("fire_at", _in_its_zone), "timezone", ("schedule", "schedule_id"), "name"),
        none="nothing will fire",
    ),
)
async def list_all_upcoming(
    client: Client,
    limit: FireLimit = LISTED,
    tonight: Tonight = False,
    until: UpTo | None = None,
    owner: OfOwner | None = None,
) -> Sequence[UpcomingFire]:
    """Show the next fires of all schedules, soonest first, in each schedule's time zone."""
    if tonight and until is not None:
        fail("give --tonight or --until, not both", code=EXIT_BAD_USAGE)
    end = _next_morning() if tonight else until
    return await client.schedules.upcoming(limit=limit, until=end, owner=owner)


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
