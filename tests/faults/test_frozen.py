"""A worker frozen beyond its lease: others do its work, and it changes nothing when it wakes up."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.faults import tables
from tests.faults.open_store import opened
from tests.faults.steps import (
    OUTPUTS,
    QUEUE,
    claim,
    claim_one,
    ending,
    join,
    put_queues,
    send,
    settle,
)
from tests.kit.process import Arm, Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM, Message, SettleResult
from tickwork.store.contract import Store

SLEEPER = "tests.faults.programs.sleeper"
TTL_SECONDS = 0.5
BOUND_SECONDS = 180.0


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    """A store in another process than the frozen one: this one."""
    async with opened(home.url) as other:
        await put_queues(other)
        await tables.fetch(home.url, tables.EFFECTS)
        await send(other)
        yield other


async def frozen(
    children: Children, home: Home, *, way: str = "plain", point: str = "claimed"
) -> tuple[Child, UUID]:
    """A process frozen at a point, and its node id."""
    sleeper = children.spawn(SLEEPER, home.url, way, str(TTL_SECONDS), arms=[Arm(point, "stop")])
    await sleeper.reached(point, BOUND_SECONDS)
    return sleeper, UUID(str(sleeper.events("claimed")[0].facts["node"]))


async def woken(sleeper: Child) -> list[str]:
    """The results of its settlement, its heartbeat and its claim."""
    sleeper.cont()
    await sleeper.succeeded(BOUND_SECONDS)
    return sleeper.lines()


async def taken_over(store: Store, node_id: UUID) -> Message:
    """Reaps the node and claims its message for another one."""

    async def is_reaped() -> bool:
        return node_id in (await store.reaper.reap(SYSTEM, 10)).nodes

    await eventually(is_reaped, timeout_seconds=BOUND_SECONDS)
    return await claim_one(store, await join(store))


@pytest.mark.parametrize("when", ["still at it", "done"])
async def test_the_settlement_of_a_frozen_worker_is_refused(
    when: str, store: Store, home: Home, children: Children
) -> None:
    sleeper, node_id = await frozen(children, home)
    message = await taken_over(store, node_id)
    assert (message.claim, message.attempts, message.lost) == (2, 0, 1)
    if when == "done":
        assert await settle(store, ending(message, sends=1)) == SettleResult()
    assert await woken(sleeper) == ["refused", "NodeExpired", "NodeExpired"]
    if when == "still at it":
        assert await settle(store, ending(message, sends=1)) == SettleResult()
    assert await tables.inputs_in(home.url, QUEUE) == []
    assert len(await tables.inputs_in(home.url, OUTPUTS)) == 1


async def test_a_frozen_worker_has_no_effect_when_it_wakes(
    store: Store, home: Home, children: Children
) -> None:
    sleeper, node_id = await frozen(children, home, way="joint")
    message = await taken_over(store, node_id)
    assert await settle(store, ending(message, sends=1)) == SettleResult()
    assert await woken(sleeper) == ["ClaimLost", "NodeExpired", "NodeExpired"]
    assert await tables.effects_of(home.url) == []
    assert len(await tables.inputs_in(home.url, OUTPUTS)) == 1


async def test_an_expired_lease_is_over_even_before_the_reaper_ran(
    store: Store, home: Home, children: Children
) -> None:
    sleeper, node_id = await frozen(children, home)

    async def has_run_out() -> bool:
        (node,) = await store.nodes.list(SYSTEM)
        return node.id == node_id and node.expires_at <= await store.now()

    await eventually(has_run_out, timeout_seconds=BOUND_SECONDS)
    # No one else can have claimed the message: settling it is still right.
    assert await woken(sleeper) == ["settled", "NodeExpired", "NodeExpired"]
    assert len(await tables.inputs_in(home.url, OUTPUTS)) == 1
    assert await claim(store, await join(store)) == ()


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_worker_frozen_in_its_transaction_does_not_stop_the_others(
    store: Store, home: Home, children: Children
) -> None:
    sleeper, node_id = await frozen(children, home, way="joint", point="writing")
    message = await taken_over(store, node_id)
    assert await settle(store, ending(message, sends=1)) == SettleResult()
    assert (await woken(sleeper))[0] == "StoreUnavailable"
    assert await tables.effects_of(home.url) == []
    assert len(await tables.inputs_in(home.url, OUTPUTS)) == 1


async def test_a_claim_number_reused_after_a_failover_does_not_pass_the_fence(
    store: Store, home: Home
) -> None:
    stale = await claim_one(store, await join(store))
    # The promoted replica lags: it has not seen the claim.
    lagging = "UPDATE tickwork_messages SET state = 'ready', holder = NULL, claim = 0"
    await tables.fetch(home.url, lagging)
    message = await claim_one(store, await join(store))
    assert message.claim == stale.claim
    assert (await settle(store, ending(stale, sends=1))).refused == (stale.current_claim,)
    assert (await store.messages.get(DEFAULT, QUEUE, message.id)).holder == message.holder
    assert await settle(store, ending(message, sends=1)) == SettleResult()
    assert len(await tables.inputs_in(home.url, OUTPUTS)) == 1
