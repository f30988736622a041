"""A leader frozen beyond its lease during a write: others plan, and its write is refused."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from tests.conformance import barriers
from tests.faults import tables
from tests.faults.fleet import BOUND_SECONDS, Fleet, leads
from tests.faults.open_store import opened
from tests.faults.programs.leader import POINTS
from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import SYSTEM
from tickwork.store.contract import Store

FREEZES_OF_A_SOAK = 25
FREEZES_MAX = 50
LOCKED_SECONDS_MAX = 1.0
BUSY = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    " AND state <> 'idle' AND wait_event_type IS DISTINCT FROM 'Lock'"
)
"""Connections inside a transaction that wait for no lock."""


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    async with opened(home.url) as other:
        yield other


async def frozen_at(sleeper: Child, point: str, url: str) -> None:
    """Stops it at a point; on SQLite not while another of its threads is writing: the file would be
    locked for everyone while it is frozen."""
    for _ in range(FREEZES_MAX):
        sleeper.arm(point, "stop")
        await eventually(lambda: sleeper.is_frozen, timeout_seconds=BOUND_SECONDS, what=point)
        if not tables.is_sqlite(url) or is_writable(url):
            return
        sleeper.cont()
    raise AssertionError("it writes whenever it is frozen")


async def frozen_between_statements(sleeper: Child, url: str) -> None:
    """Stops it while all of its connections are idle or wait for a lock. Otherwise its driver may
    have prepared a statement and not run it yet: the server does not see that as idle, and the
    transaction keeps its locks for a minute, or (before 17) while the process is frozen."""
    connection = await asyncpg.connect(url)

    async def is_between() -> bool:
        return not await connection.fetchval(BUSY)

    async def is_stopped_between() -> bool:
        if not await is_between():
            return False
        sleeper.stop()
        if await is_between():
            return True
        sleeper.cont()
        return False

    try:
        await eventually(is_stopped_between, timeout_seconds=BOUND_SECONDS)
    finally:
        await connection.close()


def is_writable(url: str) -> bool:
    """Whether no process holds the write lock."""
    file = sqlite3.connect(tables.path_of(url), timeout=LOCKED_SECONDS_MAX, isolation_level=None)
    with closing(file):
        try:
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        file.execute("ROLLBACK")
        return True


async def taken_over(store: Store, sleeper: Child) -> None:
    """Waits until no shard is led by a frozen node."""
    node = await leads(sleeper)

    async def is_taken() -> bool:
        holders = {shard.node for shard in await store.shards.list(SYSTEM)}
        return not holders & {None, node}

    await eventually(is_taken, timeout_seconds=BOUND_SECONDS, what="others to take over")


async def goes_on(sleeper: Child) -> None:
    """Waits until it leads something again, under a new identity."""
    before = len(sleeper.events("held"))

    def leads_again() -> bool:
        return any(event.facts["shards"] for event in sleeper.events("held")[before:])

    await eventually(leads_again, timeout_seconds=BOUND_SECONDS, what="it to lead again")


@pytest.mark.parametrize(
    "home", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)], indirect=True
)
async def test_a_frozen_leader_that_continues_before_its_write_changes_nothing(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path)
    await fleet.prepare(store)
    sleeper = await fleet.started()
    await fleet.started()
    await frozen_at(sleeper, "planning", home.url)
    await taken_over(store, sleeper)
    sleeper.cont()
    await goes_on(sleeper)
    assert await fleet.judge(store) == ()


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_plan_running_in_the_server_commits_under_the_old_token_or_not_at_all(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path)
    await fleet.prepare(store)
    sleeper = await fleet.started()
    held = "INSERT ON tickwork_messages FOR EACH ROW"
    async with barriers.barrier(home.url, before=held) as barrier:
        await barrier.reached()
        # The server has its statement: it commits while no one is there to receive the result.
        await frozen_between_statements(sleeper, home.url)
        fleet.start()
        await eventually(barrier.somebody_waits_for_who_is_held, timeout_seconds=BOUND_SECONDS)
        await barrier.opens()
        await taken_over(store, sleeper)
        # Only now the barrier is removed: a process frozen while it prepares a statement locks the
        # table.
        sleeper.cont()
    await goes_on(sleeper)
    assert await fleet.judge(store) == ()


@pytest.mark.soak
async def test_many_freezes_lose_and_duplicate_nothing(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path, seed=3)
    await fleet.prepare(store)
    nodes = [await fleet.started() for _ in range(2)]
    for number in range(FREEZES_OF_A_SOAK):
        sleeper = nodes[number % 2]
        await frozen_at(sleeper, fleet.chance.choice(POINTS), home.url)
        await taken_over(store, sleeper)
        sleeper.cont()
        await goes_on(sleeper)
    assert await fleet.judge(store) == ()
