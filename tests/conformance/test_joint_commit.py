"""Joint commits: a caller's own rows and a settlement commit together, or not at all."""

import asyncio

import pytest

from tests.conformance.acts import (
    WORK,
    ack,
    claim_one,
    counts,
    create_batch,
    dead,
    die,
    letters,
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
from tickwork.core.message.batch import BatchStatus
from tickwork.core.model import DEFAULT, Counts, Ending, Settlement, SettleResult
from tickwork.errors import ClaimLost, EventDone, InvalidInput, NotFound
from tickwork.store.contract import Store


@pytest.fixture
async def ledger(home: Home) -> Ledger:
    made = ledger_at(home)
    await made.create()
    return made


async def settle_with(
    store: Store, ledger: Ledger, entry: str, *endings: Ending, fails: bool = False
) -> None:
    await store.messages.settle_jointly(
        DEFAULT, Settlement(endings), ledger.writing(entry, fails=fails)
    )


async def test_the_callers_rows_commit_with_the_settlement(store: Store, ledger: Ledger) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send_many(store, 3)
    one, two, three = await pull(store)
    endings = ack(one, sending("next")), retry(two), dead(three, reason="permanent")
    await settle_with(store, ledger, "booked", *endings)
    assert await ledger.entries() == ["booked"]
    assert await counts(store) == Counts(ready=1, dead=1)
    assert await counts(store, "next") == Counts(ready=1)


async def test_an_exception_of_the_caller_rolls_back_everything(
    store: Store, ledger: Ledger
) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send_many(store, 2)
    one, two = await pull(store)
    with pytest.raises(LedgerBroken):
        await settle_with(
            store, ledger, "booked", ack(one, sending("next")), dead(two, reason="no"), fails=True
        )
    assert await ledger.entries() == []
    assert await counts(store) == Counts(claimed=2)
    assert await counts(store, "next") == Counts()
    assert await settle(store, ack(one), ack(two)) == SettleResult()


async def test_an_error_of_the_callers_statement_is_raised_unchanged(
    store: Store, ledger: Ledger
) -> None:
    await make_queue(store)
    await send_many(store, 2)
    one, two = await pull(store)
    await settle_with(store, ledger, "booked", ack(one))
    with pytest.raises(ledger.doubled):
        await settle_with(store, ledger, "booked", ack(two))
    assert await ledger.entries() == ["booked"]
    assert await settle(store, ack(two)) == SettleResult()


async def test_one_lost_claim_rolls_back_everything(
    store: Store, ledger: Ledger, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send(store)
    lost = await claim_one(store)
    await die(store, clock)
    assert (await claim_one(store)).id == lost.id
    await send(store)
    held = await pull_one(store)
    with pytest.raises(ClaimLost, match=str(lost.id)):
        await settle_with(store, ledger, "booked", ack(held, sending("next")), ack(lost))
    assert await ledger.entries() == []
    assert await counts(store) == Counts(claimed=2)
    assert await counts(store, "next") == Counts()
    assert await settle(store, ack(held)) == SettleResult()


async def test_a_duplicate_event_rolls_back_everything(store: Store, ledger: Ledger) -> None:
    """The effect of the event is stored already; a plain ack removes the duplicate."""
    await make_queue(store)
    for _ in range(2):
        await send(store, event_id="paid-1")
    one, two = await pull(store)
    await settle_with(store, ledger, "first", ack(one))
    with pytest.raises(EventDone):
        await settle_with(store, ledger, "second", ack(two))
    assert await ledger.entries() == ["first"]
    assert await counts(store) == Counts(claimed=1)
    assert await settle(store, ack(two)) == SettleResult(duplicates=(two.current_claim,))


async def test_an_invalid_or_undeliverable_send_rolls_back_everything(
    store: Store, ledger: Ledger
) -> None:
    await make_queue(store)
    await send(store)
    message = await pull_one(store)
    with pytest.raises(NotFound, match="nowhere"):
        await settle_with(store, ledger, "one", ack(message, sending("nowhere")))
    with pytest.raises(InvalidInput, match="priority"):
        await settle_with(store, ledger, "two", ack(message, sending(WORK, priority=-1)))
    assert await ledger.entries() == []
    assert await counts(store) == Counts(claimed=1)


async def test_concurrent_joint_settlements_are_isolated(store: Store, ledger: Ledger) -> None:
    await make_queue(store)
    await send_many(store, 12)
    messages = await pull(store)
    answers = await asyncio.gather(
        *(
            settle_with(
                store, ledger, f"entry-{number:02}", dead(message, reason="x"), fails=number == 5
            )
            for number, message in enumerate(messages)
        ),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers if answer is not None] == [LedgerBroken]
    assert await ledger.entries() == [f"entry-{n:02}" for n in range(12) if n != 5]
    assert {letter.message_id for letter in await letters(store)} == {
        message.id for number, message in enumerate(messages) if number != 5
    }
    assert await counts(store) == Counts(claimed=1, dead=11)


async def test_keys_batches_and_dead_letters_commit_with_the_callers_rows(
    store: Store, ledger: Ledger
) -> None:
    await make_queue(store, "grave")
    await make_queue(store, "done")
    await make_queue(store, dead_letter_queue="grave")
    batch = await create_batch(store, news(2, key="a"), completion_queue="done")
    first = await pull_one(store)
    with pytest.raises(LedgerBroken):
        await settle_with(store, ledger, "never", ack(first), fails=True)
    assert await counts(store) == Counts(claimed=1, blocked=1)
    assert (await store.batches.get(DEFAULT, batch.id)).processing == 1
    await settle_with(store, ledger, "first", ack(first))
    second = await pull_one(store)
    with pytest.raises(LedgerBroken):
        await settle_with(store, ledger, "never", dead(second, reason="x"), fails=True)
    assert await counts(store, "grave") == Counts()
    await settle_with(store, ledger, "second", dead(second, reason="x"))
    ended = await store.batches.get(DEFAULT, batch.id)
    assert (ended.status, ended.completed, ended.failed) == (BatchStatus.COMPLETED, 1, 1)
    assert await counts(store) == Counts(dead=1)
    assert await counts(store, "grave") == Counts(ready=1)
    assert await counts(store, "done") == Counts(ready=1)
    assert await ledger.entries() == ["first", "second"]
