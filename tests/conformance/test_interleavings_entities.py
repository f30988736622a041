"""Two transactions at once, one of them a direct call that may pass a send: no order runs both, and
none lets the call wait for a retry.

On PostgreSQL, where transactions really overlap. Each docstring names the lock or the second look
that the law depends on; without it the test fails.
"""

import asyncio
from uuid import UUID

import pytest

from tests.conformance.acts import ack, claim, join, retry, settle
from tests.conformance.barriers import GIVE_BACK, SEND, barrier, done_or_waiting, rival
from tests.conformance.test_entity_keys import (
    CALLS,
    RETRY_SECONDS,
    enter,
    fail,
    is_claimed,
    run,
    send_call,
    states,
)
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.entity.call import ENTITY_SETTINGS, as_claimed
from tickwork.core.model import DEFAULT, State
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)


@pytest.fixture
async def node(store: Store) -> UUID:
    """A node, on a store that has the queue."""
    await store.queues.put(DEFAULT, CALLS, ENTITY_SETTINGS)
    return await join(store, ttl_seconds=80_000)


async def test_a_call_does_not_pass_a_send_that_a_worker_is_claiming(
    home: Home, store: Store, node: UUID
) -> None:
    """SKIP LOCKED in unblock_keys, and only what it locked is passed. The worker's clock is a
    moment ahead: it finds the send due."""
    sent = await fail(store, node)
    worker = await join(store)
    async with rival(home.url) as other:
        await other.does(
            "UPDATE tickwork_messages SET state = 'claimed', claim = claim + 1, holder = $1 "
            "WHERE id = $2",
            worker,
            sent.id,
        )
        entering = asyncio.create_task(enter(store, node))
        assert await done_or_waiting(entering, other), "the call waits for the claim"
        await other.commits()
        call = await entering
    assert call.state is State.BLOCKED
    assert await states(store) == [(sent.id, State.CLAIMED), (call.id, State.BLOCKED)]


async def test_a_call_that_is_stored_while_a_send_is_put_back_passes_it(
    home: Home, store: Store, node: UUID
) -> None:
    """The retry locks the key and then looks for calls: it sees one that was stored after it had
    changed the send."""
    await send_call(store)
    running = await run(store, node)
    async with barrier(home.url, before=GIVE_BACK) as held:
        ending = retry(running, delay_seconds=RETRY_SECONDS)
        retrying = asyncio.create_task(settle(store, ending))
        await held.reached()
        entering = asyncio.create_task(enter(store, node))
        assert await held.is_passed_by(entering), "the call waits for the retry"
        call = await entering
        assert call.state is State.BLOCKED
        await held.opens()
        await retrying
    assert await states(store) == [(call.id, State.CLAIMED), (running.id, State.BLOCKED)]


async def test_a_retry_waits_for_a_call_that_is_being_stored_and_lets_it_pass(
    home: Home, store: Store, node: UUID
) -> None:
    """A call locks the key while it is stored, so that a retry does not look for calls before."""
    await send_call(store)
    running = await run(store, node)
    async with barrier(home.url, before=SEND) as held:
        entering = asyncio.create_task(enter(store, node))
        await held.reached()
        ending = retry(running, delay_seconds=RETRY_SECONDS)
        retrying = asyncio.create_task(settle(store, ending))
        assert not await held.is_passed_by(retrying), "the retry did not wait for the call"
        await held.opens()
        call = await entering
        await retrying
    await eventually(lambda: is_claimed(store, call))
    assert await states(store) == [(call.id, State.CLAIMED), (running.id, State.BLOCKED)]


async def test_a_call_whose_statement_began_before_a_retry_passes_it(
    home: Home, store: Store, node: UUID
) -> None:
    """A second look, after the call is stored: its own statement has seen the send as running."""
    await send_call(store)
    running = await run(store, node)
    async with rival(home.url) as other:
        await other.does("SELECT FROM tickwork_keys FOR UPDATE")
        await other.does(
            "UPDATE tickwork_messages SET state = 'ready', holder = NULL, visible_at = $1 "
            "WHERE id = $2",
            (await store.now()).replace(year=2100),
            running.id,
        )
        entering = asyncio.create_task(enter(store, node))
        assert not await done_or_waiting(entering, other), "the call did not wait for the key"
        await other.commits()
        call = await entering
    assert call.state is State.CLAIMED
    assert await states(store) == [(call.id, State.CLAIMED), (running.id, State.BLOCKED)]


async def test_calls_and_retries_of_many_callers_never_run_together(
    store: Store, node: UUID, clock: VirtualClock
) -> None:
    """Everything at once, without barriers: workers, callers and the clock."""
    active, most, done, left = 0, 0, list[UUID](), 40
    sends = [(await send_call(store)).id for _ in range(8)]

    async def hold(seconds: float) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(seconds)
        active -= 1

    async def work() -> None:
        while left or len(done) < len(sends):
            for message in await claim(store, node, queue=CALLS):
                await hold(0)
                if message.attempts < 2:
                    await settle(store, retry(message, delay_seconds=3))
                else:
                    done.append(message.id)
                    await settle(store, ack(message))
            clock.advance(seconds=1)
            await asyncio.sleep(0)

    async def call() -> None:
        nonlocal left
        made = await enter(store, node)
        if made.state is State.BLOCKED:
            await eventually(lambda: is_claimed(store, made), timeout_seconds=60)
        await hold(0)
        await settle(store, ack(as_claimed(made, node)))
        left -= 1

    async def calls() -> None:
        for _ in range(10):
            await call()

    await asyncio.gather(work(), *(calls() for _ in range(4)))
    assert most == 1
    assert done == sends
    assert await states(store) == []
