"""Firings are partitioned by day on PostgreSQL: created ahead and dropped without waits."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.conformance.acts import ALL, make_queue, pull_one, send, settle
from tests.conformance.barriers import rival
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.history import HistoryDefault, drop_at
from tickwork.core.model import DEFAULT, SYSTEM, Ending, Fate
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS, FiringResult, FiringStatus
from tickwork.errors import StoreUnavailable
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.postgres import partitions
from tickwork.store.postgres.engine.migrate import migrate
from tickwork.store.postgres.partitions import DAYS_AHEAD
from tickwork.store.shared.archive import Archive

on_postgres = pytest.mark.parametrize("home", ["postgres"], indirect=True)

DAY_SECONDS = 86_400
SCHEDULE = new_id()


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    """A store on the database, in virtual time."""
    opened = await home.open(clock)
    await make_queue(opened)
    yield opened
    await opened.close()


async def record(store: Store, clock: VirtualClock) -> None:
    """Records one more firing, now."""
    await send(store, schedule_id=SCHEDULE, slot=clock.now())
    held = (await pull_one(store)).current_claim
    succeeded = FiringResult(status=FiringStatus.SUCCEEDED)
    await settle(store, Ending(claim=held, fate=Fate.ACK, effects=(succeeded,)))


async def firings(store: Store) -> int:
    return len(await store.firings.list(DEFAULT, SCHEDULE, ALL))


async def prune(store: Store) -> int:
    return (await store.pruner.prune(SYSTEM, ALL)).firings


async def days(url: str, table: str = "tickwork_firings") -> dict[str, int]:
    """Number of rows per partition, including empty ones."""
    connection = await asyncpg.connect(url)
    names = await connection.fetch(
        f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{table}'::regclass"
    )
    found = {
        name.removeprefix(f"{table}_"): await connection.fetchval(f"SELECT count(*) FROM {name}")
        for (name,) in names
    }
    await connection.close()
    return found


def named(clock: VirtualClock, ahead: int = 0) -> str:
    return f"{clock.now() + timedelta(days=ahead):%Y%m%d}"


@on_postgres
async def test_partitions_for_today_and_the_next_days_are_created_once(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    before = await days(home.url)
    for _ in range(2):
        await prune(store)
        coming = {named(clock, ahead) for ahead in range(DAYS_AHEAD)}
        assert (await days(home.url)).keys() - before.keys() == coming
    await record(store, clock)
    assert (await days(home.url))[named(clock)] == 1


@on_postgres
async def test_a_partition_is_dropped_when_all_of_its_day_is_old(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await prune(store)
    day = named(clock)
    for _ in range(3):
        await record(store, clock)
    clock.advance(seconds=FIRINGS_KEPT_SECONDS)
    assert (await prune(store), await firings(store)) == (0, 3)
    clock.advance(seconds=DAY_SECONDS)
    assert (await prune(store), await firings(store)) == (3, 0)
    assert day not in await days(home.url)


@on_postgres
async def test_a_day_with_records_gets_no_partition(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await record(store, clock)
    assert await prune(store) == 0
    found = await days(home.url)
    assert (named(clock) in found, found["default"], found[named(clock, 1)]) == (False, 1, 0)
    await record(store, clock)
    clock.advance(seconds=FIRINGS_KEPT_SECONDS)
    assert (await prune(store), await firings(store)) == (2, 0)


@on_postgres
async def test_the_pruner_does_not_wait_for_a_locked_table(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """A long read of the records delays new partitions, and recording continues."""
    before = await days(home.url)
    async with rival(home.url) as reader:
        await reader.does("SELECT count(*) FROM tickwork_firings")
        await prune(store)
        await record(store, clock)
    assert (await days(home.url)).keys() == before.keys()
    clock.advance(seconds=DAY_SECONDS)
    await prune(store)
    assert named(clock) in await days(home.url)


@on_postgres
async def test_a_day_is_archived_before_it_is_dropped(
    home: Home,
    store: Store,
    clock: VirtualClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions, "BLOCKS_READ", 1)
    await prune(store)
    day, count = named(clock), 120
    for _ in range(count):
        clock.advance(seconds=1)
        await record(store, clock)
    written = {str(firing.id) for firing in await store.firings.list(DEFAULT, SCHEDULE, ALL)}
    clock.advance(seconds=FIRINGS_KEPT_SECONDS + 2 * DAY_SECONDS)
    nowhere = Archive(tmp_path / "missing")
    with pytest.raises(StoreUnavailable, match="No such file or directory"):
        await store.pruner.prune(SYSTEM, ALL, archive=nowhere)
    assert (await days(home.url))[day] == count
    found = await store.pruner.prune(SYSTEM, ALL, archive=Archive(tmp_path))
    assert found.firings == count
    assert day not in await days(home.url)
    lines = gzip.decompress((tmp_path / f"firings-{day}.jsonl.gz").read_bytes()).splitlines()
    assert {json.loads(line)["id"] for line in lines} == written
    assert len(lines) == count


@on_postgres
async def test_two_concurrent_pruners_create_each_partition_once(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    other = await home.open(clock)
    for _ in range(3):
        clock.advance(seconds=DAY_SECONDS)
        await asyncio.gather(*(prune(opened_store) for opened_store in (store, other) * 2))
        await prune(store)
        assert {named(clock, ahead) for ahead in range(DAYS_AHEAD)} <= (await days(home.url)).keys()
    await other.close()


async def test_a_new_database_has_partitions_for_its_first_days(postgres_url: str) -> None:
    before = datetime.now(UTC)
    await migrate(postgres_url)
    made = (await days(postgres_url)).keys()
    firsts = (before, datetime.now(UTC))  # Midnight may come in between.
    expected = [
        {"default", *(f"{first + timedelta(days=ahead):%Y%m%d}" for ahead in range(3))}
        for first in firsts
    ]
    assert made in expected


@on_postgres
async def test_records_of_the_history_are_dropped_with_the_partition_of_their_hour(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """None is in the default partition, whose rows are deleted."""
    await prune(store)
    await send(store)
    held = (await pull_one(store)).current_claim
    await settle(store, Ending(claim=held, fate=Fate.ACK))
    hour = f"{drop_at(clock.now(), HistoryDefault().history_seconds):%Y%m%d%H}"
    found = await days(home.url, "tickwork_message_history")
    assert (found[hour], found["default"]) == (1, 0)
    clock.advance(seconds=DAY_SECONDS + 7_200)
    await prune(store)
    found = await days(home.url, "tickwork_message_history")
    assert hour not in found
    assert found["default"] == 0
