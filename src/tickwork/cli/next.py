"""`tickwork next` and `tickwork explain`: when a rule fires, without a server.

Both use the verb behind `POST /v1/schedules/preview`. They allow intervals down to a second,
whatever the limits of a tenant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import click

from tickwork.cli import timing_options
from tickwork.cli.options import Json, Option
from tickwork.cli.output import EXIT_FAILED, print_error, print_json, print_lines, refuse
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from tickwork.core import when

MIN_INTERVAL_SECONDS = 1

_TOUCHED_SHOWN_MAX = 10

PreviewLimit = Annotated[
    str | None, Option(metavar="N", help="Maximum number of fires, 1-1000; default 5.")
]


@timing_options.timed()
def next_command(
    options: timing_options.TimingOptions = timing_options.NO_OPTIONS,
    limit: PreviewLimit = None,
    as_json: Json = False,
) -> None:
    """Show the next times that a rule fires."""
    preview = _preview(options, limit)
    if as_json:
        print_json(preview.fires)
    elif preview.fires:
        print_lines([preview.description, "", *_table(preview.fires)])
    for warning in preview.warnings:
        print_error(f"note: {warning}")
    if not preview.fires:
        print_error(f"it will not fire again: {preview.description}")
        raise click.exceptions.Exit(EXIT_FAILED)


@timing_options.timed()
def explain_command(
    options: timing_options.TimingOptions = timing_options.NO_OPTIONS,
    as_json: Json = False,
) -> None:
    """Explain a rule in plain English, with the clock changes that affect it."""
    from tickwork import clock
    from tickwork.core.when import Limits
    from tickwork.ops import explain_schedule

    try:
        limits = Limits(min_interval_seconds=MIN_INTERVAL_SECONDS)
        explained = explain_schedule(options.body(), now=clock.now(), limits=limits)
    except InvalidInput as error:
        refuse(error, timing_options.OPTION_NAMES)
    if as_json:
        print_json(explained)
        return
    lines = [explained.description, *(f"note: {warning}" for warning in explained.warnings)]
    if explained.touched:
        lines += ["", "Clock changes that affect it:", *_notes(explained.touched)]
    elif not explained.warnings:
        lines.append("No clock change affects it in the next two years.")
    print_lines(lines)


def _preview(options: timing_options.TimingOptions, limit: str | None) -> when.Preview:
    from tickwork import clock
    from tickwork.core.when import Limits
    from tickwork.ops import preview_schedule

    try:
        limits = Limits(min_interval_seconds=MIN_INTERVAL_SECONDS)
        return preview_schedule(options.body(limit), now=clock.now(), limits=limits)
    except InvalidInput as error:
        refuse(error, timing_options.OPTION_NAMES)


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
