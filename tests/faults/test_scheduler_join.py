"""Nodes join and leave, and the number of shards changes, under load: no slot is affected."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.fleet import BOUND_SECONDS, Fleet
from tests.faults.open_store import opened
from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.model import SHARDS
from tickwork.ops.cluster import reshard
from tickwork.store.contract import Store

NODES = 3
CHANGES = 1
CHANGES_OF_A_SOAK = 40
LONG_SECONDS = 600.0
"""A lease that does not expire during a test: shards move only by handover."""


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    async with opened(home.url) as other:
        yield other


async def evenly_led(store: Store, nodes: int) -> None:
    """Waits until all nodes lead equal shares."""

    async def is_even() -> bool:
        holders = [shard.node for shard in await store.shards.list(SYSTEM)]
        shares = sorted(holders.count(holder) for holder in {*holders} - {None})
        return None not in holders and shares[0] == SHARDS // nodes and len(shares) == nodes

    await eventually(is_even, timeout_seconds=BOUND_SECONDS, what="equal shares")


async def come_and_go(fleet: Fleet, store: Store, *, changes: int) -> None:
    """Nodes leave one after the other, and others join."""
    await fleet.prepare(store)
    nodes: list[Child] = [fleet.start(ttl_seconds=LONG_SECONDS) for _ in range(NODES)]
    await evenly_led(store, NODES)
    for number in range(changes):
        leaving = nodes[number % NODES]
        leaving.terminate()
        await leaving.succeeded(BOUND_SECONDS)
        await evenly_led(store, NODES - 1)
        nodes[number % NODES] = fleet.start(ttl_seconds=LONG_SECONDS)
        await evenly_led(store, NODES)
    assert await fleet.judge(store) == ()


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_no_slot_is_lost_or_duplicated_while_nodes_join_and_leave(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    await come_and_go(Fleet(home.url, children, tmp_path), store, changes=CHANGES)


async def test_no_slot_is_lost_or_duplicated_while_the_number_of_shards_changes(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path)
    await fleet.prepare(store)
    for _ in range(2):
        await fleet.started(ttl_seconds=LONG_SECONDS)
    for count in (256, 4, SHARDS):
        done = await reshard(store, count, wait_seconds=BOUND_SECONDS)
        assert (done.shards, done.led, done.schedulers) == (count, count, 2)
    assert await fleet.judge(store) == ()


@pytest.mark.soak
async def test_no_slot_is_lost_or_duplicated_while_many_nodes_join_and_leave(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    await come_and_go(Fleet(home.url, children, tmp_path), store, changes=CHANGES_OF_A_SOAK)
