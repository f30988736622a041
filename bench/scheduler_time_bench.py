"""Area `scheduler`: nodes as processes while time really passes.

Lateness is how long after it was due a slot's message could be claimed: on PostgreSQL by the time
of the commit that stored it, on SQLite by when another process saw it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

from bench.beds import Bed, PostgresBed, SqliteBed, postgres_bed, postgres_server, sqlite_bed
from bench.harness import Goal, Result, bench, judge, ratio_at_least, ratio_at_most, sized
from bench.scheduler_beds import (
    AHEAD,
    TTL_SECONDS,
    at_once,
    each_minute,
    idle,
    is_planned,
    leaders,
    make,
    overdue,
    soon,
)
from bench.scheduler_floor import PostgresFloor, SqliteFloor, message_ids
from bench.scheduler_nodes import node, watched

MANY = 1_000_000
MANY_QUICK = 20_000
FEW = 10_000
FEW_QUICK = 1_000
SECONDS = 30
SECONDS_QUICK = 8
RATES = (1_000, 5_000)
LATE_SECONDS_MAX = 0.25
LAG_SHARE_MAX = 0.1
"""A leader that is behind by more than this share of the run does not keep up. That it plans ahead
would hide it: what it is late with is late for others only when it is behind by 30 seconds."""

BURST = 50_000
BURST_QUICK = 5_000
CLAIMABLE_SECONDS_MAX = 1.0
HANDLED_SECONDS_MAX = 5.0
CAUGHT_UP_SHARE_MIN = 0.4
DRAINED_AT_ONCE = 100

GIVEN_UP_SECONDS = 60.0

MEMORY_MAX = 1.2
START_SECONDS = 12.0
"""So long before it has something to do a node is started."""

MAKING_FACTOR = 2.0
"""Making is given so many times what it took before: others may be at work."""

POLL_SECONDS = 0.05

DELETED = "DELETE FROM tickwork_{}"
HANDLED = "SELECT count(*), max(finished_at) FROM tickwork_firings WHERE status = 'succeeded'"


class Field:
    """A database with idle schedules, and how fast it makes others."""

    def __init__(self, name: str, bed: Bed, schedules: int) -> None:
        self.name, self.bed = name, bed
        began = time.perf_counter()
        make(bed, idle(schedules))
        self._per_schedule = (time.perf_counter() - began) / schedules

    def ready_in(self, schedules: int) -> float:
        """So many seconds from now as many schedules are made, and a node has started."""
        return self._per_schedule * schedules * MAKING_FACTOR + START_SECONDS

    def clear(self) -> None:
        """Takes away what has fired, and what would fire soon."""
        soon_due = " WHERE fired > 0 OR look_at < "
        for table in ("messages", "firings"):
            self._execute(DELETED.format(table))
        if isinstance(self.bed, PostgresBed):
            self._execute(DELETED.format("schedules") + soon_due + "now() + interval '9 days'")
            self._execute("VACUUM (ANALYZE)")
        else:
            limit = int((datetime.now(UTC) + timedelta(days=9)).timestamp() * 1e6)
            self._execute(DELETED.format("schedules") + soon_due + str(limit))

    def handled(self) -> tuple[int, datetime | None]:
        """How many firings succeeded, and when the last of them did."""
        if isinstance(self.bed, PostgresBed):
            count, last = self.bed.run(self.bed.connection.fetchrow(HANDLED)) or (0, None)
            return count, last
        assert isinstance(self.bed, SqliteBed)
        with closing(sqlite3.connect(self.bed.path)) as reading:
            count, at = reading.execute(HANDLED).fetchone()
        return count, None if at is None else datetime.fromtimestamp(at / 1e6, UTC)

    def _execute(self, statement: str) -> None:
        if isinstance(self.bed, PostgresBed):
            self.bed.run(self.bed.connection.execute(statement))
        else:
            assert isinstance(self.bed, SqliteBed)
            with closing(sqlite3.connect(self.bed.path, timeout=60)) as connection:
                connection.execute(statement)
                connection.commit()


@bench("scheduler")
def postgres_time() -> Iterator[Result]:
    """Steady firing, a burst and memory among a million schedules on PostgreSQL."""
    with (
        postgres_server(track_commit_timestamp="on") as server,
        postgres_bed(server) as large,
        postgres_bed(server) as small,
    ):
        yield from _time("postgres", large, small)


@bench("scheduler")
def sqlite_time() -> Iterator[Result]:
    """The same on one file."""
    with sqlite_bed() as large, sqlite_bed() as small:
        yield from _time("sqlite", large, small)


@bench("scheduler")
def takeover() -> Iterator[Result]:
    """From `kill -9` of a leader until another leads all that it led."""
    with postgres_server() as server, postgres_bed(server) as database, sqlite_bed() as file:
        for name, bed in {"postgres": database, "sqlite": file}.items():
            yield judge(
                f"scheduler.{name}.takeover",
                _takeover(bed),
                "s",
                reference=TTL_SECONDS,
                goal=_at_most(TTL_SECONDS + 1),
            )


def _time(name: str, large: Bed, small: Bed) -> Iterator[Result]:
    many = Field(name, large, sized(MANY, quick=MANY_QUICK))
    few = Field(name, small, sized(FEW, quick=FEW_QUICK))
    seconds, memory = sized(SECONDS, quick=SECONDS_QUICK), list[int]()
    for rate in RATES:
        memory.append((yield from _steady(many, f"steady_{rate}", rate, seconds)))
    # What an unfinished firing has a say in is decided when it is due, and not ahead.
    yield from _steady(many, f"steady_{RATES[0]}_present", RATES[0], seconds, overlap="skip")
    beside = yield from _steady(few, f"steady_{RATES[0]}_few", RATES[0], seconds)
    yield judge(
        f"scheduler.{name}.memory_{sized(MANY, quick=MANY_QUICK)}",
        memory[0] / 2**20,
        "MiB",
        reference=beside / 2**20,
        goal=ratio_at_most(MEMORY_MAX),
    )
    yield from _burst(many)
    yield _catch_up(many)


def _steady(
    field: Field, name: str, rate: int, seconds: int, **more: str
) -> Generator[Result, None, int]:
    """So many slots a second, for so long, each of a schedule of its own; returns what memory the
    scheduler had."""
    field.clear()
    slots, spread = rate * seconds, timedelta(seconds=seconds)
    ahead = timedelta() if more else AHEAD
    first = soon(field.ready_in(slots) + ahead.total_seconds())
    make(field.bed, each_minute(slots, first, spread, **more))
    with node(field.bed, "scheduler") as leader:
        assert datetime.now(UTC) < first - ahead, "it began too late: nothing can be said"
        seen = watched(field.bed, first, first + spread, slots, ahead)
        leader.stop()
    assert seen.slots >= slots, f"{seen.slots} of {slots} slots became messages"
    prefix = f"scheduler.{field.name}.{name}"
    yield judge(
        f"{prefix}_late_p99", seen.late_p99 * 1e3, "ms", goal=_at_most(LATE_SECONDS_MAX * 1e3)
    )
    yield judge(f"{prefix}_early", seen.early, "slots", goal=_at_most(0))
    behind_max = seconds * LAG_SHARE_MAX * 1e3
    yield judge(f"{prefix}_lag_p99", seen.lag_p99 * 1e3, "ms", goal=_at_most(behind_max))
    yield judge(f"{prefix}_cpu", leader.cpu_seconds / slots * 1e6, "us/slot")
    return leader.rss_bytes_max


def _burst(field: Field) -> Iterator[Result]:
    """Many at one instant: in the queue when it comes, and handled soon."""
    field.clear()
    count = sized(BURST, quick=BURST_QUICK)
    at = soon(field.ready_in(count) + AHEAD.total_seconds())
    make(field.bed, at_once(count, at))
    given_up = at + timedelta(seconds=GIVEN_UP_SECONDS)
    with node(field.bed, "scheduler,worker") as both:
        while not is_planned(field.bed, at) and datetime.now(UTC) < given_up:
            time.sleep(POLL_SECONDS)
        claimable = datetime.now(UTC)
        time.sleep(max((at - claimable).total_seconds(), 0.0))
        done, last = field.handled()
        while done < count and datetime.now(UTC) < given_up:
            time.sleep(POLL_SECONDS * 5)
            done, last = field.handled()
        both.stop()
    name = f"scheduler.{field.name}.burst_{count}"
    late = max((claimable - at).total_seconds(), 0.0)
    yield judge(f"{name}_claimable", late, "s", goal=_at_most(CLAIMABLE_SECONDS_MAX))
    took = GIVEN_UP_SECONDS if last is None or done < count else (last - at).total_seconds()
    yield judge(f"{name}_handled", took, "s", goal=_at_most(HANDLED_SECONDS_MAX))
    yield judge(f"{name}_cpu", both.cpu_seconds / count * 1e6, "us/slot")


def _catch_up(field: Field) -> Result:
    """Many one-shots that are overdue when a node starts: from its start until the last of them is
    handled."""
    field.clear()
    count = sized(BURST, quick=BURST_QUICK)
    make(field.bed, overdue(count))
    with node(field.bed, "scheduler,worker"):
        started = datetime.now(UTC)
        given_up = started + timedelta(seconds=GIVEN_UP_SECONDS)
        done, last = field.handled()
        while done < count and datetime.now(UTC) < given_up:
            time.sleep(POLL_SECONDS * 5)
            done, last = field.handled()
    took = GIVEN_UP_SECONDS if last is None or done < count else (last - started).total_seconds()
    return judge(
        f"scheduler.{field.name}.catch_up_{count}",
        done / took,
        "slots/s",
        reference=count / _plain_catch_up(field, count),
        goal=ratio_at_least(CAUGHT_UP_SHARE_MIN),
    )


def _plain_catch_up(field: Field, count: int) -> float:
    """The seconds in which plain SQL plans and drains as many one-shots, one after the other."""
    field.clear()
    make(field.bed, overdue(count))
    ids, now = message_ids(count), datetime.now(UTC)
    if isinstance(field.bed, PostgresBed):
        floor = PostgresFloor(field.bed)
        began = time.perf_counter()
        assert floor.fire(now, ids) == count
        floor.drain(count, DRAINED_AT_ONCE, now)
        took = time.perf_counter() - began
        floor.close()
        return took
    assert isinstance(field.bed, SqliteBed)
    with closing(sqlite3.connect(field.bed.path)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        at, plain = int(now.timestamp() * 1e6), SqliteFloor(connection)
        began = time.perf_counter()
        assert plain.fire(at, ids) == count
        plain.drain(field.bed, count, DRAINED_AT_ONCE, at)
        return time.perf_counter() - began


def _takeover(bed: Bed) -> float:
    with node(bed, "scheduler") as first:
        while len(alone := leaders(bed)) != 1 or None in alone:
            time.sleep(POLL_SECONDS)
        with node(bed, "scheduler"):
            while len(both := leaders(bed)) != 2 or None in both:
                time.sleep(POLL_SECONDS)
            first.process.kill()
            began = time.perf_counter()
            survivors = both - alone
            while leaders(bed) != survivors:
                time.sleep(POLL_SECONDS)
            return time.perf_counter() - began


def _at_most(bound: float) -> Goal:
    return Goal(f"value <= {bound:g}", lambda value, _: value <= bound)
