"""Nodes as processes, and what is seen of them from outside while time really passes."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from bench.beds import Bed, PostgresBed, SqliteBed
from bench.scheduler_beds import AHEAD
from bench.scheduler_process import STARTED

STOP_SECONDS_MAX = 60.0
WATCH_SECONDS = 0.02
"""A file is looked at so often: what was committed is seen so much later at most."""

LATENESS = """
SELECT count(*), coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY late), 0),
    coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY late + $1), 0),
    count(*) FILTER (WHERE visible_at < due_at)
FROM (
    SELECT visible_at, due_at, extract(epoch FROM pg_xact_commit_timestamp(xmin) - due_at)::float8
        AS late
    FROM tickwork_messages WHERE due_at >= $2
) AS message
"""


class Lateness(NamedTuple):
    """Of so many slots: how long after they were due 99 of 100 could be claimed (never below 0),
    how long after a leader had to look at them, and how many could be claimed early."""

    slots: int
    late_p99: float
    lag_p99: float
    early: int


class NodeProcess:
    """A node at work."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.rss_bytes_max, self.cpu_seconds = process, 0, 0.0

    def stop(self) -> None:
        """As a user ends it; then it is known what it took."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=STOP_SECONDS_MAX)
        used = json.loads(said.splitlines()[-1])
        self.rss_bytes_max, self.cpu_seconds = used["rss_bytes_max"], used["cpu_seconds"]


@contextmanager
def node(bed: Bed, roles: str) -> Iterator[NodeProcess]:
    """A node with these roles; it has started when the block begins."""
    command = [sys.executable, "-m", "bench.scheduler_process", bed.url, "--roles", roles]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().decode().strip() == STARTED
            yield NodeProcess(process)
        finally:
            process.kill()


def watched(bed: Bed, first: datetime, last: datetime, slots: int, ahead: timedelta) -> Lateness:
    """Waits until so many slots that are due from `first` on are messages, or for long after the
    last of them was due. A slot has to be looked at `ahead` of its time."""
    end = last + AHEAD
    if isinstance(bed, PostgresBed):
        return _watched_postgres(bed, first, end, slots, ahead)
    assert isinstance(bed, SqliteBed)
    return _watched_sqlite(bed, first, end, slots, ahead)


def _watched_postgres(
    bed: PostgresBed, first: datetime, end: datetime, slots: int, ahead: timedelta
) -> Lateness:
    count = "SELECT count(*) FROM tickwork_messages WHERE due_at >= $1"
    while bed.run(bed.connection.fetchval(count, first)) < slots and datetime.now(UTC) < end:
        time.sleep(1)
    row = bed.run(bed.connection.fetchrow(LATENESS, ahead.total_seconds(), first))
    assert row is not None
    found, late, lag, early = row
    return Lateness(found, max(late, 0.0), lag, early)


def _watched_sqlite(
    bed: SqliteBed, first: datetime, end: datetime, slots: int, ahead: timedelta
) -> Lateness:
    late: list[float] = []
    since = int(first.timestamp()) * 1_000_000
    early = position = 0
    query = "SELECT place, due_at, visible_at FROM tickwork_messages WHERE place > ? ORDER BY place"
    with closing(sqlite3.connect(bed.path)) as reading:
        while len(late) < slots and datetime.now(UTC) < end:
            time.sleep(WATCH_SECONDS)
            found = reading.execute(query, (position,)).fetchall()
            now = time.time()
            for position, due_at, visible_at in found:  # noqa: B007  the last one is kept
                if due_at >= since:
                    late.append(now - due_at / 1e6)
                    early += visible_at < due_at
    p99 = sorted(late)[int(len(late) * 0.99)] if late else 0.0
    return Lateness(len(late), max(p99, 0.0), p99 + ahead.total_seconds(), early)
