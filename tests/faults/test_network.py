"""Connections cut, delayed and swallowed: a clear error in bounded time, and no partial write."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.conformance import barriers
from tests.faults import tables
from tests.faults.steps import (
    OUTPUTS,
    QUEUE,
    claim,
    claim_one,
    ending,
    join,
    new_message,
    put_queues,
    send,
    settle,
)
from tests.kit.postgres_proxy import PostgresProxy
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Entity, Tickwork
from tickwork.core.model import DEFAULT, SYSTEM, Message, Settlement, SettleResult
from tickwork.errors import StoreUnavailable
from tickwork.store.contract import Store
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine import database

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

PATIENCE_SECONDS = 2.0
"""Replaces the store's own limit, so that a test can wait for its end."""

QUIET_SECONDS = 0.5
A_MOMENT_SECONDS = 0.02
LATE_SECONDS = 2.0
BOUND_SECONDS = 120.0
"""However busy the machine: all tries with their pauses take a tenth of it."""


@pytest.fixture
async def past(home: Home) -> AsyncIterator[Store]:
    """A store that reaches the database directly."""
    opened = await PostgresStore.open(home.url)
    yield opened
    await opened.close()


@pytest.fixture
async def proxy(home: Home) -> AsyncIterator[PostgresProxy]:
    async with PostgresProxy(home.url) as opened:
        yield opened


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `store` give up soon, with short pauses between its tries."""
    monkeypatch.setattr(database, "_PAUSE_SECONDS", PATIENCE_SECONDS / 200)
    monkeypatch.setattr(database, "_COMMAND_TIMEOUT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(database, "_CONNECT_TIMEOUT_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
async def store(proxy: PostgresProxy) -> AsyncIterator[Store]:
    """A store that reaches the database through the proxy."""
    opened = await PostgresStore.open(proxy.url)
    await put_queues(opened)
    yield opened
    proxy.blackhole = False
    await opened.close()


async def held_message(store: Store) -> Message:
    await send(store)
    return await claim_one(store, await join(store))


async def nothing_happened(url: str, message: Message) -> bool:
    """Asserts that the message is still claimed and that nothing of its settlement was stored."""
    effects = await tables.effects_of(url)
    outputs = await tables.inputs_in(url, OUTPUTS)
    held = await tables.states_in(url, QUEUE)
    return (effects, outputs, held) == ([], [], {"claimed": 1}) and message.claim == 1


async def test_cut_connections_are_replaced(proxy: PostgresProxy, store: Store) -> None:
    node_id = await join(store)

    async def claimed() -> tuple[Message, ...]:
        try:
            return await claim(store, node_id)
        except StoreUnavailable:  # The store does not repeat a claim: the node has to release it.
            await store.nodes.give_back_unknown(SYSTEM, node_id, [])
            return ()

    for _ in range(3):
        proxy.cut()
        await send(store)
        proxy.cut()
        await store.nodes.heartbeat(SYSTEM, node_id, 600)
        proxy.cut()
        (message,) = await eventually(claimed)
        proxy.cut()
        assert await settle(store, ending(message)) == SettleResult()


async def test_a_connection_cut_during_a_transaction_leaves_no_partial_write(
    proxy: PostgresProxy, store: Store, home: Home
) -> None:
    await tables.fetch(home.url, tables.EFFECTS)
    message = await held_message(store)
    effect = tables.writing(home.url, str(message.id), "test")

    async def write_and_lose_the_line(connection: Any) -> None:
        await _awaited(effect(connection))
        proxy.cut()

    settlement = Settlement((ending(message, sends=1),))
    with pytest.raises(StoreUnavailable):
        await store.messages.settle_jointly(DEFAULT, settlement, write_and_lose_the_line)
    assert await nothing_happened(home.url, message)
    await store.messages.settle_jointly(DEFAULT, settlement, effect)
    assert await tables.effects_of(home.url) == [str(message.id)]
    assert len(await tables.inputs_in(home.url, OUTPUTS)) == 1


async def test_a_settlement_cut_between_its_statements_commits_completely_and_once(
    proxy: PostgresProxy, store: Store, home: Home
) -> None:
    message = await held_message(store)
    fault = proxy.lose_request_to(rb"^-- Stores messages")
    assert await settle(store, ending(message, sends=2)) == SettleResult()
    assert fault.struck == 1
    assert await tables.inputs_in(home.url, QUEUE) == []
    assert len(await tables.inputs_in(home.url, OUTPUTS)) == 2


@pytest.mark.parametrize("is_transaction", [False, True])
async def test_a_caller_whose_time_is_up_does_not_wait_for_the_network(
    proxy: PostgresProxy, store: Store, is_transaction: bool
) -> None:
    """Otherwise a heartbeat that times out would cost the rest of the lease."""
    node_id = await join(store)
    proxy.blackhole = True
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            if is_transaction:
                await store.nodes.leave(SYSTEM, node_id)
            else:
                await store.nodes.heartbeat(SYSTEM, node_id, 600)
    assert time.monotonic() - started < 6
    proxy.blackhole = False
    await store.nodes.heartbeat(SYSTEM, node_id, 600)


async def test_a_bulk_send_cut_during_copy_stores_nothing(
    proxy: PostgresProxy, store: Store, home: Home
) -> None:
    fault = proxy.lose_request_to(rb"^COPY")
    messages = [new_message() for _ in range(100)]
    with pytest.raises(StoreUnavailable):
        await store.messages.send_bulk(DEFAULT, QUEUE, messages)
    assert fault.struck == 1
    assert await tables.inputs_in(home.url, QUEUE) == []
    assert await store.messages.send_bulk(DEFAULT, QUEUE, messages) == 100


async def test_a_slow_connection_only_delays(proxy: PostgresProxy, store: Store) -> None:
    proxy.delay_to_client_seconds = proxy.delay_to_server_seconds = A_MOMENT_SECONDS
    message = await held_message(store)
    assert await settle(store, ending(message, sends=1)) == SettleResult()


@pytest.mark.usefixtures("impatient")
async def test_a_connection_that_swallows_everything_times_out(
    proxy: PostgresProxy,
    store: Store,
    past: Store,
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await tables.fetch(home.url, tables.EFFECTS)
    message = await held_message(past)
    effect = tables.writing(home.url, str(message.id), "test")
    joint = Settlement((ending(message),))
    proxy.blackhole = True
    # No try can succeed from here on: how long each of them takes does not matter.
    monkeypatch.setattr(database, "_CONNECT_TIMEOUT_SECONDS", A_MOMENT_SECONDS)
    began = time.monotonic()
    answers = await asyncio.gather(
        send(store),
        claim(store, message.current_claim.holder),
        settle(store, ending(message, sends=1)),
        store.messages.settle_jointly(DEFAULT, joint, effect),
        store.nodes.heartbeat(SYSTEM, message.current_claim.holder, 600),
        store.queues.counts(DEFAULT, QUEUE),
        store.reaper.reap(SYSTEM, 10),
        PostgresStore.open(proxy.url),
        return_exceptions=True,
    )
    assert time.monotonic() - began < BOUND_SECONDS
    assert [type(answer) for answer in answers] == [StoreUnavailable] * len(answers)
    assert await nothing_happened(home.url, message)
    monkeypatch.setattr(database, "_CONNECT_TIMEOUT_SECONDS", PATIENCE_SECONDS)
    proxy.cut()
    proxy.blackhole = False
    await send(store)
    assert await settle(store, ending(message, sends=1)) == SettleResult()
    assert len(await claim(past, await join(past))) == 1


@pytest.mark.usefixtures("impatient")
async def test_a_connection_lost_during_a_transaction_releases_its_locks(
    proxy: PostgresProxy, store: Store, past: Store, home: Home
) -> None:
    await tables.fetch(home.url, tables.EFFECTS)
    message = await held_message(past)
    effect = tables.writing(home.url, str(message.id), "test")

    async def write_and_lose_the_line(connection: Any) -> None:
        await _awaited(effect(connection))
        proxy.blackhole = True

    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        settlement = Settlement((ending(message, sends=1),))
        await store.messages.settle_jointly(DEFAULT, settlement, write_and_lose_the_line)
    assert time.monotonic() - began < BOUND_SECONDS
    proxy.cut()
    proxy.blackhole = False
    assert await nothing_happened(home.url, message)
    assert await settle(store, ending(message, sends=1)) == SettleResult()


async def test_sends_survive_a_short_outage_of_the_server(
    proxy: PostgresProxy, store: Store, home: Home
) -> None:
    await send(store)
    proxy.refuse = True
    proxy.cut()
    refused = proxy.accepted
    sending = asyncio.create_task(send(store))
    await eventually(lambda: proxy.accepted >= refused + 3)
    proxy.refuse = False
    await sending
    assert len(await tables.inputs_in(home.url, QUEUE)) == 2


@pytest.mark.usefixtures("impatient")
async def test_a_long_outage_is_reported_and_later_calls_work(
    proxy: PostgresProxy, store: Store, home: Home
) -> None:
    await send(store)
    proxy.refuse = True
    proxy.cut()
    with pytest.raises(StoreUnavailable):
        await send(store)
    proxy.refuse = False
    await send(store)
    assert len(await tables.inputs_in(home.url, QUEUE)) == 2


async def test_a_waiting_consumer_is_woken_after_its_connection_was_cut(
    proxy: PostgresProxy, store: Store, past: Store
) -> None:
    queue = await store.queues.get(DEFAULT, QUEUE)
    async with store.wakeups.watch([queue.id]) as watch:
        await _listened(past, watch.wait)
        proxy.refuse = True
        proxy.cut()
        await send(past)
        assert not await watch.wait(QUIET_SECONDS)
        proxy.refuse = False
        assert await watch.wait(BOUND_SECONDS)


async def test_a_claim_that_commits_late_is_released_when_its_node_is_reaped(
    proxy: PostgresProxy, past: Store, home: Home
) -> None:
    late = await PostgresStore.open(proxy.url, direct_url=home.url)
    await put_queues(past)
    (message_id,) = await send(past)
    node_id = await join(late)
    on_its_way = proxy.delay_request_to(rb"^-- Claims ready messages", A_MOMENT_SECONDS)
    claiming = asyncio.create_task(claim(late, node_id))
    await on_its_way.strikes()
    committing = proxy.delay_commit(LATE_SECONDS)
    await committing.strikes()
    expired = f"UPDATE tickwork_nodes SET expires_at = now() WHERE id = '{node_id}'"
    await tables.fetch(home.url, expired)

    async def is_reaped() -> bool:
        return node_id in (await past.reaper.reap(SYSTEM, 10)).nodes

    await eventually(is_reaped, timeout_seconds=BOUND_SECONDS)
    assert [message.id for message in await claiming] == [message_id]
    (again,) = await claim(past, await join(past))
    assert (again.id, again.claim, again.lost) == (message_id, 2, 1)
    await late.close()


async def _listened(past: Store, wait: Callable[[float], Awaitable[bool]]) -> None:
    """Waits until a send by another store wakes the watch, and earlier wake-ups are used up."""

    async def hears() -> bool:
        await send(past)
        return await wait(QUIET_SECONDS)

    await eventually(hears, timeout_seconds=BOUND_SECONDS)
    while await wait(QUIET_SECONDS):
        pass


async def _awaited(wanted: Awaitable[None] | None) -> None:
    assert wanted is not None
    await wanted


class Door(Entity):
    async def pass_by(self) -> str:
        return "passed"


async def test_a_call_that_is_stored_after_its_connection_broke_frees_its_entity(
    home: Home, proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not see that its client is gone while its statement waits."""
    monkeypatch.setattr("tickwork.entity.caller.CALL_WAIT_SECONDS_MAX", 10.0)
    app = Tickwork(proxy.url)
    app.entities.register(Door)
    assert await app.entity(Door, "a").pass_by() == "passed"
    caller = app._engine.entities.caller(await app._engine.open())
    try:
        async with barriers.barrier(home.url, before=barriers.SEND) as barrier:
            calling = asyncio.ensure_future(app.entity(Door, "a").pass_by())
            await barrier.reached()
            proxy.cut()
            with pytest.raises(StoreUnavailable):
                await calling
            # It has looked for the call, which is not stored yet.
            await eventually(lambda: not caller._ending, timeout_seconds=BOUND_SECONDS)
            await barrier.opens()
            assert await app.entity(Door, "a").pass_by() == "passed"
    finally:
        await app.close()
