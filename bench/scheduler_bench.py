"""Area `scheduler`: making schedules, firing them, and how that grows with their number.

The floors are plain SQL over the same rows (`scheduler_floor.py`). Rows about time that really
passes are in `scheduler_time_bench.py`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from bench.beds import Bed, postgres_bed, postgres_server, sqlite_bed
from bench.harness import (
    WALL,
    Result,
    Turn,
    bench,
    interleaved,
    judge,
    ratio_at_least,
    ratio_at_most,
    sized,
    typical,
)
from bench.scheduler_beds import AHEAD, MINUTE, Leader, each_minute, idle, make, soon
from bench.scheduler_floor import PostgresFloor, SqliteFloor, copied, inserted, message_ids

MANY = 1_000_000
MANY_QUICK = 20_000
FEW = 10_000
FEW_QUICK = 1_000
FIRED = 20_000
FIRED_QUICK = 4_000
ROUNDS = 5
"""Contenders take turns so often; the turn with the middle ratio counts."""

MADE_IN_TURNS = 4
"""Ours and the floor make their schedules in so many turns, each on its own database."""

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class Pair(NamedTuple):
    """Ours, with many schedules and with few, and a floor with as many as the former."""

    name: str
    many: Bed
    few: Bed
    floor_rows: Callable[[int], float]
    """Stores at the floor what ours has beyond so many; the seconds it took."""
    floor: Callable[[], Any]
    """What fires at the floor, once the schedules are there."""


@bench("scheduler")
def postgres_growth() -> Iterator[Result]:
    """A million schedules are made, and fired among, on PostgreSQL."""
    yield from postgres_of(sized(MANY, quick=MANY_QUICK))


@bench("scheduler")
def sqlite_growth() -> Iterator[Result]:
    """The same on one file."""
    yield from sqlite_of(sized(MANY, quick=MANY_QUICK))


def postgres_of(many: int) -> Iterator[Result]:
    """Rows for so many schedules on PostgreSQL."""
    with (
        postgres_server() as server,
        postgres_bed(server) as ours,
        postgres_bed(server) as few,
        postgres_bed(server) as plain,
    ):

        def floor_rows(known: int) -> float:
            query = "SELECT * FROM tickwork_schedules ORDER BY tenant, id OFFSET $1"
            rows = ours.run(ours.connection.fetch(query, known))
            began = time.perf_counter()
            copied(plain, rows)
            return time.perf_counter() - began

        def floor() -> PostgresFloor:
            for bed in (ours, few, plain):
                bed.run(bed.connection.execute("VACUUM (ANALYZE) tickwork_schedules"))
            # The rows are ours, and name our queue.
            named = "UPDATE tickwork_queues SET id = $1"
            plain.run(plain.connection.execute(named, ours.queue_id))
            plain.queue_id = ours.queue_id
            return PostgresFloor(plain)

        yield from growth(Pair("postgres", ours, few, floor_rows, floor), many)


def sqlite_of(many: int) -> Iterator[Result]:
    """Rows for so many schedules on SQLite."""
    with sqlite_bed() as ours, sqlite_bed() as few:

        def floor_rows(known: int) -> float:
            with closing(sqlite3.connect(ours.path)) as reading:
                query = "SELECT * FROM tickwork_schedules WHERE place > ?"
                rows = reading.execute(query, (known,)).fetchall()
            began = time.perf_counter()
            inserted(ours.connection, rows)
            return time.perf_counter() - began

        def floor() -> SqliteFloor:
            return SqliteFloor(ours.connection)

        yield from growth(Pair("sqlite", ours, few, floor_rows, floor), many)


def growth(pair: Pair, many: int) -> Iterator[Result]:
    """Making many; firing beside the floor; and what a firing costs among few and among many."""
    yield _making(pair, many)
    make(pair.few, idle(sized(FEW, quick=FEW_QUICK)))
    fired, now = sized(FIRED, quick=FIRED_QUICK), soon(0)
    first = now + MINUTE + AHEAD - timedelta(seconds=1)
    for bed in (pair.many, pair.few):
        make(bed, each_minute(fired, first, timedelta(seconds=1)))
    pair.floor_rows(many)
    floor = pair.floor()
    leader, small = Leader(pair.many, now), Leader(pair.few, now)
    try:
        yield _fire_path(pair.name, leader, floor, fired, now)
        yield _idle(pair.name, leader, small, fired, many)
    finally:
        leader.close()
        small.close()
        if isinstance(floor, PostgresFloor):
            floor.close()


def _making(pair: Pair, many: int) -> Result:
    schedules, known = idle(many), 0
    turns: list[Turn] = []
    for _ in range(MADE_IN_TURNS):
        began = time.perf_counter()
        made = make(pair.many, islice(schedules, many // MADE_IN_TURNS))
        turns.append(Turn(time.perf_counter() - began, pair.floor_rows(known)))
        known += made
    ours, beside = (sum(seconds) for seconds in zip(*turns, strict=True))
    return judge(
        f"scheduler.{pair.name}.bulk_create_{many}",
        known / ours,
        "schedules/s",
        reference=known / beside,
        goal=ratio_at_least(0.5),
    )


def _fire_path(name: str, leader: Leader, floor: Any, fired: int, now: datetime) -> Result:
    """From due schedules to committed messages, one leader."""
    ids = [message_ids(fired) for _ in range(ROUNDS)]

    def ours(_number: int) -> None:
        assert leader.plan_minute() == fired

    def plain(number: int) -> None:
        at: Any = now + (number + 1) * MINUTE
        if isinstance(floor, SqliteFloor):
            at = int((at - EPOCH).total_seconds()) * 1_000_000
        assert floor.fire(at, ids[number]) == fired

    turn = typical(interleaved(ours, plain, rounds=ROUNDS, clock=WALL))
    return judge(
        f"scheduler.{name}.fire_path",
        fired / turn.candidate,
        "slots/s",
        reference=fired / turn.floor,
        goal=ratio_at_least(0.5),
    )


def _idle(name: str, large: Leader, small: Leader, fired: int, many: int) -> Result:
    """The same firings among many idle schedules and among few."""

    def among(leader: Leader) -> Callable[[int], None]:
        def work(_number: int) -> None:
            assert leader.plan_minute() == fired

        return work

    among(small)(0)  # As warm as the other one is by now.
    turn = typical(interleaved(among(large), among(small), rounds=ROUNDS, clock=WALL))
    return judge(
        f"scheduler.{name}.idle_{many}",
        turn.candidate / fired * 1e6,
        "us/slot",
        reference=turn.floor / fired * 1e6,
        goal=ratio_at_most(1.3),
    )
