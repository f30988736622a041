"""`tickwork capacity`: will the workers keep up; `tickwork what-if`: how much fits into a day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Option
from tickwork.cli.output import EXIT_BAD_USAGE, EXIT_FAILED, Report, Shown, Table, fail

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.queue.capacity import Capacity, DayPlan

Hours = Annotated[int, Option("Hours to look ahead, 1 to 168; default 24.", "N")]
Users = Annotated[int, Option("Users to be handled in a day.", "N")]
Seconds = Annotated[float, Option("Seconds that one of them takes.", "SECONDS")]
AtOnce = Annotated[int, Option("Number that are handled at a time; default 1.", "N")]
DailyLimit = Annotated[float, Option("What may be used in a day, such as writes.", "N")]
Cost = Annotated[float, Option("How much of the limit one user takes; default 1.", "N")]

top = Group("How much there is room for.")

_ROWS_MAX = 20


@top.client_command("capacity", watch=True)
async def show_capacity(client: Client, hours: Hours = 24) -> Report:
    """Compare what will be due with what the workers can do; exit with 1 if it will be late."""
    found = await client.capacity(hours=hours)
    return Report(found, *_shown(found), exit_code=0 if found.ok else EXIT_FAILED)


def _shown(found: Capacity) -> Shown:
    workers = "1 worker runs" if found.nodes == 1 else f"{found.nodes} workers run"
    yield f"{found.slots:,} slots in the next {found.hours} hours; {workers}"
    if found.uncounted_slots:
        yield f"{found.uncounted_slots:,} of them have targets that the forecast counts as one"
    if not found.lanes:
        yield "nothing is due, and nothing waits"
        return
    for shortfall in found.shortfalls[:_ROWS_MAX]:
        yield shortfall.words
    if len(found.shortfalls) > _ROWS_MAX:
        yield f"and {len(found.shortfalls) - _ROWS_MAX} more (--json)"
    unknown = [lane for lane in found.lanes if lane.verdict == "unknown"]
    for lane in unknown[:_ROWS_MAX]:
        yield lane.words
    if not found.shortfalls and not unknown:
        yield "the workers keep up"
    rows = [
        (
            lane.verdict,
            f"{lane.kind} {lane.name}",
            lane.slots,
            lane.peak_slots,
            lane.waiting,
            None if lane.per_minute is None else round(lane.per_minute),
            lane.busiest_per_minute or None,
            lane.handled,
            lane.limit_words,
        )
        for lane in found.lanes[:_ROWS_MAX]
    ]
    heading = (
        "verdict",
        "of",
        "slots",
        "peak",
        "waiting",
        "a_minute",
        "busiest",
        "handled",
        "because",
    )
    yield from ("", Table(heading, rows))


@top.plain_command("what-if")
def plan_a_day(
    users: Users,
    seconds: Seconds,
    at_once: AtOnce = 1,
    daily_limit: DailyLimit | None = None,
    cost: Cost = 1.0,
) -> Report:
    """Compute how many users fit into a day, by time and by a daily limit; asks no database."""
    from tickwork.core.queue.capacity import plan_day

    for name, value in (
        ("--users", users),
        ("--seconds", seconds),
        ("--at-once", at_once),
        ("--daily-limit", daily_limit),
        ("--cost", cost),
    ):
        if value is not None and not value > 0:
            fail(f"{name}: must be more than 0, not {value:g}", code=EXIT_BAD_USAGE)
    plan = plan_day(
        users=users,
        seconds=seconds,
        at_once=at_once,
        limit_per_day=daily_limit,
        cost_per_user=cost,
    )
    return Report(plan, *_plan_lines(plan))


def _plan_lines(plan: DayPlan) -> Shown:
    yield (
        f"{plan.users:,} users one by one take {plan.one_by_one_seconds:,.10g} s; "
        f"{plan.at_once:,} at a time {plan.seconds_needed:,.10g} s"
    )
    yield f"a day has time for {plan.users_by_time:,} users"
    if plan.users_by_limit is not None:
        yield (
            f"a limit of {plan.limit_per_day:,.10g} a day, {plan.cost_per_user:g} for each, "
            f"is enough for {plan.users_by_limit:,} users"
        )
    yield (
        f"capacity {plan.users_per_day:,} users a day, decided by {plan.limited_by}: "
        f"{plan.headroom:,.4g} times as many"
    )
