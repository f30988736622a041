"""`tickwork status`, `nodes`, `stats`, `usage`, `late` and `cluster`: what is wrong, which
processes run, what waits, what is overdue, and changes for all of them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from datetime import datetime
from io import StringIO
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Limit, Option
from tickwork.cli.output import (
    EXIT_FAILED,
    Report,
    Shown,
    Table,
    columns,
    field_lines,
    in_zone,
    progress,
)
from tickwork.cli.values import instant

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.cluster import ClusterView, Node
    from tickwork.core.answers.queue import QueueView
    from tickwork.core.answers.usage import UsageAnswer
    from tickwork.core.health import HealthReport
    from tickwork.ops.context import Context
    from tickwork.ops.late import Late, LateQueue, LateSchedule

top = Group("What is wrong, what runs and what waits.")
cluster = Group("All processes of the database: show, pause, resume, widen, narrow, reshard.")

LISTED = 100

UsedBy = Annotated[str, Option("Show what was used in each period.", "hour|day", name="--by")]
UsedSince = Annotated[
    datetime, Option("Used at or after this time.", "TIME", name="--since", read=instant)
]
UsedUntil = Annotated[
    datetime, Option("Used before this time.", "TIME", name="--until", read=instant)
]
AllTenants = Annotated[bool, Option("Show what each tenant used.")]
Csv = Annotated[bool, Option("Print what was used as CSV.", name="--csv")]

Seconds = Annotated[float, Option("Seconds after which something counts as late; default 60.", "N")]
Checks = Annotated[
    list[str],
    Option(
        "Only this check, such as queues, schedules, endpoints or runs; repeatable.",
        "NAME",
        name="--check",
    ),
]
Window = Annotated[int, Argument("Length of the window, up to a day.", "SECONDS")]
Shards = Annotated[int, Argument("Number of shards: a power of two up to 256.", "N")]


def _lines(health: HealthReport) -> Iterator[str]:
    if health.ok:
        yield f"All is well. Checked: {', '.join(health.checked)}."
    for problem in health.problems:
        since = "" if problem.since is None else f" Since {problem.since:%Y-%m-%d %H:%M:%S} UTC."
        yield f"{problem.severity:<7}  {problem.what}{since}"
        yield f"{'':7}  {problem.action}"


@top.client_command("status", watch=True)
async def show_status(client: Client, checks: Checks | None = None) -> Report:
    """List what is wrong, worst first, and what to do; exit with 1 if something does not work.

    Warnings alone exit with 0.
    """
    from tickwork.core.health import Severity

    health = await client.status(checks=checks)
    has_errors = any(problem.severity is Severity.ERROR for problem in health.problems)
    return Report(health, *_lines(health), exit_code=EXIT_FAILED if has_errors else 0)


def _id(node: Node) -> UUID:
    return UUID(node.id)


def _roles(node: Node) -> str:
    return ",".join(node.roles)


def _lease(node: Node) -> str:
    return "valid" if node.is_alive else "expired"


def _led(node: Node) -> int:
    return len(node.shards)


@top.client_command(
    "nodes",
    show=columns(
        *(("node", _id), "host", "pid", ("roles", _roles), "started_at", ("lease", _lease)),
        *(("messages", "claims"), ("shards", _led)),
        none="no process runs on this database",
    ),
    tenant=False,
    watch=True,
)
async def list_nodes(client: Client) -> Sequence[Node]:
    """List the processes that run on the database, and what each holds."""
    return await client.nodes.list()


def _oldest(stats: QueueView) -> str:
    return "" if stats.oldest_age_seconds is None else f"{stats.oldest_age_seconds:.0f} s"


@top.client_command(
    "stats",
    show=columns(
        *("queue", ("ready", "counts.ready"), "late", ("delayed", "counts.delayed")),
        *(("claimed", "counts.claimed"), ("blocked", "counts.blocked"), ("dead", "counts.dead")),
        ("oldest", _oldest),
        none="there are no queues",
    ),
    watch=True,
)
async def show_stats(client: Client) -> Sequence[QueueView]:
    """Show the messages of every queue by state, and the age of the oldest."""
    return await client.stats()


def _used_table(used: UsageAnswer) -> Table:
    from tickwork.core.answers.usage import UsagePeriod

    names = UsagePeriod.__struct_fields__
    rows = [[getattr(row, name) for name in names] for row in used.periods]
    return Table(names, rows, "nothing was used in this time")


def _csv(used: UsageAnswer) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names, rows, _ = _used_table(used)
    writer.writerow(names)
    for row in rows:
        writer.writerow([cell.isoformat() if isinstance(cell, datetime) else cell for cell in row])
    return text.getvalue().rstrip("\n")


@top.client_command("usage")
async def show_usage(
    client: Client,
    by: UsedBy | None = None,
    since: UsedSince | None = None,
    until: UsedUntil | None = None,
    all_tenants: AllTenants = False,
    as_csv: Csv = False,
) -> Report:
    """Show how many schedules, queues and messages a tenant has, and what it used in a time."""
    if as_csv:
        by = by or "day"
    tenant = "*" if all_tenants else None
    found = await client.usage(by=by, since=since, until=until, tenant=tenant)
    if found.used is None:
        return Report(found, *field_lines(found))
    if as_csv:
        return Report(found, *_csv(found.used).splitlines())
    return Report(found, _used_table(found.used))


def _due(schedule: LateSchedule) -> object:
    return in_zone(schedule.due_at, schedule.timezone)


def _late(record: LateSchedule | LateQueue) -> str:
    return f"{record.late_seconds:.0f} s"


_late_schedules = columns(
    *(("schedule", "id"), "name", ("due_at", _due), "timezone", ("late", _late)), none=""
)
_late_queues = columns(
    *("queue", ("ready", "messages"), ("oldest", "visible_at"), ("late", _late), "paused"), none=""
)


def _late_lines(found: Late) -> Shown:
    if found.schedules:
        yield from _late_schedules(found.schedules)
    if found.schedules and found.queues:
        yield ""
    if found.queues:
        yield from _late_queues(found.queues)
    if not found.schedules and not found.queues:
        yield "nothing is late"


@top.database_command("late", show=_late_lines)
async def list_late(
    context: Context, seconds: Seconds | None = None, limit: Limit = LISTED
) -> Late:
    """List what is overdue: schedules that no scheduler planned, and queues whose messages wait."""
    from tickwork.core.queue.stats import LATE_SECONDS
    from tickwork.ops import late

    after = LATE_SECONDS if seconds is None else seconds
    return await late.list_late(context, seconds=after, limit=limit)


def _shards(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _windows(widened_seconds: int) -> str:
    if not widened_seconds:
        return "fire windows: those of the schedules"
    return f"fire windows: at least {widened_seconds} s"


def _cluster_lines(found: ClusterView) -> Shown:
    alive = sum(node.is_alive for node in found.nodes)
    led = sum(len(node.shards) for node in found.nodes)
    yield f"schema {found.schema_version}, {alive} live nodes, {led} shards with a leader"
    yield f"shards without a leader: {_shards(found.shards_without_leader)}"
    yield _windows(found.widened_seconds)


@cluster.client_command("show", show=_cluster_lines, tenant=False, watch=True)
async def show_cluster(client: Client) -> ClusterView:
    """Show the schema, the number of nodes, and the shards without a leader."""
    return await client.cluster()


@cluster.client_command("pause", tenant=False)
async def pause(client: Client) -> Report:
    """Pause everything: no message of any tenant is handled until you resume. What runs
    finishes."""
    found = await client.pause_all()
    return Report(found, f"everything is paused since {found.paused_at:%Y-%m-%dT%H:%M:%SZ}")


@cluster.client_command("resume", tenant=False)
async def resume(client: Client) -> Report:
    """Handle messages again after a pause."""
    return Report(await client.resume_all(), "resumed")


@cluster.client_command("widen", tenant=False)
async def widen(client: Client, seconds: Window) -> Report:
    """Spread the firings of all schedules over at least SECONDS, from the next ones on. Schedules
    with fire_window_seconds 0 keep their times."""
    found = await client.widen_windows(seconds)
    return Report(found, _windows(found.widened_seconds))


@cluster.client_command("narrow", tenant=False)
async def narrow(client: Client) -> Report:
    """End what `widen` did: schedules have their own windows again."""
    found = await client.widen_windows(0)
    return Report(found, _windows(found.widened_seconds))


@cluster.database_command("reshard", tenant=False)
async def reshard(context: Context, shards: Shards) -> Report:
    """Divide the schedules into N shards. Schedulers keep running; no slot is lost or repeated."""
    from tickwork.ops import cluster as verbs

    with progress("shards with a leader") as shown:
        done = await verbs.reshard(
            context.store,
            shards,
            progress=lambda at: shown(at.led, at.shards) if shown is not None else None,
        )
    leaders = f"{done.led} of them have a leader" if done.schedulers else "no scheduler runs"
    return Report(done, f"{done.shards} shards, {done.before} before; {leaders}")
