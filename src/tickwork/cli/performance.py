"""`tickwork performance`: how messages of each queue and type fared."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Option
from tickwork.cli.output import Report, Shown, columns, took
from tickwork.cli.values import instant

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.performance import Durations, TypePerformance

top = Group("How messages fared.")

By = Annotated[str, Option("Also show each minute, hour or day.", "minute|hour|day")]
Since = Annotated[
    datetime, Option("Ended at or after this time; default 24 hours ago.", "TIME", read=instant)
]
Until = Annotated[datetime, Option("Ended before this time.", "TIME", read=instant)]
InQueue = Annotated[str, Option("Only of this queue.", "QUEUE")]
Type = Annotated[str, Option("Only of this type.", "TYPE", name="--type", fields=("type",))]


def _percentiles(durations: Durations) -> str:
    if durations.p50_seconds is None:
        return ""
    seconds = (durations.p50_seconds, durations.p95_seconds, durations.p99_seconds)
    return " / ".join(map(took, seconds))


def _wait(row: TypePerformance) -> str:
    return _percentiles(row.wait)


def _run(row: TypePerformance) -> str:
    return _percentiles(row.run)


def _table(rows: Iterable[TypePerformance], *heading: str) -> Shown:
    show = columns(
        *(*heading, "queue", "type", "done", "failed", "discarded"),
        *(("wait p50/p95/p99", _wait), ("run p50/p95/p99", _run)),
        none="no message ended in this time",
    )
    return show(rows)


@top.client_command("performance", watch=True)
async def show_performance(
    client: Client,
    by: By | None = None,
    since: Since | None = None,
    until: Until | None = None,
    queue: InQueue | None = None,
    kind: Type | None = None,
) -> Report:
    """Show how many messages of each queue and type ended, and how long they waited and ran."""
    found = await client.performance(
        by=by or "hour", since=since, until=until, queue=queue, type=kind
    )
    periods = ["", *_table(found.periods, "period")] if by and found.periods else []
    return Report(found, *_table(found.totals), *periods)
