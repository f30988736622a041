"""Settlements: all effects of a handler's outcome commit together or not at all."""

import asyncio
from datetime import timedelta

import pytest
from msgspec import structs

from tests.conformance.acts import (
    WORK,
    ack,
    claim,
    claim_one,
    counts,
    dead,
    ids,
    join,
    letters,
    make_queue,
    make_tenants,
    new,
    pull,
    pull_one,
    release,
    retry,
    send,
    send_many,
    sending,
    settle,
)
from tests.conformance.test_sends import EVERYTHING
from tests.stores.clock import VirtualClock
from tickwork.core.message.dead_letter import Selection, StoredDeadLetter
from tickwork.core.model import (
    DEFAULT,
    REASON_MAX_RETRIES,
    REASONS_NOT_HANDLED,
    SYSTEM,
    Counts,
    Send,
    SettleResult,
    State,
)
from tickwork.errors import InvalidInput, NotFound
from tickwork.store.contract import Store


async def test_an_acked_message_is_deleted(store: Store) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    assert await settle(store, ack(message)) == SettleResult()
    assert await counts(store) == Counts()
    with pytest.raises(NotFound, match=message.id.hex):
        await store.messages.get(DEFAULT, WORK, message.id)


async def test_a_retry_counts_an_attempt_and_comes_back_after_its_delay(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    clock.advance(seconds=3)
    assert await settle(store, retry(message, delay_seconds=30, error="boom")) == SettleResult()
    assert await store.messages.get(DEFAULT, WORK, message.id) == structs.replace(
        message,
        state=State.READY,
        holder=None,
        claimed_at=None,
        attempts=1,
        visible_at=clock.now() + timedelta(seconds=30),
        last_error="boom",
    )
    clock.advance(seconds=29)
    assert await counts(store) == Counts(delayed=1)
    clock.advance(seconds=1)
    again = await claim_one(store)
    assert (again.attempts, again.claim, again.last_error) == (1, 2, "boom")


async def test_a_retry_without_delay_is_visible_at_once(store: Store) -> None:
    await make_queue(store)
    await send(store)
    await settle(store, retry(await claim_one(store), delay_seconds=0))
    assert (await claim_one(store)).attempts == 1


async def test_a_release_counts_no_attempt(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    await settle(store, release(message, delay_seconds=5))
    assert await pull(store) == ()
    clock.advance(seconds=5)
    again = await claim_one(store)
    assert (again.attempts, again.lost, again.claim) == (0, 0, 2)


async def test_an_error_is_kept_until_the_next_one(store: Store) -> None:
    await make_queue(store)
    await send(store)
    seen = []
    for error in ("first", None, "second"):
        await settle(store, retry(await claim_one(store), error=error))
        (message,) = await store.messages.peek(DEFAULT, WORK, 1)
        seen.append(message.last_error)
    assert seen == ["first", "first", "second"]


async def test_a_store_retries_regardless_of_the_attempts(store: Store) -> None:
    """The store does not decide how often: the settlement says retry or dead."""
    await make_queue(store, max_retries=0)
    await send(store)
    for _ in range(3):
        await settle(store, retry(await pull_one(store)))
    assert (await pull_one(store)).attempts == 3


async def test_a_dead_letter_keeps_every_field_of_its_message(
    store: Store, clock: VirtualClock
) -> None:
    queue_id = await make_queue(store)
    sent = await send(store, **EVERYTHING)
    await settle(store, retry(await pull_one(store)))
    sent_at = clock.now()
    clock.advance(seconds=7)
    message = await pull_one(store)
    await settle(store, dead(message, reason=REASON_MAX_RETRIES, error="no such order"))
    (letter,) = await letters(store)
    assert letter == StoredDeadLetter(
        id=letter.id,
        tenant="default",
        queue_id=queue_id,
        message_id=sent.id,
        reason=REASON_MAX_RETRIES,
        error="no such order",
        fingerprint="no such order",
        attempts=2,
        failed_at=clock.now(),
        resolution=None,
        resolved_at=None,
        edited_at=None,
        replayed_as=None,
        batch_id=None,
        receiver=None,
        format=message.format,
        sent_at=sent_at,
        **{
            field: EVERYTHING[field]
            for field in StoredDeadLetter.__struct_fields__
            if field in EVERYTHING
        },
    )
    assert letter.id != sent.id
    assert await counts(store) == Counts(dead=1)


@pytest.mark.parametrize(
    ("reason", "attempts"),
    [
        (REASON_MAX_RETRIES, 1),
        ("permanent", 1),
        *((reason, 0) for reason in sorted(REASONS_NOT_HANDLED)),
    ],
)
async def test_a_dead_letter_counts_an_attempt_if_a_handler_ran(
    store: Store, reason: str, attempts: int
) -> None:
    await make_queue(store)
    await send(store)
    await settle(store, dead(await pull_one(store), reason=reason))
    (letter,) = await letters(store)
    assert (letter.reason, letter.attempts) == (reason, attempts)


async def test_a_dead_letter_without_an_error_shows_the_last_one(store: Store) -> None:
    await make_queue(store)
    await send(store)
    await settle(store, retry(await pull_one(store), error="first"))
    await settle(store, dead(await pull_one(store), reason="given up"))
    (letter,) = await letters(store)
    assert letter.error == "first"


async def test_dead_letters_are_listed_oldest_first(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    sent = await send_many(store, 3)
    for message in reversed(await pull(store)):
        await settle(store, dead(message, reason="late"))
        clock.advance(seconds=1)
    assert [letter.message_id for letter in await letters(store)] == ids(sent)[::-1]
    assert len((await store.dead_letters.list(DEFAULT, WORK, Selection(limit=2))).letters) == 2


async def test_one_settlement_can_end_messages_in_different_ways(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 4)
    one, two, three, four = await claim(store, await join(store))
    result = await settle(
        store, ack(one), retry(two), release(three), dead(four, reason="permanent")
    )
    assert result == SettleResult()
    assert await counts(store) == Counts(ready=2, dead=1)
    back = {message.id: message.attempts for message in await pull(store)}
    assert back == {two.id: 1, three.id: 0}


async def test_an_empty_settlement_does_nothing(store: Store) -> None:
    assert await settle(store) == SettleResult()


async def test_sends_are_stored_with_every_kind_of_ending(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send_many(store, 4)
    one, two, three, four = await pull(store)
    sends = [(sending("next"), sending("next")) for _ in range(4)]
    await settle(
        store,
        ack(one, *sends[0]),
        retry(two, sends=sends[1]),
        release(three, sends=sends[2]),
        dead(four, reason="permanent", sends=sends[3]),
    )
    sent = [send.message.id for pair in sends for send in pair]
    assert sorted(ids(await pull(store, queue="next"))) == sorted(sent)


async def test_a_sent_message_of_a_settlement_is_stored_as_it_was_sent(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)
    following = new(delay_seconds=60, **EVERYTHING)
    clock.advance(seconds=1)
    await settle(store, ack(await pull_one(store), Send(WORK, following)))
    stored = await store.messages.get(DEFAULT, WORK, following.id)
    assert stored.visible_at == clock.now() + timedelta(seconds=60)
    assert {field: getattr(stored, field) for field in EVERYTHING} == EVERYTHING


async def test_a_repeated_send_of_a_settlement_is_one_message(store: Store) -> None:
    await make_queue(store)
    known = await send(store, delay_seconds=10)
    await send(store)
    result = await settle(store, ack(await pull_one(store), Send(WORK, known), Send(WORK, known)))
    assert result == SettleResult()
    assert await counts(store) == Counts(delayed=1)


async def test_sends_belong_to_the_tenant_of_their_message(store: Store) -> None:
    """Also if the system settles: queue names are resolved for the message's tenant."""
    (tenant,) = await make_tenants(store, "one")
    await make_queue(store, scope=SYSTEM)
    await make_queue(store, "next", scope=SYSTEM)
    await make_queue(store, "next", scope=tenant)
    await send(store, scope=tenant)
    message = await pull_one(store, scope=SYSTEM)
    await settle(store, ack(message, sending("next"), sending(WORK)), scope=SYSTEM)
    assert await counts(store, "next", scope=SYSTEM) == Counts()
    assert await counts(store, "next", scope=tenant) == Counts(ready=1)
    assert await counts(store, WORK, scope=tenant) == Counts(ready=1)


async def test_a_settlement_that_sends_to_an_unknown_queue_does_nothing(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send_many(store, 3)
    one, two, three = await pull(store)
    with pytest.raises(NotFound, match="nowhere"):
        await settle(store, ack(one, sending("next")), ack(two, sending("nowhere")), ack(three))
    assert await counts(store) == Counts(claimed=3)
    assert await counts(store, "next") == Counts()
    assert await settle(store, ack(one), ack(two), ack(three)) == SettleResult()


async def test_a_settlement_with_an_invalid_send_does_nothing(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 2)
    one, two = await pull(store)
    with pytest.raises(InvalidInput, match="priority"):
        await settle(store, ack(one), ack(two, sending(WORK, priority=11)))
    assert await counts(store) == Counts(claimed=2)


async def test_concurrent_settlements_are_answered_separately(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "next")
    await send_many(store, 30)
    messages = await pull(store)
    await settle(store, ack(messages[20]))

    answers = await asyncio.gather(
        *(
            settle(store, ack(message, sending("nowhere" if number == 10 else "next")))
            for number, message in enumerate(messages)
        ),
        return_exceptions=True,
    )
    assert isinstance(answers[10], NotFound)
    assert answers[20] == SettleResult(refused=(messages[20].current_claim,))
    fine = [answer for number, answer in enumerate(answers) if number not in (10, 20)]
    assert fine == [SettleResult()] * 28
    assert await counts(store) == Counts(claimed=1)
    assert await counts(store, "next") == Counts(ready=28)
