"""A waiting message is settled without a claim: once, and only if nobody has claimed it since."""

import asyncio
from typing import Any

from msgspec import structs

from tests.conformance.acts import (
    WORK,
    claim_one,
    counts,
    make_queue,
    pull,
    release,
    send,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.message import decide
from tickwork.core.message.outcome import Failed, Outcome, Permanent, Succeeded
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    Ending,
    Message,
    QueueSettings,
    Scope,
    State,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

WAIT_SECONDS = 600.0


def ending_of(message: Message, outcome: Outcome | None = None) -> Ending:
    """The ending of a message as if it were claimed once more."""
    taken = structs.replace(message, state=State.CLAIMED, claim=message.claim + 1, holder=new_id())
    return decide.settle(taken, outcome or Succeeded(), QueueSettings())


async def waiting(store: Store, **options: Any) -> Message:
    """A message that a worker released for some time."""
    await make_queue(store)
    await send(store, **options)
    claimed = await claim_one(store)
    await settle(store, release(claimed, delay_seconds=WAIT_SECONDS))
    return await store.messages.get(DEFAULT, WORK, claimed.id)


async def test_a_waiting_message_is_settled_once(store: Store) -> None:
    message = await waiting(store)
    assert await store.messages.settle_unclaimed(DEFAULT, message, ending_of(message))
    assert not await store.messages.settle_unclaimed(DEFAULT, message, ending_of(message))
    assert (await counts(store)).delayed == 0


async def test_of_a_claim_and_a_settlement_exactly_one_wins(
    store: Store, clock: VirtualClock
) -> None:
    message = await waiting(store)
    clock.advance(seconds=WAIT_SECONDS)
    claimed, is_settled = await asyncio.gather(
        pull(store), store.messages.settle_unclaimed(SYSTEM, message, ending_of(message))
    )
    assert len(claimed) + is_settled == 1


async def test_a_message_that_was_claimed_since_is_left_alone(
    store: Store, clock: VirtualClock
) -> None:
    message = await waiting(store)
    clock.advance(seconds=WAIT_SECONDS)
    claimed = await claim_one(store)
    assert not await store.messages.settle_unclaimed(DEFAULT, message, ending_of(message))
    again = release(claimed, delay_seconds=WAIT_SECONDS)
    assert (await settle(store, again)).refused == ()
    assert not await store.messages.settle_unclaimed(DEFAULT, message, ending_of(message))
    assert (await counts(store)).delayed == 1


async def test_another_tenant_settles_nothing(store: Store) -> None:
    message = await waiting(store)
    assert not await store.messages.settle_unclaimed(Scope("b"), message, ending_of(message))
    assert (await counts(store)).delayed == 1


async def test_a_failed_attempt_counts_and_is_retried(store: Store, clock: VirtualClock) -> None:
    message = await waiting(store)
    failed = ending_of(message, Failed("no"))
    assert await store.messages.settle_unclaimed(DEFAULT, message, failed)
    clock.advance(seconds=failed.delay_seconds)
    again = await claim_one(store)
    assert (again.attempts, again.claim, again.last_error) == (1, message.claim + 2, "no")


async def test_a_permanent_failure_leaves_a_dead_letter(store: Store) -> None:
    message = await waiting(store)
    assert await store.messages.settle_unclaimed(
        DEFAULT, message, ending_of(message, Permanent("never"))
    )
    assert (await counts(store)).dead == 1


async def test_the_next_message_of_its_key_becomes_ready(store: Store) -> None:
    message = await waiting(store, key="a")
    await send(store, key="a")
    assert (await counts(store)).blocked == 1
    assert await store.messages.settle_unclaimed(DEFAULT, message, ending_of(message))
    assert (await counts(store)).ready == 1
