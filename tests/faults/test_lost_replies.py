"""A commit happened and its response was lost: the repeat changes nothing and reports the truth.

If one statement does it, each case runs twice: with the statement committing by itself and, as
behind a pooler, within a transaction whose COMMIT is lost.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import pytest

from tests.conformance.acts import ENDS
from tests.faults import tables
from tests.faults.steps import (
    OUTPUTS,
    QUEUE,
    claim,
    claim_one,
    drain,
    ending,
    join,
    new_message,
    put_queues,
    send,
    settle,
)
from tests.kit.postgres_proxy import COMMIT, Fault, PostgresProxy
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM, Fate, Message, Settlement, SettleResult
from tickwork.errors import ClaimLost, StoreUnavailable
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.messages.send import COPIED_MESSAGES_MIN

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

SEND = rb"^-- Stores messages"
CLAIM = rb"^-- Claims ready messages"
A_MOMENT_SECONDS = 0.2
ACK = rb"^-- Deletes messages that are still claimed"


@dataclass(frozen=True)
class Bench:
    """One database, reached through the proxy, and directly."""

    proxy: PostgresProxy
    store: Store
    past: Store
    url: str
    in_transactions: bool

    def lose_reply(self, statement: bytes) -> Fault:
        """The response of the statement that commits by itself, or of the COMMIT behind it."""
        return self.proxy.lose_reply_to(COMMIT if self.in_transactions else statement)

    def lose_request(self, statement: bytes) -> Fault:
        return self.proxy.lose_request_to(COMMIT if self.in_transactions else statement)

    async def held_back(self, fault: Fault) -> None:
        """After the fault nothing passes the proxy, not even the repeat."""
        await fault.strikes()
        self.proxy.blackhole = True

    def let_through(self) -> None:
        self.proxy.blackhole = False

    async def messages(self, queue: str = QUEUE) -> list[str]:
        return await tables.inputs_in(self.url, queue)


in_one_transaction = pytest.mark.parametrize("bench", ["transactions"], indirect=True)


@pytest.fixture(params=["statements", "transactions"])
async def bench(home: Home, request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    in_transactions = request.param == "transactions"
    async with PostgresProxy(home.url) as proxy:
        past = await PostgresStore.open(home.url)
        await put_queues(past)
        store = await PostgresStore.open(
            proxy.url, direct_url=home.url if in_transactions else None
        )
        for queue in (QUEUE, OUTPUTS):  # Found once and cached: no query in between.
            await store.messages.peek(DEFAULT, queue, 1)
        yield Bench(proxy, store, past, home.url, in_transactions)
        await store.close()
        await past.close()


async def test_a_send_whose_response_is_lost_is_one_message(bench: Bench) -> None:
    fault = bench.lose_reply(SEND)
    (message_id,) = await send(bench.store)
    assert fault.struck == 1
    assert await bench.messages() == [str(message_id)]


async def test_a_send_that_did_not_arrive_is_sent_again(bench: Bench) -> None:
    fault = bench.lose_request(SEND)
    (message_id,) = await send(bench.store)
    assert fault.struck == 1
    assert await bench.messages() == [str(message_id)]


async def test_repeatedly_lost_responses_make_no_second_message(bench: Bench) -> None:
    fault = bench.proxy.lose_reply_to(COMMIT if bench.in_transactions else SEND, n=3)
    (message_id,) = await send(bench.store)
    assert fault.struck == 3
    assert await bench.messages() == [str(message_id)]


@pytest.mark.parametrize("count", [1, 20, COPIED_MESSAGES_MIN])
async def test_a_message_done_before_the_repeat_is_not_stored_again(
    bench: Bench, count: int
) -> None:
    is_copied = count >= COPIED_MESSAGES_MIN
    fault = bench.proxy.lose_commit_reply() if is_copied else bench.lose_reply(SEND)
    messages = [new_message() for _ in range(count)]
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(bench.store.messages.send_batch(DEFAULT, QUEUE, messages))
        await bench.held_back(fault)
        assert len(await drain(bench.past)) == count
        assert not sending.done()
        bench.let_through()
    assert await bench.messages() == []
    assert await drain(bench.past) == []


async def test_sends_of_one_group_are_repeated_together(bench: Bench) -> None:
    fault = bench.lose_reply(SEND)
    sent = [new_message() for _ in range(10)]
    async with asyncio.TaskGroup() as group:
        for message in sent:
            group.create_task(bench.store.messages.send(DEFAULT, QUEUE, message))
        await bench.held_back(fault)
        done = await drain(bench.past)
        bench.let_through()
    done += await drain(bench.past)
    assert sorted(done) == sorted(message.id for message in sent)


@in_one_transaction
async def test_a_bulk_send_whose_response_is_lost_can_be_repeated(bench: Bench) -> None:
    messages = [new_message() for _ in range(200)]
    fault = bench.proxy.lose_commit_reply()
    with pytest.raises(StoreUnavailable):
        await bench.store.messages.send_bulk(DEFAULT, QUEUE, messages)
    assert fault.outcomes[0].tag == "COMMIT"
    await bench.store.messages.send_bulk(DEFAULT, QUEUE, messages)
    assert sorted(await bench.messages()) == sorted(str(message.id) for message in messages)


async def settled_with_a_lost_answer(
    bench: Bench, fate: Fate, meanwhile: Callable[[], object] = lambda: None
) -> tuple[Message, SettleResult]:
    """A claimed message, settled with two sends, whose repeat is held back meanwhile."""
    await send(bench.past)
    message = await claim_one(bench.store, await join(bench.store))
    fault = bench.proxy.lose_commit_reply()
    settling = asyncio.create_task(settle(bench.store, ending(message, fate, sends=2)))
    await bench.held_back(fault)
    happened = meanwhile()
    if asyncio.iscoroutine(happened):
        await happened
    bench.let_through()
    return message, await settling


@in_one_transaction
@pytest.mark.parametrize("fate", ENDS)
async def test_a_settlement_whose_response_is_lost_is_reported_as_settled(
    bench: Bench, fate: Fate
) -> None:
    message, result = await settled_with_a_lost_answer(bench, fate)
    assert result == SettleResult()
    assert len(await bench.messages(OUTPUTS)) == 2
    waits = [str(message.id)] if fate in (Fate.RETRY, Fate.RELEASE) else []
    assert await bench.messages() == waits
    assert await tables.dead_of(bench.url) == ([str(message.id)] if fate is Fate.DEAD else [])
    if waits:
        waiting = await bench.past.messages.get(DEFAULT, QUEUE, message.id)
        assert waiting.attempts == (1 if fate is Fate.RETRY else 0)


async def test_plain_acks_whose_response_is_lost_are_reported_as_settled(bench: Bench) -> None:
    await send(bench.past, 5)
    found = await claim(bench.store, await join(bench.store))
    fault = bench.lose_reply(ACK)
    assert await settle(bench.store, *(ending(message) for message in found)) == SettleResult()
    assert fault.struck == 1
    assert await bench.messages() == []


@in_one_transaction
@pytest.mark.parametrize("taker", ["another node", "the same node"])
async def test_the_repeat_of_a_settlement_does_not_affect_the_next_claim(
    bench: Bench, taker: str
) -> None:
    taken: list[Message] = []

    async def it_is_taken_again() -> None:
        nodes = [node.id for node in await bench.past.nodes.list(SYSTEM)]
        node_id = nodes[0] if taker == "the same node" else await join(bench.past)
        taken.append(await claim_one(bench.past, node_id))

    message, result = await settled_with_a_lost_answer(bench, Fate.RETRY, it_is_taken_again)
    assert result == SettleResult()
    now = await bench.past.messages.get(DEFAULT, QUEUE, message.id)
    assert (now.claim, now.holder, now.attempts) == (2, taken[0].holder, 1)
    assert (await settle(bench.past, ending(message))).refused == (message.current_claim,)
    assert await settle(bench.past, ending(taken[0])) == SettleResult()


@in_one_transaction
async def test_a_settlement_that_did_not_arrive_before_its_node_was_reaped_is_refused(
    bench: Bench,
) -> None:
    await send(bench.past)
    node_id = await join(bench.store)
    message = await claim_one(bench.store, node_id)
    fault = bench.proxy.lose_commit_request()
    settling = asyncio.create_task(settle(bench.store, ending(message, sends=1)))
    await bench.held_back(fault)
    await bench.past.nodes.leave(SYSTEM, node_id)
    other = await claim_one(bench.past, await join(bench.past))
    bench.let_through()
    assert (await settling).refused == (message.current_claim,)
    assert await bench.messages(OUTPUTS) == []
    assert await settle(bench.past, ending(other, sends=1)) == SettleResult()


@in_one_transaction
async def test_a_joint_settlement_with_a_lost_response_has_one_effect(bench: Bench) -> None:
    await tables.fetch(bench.url, tables.EFFECTS)
    await send(bench.past)
    message = await claim_one(bench.store, await join(bench.store))
    settlement = Settlement((ending(message, sends=1),))
    effect = tables.writing(bench.url, str(message.id), "test")
    bench.proxy.lose_commit_reply()
    with pytest.raises(StoreUnavailable):
        await bench.store.messages.settle_jointly(DEFAULT, settlement, effect)
    with pytest.raises(ClaimLost):
        await bench.store.messages.settle_jointly(DEFAULT, settlement, effect)
    assert await tables.effects_of(bench.url) == [str(message.id)]
    assert len(await bench.messages(OUTPUTS)) == 1


async def settle_a_group(bench: Bench, messages: Sequence[Message]) -> list[type | None]:
    """Concurrent joint settlements that share a COMMIT; returns their results."""
    answers = await asyncio.gather(
        *(
            bench.store.messages.settle_jointly(
                DEFAULT,
                Settlement((ending(message, sends=1),)),
                tables.writing(bench.url, str(message.id), "test"),
            )
            for message in messages
        ),
        return_exceptions=True,
    )
    return [None if answer is None else type(answer) for answer in answers]


async def test_a_group_of_joint_settlements_with_a_lost_response_has_its_effects_once(
    bench: Bench,
) -> None:
    await tables.fetch(bench.url, tables.EFFECTS)
    await send(bench.past, 3)
    messages = await claim(bench.store, await join(bench.store))
    fault = bench.proxy.lose_commit_reply()
    assert await settle_a_group(bench, messages) == [StoreUnavailable] * 3
    assert fault.struck == 1
    assert await settle_a_group(bench, messages) == [ClaimLost] * 3
    assert sorted(await tables.effects_of(bench.url)) == sorted(
        str(message.id) for message in messages
    )
    assert len(await bench.messages(OUTPUTS)) == 3


async def test_a_group_of_joint_settlements_that_did_not_arrive_has_its_effects_when_repeated(
    bench: Bench,
) -> None:
    await tables.fetch(bench.url, tables.EFFECTS)
    await send(bench.past, 3)
    messages = await claim(bench.store, await join(bench.store))
    fault = bench.proxy.lose_commit_request()
    assert await settle_a_group(bench, messages) == [StoreUnavailable] * 3
    assert fault.struck == 1
    assert await tables.effects_of(bench.url) == []
    assert await settle_a_group(bench, messages) == [None] * 3
    assert sorted(await tables.effects_of(bench.url)) == sorted(
        str(message.id) for message in messages
    )
    assert len(await bench.messages(OUTPUTS)) == 3


async def test_messages_of_a_claim_whose_response_is_lost_are_released_without_counting_a_loss(
    bench: Bench,
) -> None:
    await send(bench.past, 5)
    node_id = await join(bench.store)
    known = await claim(bench.store, node_id, limit=2)
    if bench.in_transactions:  # The COMMIT to lose is the one after the claim.
        on_its_way = bench.proxy.delay_request_to(CLAIM, A_MOMENT_SECONDS)
        claiming = asyncio.create_task(claim(bench.store, node_id))
        await on_its_way.strikes()
        bench.proxy.lose_commit_reply()
    else:
        bench.proxy.lose_reply_to(CLAIM)
        claiming = asyncio.create_task(claim(bench.store, node_id))
    with pytest.raises(StoreUnavailable):
        await claiming
    unknown = await bench.store.nodes.give_back_unknown(
        SYSTEM, node_id, [message.id for message in known]
    )
    assert unknown == 3
    again = await claim(bench.store, node_id)
    assert [(message.claim, message.attempts, message.lost) for message in again] == [(2, 0, 0)] * 3
    both = [ending(message) for message in (*known, *again)]
    assert await settle(bench.store, *both) == SettleResult()


async def test_joining_and_leaving_survive_a_lost_response(bench: Bench) -> None:
    node_id = new_id()
    bench.lose_reply(rb"^-- Starts a node's lease")
    node = await bench.store.nodes.join(SYSTEM, node_id, name="n", roles=[], ttl_seconds=60)
    assert [member.id for member in await bench.past.nodes.list(SYSTEM)] == [node.id]
    await send(bench.past, 3)
    await claim(bench.store, node_id)
    bench.proxy.lose_commit_reply()
    await bench.store.nodes.leave(SYSTEM, node_id)
    assert await bench.past.nodes.list(SYSTEM) == ()
    counts = await bench.past.queues.counts(DEFAULT, QUEUE)
    assert (counts.ready, counts.claimed) == (3, 0)
