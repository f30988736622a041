"""The rules and windows on which the product and the reference are compared, all seeded.

A case is one rule in one zone with one DST policy over one window. Rules come from three places:
a catalogue of spellings, rules aimed at the hour of a particular offset change, and random ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tests.when import zones

Spec = dict[str, Any]

#: Spellings that once were a mistake somewhere; most of them meet most changes.
CATALOGUE = (
    "30 2 * * *", "0 */3 * * *", "0 0,3,6,9,12,15,18,21 * * *", "*/10 3 * * *", "*/10 2 * * *",
    "0 3,4 * * *", "30 1 * * *", "0 * * * *", "*/30 * * * *", "15 0,12 * * *", "0 1-23/2 * * *",
    "5 2-22/4 * * *", "0 1,2 * * *", "0 0-5 * * *", "45 0-22 * * *", "0 0-23 * * *",
    "0 0 * * *", "30 0 * * *", "59 23 * * *", "30 23 * * *", "0 22,23,0,1 * * *",
    "0 2 * * SUN", "30 2 * * 7", "30 0-4 * * SAT,SUN", "15 1-3 * * 5-7", "0 12 * * MON-FRI",
    "0 0 L * *", "30 2 LW * *", "15 2 15W * *", "0 1 1W * *", "0 3 31W * *", "30 1 L,15 * *",
    "30 2 * * 0L", "30 1 * * 0#1", "30 2 * * 0#2", "0 2 * * SUN#5", "0 1 * * 5L,6L", "0 9 * * 5#3",
    "0 0 13 * 5", "0 2 */2 * 1", "30 1 1-7 * */3", "30 2 1-31 * 1", "30 2 ? * 0", "30 2 1 * ?",
    "0 2 1-7 * SUN", "30 3 * MAR,OCT *", "30 2 29 2 *", "*/20 1,2 * 3-4,10-11 *",
    "30 30 2 * * *", "*/20 59 1 * * *", "0,15 0 */6 * * *", "10 */30 2,3 * * SUN",
    "@hourly", "@daily", "@weekly", "@monthly",
)  # fmt: skip


@dataclass(frozen=True)
class Window:
    zone: str
    start: datetime
    end: datetime
    about: zones.Transition | None


def around(zone: str, change: zones.Transition, rng: Random) -> Window:
    """Some three days about a change; now and then an edge lies on the change or beside it."""
    start = change.instant - timedelta(seconds=rng.randrange(20 * 3600, 44 * 3600))
    end = change.instant + timedelta(seconds=rng.randrange(20 * 3600, 44 * 3600))
    beside = timedelta(seconds=rng.choice((-3600, -60, -1, 0, 1, 60, 3600)))
    match rng.randrange(8):
        case 0:
            start = change.instant + beside
        case 1:
            end = change.instant + beside
    return Window(zone, start, end, change)


def anywhere(zone: str, days: int, rng: Random) -> Window:
    """A stretch of some ``days`` in the years; if the zone has changes, one is in it."""
    changes = zones.transitions(zone)
    about = rng.choice(changes) if changes else None
    middle = about.at if about else rng.randrange(zones.START, zones.END)
    before = rng.randrange(days * zones.DAY_SECONDS)
    start = datetime.fromtimestamp(middle - before, UTC)
    return Window(zone, start, start + timedelta(days=days), about)


def rules(window: Window, count: int, rng: Random) -> Iterator[Spec]:
    for _ in range(count):
        match rng.randrange(6):
            case 0 | 1:
                spec: Spec = {"cron_expr": rng.choice(CATALOGUE)}
            case 2:
                spec = random_cron(rng)
            case _:
                spec = aimed(window, rng)
        if rng.randrange(12) == 0:
            middle = window.about.wall_after if window.about else window.start
            day = middle.date() + timedelta(days=rng.choice((-1, 0, 0, 1)))
            spec = {**spec, "exclude": [day.isoformat()]}
        yield spec


def aimed(window: Window, rng: Random) -> Spec:
    """A rule that names a time in or beside the change, on its day or on every day."""
    if window.about is None:
        middle = window.start + (window.end - window.start) / 2
        wall = middle.replace(tzinfo=None)
    else:
        wall = min(window.about.wall_before, window.about.wall_after)
    wall += timedelta(
        minutes=rng.choice((-60, -30, -10, -1, 0, 0, 1, 10, 15, 29, 30, 45, 59, 60, 90))
    )
    hour, minute, weekday = wall.hour, wall.minute, wall.isoweekday() % 7
    match rng.randrange(8):
        case 0 | 1:
            return {"daily_time": {"hour": hour, "minute": minute}}
        case 2:
            days = weekday if rng.random() < 0.5 else sorted({weekday, rng.randrange(7)})
            return {"weekly_time": {"day_of_week": days, "hour": hour, "minute": minute}}
        case 3:
            return {"monthly_time": monthly(wall, rng)}
        case _:
            fields = minute_field(minute, rng), hour_field(hour, rng), days_fields(wall, rng)
            return {"cron_expr": " ".join(fields)}


def monthly(wall: datetime, rng: Random) -> Spec:
    timing: Spec = {"day": wall.day, "hour": wall.hour, "minute": wall.minute}
    match rng.randrange(4):
        case 0:
            return {**timing, "day": "last"}
        case 1:
            return {**timing, "day": rng.choice((29, 30, 31)), "short_month": "last_day"}
    return {**timing, "short_month": rng.choice(("skip", "last_day"))}


def minute_field(minute: int, rng: Random) -> str:
    return rng.choice((str(minute), str(minute), f"{minute},30", "*/10", "0", "*/15", "0-59/20"))


def hour_field(hour: int, rng: Random) -> str:
    later = (hour + 1) % 24
    pair = f"{min(hour, later)},{max(hour, later)}"
    opposite = f"{hour % 12},{hour % 12 + 12}"
    return rng.choice((str(hour), str(hour), str(hour), pair, opposite, f"0-{hour}", f"{hour}-23"))


def days_fields(wall: datetime, rng: Random) -> str:
    """Day of month, month and day of week that hold on the day of ``wall``, or nearly."""
    day, month, weekday = wall.day, wall.month, wall.isoweekday() % 7
    nth = f"{weekday}#{(day - 1) // 7 + 1}"
    return rng.choice(
        (
            "* * *", "* * *", f"{day} * *", f"* * {weekday}", f"* {month} *", f"{day} {month} *",
            f"{day} * {(weekday + 1) % 7}", f"*/2 * {weekday}", f"* * {nth}",
            f"* * {weekday}L", f"{day}W * *", "L * ?", "LW * *",
        )
    )  # fmt: skip


def random_cron(rng: Random) -> Spec:
    fields = (
        random_field(0, 59, rng),
        random_field(0, 23, rng),
        rng.choice(("*", "*", "*", random_field(1, 28, rng))),
        rng.choice(("*", "*", "*", random_field(1, 12, rng))),
        rng.choice(("*", "*", "*", random_field(0, 6, rng))),
    )
    return {"cron_expr": " ".join(fields)}


def random_field(low: int, high: int, rng: Random) -> str:
    first, last = sorted(rng.sample(range(low, high + 1), 2))
    step = rng.randrange(2, max(3, (high - low) // 2))
    some = sorted(rng.sample(range(low, high + 1), 3))
    return rng.choice(
        (str(first), str(last), f"{first}-{last}", f"{first}-{last}/{step}", f"*/{step}",
         ",".join(map(str, some)), f"{some[0]},{some[1]}-{some[2]}")
    )  # fmt: skip
