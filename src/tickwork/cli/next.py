"""`tickwork next` and `tickwork explain`: when a rule fires, without a server.

Both use the verb behind `POST /v1/schedules/preview`. They allow intervals down to a second,
whatever the limits of a tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Option
from tickwork.cli.output import EXIT_FAILED, Report, Shown
from tickwork.cli.timing_options import PreviewOptions, long_number

if TYPE_CHECKING:
    from tickwork.core import when
    from tickwork.ops import Explanation

MIN_INTERVAL_SECONDS = 1

_TOUCHED_SHOWN_MAX = 10

top = Group("When a rule fires.")

PreviewLimit = Annotated[
    int, Option("Maximum number of fires, 1-1000; default 5.", "N", read=long_number)
]


@top.plain_command("next")
def show_fires(options: PreviewOptions, limit: PreviewLimit | None = None) -> Report:
    """Show the next times that a rule fires."""
    from tickwork import clock
    from tickwork.core.when import Limits
    from tickwork.ops import preview_schedule

    limits = Limits(min_interval_seconds=MIN_INTERVAL_SECONDS)
    preview = preview_schedule(options.preview(limit), now=clock.now(), limits=limits)
    notes = [f"note: {warning}" for warning in preview.warnings]
    if preview.fires:
        lines = [preview.description, "", *_table(preview.fires)]
        return Report(preview.fires, *lines, notes=notes)
    end = f"it will not fire again: {preview.description}"
    return Report(preview.fires, exit_code=EXIT_FAILED, notes=[*notes, end])


def _explained(explained: Explanation) -> Shown:
    yield explained.description
    for warning in explained.warnings:
        yield f"note: {warning}"
    if explained.touched:
        yield from ("", "Clock changes that affect it:", *_notes(explained.touched))
    elif not explained.warnings:
        yield "No clock change affects it in the next two years."


@top.plain_command("explain", show=_explained)
def explain(options: PreviewOptions) -> Explanation:
    """Explain a rule in plain English, with the clock changes that affect it."""
    from tickwork import clock
    from tickwork.core.when import Limits
    from tickwork.ops import explain_schedule

    limits = Limits(min_interval_seconds=MIN_INTERVAL_SECONDS)
    return explain_schedule(options.preview(), now=clock.now(), limits=limits)


def _table(fires: Sequence[when.UpcomingSlot]) -> Iterable[str]:
    """Yields the lines of a table without trailing spaces."""
    from tickwork.core.when import iso

    seconds = ":%S" if any(fire.local.second for fire in fires) else ""
    rows = [("local", "UTC", "note")]
    for fire in fires:
        local = fire.local.strftime(f"%a %Y-%m-%d %H:%M{seconds}")
        offset = fire.local.isoformat()[-6:]
        rows.append((f"{local} {offset}", iso(fire.fire_at), fire.note or ""))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for local, utc, note in rows:
        yield f"{local:{widths[0]}}  {utc:{widths[1]}}  {note}".rstrip()


def _notes(fires: Sequence[when.UpcomingSlot]) -> Iterable[str]:
    for fire in fires[:_TOUCHED_SHOWN_MAX]:
        yield f"  {fire.note}"
    if len(fires) > _TOUCHED_SHOWN_MAX:
        yield f"  and {len(fires) - _TOUCHED_SHOWN_MAX} more"
