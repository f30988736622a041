"""`tickwork status`, `nodes`, `stats`, `usage`, `late` and `cluster`: what is wrong, which
processes run, what waits, what is overdue, and changes for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import click

from tickwork.cli.command import Group
from tickwork.cli.options import (
    OPTION_OF_FIELD,
    Argument,
    Database,
    Json,
    LimitText,
    Option,
    Tenant,
    Watch,
)
from tickwork.cli.output import (
    EXIT_FAILED,
    field_lines,
    in_zone,
    print_json,
    print_lines,
    print_table,
    progress,
)
from tickwork.cli.session import ask
from tickwork.cli.store_session import number, required, scope_of, whole_number, with_context
from tickwork.cli.watch import watched

if TYPE_CHECKING:
    from tickwork.core.health import HealthReport
    from tickwork.ops.late import Late

app = Group(help="All processes of the database: show, pause, resume, widen, narrow, reshard.")

LISTED = 100

Seconds = Annotated[
    str | None,
    Option(metavar="N", help="Seconds after which something counts as late; default 60."),
]


Checks = Annotated[
    list[str] | None,
    Option(
        name="--check",
        metavar="NAME",
        help="Only this check, such as queues, schedules, endpoints or runs; repeatable.",
    ),
]


def status_command(
    checks: Checks = None,
    watch: Watch = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List what is wrong, worst first, and what to do; exit with 1 if something does not work.

    Warnings alone exit with 0.
    """
    from tickwork.core.health import Severity

    found: list[HealthReport] = []

    def show() -> None:
        health = ask(database, tenant, lambda client: client.status(checks=checks or None))
        found[:] = [health]
        if as_json:
            print_json(health)
        else:
            print_lines([*_lines(health)])

    watched(show, watch)
    if any(problem.severity is Severity.ERROR for health in found for problem in health.problems):
        raise click.exceptions.Exit(EXIT_FAILED)


def _lines(health: HealthReport) -> Iterator[str]:
    if health.ok:
        yield f"All is well. Checked: {', '.join(health.checked)}."
    for problem in health.problems:
        since = "" if problem.since is None else f" Since {problem.since:%Y-%m-%dT%H:%M:%SZ}."
        yield f"{problem.severity:<7}  {problem.what}{since}"
        yield f"{'':7}  {problem.action}"


def nodes_command(watch: Watch = None, database: Database = None, as_json: Json = False) -> None:
    """List the processes that run on the database, and what each holds."""
    watched(lambda: _print_nodes(database, as_json=as_json), watch)


def _print_nodes(database: str | None, *, as_json: bool) -> None:
    found = ask(database, None, lambda client: client.nodes.list())
    if as_json:
        print_json(found)
        return
    heading = ("node", "host", "pid", "roles", "started_at", "lease", "messages", "shards")
    rows = [
        (
            *(UUID(node.id), node.host, node.pid, ",".join(node.roles), node.started_at),
            *("valid" if node.is_alive else "expired", node.claims, len(node.shards)),
        )
        for node in found
    ]
    print_table(heading, rows, none="no process runs on this database")


@app.plain_command("show")
def cluster_command(watch: Watch = None, database: Database = None, as_json: Json = False) -> None:
    """Show the schema, the number of nodes, and the shards without a leader."""

    def show() -> None:
        found = ask(database, None, lambda client: client.cluster())
        if as_json:
            print_json(found)
            return
        alive = sum(node.is_alive for node in found.nodes)
        led = sum(len(node.shards) for node in found.nodes)
        print_lines(
            [
                f"schema {found.schema_version}, {alive} live nodes, {led} shards with a leader",
                f"shards without a leader: {_shards(found.shards_without_leader)}",
                _windows(found.widened_seconds),
            ]
        )

    watched(show, watch)


def _shards(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def stats_command(
    watch: Watch = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Show the messages of every queue by state, and the age of the oldest."""

    def show() -> None:
        found = ask(database, tenant, lambda client: client.stats())
        if as_json:
            print_json(found)
            return
        heading = ("queue", "ready", "late", "delayed", "claimed", "blocked", "dead", "oldest")
        rows = [
            (
                *(stats.queue, stats.counts.ready, stats.late, stats.counts.delayed),
                *(stats.counts.claimed, stats.counts.blocked, stats.counts.dead),
                "" if stats.oldest_age_seconds is None else f"{stats.oldest_age_seconds:.0f} s",
            )
            for stats in found
        ]
        print_table(heading, rows, none="there are no queues")

    watched(show, watch)


def usage_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """Show how many schedules, queues and messages a tenant has."""
    found = ask(database, tenant, lambda client: client.usage())
    if as_json:
        print_json(found)
    else:
        print_lines(field_lines(found))


def late_command(
    seconds: Seconds = None,
    limit: LimitText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List what is overdue: schedules that no scheduler planned, and queues whose messages wait."""
    from tickwork.core.queue.stats import LATE_SECONDS
    from tickwork.ops.late import list_late

    scope, most = scope_of(tenant), whole_number(limit, "--limit", LISTED)
    after = LATE_SECONDS if seconds is None else number(seconds, "--seconds")
    found = with_context(
        database,
        scope,
        lambda context: list_late(context, seconds=after, limit=most),
        names=OPTION_OF_FIELD | {"seconds": "--seconds"},
    )
    if as_json:
        print_json(found)
    else:
        _print_late(found)


def _print_late(found: Late) -> None:
    if found.schedules:
        heading = ("schedule", "name", "due_at", "timezone", "late")
        rows = [
            (
                *(
                    schedule.id,
                    schedule.name,
                    in_zone(schedule.due_at, schedule.timezone),
                    schedule.timezone,
                ),
                f"{schedule.late_seconds:.0f} s",
            )
            for schedule in found.schedules
        ]
        print_table(heading, rows, none="")
    if found.queues:
        queues = [
            (
                queue.queue,
                queue.messages,
                queue.visible_at,
                f"{queue.late_seconds:.0f} s",
                queue.paused,
            )
            for queue in found.queues
        ]
        if found.schedules:
            print_lines([""])
        print_table(("queue", "ready", "oldest", "late", "paused"), queues, none="")
    if not found.schedules and not found.queues:
        print_lines(["nothing is late"])


@app.plain_command("pause")
def pause_command(database: Database = None, as_json: Json = False) -> None:
    """Pause everything: no message of any tenant is handled until you resume. What runs
    finishes."""
    found = ask(database, None, lambda client: client.pause_all())
    if as_json:
        print_json(found)
    else:
        print_lines([f"everything is paused since {found.paused_at:%Y-%m-%dT%H:%M:%SZ}"])


@app.plain_command("resume")
def resume_command(database: Database = None, as_json: Json = False) -> None:
    """Handle messages again after a pause."""
    found = ask(database, None, lambda client: client.resume_all())
    if as_json:
        print_json(found)
    else:
        print_lines(["resumed"])


@app.plain_command("widen")
def widen_command(
    seconds: Annotated[
        str | None, Argument(metavar="SECONDS", help="Length of the window, up to a day.")
    ] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Spread the firings of all schedules over at least SECONDS, from the next ones on. Schedules
    with fire_window_seconds 0 keep their times."""
    _widen(whole_number(required(seconds, "SECONDS"), "SECONDS", 0), database, as_json=as_json)


@app.plain_command("narrow")
def narrow_command(database: Database = None, as_json: Json = False) -> None:
    """End what `widen` did: schedules have their own windows again."""
    _widen(0, database, as_json=as_json)


def _widen(seconds: int, database: str | None, *, as_json: bool) -> None:
    found = ask(database, None, lambda client: client.widen_windows(seconds))
    if as_json:
        print_json(found)
    else:
        print_lines([_windows(found.widened_seconds)])


def _windows(widened_seconds: int) -> str:
    if not widened_seconds:
        return "fire windows: those of the schedules"
    return f"fire windows: at least {widened_seconds} s"


@app.plain_command("reshard")
def reshard_command(
    shards: Annotated[
        str | None, Argument(metavar="N", help="Number of shards: a power of two up to 256.")
    ] = None,
    database: Database = None,
    as_json: Json = False,
) -> None:
    """Divide the schedules into N shards. Schedulers keep running; no slot is lost or repeated."""
    from tickwork.core.model import SYSTEM
    from tickwork.ops.cluster import reshard

    count = whole_number(required(shards, "N"), "N", 0)
    with progress("shards with a leader") as shown:
        done = with_context(
            database,
            SYSTEM,
            lambda context: reshard(
                context.store,
                count,
                progress=lambda at: shown(at.led, at.shards) if shown is not None else None,
            ),
            names=OPTION_OF_FIELD | {"shards": "N"},
        )
    if as_json:
        print_json(done)
    elif not done.schedulers:
        print_lines([f"{done.shards} shards, {done.before} before; no scheduler runs"])
    else:
        print_lines(
            [f"{done.shards} shards, {done.before} before; {done.led} of them have a leader"]
        )
