"""`kill -9` of leaders while they plan: every slot is accounted for, and none fires twice."""

import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.fleet import BOUND_SECONDS, Fleet, leads
from tests.faults.open_store import opened
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import SYSTEM
from tickwork.service.scheduler.leadership import HOLD_SECONDS
from tickwork.store.contract import Store

NODES = 2
KILLS = 1
KILLS_OF_A_SOAK = 120
CHANGED = 20
TTL_SECONDS = 1.0
SLACK_SECONDS = 5.0
"""What a busy machine may add to a bound; the benchmark checks the bound itself."""


on_postgres = pytest.mark.parametrize(
    "home", ["postgres", pytest.param("sqlite", marks=pytest.mark.soak)], indirect=True
)
"""On SQLite, too, in a soak."""


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    """A store in another process than the killed ones: this one."""
    async with opened(home.url) as other:
        yield other


async def kill_by_turns(fleet: Fleet, store: Store, *, kills: int) -> None:
    """Each time another node replaces the killed one, while schedules change."""
    await fleet.prepare(store)
    nodes = [await fleet.started(is_slow=True) for _ in range(NODES)]
    for number in range(kills):
        await fleet.change(store, CHANGED)
        await fleet.kill(nodes[number % NODES])
        await fleet.change(store, CHANGED)
        nodes[number % NODES] = await fleet.started(is_slow=True)
    assert await fleet.judge(store) == ()


async def test_no_slot_is_lost_or_duplicated_when_leaders_are_killed(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    await kill_by_turns(Fleet(home.url, children, tmp_path, seed=1), store, kills=KILLS)


@pytest.mark.soak
async def test_no_slot_is_lost_or_duplicated_when_many_leaders_are_killed(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    await kill_by_turns(Fleet(home.url, children, tmp_path, seed=2), store, kills=KILLS_OF_A_SOAK)


@on_postgres
async def test_the_shards_of_a_killed_leader_are_led_again_within_its_lease_and_a_second(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path)
    await fleet.prepare(store, count=20)
    first = await fleet.started(ttl_seconds=TTL_SECONDS)
    second = await fleet.started(ttl_seconds=TTL_SECONDS)
    node = await leads(second)
    first.kill9()
    killed = time.monotonic()

    async def leads_all() -> bool:
        return all(shard.node == node for shard in await store.shards.list(SYSTEM))

    await eventually(leads_all, timeout_seconds=BOUND_SECONDS)
    seconds = time.monotonic() - killed
    sys.stderr.write(f"led again after {seconds:.2f} s\n")
    assert seconds <= TTL_SECONDS + HOLD_SECONDS + SLACK_SECONDS
    assert await fleet.judge(store) == ()
