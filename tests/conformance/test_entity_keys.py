"""The key of an entity: one call at a time, and a direct call passes a send that waits for its
retry."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from tests.conformance.acts import (
    ALL,
    ack,
    claim,
    dead,
    die,
    ids,
    join,
    make_queue,
    retry,
    send,
    settle,
)
from tests.kit.soak import examples
from tests.stores.clock import VirtualClock
from tickwork.core.entity.call import ENTITY_SETTINGS, Call, as_claimed, call_message, queue_of
from tickwork.core.message.message_list import MessageSelection
from tickwork.core.model import DEFAULT, SYSTEM, Message, NewMessage, State
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["sqlite", "postgres"], indirect=True)

CALLS, LONG_SECONDS, RETRY_SECONDS = queue_of("Gate"), 80_000.0, 100.0
WALK_STEPS, KEYS = 120, ("a", "b")


@pytest.fixture
async def node(store: Store) -> UUID:
    """A node that lives, on a store that has the queue."""
    await store.queues.put(DEFAULT, CALLS, ENTITY_SETTINGS)
    return await join(store, ttl_seconds=LONG_SECONDS)


def call_of(key: str = "a") -> NewMessage:
    return call_message(Call(entity="Gate", key=key, method="x"), new_call_id())


def new_call_id() -> UUID:
    return UUID(int=random.getrandbits(128))


async def enter(store: Store, node: UUID, key: str = "a") -> Message:
    """Makes a direct call."""
    return (await store.entities.enter(DEFAULT, CALLS, call_of(key), node)).message


async def send_call(store: Store, key: str = "a") -> NewMessage:
    message = call_of(key)
    await store.messages.send(DEFAULT, CALLS, message)
    return message


async def states(store: Store, key: str = "a") -> list[tuple[UUID, State]]:
    """The messages of an entity, the first one first."""
    selection = MessageSelection(key=call_of(key).key)
    found = await store.messages.list(DEFAULT, CALLS, selection, ALL)
    return [(message.id, message.state) for message in found.messages]


async def is_claimed(store: Store, call: Message) -> bool:
    return (await store.entities.entered(DEFAULT, [call.id])).get(call.id, False)


async def run(store: Store, node: UUID) -> Message:
    """Claims the only send that can be claimed."""
    (message,) = await claim(store, node, queue=CALLS)
    return message


async def fail(store: Store, node: UUID, seconds: float = RETRY_SECONDS) -> NewMessage:
    """A send that has failed, and waits for its retry."""
    sent = await send_call(store)
    await settle(store, retry(await run(store, node), delay_seconds=seconds))
    return sent


async def test_a_direct_call_passes_a_send_that_waits_for_its_retry(
    store: Store, node: UUID, clock: VirtualClock
) -> None:
    waiting = await fail(store, node)
    call = await enter(store, node)
    assert call.state is State.CLAIMED
    assert await states(store) == [(call.id, State.CLAIMED), (waiting.id, State.BLOCKED)]
    await settle(store, ack(call))
    assert await states(store) == [(waiting.id, State.READY)]
    assert await claim(store, node, queue=CALLS) == ()  # It keeps its time.
    clock.advance(seconds=RETRY_SECONDS)
    again = await run(store, node)
    assert (again.id, again.attempts) == (waiting.id, 1)


async def test_a_call_behind_a_send_that_runs_passes_it_as_soon_as_it_waits(
    store: Store, node: UUID
) -> None:
    await send_call(store)
    running = await run(store, node)
    calls = [await enter(store, node) for _ in range(2)]
    assert [call.state for call in calls] == [State.BLOCKED, State.BLOCKED]
    await settle(store, retry(running, delay_seconds=RETRY_SECONDS))
    assert [await is_claimed(store, call) for call in calls] == [True, False]
    await settle(store, ack(as_claimed(calls[0], node)))
    assert await is_claimed(store, calls[1])
    await settle(store, ack(as_claimed(calls[1], node)))
    assert await states(store) == [(running.id, State.READY)]


async def test_a_send_waits_for_the_retry_of_the_send_before_it(
    store: Store, node: UUID, clock: VirtualClock
) -> None:
    first, second = await fail(store, node), await send_call(store)
    call = await enter(store, node)
    assert call.state is State.CLAIMED
    third = await send_call(store)
    await settle(store, ack(call))
    assert await claim(store, node, queue=CALLS) == ()
    clock.advance(seconds=RETRY_SECONDS)
    for expected in (first, second, third):
        running = await run(store, node)
        assert running.id == expected.id
        await settle(store, ack(running))
    assert await states(store) == []


async def test_a_retry_that_is_due_is_not_passed(
    store: Store, node: UUID, clock: VirtualClock
) -> None:
    waiting = await fail(store, node)
    clock.advance(seconds=RETRY_SECONDS)
    call = await enter(store, node)
    assert call.state is State.BLOCKED
    await settle(store, ack(await run(store, node)))
    assert await states(store) == [(call.id, State.CLAIMED)]
    assert waiting.id != call.id


async def test_a_retry_that_becomes_due_while_a_call_runs_waits_for_its_end(
    store: Store, node: UUID, clock: VirtualClock
) -> None:
    waiting = await fail(store, node)
    call = await enter(store, node)
    clock.advance(seconds=RETRY_SECONDS)
    behind = await enter(store, node)
    assert await claim(store, node, queue=CALLS) == ()
    await settle(store, ack(call))
    assert await states(store) == [(waiting.id, State.READY), (behind.id, State.BLOCKED)]
    await settle(store, ack(await run(store, node)))
    assert await is_claimed(store, behind)


async def test_what_leaves_the_line_frees_no_send_while_a_call_runs(
    store: Store, node: UUID, clock: VirtualClock
) -> None:
    waiting = await fail(store, node)
    call, behind = await enter(store, node), await enter(store, node)
    clock.advance(seconds=RETRY_SECONDS)
    assert await store.entities.withdraw(DEFAULT, behind.id)
    later = await send_call(store)
    assert await store.messages.delete(DEFAULT, CALLS, later.id)
    assert await states(store) == [(call.id, State.CLAIMED), (waiting.id, State.BLOCKED)]
    assert await store.messages.delete(DEFAULT, CALLS, waiting.id)
    assert await states(store) == [(call.id, State.CLAIMED)]


async def test_a_call_whose_node_dies_gives_the_key_back_to_the_send(
    store: Store, node: UUID, clock: VirtualClock
) -> None:
    waiting, dying = await fail(store, node, LONG_SECONDS), await join(store)
    lost, behind = await enter(store, dying), await enter(store, node)
    assert (lost.state, behind.state) == (State.CLAIMED, State.BLOCKED)
    await die(store, clock)
    assert await states(store) == [(behind.id, State.CLAIMED), (waiting.id, State.BLOCKED)]
    assert (await settle(store, ack(lost))).refused
    await settle(store, ack(as_claimed(behind, node)))
    assert await states(store) == [(waiting.id, State.READY)]


async def test_a_send_whose_node_dies_is_not_passed_and_runs_first(
    store: Store, node: UUID, clock: VirtualClock
) -> None:
    sent, dying = await send_call(store), await join(store)
    await run(store, dying)
    call = await enter(store, node)
    await die(store, clock)
    assert await states(store) == [(sent.id, State.READY), (call.id, State.BLOCKED)]


async def test_a_key_of_a_plain_queue_is_kept_by_a_waiting_retry(
    store: Store, node: UUID, clock: VirtualClock
) -> None:
    await make_queue(store, "plain")
    first = await send(store, queue="plain", key="k")
    (running,) = await claim(store, node, queue="plain")
    second = await send(store, queue="plain", key="k")
    await settle(store, retry(running, delay_seconds=RETRY_SECONDS))
    assert await claim(store, node, queue="plain") == ()
    clock.advance(seconds=RETRY_SECONDS)
    assert ids(await claim(store, node, queue="plain")) == [first.id]
    assert second.id != first.id


@pytest.mark.parametrize("seed", range(examples(12)))
async def test_no_walk_runs_two_calls_of_an_entity_or_changes_the_order_of_its_sends(
    store: Store, node: UUID, clock: VirtualClock, seed: int
) -> None:
    """Sends, retries, direct calls, alarms (which are direct calls), deaths and deletions at random
    times: the first message of a key runs or may run, all others are blocked, sends begin in their
    order, and nobody waits for a send that only waits for its time."""
    walk = _Walk(store, node, clock, random.Random(seed))
    for _ in range(WALK_STEPS):
        await walk.step()
        await walk.check()
    await walk.finish()


class _Walk:
    """A random walk, and what must hold after each of its steps."""

    def __init__(
        self, store: Store, node: UUID, clock: VirtualClock, chance: random.Random
    ) -> None:
        self._store, self._node, self._clock, self._chance = store, node, clock, chance
        self._dying: UUID | None = None
        self._calls: dict[UUID, tuple[Message, UUID]] = {}
        self._running: dict[UUID, Message] = {}
        self._sends: dict[str, list[UUID]] = {key: [] for key in KEYS}

    async def step(self) -> None:
        steps = (
            *(self._send, self._enter, self._enter, self._claim, self._claim, self._end_call),
            *(self._end_send, self._end_send, self._pass_time, self._withdraw, self._die),
        )
        await self._chance.choice(steps)()

    async def _send(self) -> None:
        key = self._chance.choice(KEYS)
        self._sends[key].append((await send_call(self._store, key)).id)

    async def _enter(self) -> None:
        if self._dying is None:
            self._dying = await join(self._store)
        caller = self._chance.choice([self._node, self._dying])
        call = await enter(self._store, caller, self._chance.choice(KEYS))
        self._calls[call.id] = (call, caller)

    async def _claim(self) -> None:
        for message in await claim(self._store, self._node, queue=CALLS):
            self._running[message.id] = message

    async def _end_call(self) -> None:
        claimed = [id_ for id_ in self._calls if await is_claimed(self._store, self._calls[id_][0])]
        if claimed:
            call, caller = self._calls.pop(self._chance.choice(claimed))
            assert not (await settle(self._store, ack(as_claimed(call, caller)))).refused

    async def _end_send(self) -> None:
        if not self._running:
            return
        message = self._running.pop(self._chance.choice([*self._running]))
        wait_seconds = self._chance.choice([0.0, 5.0, 30.0])
        endings = [ack(message), dead(message), retry(message, delay_seconds=wait_seconds)]
        ending = self._chance.choice([*endings, endings[2]])
        assert not (await settle(self._store, ending)).refused
        if ending is not endings[2]:
            self._forget(message.id)

    async def _pass_time(self) -> None:
        self._clock.advance(seconds=self._chance.choice([1.0, 6.0]))
        await self._reap()

    async def _withdraw(self) -> None:
        for id_ in [*self._calls][:1]:
            if await self._store.entities.withdraw(DEFAULT, id_):
                del self._calls[id_]

    async def _die(self) -> None:
        if self._dying is not None:
            await self._store.nodes.leave(SYSTEM, self._dying)
            await self._reap()
            self._calls = {
                id_: (call, caller)
                for id_, (call, caller) in self._calls.items()
                if caller != self._dying
            }
            self._dying = None

    async def _reap(self) -> None:
        await self._store.reaper.reap(SYSTEM, ALL)
        kept = await self._store.entities.entered(DEFAULT, [*self._calls])
        self._calls = {id_: known for id_, known in self._calls.items() if id_ in kept}

    def _forget(self, sent: UUID) -> None:
        for sends in self._sends.values():
            if sent in sends:
                sends.remove(sent)

    async def check(self) -> None:
        now = await self._store.now()
        for key in KEYS:
            selection = MessageSelection(key=call_of(key).key)
            found = (await self._store.messages.list(DEFAULT, CALLS, selection, ALL)).messages
            assert [message.state for message in found[1:]] == [State.BLOCKED] * len(found[1:])
            assert not found or found[0].state is not State.BLOCKED
            sends = [message.id for message in found if message.id not in self._calls]
            assert sends == self._sends[key]
            running = [message for message in found if message.id in self._running]
            assert running in ([], [*found[:1]])
            if found and found[0].state is State.READY and found[0].visible_at > now:
                assert not [message for message in found if message.id in self._calls]

    async def finish(self) -> None:
        """Everything that waits runs in the end."""
        for _ in range(2 * WALK_STEPS):
            if not any([await states(self._store, key) for key in KEYS]):
                break
            self._clock.advance(seconds=30)
            await self._store.nodes.heartbeat(SYSTEM, self._node, ttl_seconds=LONG_SECONDS)
            await self._reap()
            await self._claim()
            for message in self._running.values():
                assert not (await settle(self._store, ack(message))).refused
            self._running.clear()
            for id_, (call, caller) in [*self._calls.items()]:
                if await is_claimed(self._store, call):
                    await settle(self._store, ack(as_claimed(call, caller)))
                    del self._calls[id_]
        assert [await states(self._store, key) for key in KEYS] == [[], []]
