"""Area `history`: what a record of each ended message costs, beside the same without records.

A worker drains a backlog, with and without history in turn. A record is looked up in a database
with many partitions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

from bench.beds import Bed, PostgresBed, SqliteBed, postgres_bed, postgres_server, sqlite_bed
from bench.harness import Result, bench, judge, ratio_at_least, ratio_at_most, sized, value_under
from bench.worker_bench import SIZE, drained_per_second
from tickwork.core.message.history import HistoryDefault, HistoryKept, drop_at
from tickwork.core.model import DEFAULT, SYSTEM

DRAINED = 100_000
DRAINED_QUICK = 20_000
ROUNDS = 3
BYTES_MAX = 150

RECORDS = 10_000_000
RECORDS_QUICK = 200_000
PARTITIONS = 100
CHUNK = 100
LOOK_UPS = 200

FIRST_AFTER = timedelta(hours=100)
"""From now to the first hour: later than those that have partitions."""


@bench("history")
def postgres_drain() -> Iterator[Result]:
    """A backlog drained with and without records, and the bytes of a record."""
    with postgres_server() as server:
        yield from _drains("postgres", lambda: postgres_bed(server))


@bench("history")
def sqlite_drain() -> Iterator[Result]:
    """The same on one file."""
    yield from _drains("sqlite", sqlite_bed)


def _drains(name: str, make_bed: Callable[[], AbstractContextManager[Any]]) -> Iterator[Result]:
    messages = sized(DRAINED, quick=DRAINED_QUICK)
    for way, size, bound in (("per_message", 0, 0.85), ("batches", SIZE, 0.8)):
        turns: list[tuple[float, float]] = []
        bytes_each = 0.0
        for _ in range(ROUNDS):
            rates: dict[HistoryKept, float] = {}
            kinds: tuple[HistoryKept, HistoryKept] = ("off", "all")
            for kept in kinds:
                with make_bed() as bed:
                    bed.run(bed.store.history.set_default(SYSTEM, HistoryDefault(kept)))
                    rates[kept] = drained_per_second(bed, messages, size)
                    if kept == "all":
                        bytes_each = _bytes_of_records(bed) / messages
            turns.append((rates["all"], rates["off"]))
        ours, beside = sorted(turns, key=lambda turn: turn[0] / turn[1])[ROUNDS // 2]
        yield judge(
            f"history.{name}.{way}",
            ours,
            "messages/s",
            reference=beside,
            goal=ratio_at_least(bound),
        )
        yield judge(
            f"history.{name}.{way}_bytes",
            bytes_each,
            "bytes",
            reference=BYTES_MAX,
            goal=ratio_at_most(1.0),
        )


def _bytes_of_records(bed: Any) -> int:
    """Bytes on disk of all records with their indexes."""
    if isinstance(bed, SqliteBed):
        with closing(sqlite3.connect(bed.path)) as connection:
            (size,) = connection.execute(
                "SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%tickwork_message_history%'"
            ).fetchone()
        return int(size)
    return int(
        bed.run(
            bed.connection.fetchval(
                "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits "
                "WHERE inhparent = 'tickwork_message_history'::regclass"
            )
        )
    )


@bench("history")
def postgres_look_up() -> Iterator[Result]:
    """One id among ten million in a hundred partitions."""
    records = sized(RECORDS, quick=RECORDS_QUICK)
    with postgres_server() as server, postgres_bed(server) as bed:
        _fill(bed, records)
        ids = bed.run(
            bed.connection.fetch(
                "SELECT (records[1]).id FROM tickwork_message_history "
                "TABLESAMPLE SYSTEM (1) LIMIT $1",
                LOOK_UPS,
            )
        )
        took = sorted(_look_up(bed, row["id"]) for row in ids)
        yield judge(
            "history.postgres.look_up_p99",
            took[int(len(took) * 0.99)] * 1e3,
            "ms",
            goal=value_under(20),
        )


def _look_up(bed: Bed, message_id: Any) -> float:
    began = perf_counter()
    bed.run(bed.store.history.get(DEFAULT, message_id))
    return perf_counter() - began


def _fill(bed: PostgresBed, records: int) -> None:
    """Chunks of a hundred records in a hundred partitions, as many hours: of messages that ended
    within the hour in which they were sent, and are kept for a day."""
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + FIRST_AFTER
    for partition in range(PARTITIONS):
        hour = first + partition * timedelta(hours=1)
        dropped = drop_at(hour, HistoryDefault().history_seconds)
        bed.run(
            bed.connection.execute(
                f"CREATE TABLE tickwork_bench_{partition} PARTITION OF tickwork_message_history "
                f"FOR VALUES IN ('{dropped.isoformat()}')"
            )
        )
        values = (hour, records // PARTITIONS // CHUNK, int(hour.timestamp() * 1_000), dropped)
        bed.run(bed.connection.execute(_CHUNKS, *values))
    bed.run(bed.connection.execute("ANALYZE tickwork_message_history"))


_CHUNKS = """
INSERT INTO tickwork_message_history (ended_at, drop_at, tenant, queue, node, records, marks)
SELECT
    $1::timestamptz + n * interval '1 second', $4::timestamptz, 'default', 'work', 'node',
    array_agg((
        id, 'done', NULL, 1, now(), now(), 'order.placed', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL
    )::tickwork_ended),
    array_agg(DISTINCT hashtext(left(id::text, 10)))
FROM generate_series(1, $2::integer) AS n
CROSS JOIN LATERAL (
    SELECT (lpad(to_hex($3::bigint + n * 1000), 12, '0')
        || '7' || left(random, 3) || '8' || right(random, 15))::uuid AS id
    FROM generate_series(1, 100) AS i, md5(random()::text || i) AS random WHERE n > 0
) AS ids
GROUP BY n
"""
"""Chunks of a partition: $2 of them, one a second, whose ids are of the milliseconds from $3 on."""
