"""Taking and giving up shards concurrently on PostgreSQL: a node without the role leads nothing."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.conformance.barriers import barrier
from tests.conformance.schedule_acts import join_scheduler
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.model import SHARDS
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    opened = await home.open(clock)
    yield opened
    await opened.close()


async def test_giving_up_includes_shards_that_are_being_taken(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """Another thread of the same node gives up. A shard it cannot see yet would stay with the node,
    and no one takes shards from a living node."""
    node, other = await join_scheduler(store), await home.open(clock)
    async with barrier(home.url, before="UPDATE ON tickwork_shards FOR EACH ROW") as held:
        taking = asyncio.create_task(store.shards.hold(SYSTEM, node))
        await held.reached()
        giving_up = asyncio.create_task(other.shards.give_up(SYSTEM, node))
        await eventually(held.somebody_waits_for_who_is_held, what="who gives up to wait")
        await held.opens()
        assert len(await taking) == SHARDS
        assert await giving_up == SHARDS
    assert {shard.node for shard in await store.shards.list(SYSTEM)} == {None}
    await other.close()
