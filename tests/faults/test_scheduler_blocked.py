"""A leader whose event loop is blocked: its lease lives on, others lead its shards, and it
continues when the loop runs again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.fleet import BOUND_SECONDS, Fleet, leads
from tests.faults.open_store import opened
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import SYSTEM
from tickwork.store.contract import Store

POINT = "planning"
TTL_SECONDS = 3.0
"""Seconds of a lease: long enough that a slow machine does not lose one."""


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    async with opened(home.url) as other:
        yield other


async def test_others_take_over_the_shards_of_a_blocked_leader_without_lost_or_duplicate_slots(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path)
    await fleet.prepare(store, count=60)
    blocked, other = [await fleet.started(ttl_seconds=TTL_SECONDS) for _ in range(2)]
    node = await leads(blocked)
    passed = len(blocked.events(POINT))
    blocked.arm(POINT, "pause")

    def is_paused() -> bool:
        return any(event.action == "pause" for event in blocked.events(POINT)[passed:])

    await eventually(is_paused, timeout_seconds=BOUND_SECONDS, what="its loop to be blocked")

    async def is_led() -> bool:
        heir = await leads(other)  # Asked each time: it may have lost a lease, too.
        return all(shard.node == heir for shard in await store.shards.list(SYSTEM))

    await eventually(is_led, timeout_seconds=BOUND_SECONDS, what="the other to lead all")
    living = {member.id: member.roles for member in await store.nodes.list(SYSTEM)}
    assert living[node] == ("worker",), "its lease lives"
    held = len(blocked.events("held"))
    blocked.release(POINT)

    def leads_again() -> bool:
        return any(event.facts["shards"] for event in blocked.events("held")[held:])

    await eventually(leads_again, timeout_seconds=BOUND_SECONDS, what="it to lead again")
    assert await leads(blocked) == node, "under the same identity"
    assert await fleet.judge(store) == ()
