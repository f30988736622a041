"""Replays: a dead letter becomes a new message exactly once."""

import asyncio
from datetime import timedelta

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    ack_all,
    counts,
    ids,
    kill_all,
    letters,
    make_queue,
    news,
    pull,
    pull_one,
    send,
    send_many,
    settle,
)
from tests.conformance.test_sends import EVERYTHING
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.message.dead_letter import (
    Pace,
    Replayed,
    Resolution,
    Selection,
    StoredDeadLetter,
)
from tickwork.core.model import DEFAULT, Counts, State
from tickwork.errors import InvalidInput
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def replay(
    store: Store, selection: Selection | None = None, pace: Pace | None = None
) -> tuple[Replayed, ...]:
    return await store.dead_letters.replay(
        DEFAULT, WORK, selection or Selection(limit=ALL), pace or Pace()
    )


async def several(store: Store, clock: VirtualClock, number: int) -> list[StoredDeadLetter]:
    """Dead letters of different ages, oldest first."""
    for _ in range(number):
        await send(store)
        await kill_all(store)
        clock.advance(seconds=1)
    return [*await letters(store)]


async def test_a_replay_is_a_new_message_with_its_causation(
    store: Store, clock: VirtualClock
) -> None:
    queue_id = await make_queue(store)
    sent = await send(store, **EVERYTHING)
    (letter,) = await kill_all(store)
    clock.advance(seconds=60)
    (replayed,) = await replay(store)
    assert replayed.dead_letter_id == letter.id
    assert replayed.message_id != sent.id
    message = await store.messages.get(DEFAULT, WORK, replayed.message_id)
    for field in ("body", "content_type", "priority", "key", "type", "source", "hops"):
        assert getattr(message, field) == getattr(sent, field)
    assert (message.state, message.queue_id) == (State.READY, queue_id)
    assert (message.attempts, message.lost, message.claim) == (0, 0, 0)
    assert message.sent_at == message.visible_at == clock.now()
    assert (message.correlation_id, message.causation_id) == (sent.correlation_id, sent.event_id)
    assert message.event_id == public_id(Prefix.MESSAGE, message.id)
    assert (message.schedule_id, message.slot, message.batch_id) == (None, None, None)


async def test_a_replay_without_an_event_id_names_its_message_as_the_cause(store: Store) -> None:
    await make_queue(store)
    sent = await send(store, correlation_id="cor-1")
    await kill_all(store)
    await replay(store)
    message = await pull_one(store)
    assert (message.event_id, message.causation_id) == (None, public_id(Prefix.MESSAGE, sent.id))
    assert message.correlation_id == "cor-1"


async def test_a_replay_keeps_the_correlation_that_its_message_began(store: Store) -> None:
    await make_queue(store)
    sent = await send(store)
    await kill_all(store)
    await replay(store)
    again = await pull_one(store)
    assert again.correlation_id == public_id(Prefix.MESSAGE, sent.id)


async def test_a_replayed_dead_letter_is_resolved(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    (letter,) = await several(store, clock, 1)
    (replayed,) = await replay(store)
    assert await letters(store) == ()
    assert await counts(store) == Counts(ready=1)
    kept = await store.dead_letters.get(DEFAULT, letter.id)
    assert kept.resolution is Resolution.REPLAYED
    assert (kept.resolved_at, kept.replayed_as) == (clock.now(), replayed.message_id)
    assert await replay(store) == ()
    assert await replay(store, Selection(ids=(letter.id,))) == ()
    assert await counts(store) == Counts(ready=1)


async def test_replays_are_sent_oldest_first_behind_waiting_messages(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    dead_ones = await several(store, clock, 5)
    waiting = await send(store)
    clock.advance(seconds=1)
    replayed = await replay(store)
    assert [pair.dead_letter_id for pair in replayed] == [letter.id for letter in dead_ones]
    found = [pair.message_id for pair in replayed]
    assert await ack_all(store) == [waiting.id, *found]


async def test_a_canary_is_replayed_first_and_then_the_rest(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    dead_ones = await several(store, clock, 5)
    canary = await replay(store, Selection(limit=2))
    assert [pair.dead_letter_id for pair in canary] == [dead_one.id for dead_one in dead_ones[:2]]
    assert [letter.id for letter in await letters(store)] == [
        dead_one.id for dead_one in dead_ones[2:]
    ]
    one = await replay(store, Selection(ids=(dead_ones[3].id,)))
    assert [pair.dead_letter_id for pair in one] == [dead_ones[3].id]
    assert [pair.dead_letter_id for pair in await replay(store)] == [
        dead_ones[2].id,
        dead_ones[4].id,
    ]


async def test_paced_replays_become_visible_one_after_the_other(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await several(store, clock, 4)
    now = clock.now()
    replayed = await replay(store, pace=Pace(first_after_seconds=10, spacing_seconds=2.5))
    assert await counts(store) == Counts(delayed=4)
    for index, pair in enumerate(replayed):
        message = await store.messages.get(DEFAULT, WORK, pair.message_id)
        assert message.visible_at == now + timedelta(seconds=10 + 2.5 * index)
    clock.advance(seconds=10)
    assert ids(await pull(store)) == [replayed[0].message_id]
    clock.advance(seconds=5)
    assert ids(await pull(store)) == [pair.message_id for pair in replayed[1:3]]


async def test_a_pace_has_its_limits(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await several(store, clock, 2)
    year_seconds = 365 * 86_400
    for bad in (
        Pace(first_after_seconds=-1),
        Pace(spacing_seconds=-0.1),
        Pace(first_after_seconds=year_seconds + 1),
        Pace(spacing_seconds=year_seconds),
        Pace(spacing_seconds=float("nan")),
    ):
        with pytest.raises(InvalidInput):
            await replay(store, pace=bad)
    assert await counts(store) == Counts(dead=2)


async def test_a_selection_has_its_limits(store: Store) -> None:
    await make_queue(store)
    bad = [Selection(limit=limit) for limit in (0, -1, 1_001)]
    bad.append(Selection(ids=tuple(new_id() for _ in range(1_001))))
    for selection in bad:
        for act in (
            replay(store, selection),
            store.dead_letters.discard(DEFAULT, WORK, selection),
            store.dead_letters.list(DEFAULT, WORK, selection),
        ):
            with pytest.raises(InvalidInput):
                await act


async def test_a_replay_is_not_copied_to_subscribers(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "audit")
    await send(store, type="paid")
    await kill_all(store)
    await store.subscriptions.put(DEFAULT, "*", "audit")
    assert len(await replay(store)) == 1
    assert await counts(store, "audit") == Counts()


async def test_one_call_replays_up_to_its_maximum(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 1_000)
    await kill_all(store)
    replayed = await replay(store, Selection(limit=1_000))
    assert len({pair.message_id for pair in replayed}) == 1_000
    found = await pull(store)
    assert sorted(ids(found)) == sorted(pair.message_id for pair in replayed)
    await settle(store, *map(ack, found))
    assert await counts(store) == Counts()


async def test_concurrent_replays_never_send_a_dead_letter_twice(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    other = await home.open(clock)
    try:
        for _ in range(5):
            await store.messages.send_batch(DEFAULT, WORK, news(40))
            dead_ones = await kill_all(store)
            answers = await asyncio.gather(
                *(replay((store, other)[n % 2], Selection(limit=30)) for n in range(6)),
                return_exceptions=False,
            )
            replayed = [pair for answer in answers for pair in answer]
            replayed += await replay(store)
            assert sorted(pair.dead_letter_id for pair in replayed) == sorted(
                letter.id for letter in dead_ones
            )
            found = await pull(store)
            assert sorted(ids(found)) == sorted(pair.message_id for pair in replayed)
            await settle(store, *map(ack, found))
        assert await counts(store) == Counts()
    finally:
        await other.close()


async def test_a_concurrent_replay_and_discard_resolve_each_dead_letter_once(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    other = await home.open(clock)
    try:
        await send_many(store, 60)
        await kill_all(store)
        every = Selection(limit=ALL)
        replayed, discarded = await asyncio.gather(
            replay(store, every), other.dead_letters.discard(DEFAULT, WORK, every)
        )
        left = len(await letters(store))
        assert len(replayed) + discarded + left == 60
        assert await counts(store) == Counts(ready=len(replayed), dead=left)
    finally:
        await other.close()
