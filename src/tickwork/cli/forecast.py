"""`tickwork forecast`: how many firings are due in the coming hours, and which minutes are full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import CONNECTION, Option
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    Report,
    Shown,
    Table,
    fail,
    local_time,
    progress,
    shortened,
)
from tickwork.cli.store_session import with_context

if TYPE_CHECKING:
    from tickwork.core.schedule.forecast import Forecast

_BARS = " ▁▂▃▄▅▆▇█"
_LINE_LENGTH = 72
_ROWS_MAX = 10

Hours = Annotated[int, Option("Hours to look ahead, 1 to 168; default 24.", "N")]
Window = Annotated[int, Option("Also show the effect of a fire window of this length.", "SECONDS")]
AllTenants = Annotated[bool, Option("Count the schedules of all.")]

top = Group("What will be due.")


def _summary(found: Forecast) -> Iterator[str]:
    yield f"{found.firings} firings of {found.schedules} schedules in the next {found.hours} hours"
    if found.widened_seconds:
        yield f"fire windows are widened to {found.widened_seconds} s (tickwork cluster narrow)"
    if found.firings:
        yield (
            f"median {found.median:g} per minute, "
            f"peak {found.peak_firings} at {local_time(found.peak_at)}"
        )
        yield ""
        yield f"{sparkline(found.minutes)}"
        first, last = local_time(found.start)[11:16], f"+{found.hours} h"
        yield f"{first}{last:>{_LINE_LENGTH - len(first)}}"


def _herds(found: Forecast) -> Iterator[Sequence[object]]:
    for herd in found.herds[:_ROWS_MAX]:
        for number, cause in enumerate(herd.causes):
            head = (None, None) if number else (herd.at, herd.firings)
            target = f"{cause.kind} {cause.target}".strip()
            yield (*head, cause.firings, cause.schedules, shortened(cause.rule), target)


def sparkline(minutes: Sequence[int]) -> str:
    """The busiest minute of each part of the time, as bars; 0 is blank."""
    size = len(minutes)
    parts = [
        max(minutes[size * at // _LINE_LENGTH : size * (at + 1) // _LINE_LENGTH] or [0])
        for at in range(_LINE_LENGTH)
    ]
    highest = max([*parts, 1])
    return "".join(_BARS[-(-part * (len(_BARS) - 1) // highest)] for part in parts)


def _shown(found: Forecast, *, with_tenants: bool) -> Shown:
    yield from _summary(found)
    if not found.firings:
        return
    targets = [
        (
            f"{target.kind} {target.name}".strip(),
            target.firings,
            target.peak_firings,
            target.peak_at,
        )
        for target in found.targets[:_ROWS_MAX]
    ]
    yield from ("", Table(("target", "firings", "peak", "peak_at"), targets))
    if with_tenants:
        shares = [(tenant.tenant, tenant.firings) for tenant in found.tenants[:_ROWS_MAX]]
        yield from ("", Table(("tenant", "firings"), shares))
    if found.herds:
        heading = ("herd", "firings", "of", "schedules", "rule", "target")
        yield from ("", Table(heading, _herds(found)))
    effects = [(window.fire_window_seconds, window.peak_firings) for window in found.windows]
    yield from ("", Table(("fire_window_seconds", "peak"), effects))


@top.plain_command("forecast", on_database=True)
def count_firings(
    hours: Hours | None = None,
    window_seconds: Window | None = None,
    all_tenants: AllTenants = False,
) -> Report:
    """Count the firings of each coming minute, and show which schedules crowd together."""
    from tickwork.core.model import SYSTEM
    from tickwork.core.schedule.forecast import FORECAST_HOURS
    from tickwork.ops.forecast import forecast

    if all_tenants and CONNECTION.get().tenant is not None:
        fail("give --tenant or --all-tenants, not both", code=EXIT_BAD_USAGE)
    ahead = FORECAST_HOURS if hours is None else hours
    with progress("schedules") as shown:
        found = with_context(
            lambda context: forecast(
                context,
                hours=ahead,
                window_seconds=window_seconds,
                on_progress=None if shown is None else lambda done: shown(done, done),
            ),
            scope=SYSTEM if all_tenants else None,
        )
    return Report(found, *_shown(found, with_tenants=all_tenants))
