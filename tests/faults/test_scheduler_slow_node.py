"""A leader is killed while another node is slow: the healthy node leads what nobody leads.

When it does is a law of `tests/conformance/test_shards.py`, in virtual time: here are real nodes on
a machine that may be busy.
"""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.fleet import BOUND_SECONDS, Fleet, leads
from tests.faults.open_store import opened
from tests.kit.postgres_proxy import PostgresProxy
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.model import SHARDS
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

TTL_SECONDS = 6.0
DELAY_SECONDS = 0.4
"""Seconds by which everything between the slow node and its database is late, in each direction."""


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    async with opened(home.url) as other:
        yield other


@pytest.fixture
async def slow_line(home: Home) -> AsyncIterator[PostgresProxy]:
    async with PostgresProxy(home.url) as proxy:
        yield proxy


@pytest.mark.soak
async def test_free_shards_are_led_again_in_time_beside_a_slow_node(
    store: Store, home: Home, slow_line: PostgresProxy, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path)
    await fleet.prepare(store, count=20)
    killed = await fleet.started(ttl_seconds=TTL_SECONDS)
    slow = await fleet.started(ttl_seconds=TTL_SECONDS, url=slow_line.url)
    healthy = await fleet.started(ttl_seconds=TTL_SECONDS)

    async def leaders() -> Counter[object]:
        return Counter(state.node for state in await store.shards.list(SYSTEM))

    async def are_even() -> bool:
        counts = (await leaders()).values()
        return len(counts) == 3 and max(counts) - min(counts) <= 1

    await eventually(are_even, timeout_seconds=BOUND_SECONDS)
    slow_line.delay_to_client_seconds = slow_line.delay_to_server_seconds = DELAY_SECONDS
    killed.kill9()

    async def all_are_led() -> bool:
        found = await leaders()
        return None not in found and len(found) < 3

    await eventually(all_are_led, timeout_seconds=BOUND_SECONDS)
    healthy_id = await leads(healthy)

    async def healthy_leads_all() -> bool:
        return (await leaders())[healthy_id] == SHARDS

    await eventually(healthy_leads_all, timeout_seconds=BOUND_SECONDS)
    slow_line.delay_to_client_seconds = slow_line.delay_to_server_seconds = 0.0
    assert slow.returncode is None, slow.stderr()
    assert await fleet.judge(store) == ()
