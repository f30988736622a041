"""Area `queue`: sending, claiming and settling, against plain SQL in the same run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import asyncpg

from bench import postgres_floor, sqlite_floor
from bench.beds import (
    QUEUE,
    Bed,
    PostgresBed,
    batches,
    counted,
    message,
    pass_all,
    postgres_bed,
    postgres_server,
    send_all,
    slow_commits,
    sqlite_bed,
)
from bench.harness import (
    WALL,
    Result,
    Turn,
    bench,
    fastest,
    interleaved,
    judge,
    ratio_at_least,
    ratio_at_most,
    typical,
)
from tests.kit.postgres_proxy import PostgresProxy
from tickwork.core.model import DEFAULT
from tickwork.store.postgres import PostgresStore

SIZE = 100
PER_ROUND = 5_000
ROUNDS = 9
MANY = 1_000_000
FEW = 1_000
SENDERS = 64
COMMIT_SECONDS = 0.001
"""What a commit costs where the disk does not flatter; the same for both sides."""

GROWTH_MESSAGES = 500
GROWTH_ROUNDS = 21


@bench("queue")
def postgres_throughput() -> Iterator[Result]:
    """Batches of 100 in and out, one after the other."""
    with postgres_server() as server, postgres_bed(server) as ours, postgres_bed(server) as plain:
        now = datetime.now(UTC)
        sent = [batches(PER_ROUND, SIZE) for _ in range(ROUNDS)]
        bound = [postgres_floor.arguments(plain, PER_ROUND, SIZE, now) for _ in range(ROUNDS)]
        turns = interleaved(
            lambda number: ours.send(sent[number]),
            lambda number: postgres_floor.insert(plain, bound[number]),
            rounds=ROUNDS,
            clock=WALL,
        )
        yield _rate("queue.postgres.enqueue", turns, 0.6)
        turns = interleaved(
            lambda _: ours.pass_through(PER_ROUND, SIZE),
            lambda _: postgres_floor.pass_through(plain, PER_ROUND, SIZE),
            rounds=ROUNDS,
            clock=WALL,
        )
        yield _rate("queue.postgres.claim_settle", turns, 0.6)
        yield from _costs(ours)


@bench("queue")
def sqlite_throughput() -> Iterator[Result]:
    """The same on one file."""
    with sqlite_bed() as bed:
        now = int(datetime.now(UTC).timestamp() * 1_000_000)
        sent = [batches(PER_ROUND, SIZE) for _ in range(ROUNDS)]
        bound = [sqlite_floor.arguments(bed, PER_ROUND, SIZE, now) for _ in range(ROUNDS)]
        turns = interleaved(
            lambda number: bed.send(sent[number]),
            lambda number: sqlite_floor.insert(bed, bound[number]),
            rounds=ROUNDS,
            clock=WALL,
        )
        yield _rate("queue.sqlite.enqueue", turns, 0.6)
        turns = interleaved(
            lambda _: bed.pass_through(PER_ROUND, SIZE),
            lambda _: sqlite_floor.pass_through(bed, PER_ROUND, SIZE, now),
            rounds=ROUNDS,
            clock=WALL,
        )
        yield _rate("queue.sqlite.claim_settle", turns, 0.6)
        bed.empty_log()
        with counted() as seen:
            bed.send(batches(FEW, SIZE))
            bed.pass_through(FEW, SIZE)
        yield judge("queue.sqlite.wal_bytes", bed.log_bytes() / FEW, "bytes/message")
        yield judge("queue.sqlite.commits", seen.commits / FEW, "commits/message")
        yield judge("queue.sqlite.statements", seen.statements / FEW, "statements/message")


@bench("queue")
def postgres_group_commit() -> Iterator[Result]:
    """64 callers who each send one message, where a commit takes a millisecond."""
    slow = {"commit_delay": f"{COMMIT_SECONDS * 1e6:.0f}", "commit_siblings": "0"}
    with postgres_server(**slow) as server, postgres_bed(server) as bed:
        now = datetime.now(UTC)
        singles = [postgres_floor.arguments(bed, SENDERS, 1, now) for _ in range(ROUNDS)]
        turns = interleaved(
            lambda _: _send_at_once(bed),
            lambda number: postgres_floor.insert(bed, singles[number]),
            rounds=ROUNDS,
            clock=WALL,
        )
        yield _together("queue.postgres.single_sends_64", turns)


@bench("queue")
def sqlite_group_commit() -> Iterator[Result]:
    """The same on one file; SQLite has no such setting, so each COMMIT waits that long here."""
    with slow_commits(COMMIT_SECONDS), sqlite_bed() as bed:
        now = int(datetime.now(UTC).timestamp() * 1_000_000)
        singles = [sqlite_floor.arguments(bed, SENDERS, 1, now) for _ in range(ROUNDS)]
        turns = interleaved(
            lambda _: _send_at_once(bed),
            lambda number: sqlite_floor.insert(bed, singles[number]),
            rounds=ROUNDS,
            clock=WALL,
        )
        yield _together("queue.sqlite.single_sends_64", turns)


def _send_at_once(bed: Bed) -> None:
    async def together() -> None:
        await asyncio.gather(
            *(bed.store.messages.send(DEFAULT, QUEUE, message()) for _ in range(SENDERS))
        )

    bed.run(together())


def _together(name: str, turns: list[Turn]) -> Result:
    turn = typical(turns)
    return judge(
        name,
        SENDERS / turn.candidate,
        "messages/s",
        reference=SENDERS / turn.floor,
        goal=ratio_at_least(5),
    )


@bench("queue")
def sqlite_growth() -> Iterator[Result]:
    """The same claim with few and with many waiting, and after a million have passed."""
    with sqlite_bed() as small, sqlite_bed() as large:
        small.fill(FEW)
        large.fill(MANY)
        yield _growth("queue.sqlite.waiting_1000000", large, small, 1.3)
        _through(large, MANY)
        yield _growth("queue.sqlite.passed_1000000", large, small, 1.5)


@bench("queue")
def postgres_growth() -> Iterator[Result]:
    """The same claim with few and with many waiting, and behind a million dead rows."""
    with postgres_server() as server, postgres_bed(server) as small, postgres_bed(server) as large:
        small.fill(FEW)
        large.fill(MANY)
        yield _growth("queue.postgres.waiting_1000000", large, small, 1.3)
        with _old_snapshot(large):
            _through(large, MANY)
            yield _growth("queue.postgres.old_snapshot", large, small, 1.5)
        large.run(large.connection.execute("VACUUM (ANALYZE) tickwork_messages"))
        yield _growth("queue.postgres.passed_1000000", large, small, 1.5)


@contextmanager
def _old_snapshot(bed: PostgresBed) -> Iterator[None]:
    """A transaction elsewhere that sees the past, so that nothing dead can be removed."""
    connection = bed.run(asyncpg.connect(bed.url))
    bed.run(connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ"))
    bed.run(connection.fetchval("SELECT count(*) FROM tickwork_queues"))
    try:
        yield
    finally:
        bed.run(connection.close())


def _through(bed: Bed, count: int) -> None:
    """Sends and handles that many beside what is waiting."""
    for _ in range(count // 50_000):
        bed.fill(50_000)
        bed.pass_through(50_000, 500)


def _growth(name: str, large: Bed, small: Bed, bound: float) -> Result:
    """Claims and settles a little on both; what was taken is put back while no clock runs."""
    turns: list[Turn] = []
    for _ in range(GROWTH_ROUNDS):
        turns += interleaved(
            lambda _: large.pass_through(GROWTH_MESSAGES, SIZE),
            lambda _: small.pass_through(GROWTH_MESSAGES, SIZE),
            rounds=1,
            clock=WALL,
        )
        for bed in (large, small):
            bed.send(batches(GROWTH_MESSAGES, SIZE))
    turn = typical(turns)
    return judge(
        name,
        turn.candidate / GROWTH_MESSAGES * 1e6,
        "µs/message",
        reference=turn.floor / GROWTH_MESSAGES * 1e6,
        goal=ratio_at_most(bound),
    )


def _costs(bed: PostgresBed) -> Iterator[Result]:
    """What one message costs the server from its send to its ack, without a goal."""
    before = (bed.wal_bytes(), bed.commits())
    bed.send(batches(PER_ROUND, SIZE))
    bed.pass_through(PER_ROUND, SIZE)
    yield _each("queue.postgres.wal_bytes", bed.wal_bytes() - before[0], "bytes/message")
    yield _each("queue.postgres.commits", bed.commits() - before[1], "commits/message")
    yield _each("queue.postgres.statements", asyncio.run(_statements(bed)), "statements/message")


async def _statements(bed: PostgresBed) -> int:
    """How many statements the same takes, counted on the wire."""
    async with PostgresProxy(bed.url) as proxy:
        store = await PostgresStore.open(proxy.url)
        proxy.forget()
        await send_all(store, batches(PER_ROUND, SIZE))
        await pass_all(store, bed.node, PER_ROUND, SIZE)
        seen = len(proxy.statements)
        await store.close()
    return seen


def _each(name: str, total: int, unit: str) -> Result:
    return judge(name, total / PER_ROUND, unit)


def _rate(name: str, turns: list[Turn], bound: float) -> Result:
    turn = fastest(turns)
    return judge(
        name,
        PER_ROUND / turn.candidate,
        "messages/s",
        reference=PER_ROUND / turn.floor,
        goal=ratio_at_least(bound),
    )
