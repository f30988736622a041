"""What a page of the suite is written with.

```python
@bench("queue")
def send_batch() -> Iterator[Result]:
    ours, floor = typical(interleaved(send_through_tickwork, send_plain_sql, clock=WALL))
    yield judge("queue.send_batch", ours, "s", reference=floor, goal=ratio_at_most(1.5))
```

A goal speaks of the value, or of the ratio `value / reference`; which way is better is the
goal's to say. A result without a goal informs and cannot fail.

Noise is met in three ways: contenders take short turns, so that both see the same weather;
a ratio is that of one turn, never of two moments; and work that only computes is timed by
the processor time of its thread, of which neighbours on a busy machine take nothing.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

Benchmark = Callable[[], Iterator["Result"]]
Round = Callable[[int], object]
"""One round of work. It is given the round's number, to choose inputs not seen before."""

Clock = Callable[[], float]
COMPUTING: Clock = time.thread_time
WALL: Clock = time.perf_counter
"""For whatever waits: files, sockets, other threads and processes."""

QUICK = "TICKWORK_BENCH_QUICK"
"""In the environment: set in a quick run."""

AREAS: dict[str, list[Benchmark]] = {}
"""Every benchmark that was declared, by area, in order."""


class Goal(Struct, frozen=True):
    """A bound on the value or the ratio, and how it reads."""

    text: str
    holds: Callable[[float, float | None], bool]


class Result(Struct, frozen=True, kw_only=True):
    """One line of the table and one entry of results.json."""

    name: str
    value: float
    unit: str
    reference: float | None
    ratio: float | None
    goal: str | None
    ok: bool


def bench(area: str) -> Callable[[Benchmark], Benchmark]:
    """Declares a benchmark of an area."""

    def declare(benchmark: Benchmark) -> Benchmark:
        AREAS.setdefault(area, []).append(benchmark)
        return benchmark

    return declare


def sized(full: int, *, quick: int) -> int:
    """How much of something to measure with: in a quick run less, which shows whether a benchmark
    works and not how fast we are."""
    return quick if os.environ.get(QUICK) else full


def value_under(bound: float) -> Goal:
    return Goal(f"value < {bound:g}", lambda value, _: value < bound)


def ratio_at_most(bound: float) -> Goal:
    return Goal(f"ratio <= {bound:g}", lambda _, ratio: ratio is not None and ratio <= bound)


def ratio_at_least(bound: float) -> Goal:
    return Goal(f"ratio >= {bound:g}", lambda _, ratio: ratio is not None and ratio >= bound)


def judge(
    name: str,
    value: float,
    unit: str,
    *,
    reference: float | None = None,
    goal: Goal | None = None,
) -> Result:
    """A result from what was measured; the reference has the value's unit."""
    ratio = None if reference is None else value / reference
    return Result(
        name=name,
        value=value,
        unit=unit,
        reference=reference,
        ratio=ratio,
        goal=goal.text if goal else None,
        ok=goal is None or goal.holds(value, ratio),
    )


class Turn(NamedTuple):
    """The seconds that two contenders took, one right after the other."""

    candidate: float
    floor: float


def interleaved(
    candidate: Round, floor: Round, *, rounds: int = 20, clock: Clock = COMPUTING
) -> list[Turn]:
    """Times two contenders in turns; who begins alternates."""
    turns: list[Turn] = []
    for number in range(rounds):
        if number % 2:
            second = _seconds_of(floor, number, clock)
            first = _seconds_of(candidate, number, clock)
        else:
            first = _seconds_of(candidate, number, clock)
            second = _seconds_of(floor, number, clock)
        turns.append(Turn(first, second))
    return turns


def typical(turns: Sequence[Turn]) -> Turn:
    """The turn with the median ratio: for rounds that differ in what they do."""
    return sorted(turns, key=lambda turn: turn.candidate / turn.floor)[len(turns) // 2]


def fastest(turns: Sequence[Turn]) -> Turn:
    """The best of either side: for rounds that all do the same."""
    return Turn(min(turn.candidate for turn in turns), min(turn.floor for turn in turns))


def best(work: Round, *, rounds: int = 10) -> float:
    """Seconds on the wall of the fastest round: what the work costs when nobody disturbs it."""
    return min(_seconds_of(work, number, WALL) for number in range(rounds))


def run(areas: Iterable[str], *, report: Callable[[str], None]) -> Iterator[Result]:
    """Runs the benchmarks of some areas in order, and reports which one is at work."""
    for area in areas:
        for benchmark in AREAS[area]:
            report(f"{area}: {benchmark.__name__} ...")
            for result in benchmark():
                report(f"  {result.name}: {result.value:.4g} {result.unit}")
                yield result


def _seconds_of(work: Round, number: int, clock: Clock) -> float:
    gc.collect()
    gc.disable()
    try:
        began = clock()
        work(number)
        return clock() - began
    finally:
        gc.enable()
