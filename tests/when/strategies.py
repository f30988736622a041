"""Schedules of every kind for Hypothesis, each near a change of its zone's clock.

A `Case` is a schedule's fields as the API would send them, the rule they mean, and a window of
some days about a change. Fields are drawn so that nearly all are good; the few that never fire
within their own bounds are drawn again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice

from hypothesis import assume
from hypothesis import strategies as st

from tests.when.zones import transitions
from tickwork.core import when
from tickwork.errors import InvalidInput

Fields = dict[str, object]

LIMITS = when.Limits(min_interval_seconds=1)
SLOTS_MAX = 150
ZONES = (
    "UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo",
    "America/Nuuk", "Antarctica/Troll", "Asia/Kolkata", "America/Havana", "Pacific/Chatham",
    "Africa/Casablanca", "Asia/Tehran", "America/Santiago", "Etc/GMT+12", "Pacific/Kiritimati",
)  # fmt: skip
CALENDARS = {
    "none": frozenset[date](),
    "feasts": frozenset(date(year, month, day) for year in range(2020, 2038)
                        for month, day in ((1, 1), (3, 31), (10, 26), (12, 25), (12, 26))),
}  # fmt: skip
ALL_KINDS, INTERVALS = range(10), range(3, 5)
_SOME_DAYS = st.integers(-4, 4)


@dataclass(frozen=True)
class Case:
    fields: Fields
    rule: when.Rule
    created_at: datetime
    seed: str
    start: datetime
    end: datetime

    def slots(self) -> list[datetime]:
        return when.slots_between(self.rule, self.start, self.end)


def numbers(low: int, high: int) -> st.SearchStrategy[str]:
    """One cron field of numbers, in every spelling."""
    number = st.integers(low, high)
    pair = st.tuples(number, number).map(sorted)
    return st.one_of(
        number.map(str),
        st.lists(number, min_size=2, max_size=4).map(lambda many: ",".join(map(str, many))),
        pair.map(lambda two: f"{two[0]}-{two[1]}"),
        st.tuples(pair, st.integers(1, min(9, high))).map(
            lambda it: f"{it[0][0]}-{it[0][1]}/{it[1]}"
        ),
        st.integers(2, high).map(lambda step: f"*/{step}"),
        st.just("H"),
        pair.map(lambda two: f"H({max(two[0], low)}-{two[1]})"),
        st.integers(2, high).map(lambda step: f"H/{step}"),
    )


def cron_exprs() -> st.SearchStrategy[str]:
    seconds = st.one_of(st.just(""), st.just(""), st.integers(0, 59).map(lambda s: f"{s} "))
    days = st.one_of(
        st.just("*"), st.just("?"), numbers(1, 28),
        st.sampled_from(["L", "LW", "1W", "15W", "31W", "L,15", "10W,20", "29-31", "1-31"]),
    )  # fmt: skip
    months = st.one_of(
        st.just("*"), st.just("*"), st.just("*"), numbers(1, 12),
        st.sampled_from(["JAN-JUN", "MAR,OCT", "mar-apr,sep-nov"]),
    )  # fmt: skip
    weekdays = st.one_of(
        st.just("*"), st.just("*"), st.just("?"), numbers(0, 6),
        st.sampled_from(["MON-FRI", "SUN", "7", "5-7", "5#3", "0#1", "FRI#2", "5L", "0L,3", "*/2"]),
    )  # fmt: skip
    plain = st.tuples(
        seconds.flatmap(lambda s: numbers(0, 59).map(lambda minute: f"{s}{minute}")),
        st.one_of(st.just("*"), numbers(0, 23), numbers(0, 4)),
        days,
        months,
        weekdays,
    ).map(" ".join)
    aliases = st.sampled_from(["@hourly", "@daily", "@Midnight", "@weekly", "@monthly", "@yearly"])
    return st.one_of(plain, plain, plain, plain, aliases)


@st.composite
def rrules(draw: st.DrawFn) -> str:
    names = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
    parts = [f"FREQ={draw(st.sampled_from(names))}", f"INTERVAL={draw(st.integers(1, 13))}"]
    optional = {
        "WKST": st.sampled_from(["MO", "WE", "SU"]),
        "BYMONTH": st.sampled_from(["3", "3,10", "1,2,3,4,9,10,11"]),
        "BYMONTHDAY": st.sampled_from(["1", "-1", "10,20,30", "-3,3"]),
        "BYDAY": st.sampled_from(["SU", "MO,WE,FR", "SA,SU"]),
        "BYHOUR": st.sampled_from(["2", "1,2,3", "0,12", "23"]),
        "BYMINUTE": st.sampled_from(["30", "0,15,45"]),
        "BYSETPOS": st.sampled_from(["1", "-1", "1,-1"]),
    }
    for name, values in optional.items():
        if draw(st.sampled_from([False, False, False, True])):
            parts.append(f"{name}={draw(values)}")
    if draw(st.sampled_from([False, False, False, True])):
        parts.append(f"COUNT={draw(st.integers(1, 60))}")
    return ";".join(parts)


@st.composite
def timings(draw: st.DrawFn, middle: datetime, kinds: range) -> Fields:
    """One timing; `middle` is the local time, or nearly, that interesting ones should name."""
    near = middle + timedelta(minutes=draw(st.sampled_from([-90, -30, 0, 1, 15, 30, 59, 75])))
    clock = {"hour": near.hour, "minute": near.minute}
    weekday = near.isoweekday() % 7
    match draw(st.sampled_from(kinds)):
        case 0 | 1 | 2:
            return {"cron_expr": draw(cron_exprs())}
        case 3:
            seconds = draw(st.one_of(st.integers(600, 9_000), st.integers(600, 1_000_000)))
            return {"interval_seconds": seconds}
        case 4:
            mode = draw(st.sampled_from(["fixed_rate", "fixed_delay"]))
            return {"interval_minutes": draw(st.integers(10, 3_000)), "interval_mode": mode}
        case 5:
            return {"daily_time": clock}
        case 6:
            days = draw(st.one_of(st.just(weekday), st.lists(st.integers(0, 6), min_size=1)))
            return {"weekly_time": {**clock, "day_of_week": days}}
        case 7:
            day = draw(st.one_of(st.just(near.day), st.just("last"), st.integers(28, 31)))
            short = draw(st.sampled_from(["skip", "last_day"]))
            return {"monthly_time": {**clock, "day": day, "short_month": short}}
        case 8:
            micros = draw(st.sampled_from([0, 0, 500_000]))
            text = near.replace(microsecond=micros).isoformat()
            return {"once_at": text + draw(st.sampled_from(["", "Z", "-07:00"]))}
        case _:
            start = near - timedelta(days=draw(st.integers(0, 900)))
            return {"rrule": draw(rrules()), "start_at": start.isoformat()}


@st.composite
def bounds(draw: st.DrawFn, middle: datetime, *, rolls: bool) -> Fields:
    """The fields around a timing; about half of them are left out each time."""
    day = middle.date()

    def at(low: int, high: int) -> str:
        return (middle + timedelta(minutes=draw(st.integers(low, high)))).isoformat()

    optional: dict[str, Callable[[], object]] = {
        "start_at": lambda: at(-3_000, -200) + "Z",
        "end_at": lambda: at(200, 4_000) + "+02:00",
        "max_firings": lambda: draw(st.integers(1, 40)),
        "exclude": lambda: [
            (day + timedelta(days=days)).isoformat()
            for days in draw(st.lists(_SOME_DAYS, max_size=5))
        ],
        "calendar": lambda: draw(st.sampled_from(["none", "feasts"])),
        "roll": lambda: draw(st.sampled_from(["next_day", "previous_day", "skip"])),
        "jitter_seconds": lambda: draw(st.sampled_from([0, 1, 30, 3_600, 86_400])),
        "fire_window_seconds": lambda: draw(st.sampled_from([0, 1, 90, 7_200])),
        "missed": lambda: {"grace_seconds": draw(st.integers(0, 10_000))},
    }
    chosen = {name: make() for name, make in optional.items() if draw(st.booleans())}
    if not rolls:
        chosen.pop("roll", None)
    return chosen


@st.composite
def cases(draw: st.DrawFn, kinds: range = ALL_KINDS) -> Case:
    """A schedule and a window of some days about a change of its zone."""
    zone = draw(st.sampled_from(ZONES))
    changes = transitions(zone)
    middle = datetime(2027, 3, 31, 2, 30, tzinfo=UTC)
    wall = middle.replace(tzinfo=None)
    if changes:
        change = draw(st.sampled_from(changes))
        middle, wall = change.instant, min(change.wall_before, change.wall_after)
    timing = draw(timings(wall, kinds))
    policies = {
        "gap": draw(st.sampled_from(["run_after", "shift", "skip"])),
        "overlap": draw(st.sampled_from(["first", "last", "both"])),
    }
    around = draw(bounds(wall, rolls=knows_days(timing)))
    fields: Fields = {**around, **timing, "timezone": zone, "dst": policies}
    created_at = middle - timedelta(hours=draw(st.integers(0, 90)), microseconds=7)
    seed = draw(st.sampled_from(["", "one", "two", "three"]))
    try:
        rule = when.parse(
            fields, created_at=created_at, seed=seed, calendars=CALENDARS, limits=LIMITS
        )
    except InvalidInput as error:
        assume(not is_unlucky(error))
        raise
    before, after = st.sampled_from([0, 61, 700, 4_000]), st.sampled_from([90, 700, 4_000, 9_000])
    start = middle - timedelta(minutes=draw(before), seconds=draw(_SOME_DAYS))
    end = middle + timedelta(minutes=draw(after))
    last = list(islice(when.iterate_slots(rule, start), SLOTS_MAX))[-1:]
    return Case(fields, rule, created_at, seed, start, min([end, *last]))


def knows_days(timing: Fields) -> bool:
    names = (*timing, str(timing.get("rrule")))
    return not any(part in name for name in names for part in ("interval", "HOURLY", "MINUTELY"))


def is_unlucky(error: InvalidInput) -> bool:
    """Whether its bounds or policy leave no slot; any other fault is a bug of the strategy."""
    known = ("never fires", "does not exist in", "must be after start_at")
    return all(any(text in fault.message for text in known) for fault in error.errors)
