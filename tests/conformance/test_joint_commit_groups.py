"""Concurrent joint settlements may share a transaction, and a failure affects only its own."""

import asyncio
from typing import NamedTuple

import pytest

from tests.conformance.acts import (
    ack,
    claim_one,
    counts,
    create_batch,
    die,
    make_queue,
    news,
    pull,
    pull_one,
    retry,
    send,
    send_many,
    sending,
    settle,
)
from tests.conformance.ledger import Ledger, LedgerBroken, ledger_at
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.limits import BODY_BYTES_MAX
from tickwork.core.message.batch import BatchStatus
from tickwork.core.model import DEFAULT, Counts, Ending, Message, Settlement, SettleResult
from tickwork.errors import BacklogFull, ClaimLost, EventDone, NotFound
from tickwork.store.contract import Store


@pytest.fixture
async def ledger(home: Home) -> Ledger:
    made = ledger_at(home)
    await made.create()
    return made


class Joint(NamedTuple):
    """How a message ends, and what its caller writes."""

    ending: Ending
    entry: str
    fails: bool = False


def joint(message: Message) -> Joint:
    return Joint(ack(message, sending("next")), f"of {message.id}")


async def settled_at_once(
    store: Store, ledger: Ledger, joints: list[Joint]
) -> dict[int, type[BaseException]]:
    """Settles all of them concurrently and returns the errors of those that failed."""
    answers = await asyncio.gather(
        *(
            store.messages.settle_jointly(
                DEFAULT,
                Settlement((settlement.ending,)),
                ledger.writing(settlement.entry, fails=settlement.fails),
            )
            for settlement in joints
        ),
        return_exceptions=True,
    )
    return {place: type(answer) for place, answer in enumerate(answers) if answer is not None}


async def test_a_failing_settlement_does_not_fail_others_in_its_group(
    store: Store, ledger: Ledger, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    lost = await claim_one(store)
    await die(store, clock)
    assert (await pull_one(store)).id == lost.id
    for _ in range(2):
        await send(store, event_id="paid-1")
    paid, double = await pull(store)
    assert await settle(store, ack(paid)) == SettleResult()
    await send_many(store, 10)
    first, *held = await pull(store)
    assert await settled_at_once(store, ledger, [Joint(ack(first), "booked before")]) == {}
    joints = [joint(message) for message in (*held[:5], lost, double, *held[5:])]
    joints[1] = joints[1]._replace(fails=True)
    joints[3] = joints[3]._replace(entry="booked before")
    joints[9] = joints[9]._replace(ending=ack(held[7], sending("nowhere")))
    bad = {1: LedgerBroken, 3: ledger.doubled, 5: ClaimLost, 6: EventDone, 9: NotFound}
    assert await settled_at_once(store, ledger, joints) == bad
    good = [settlement for place, settlement in enumerate(joints) if place not in bad]
    booked = sorted(["booked before", *(settlement.entry for settlement in good)])
    assert await ledger.entries() == booked
    assert await counts(store, "next") == Counts(ready=len(good))
    assert await counts(store) == Counts(claimed=len(bad))
    again = await settled_at_once(store, ledger, good)
    assert again == dict.fromkeys(range(len(good)), ClaimLost)
    assert await ledger.entries() == booked


async def test_of_two_concurrent_endings_of_one_claim_one_counts(
    store: Store, ledger: Ledger
) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send_many(store, 2)
    one, two = await pull(store)
    twice = Joint(retry(one), "the second")
    failed = await settled_at_once(store, ledger, [joint(one), twice, joint(two)])
    assert [*failed.values()] == [ClaimLost]
    assert len(await ledger.entries()) == 2
    assert f"of {two.id}" in await ledger.entries()


async def test_two_concurrent_settlements_of_one_event_have_one_effect(
    store: Store, ledger: Ledger
) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    for event in ("paid-1", "paid-2", "paid-1"):
        await send(store, event_id=event)
    joints = [joint(message) for message in await pull(store)]
    failed = await settled_at_once(store, ledger, joints)
    assert [*failed.values()] == [EventDone]
    assert await counts(store, "next") == Counts(ready=2)
    assert await counts(store) == Counts(claimed=1)
    assert len(await ledger.entries()) == 2


async def test_a_full_queue_fails_only_the_settlements_that_send_to_it(
    store: Store, ledger: Ledger
) -> None:
    await make_queue(store)
    await make_queue(store, "next", backlog_bytes_max=BODY_BYTES_MAX)
    await send(store, queue="next", body=b"x" * (BODY_BYTES_MAX - 10))
    await send_many(store, 8)
    joints = [
        joint(message)._replace(
            ending=ack(message, sending("next", body=b"x" * 1_000)) if place % 2 else ack(message)
        )
        for place, message in enumerate(await pull(store))
    ]
    failed = await settled_at_once(store, ledger, joints)
    assert failed == dict.fromkeys(range(1, 8, 2), BacklogFull)
    assert await counts(store, "next") == Counts(ready=1)
    assert await counts(store) == Counts(claimed=4)
    assert await ledger.entries() == sorted(settlement.entry for settlement in joints[::2])


async def test_a_batch_whose_items_settle_together_completes(store: Store, ledger: Ledger) -> None:
    """More settlements than fit into one group."""
    await make_queue(store)
    await make_queue(store, "next")
    await make_queue(store, "done")
    batch = await create_batch(store, news(120), completion_queue="done")
    joints: list[Joint] = []
    while messages := await pull(store):
        joints += map(joint, messages)
    joints[70] = joints[70]._replace(fails=True)
    assert await settled_at_once(store, ledger, joints) == {70: LedgerBroken}
    assert await counts(store, "done") == Counts()
    assert (await store.batches.get(DEFAULT, batch.id)).completed == 119
    assert await settled_at_once(store, ledger, [joints[70]._replace(fails=False)]) == {}
    assert (await store.batches.get(DEFAULT, batch.id)).status is BatchStatus.COMPLETED
    assert await counts(store, "done") == Counts(ready=1)
    assert len(await ledger.entries()) == 120
