"""Area `time`: what it costs to know when a rule fires next. The floor is cronsim."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from cronsim import CronSim

from bench.harness import (
    WALL,
    Result,
    Turn,
    bench,
    best,
    fastest,
    interleaved,
    judge,
    ratio_at_most,
    typical,
    value_under,
)
from tickwork.core import when

NOW = datetime(2026, 2, 11, 10, 17, 23, tzinfo=UTC)
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Sydney")
SHAPES = (
    "{m} {h} * * *",
    "{m} {h} * * MON-FRI",
    "{m} {h},23 * * *",
    "{m} */6 * * {d}",
    "{m}-59/15 {h} * * *",
    "{m} {h} {d} * *",
    "{m} {h} L * *",
    "{m} {h} * * {d}#2",
    "{m} {h} {d} JAN,JUL *",
    "{m} {h} 1-7 * SUN",
)

ROUNDS = 40
RULES = ROUNDS * len(SHAPES) * len(ZONES)
STEADY_RULE = {"cron_expr": "0 9 * * MON-FRI", "timezone": "America/New_York"}


@bench("time")
def next_distinct() -> Iterator[Result]:
    """Read a rule never seen before and find its next slot."""
    per_round = RULES // ROUNDS
    rules = _rules(RULES)
    rounds = [rules[first : first + per_round] for first in range(0, RULES, per_round)]
    starts = {zone: NOW.astimezone(ZoneInfo(zone)) for zone in ZONES}
    for zone in ZONES:
        when.next_after(when.parse({"cron_expr": "59 23 * * *", "timezone": zone}), NOW)

    def ours(number: int) -> None:
        for expr, zone in rounds[number]:
            when.next_after(when.parse({"cron_expr": expr, "timezone": zone}), NOW)

    def theirs(number: int) -> None:
        for expr, zone in rounds[number]:
            next(CronSim(expr, starts[zone]))

    turn = typical(interleaved(ours, theirs, rounds=ROUNDS))
    yield _per_call("time.next_distinct_vs_cronsim", turn, calls=per_round)


@bench("time")
def next_parsed() -> Iterator[Result]:
    """Step on from slot to slot, the rule already read."""
    rules = _rules(200)
    parsed = [when.parse({"cron_expr": expr, "timezone": zone}) for expr, zone in rules]
    sims = [CronSim(expr, NOW.astimezone(ZoneInfo(zone))) for expr, zone in rules]
    slots: list[datetime] = [NOW] * len(parsed)

    def ours(_: int) -> None:
        for index, rule in enumerate(parsed):
            slot = when.next_after(rule, slots[index])
            assert slot is not None
            slots[index] = slot

    def theirs(_: int) -> None:
        for sim in sims:
            next(sim)

    turn = typical(interleaved(ours, theirs))
    yield _per_call("time.next_parsed_vs_cronsim", turn, calls=len(rules))


@bench("time")
def next_memoised() -> Iterator[Result]:
    """Ask again what was just asked."""
    calls = 1_000
    rule = when.parse(STEADY_RULE)
    sim = CronSim(STEADY_RULE["cron_expr"], NOW.astimezone(ZoneInfo(STEADY_RULE["timezone"])))

    def ours(_: int) -> None:
        for _call in range(calls):
            when.next_after(rule, NOW)

    def theirs(_: int) -> None:
        for _call in range(calls):
            next(sim)

    turn = typical(interleaved(ours, theirs))
    yield _per_call("time.next_memoised", turn, calls=calls, ratio_max=1 / 20)


@bench("time")
def preview() -> Iterator[Result]:
    """A thousand fires, each with its local time and its words on DST."""
    rules = [when.parse({**STEADY_RULE, "cron_expr": f"{m} 9 * * MON-FRI"}) for m in range(10)]

    def ours(number: int) -> None:
        shown = when.preview(rules[number], NOW, 1_000)
        assert len(shown.fires) == 1_000

    yield judge(
        "time.preview_1000", best(ours, rounds=len(rules)) * 1e3, "ms", goal=value_under(50)
    )


@bench("time")
def cli_startup() -> Iterator[Result]:
    """From the shell's prompt to the answer, against importing the CLI library alone."""
    command = [str(Path(sys.executable).with_name("tickwork")), "next", "0 9 * * *"]
    imports = [sys.executable, "-c", "import click, zoneinfo"]

    def run(command: list[str]) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    turns = interleaved(lambda _: run(command), lambda _: run(imports), clock=WALL)
    ours, floor = fastest(turns)
    yield judge("time.cli_startup", ours * 1e3, "ms", reference=floor * 1e3, goal=ratio_at_most(2))


@bench("time")
def plan_missed() -> Iterator[Result]:
    """Account for a year of a minutely rule, half a million slots, after an outage."""
    rule = when.parse({"cron_expr": "* * * * *", "timezone": "Europe/Berlin"})

    def ours(number: int) -> None:
        now = NOW + number * timedelta(days=400)  # another year each round: nothing is known yet
        plan = when.plan_missed(rule, now - timedelta(days=365), now, rule.missed)
        skipped = sum(run.count for run in plan.skipped)
        assert len(plan.fire) + skipped == 365 * 24 * 60

    yield judge("time.plan_missed_year", best(ours) * 1e3, "ms", goal=value_under(20))


@bench("time")
def rrule_old_start() -> Iterator[Result]:
    """A recurrence that began ten years ago costs what one of today costs, the first time too."""
    rounds, calls = 10, 20
    old = _five_minutely(NOW - timedelta(days=3652), count=rounds * calls)
    young = _five_minutely(NOW - timedelta(hours=1), count=rounds * calls)

    def ask(rules: list[when.Rule], number: int) -> None:
        for rule in rules[number * calls : (number + 1) * calls]:
            when.next_after(rule, NOW)

    turn = typical(
        interleaved(
            lambda number: ask(old, number), lambda number: ask(young, number), rounds=rounds
        )
    )
    yield _per_call("time.rrule_old_start", turn, calls=calls, ratio_max=2)


def _rules(count: int) -> list[tuple[str, str]]:
    """Cron rules and zones: no expression twice, shapes and zones in turns."""
    rules: list[tuple[str, str]] = []
    for number in range(count):
        turn, shape = divmod(number, len(SHAPES))
        lap, minute = divmod(turn, 60)
        expr = SHAPES[shape].format(m=minute, h=(minute + lap) % 23, d=1 + lap % 6)
        rules.append((expr, ZONES[(turn + shape) % len(ZONES)]))
    assert len({expr for expr, _ in rules}) == count
    return rules


def _five_minutely(start: datetime, *, count: int) -> list[when.Rule]:
    """The same recurrence with a start in each second: as many rules, none seen before."""
    starts = (start + timedelta(seconds=second) for second in range(count))
    return [
        when.parse({"rrule": "FREQ=MINUTELY;INTERVAL=5", "start_at": start.isoformat()})
        for start in starts
    ]


def _per_call(name: str, turn: Turn, *, calls: int, ratio_max: float = 1.5) -> Result:
    """Microseconds per call of both sides."""
    ours, floor = (seconds * 1e6 / calls for seconds in turn)
    return judge(name, ours, "us", reference=floor, goal=ratio_at_most(ratio_max))
