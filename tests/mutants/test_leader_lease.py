"""A leader stops planning before others may lead its shards, however slow its responses are."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tests.stores.clock import START, VirtualClock
from tests.stores.home import Home
from tickwork.core.model import SYSTEM
from tickwork.service import node as node_module
from tickwork.service.node import Node
from tickwork.service.scheduler.leadership import Leadership
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

TTL_SECONDS = 15.0
SLOW_SECONDS = 4.0


class SlowAnswers:
    """A store's nodes with delayed responses."""

    def __init__(self, nodes: Any, clock: VirtualClock) -> None:
        self._nodes, self._clock = nodes, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nodes, name)

    async def heartbeat(self, *arguments: Any) -> Any:
        renewed = await self._nodes.heartbeat(*arguments)
        self._clock.advance(seconds=SLOW_SECONDS)
        return renewed


class TrustingNode(Node):
    """Counts the lease from the response."""

    async def _beat(self, store: Store) -> float:
        wait = await super()._beat(store)
        self.trusted_until = node_module.monotonic() + self._ttl_seconds  # type: ignore[attr-defined]
        return wait


@pytest.fixture
async def slow(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    store: Any = await home.open(clock)
    store.nodes = SlowAnswers(store.nodes, clock)
    yield store
    await store.close()


async def is_silent_when_taken(
    kind: type[Node], slow: Store, store: Store, clock: VirtualClock, patch: pytest.MonkeyPatch
) -> bool:
    """Cuts a node off after its last heartbeat; returns whether it stopped before another one took
    its shards."""

    def monotonic() -> float:
        return (clock.now() - START).total_seconds()

    patch.setattr(node_module, "monotonic", monotonic)

    async def never() -> Store:
        raise AssertionError("its thread is not started")

    node = kind(never, name="first", roles=["scheduler"], ttl_seconds=TTL_SECONDS)
    await node._join(slow)
    leadership = Leadership(
        slow, lambda: node.id, is_trusted=lambda: monotonic() < node.trusted_until
    )
    await leadership.hold()
    await node._beat(slow)
    assert leadership.grants, "it leads"
    return await _silence(leadership, store, clock, node.id)


async def _silence(leadership: Leadership, store: Store, clock: VirtualClock, first: UUID) -> bool:
    (lease,) = [node for node in await store.nodes.list(SYSTEM) if node.id == first]
    clock.advance(seconds=(lease.expires_at - clock.now()).total_seconds())
    second = new_id()
    await store.nodes.join(
        SYSTEM, second, name="second", roles=["scheduler"], ttl_seconds=TTL_SECONDS
    )
    assert await store.shards.hold(SYSTEM, second), "another one leads"
    return leadership.grants == ()


async def test_a_leader_stops_planning_before_others_may_lead(
    slow: Store, store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await is_silent_when_taken(Node, slow, store, clock, monkeypatch)


async def test_a_lease_counted_from_the_response_is_detected(
    slow: Store, store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not await is_silent_when_taken(TrustingNode, slow, store, clock, monkeypatch)
