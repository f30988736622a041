"""`tickwork forecast`: how many firings are due in the coming hours, and which minutes are full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.options import OPTION_OF_FIELD, Database, Json, Option, Tenant
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    fail,
    local_time,
    print_json,
    print_lines,
    print_table,
    progress,
    shortened,
)
from tickwork.cli.store_session import scope_of, whole_number, with_context

if TYPE_CHECKING:
    from tickwork.core.schedule.forecast import Forecast

_BARS = " ▁▂▃▄▅▆▇█"
_LINE_LENGTH = 72
_ROWS_MAX = 10

Hours = Annotated[
    str | None, Option(metavar="N", help="Hours to look ahead, 1 to 168; default 24.")
]
Window = Annotated[
    str | None,
    Option(
        name="--window-seconds",
        metavar="SECONDS",
        help="Also show the effect of a fire window of this length.",
    ),
]
AllTenants = Annotated[bool, Option(name="--all-tenants", help="Count the schedules of all.")]


def forecast_command(
    hours: Hours = None,
    window: Window = None,
    all_tenants: AllTenants = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Count the firings of each coming minute, and show which schedules crowd together."""
    from tickwork.core.schedule.forecast import FORECAST_HOURS
    from tickwork.ops.forecast import forecast

    if all_tenants and tenant is not None:
        fail("give --tenant or --all-tenants, not both", code=EXIT_BAD_USAGE)
    scope = scope_of(tenant, shared=all_tenants)
    ahead = whole_number(hours, "--hours", FORECAST_HOURS)
    seconds = None if window is None else whole_number(window, "--window-seconds", 0)
    with progress("schedules") as shown:
        found = with_context(
            database,
            scope,
            lambda context: forecast(
                context,
                hours=ahead,
                window_seconds=seconds,
                on_progress=None if shown is None else lambda done: shown(done, done),
            ),
            names=OPTION_OF_FIELD | {"hours": "--hours", "window_seconds": "--window-seconds"},
        )
    if as_json:
        print_json(found)
    else:
        _print(found, with_tenants=all_tenants)


def _print(found: Forecast, *, with_tenants: bool) -> None:
    print_lines(_summary(found))
    if not found.firings:
        return
    print_lines([""])
    targets = [
        (
            f"{target.kind} {target.name}".strip(),
            target.firings,
            target.peak_firings,
            target.peak_at,
        )
        for target in found.targets[:_ROWS_MAX]
    ]
    print_table(("target", "firings", "peak", "peak_at"), targets, none="")
    if with_tenants:
        print_lines([""])
        shares = [(tenant.tenant, tenant.firings) for tenant in found.tenants[:_ROWS_MAX]]
        print_table(("tenant", "firings"), shares, none="")
    if found.herds:
        print_lines([""])
        print_table(
            ("herd", "firings", "of", "schedules", "rule", "target"), _herds(found), none=""
        )
    print_lines([""])
    effects = [(window.fire_window_seconds, window.peak_firings) for window in found.windows]
    print_table(("fire_window_seconds", "peak"), effects, none="")


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
