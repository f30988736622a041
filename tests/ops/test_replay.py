"""A replay sends dead letters in chunks, at a rate, after canaries, and each at most once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.conformance.acts import (
    WORK,
    ack,
    counts,
    dead,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    release,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.answers.dead_letter import ReplaySummary, StopReason
from tickwork.core.message.dead_letter import Pace, Resolution, Selection
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Message, QueueSettings
from tickwork.core.operation import CANARY_POLL_SECONDS
from tickwork.errors import InvalidInput, NotFound
from tickwork.ops import dead_letters
from tickwork.ops.context import Context
from tickwork.ops.dead_letters import discard, replay
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["model", *KINDS], indirect=True)

ALL = Selection()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the size of a chunk from a thousand to four, and a page looks at three rows."""
    monkeypatch.setattr(dead_letters, "DEAD_LETTERS_AT_ONCE_MAX", 4)
    monkeypatch.setattr(dead_letters, "LOOKED_AT_MAX", 3)


async def make_dead_letters(
    store: Store, number: int, *, error: str = "no", kind: str = "a"
) -> None:
    """Dead letters that died one after another, in the order in which they were sent."""
    sent = await send_many(store, number, type=kind)
    by_id = {message.id: message for message in await pull(store)}
    for message in sent:
        await settle(store, dead(by_id[message.id], reason="permanent", error=error))


class Consumer:
    """A sleep that advances the clock and runs a consumer."""

    def __init__(self, clock: VirtualClock, handle: Callable[[], Awaitable[None]]) -> None:
        self._clock, self._handle = clock, handle
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self._clock.advance(seconds=seconds)
        await self._handle()


async def handle_all(store: Store, *, dying: int = 0) -> list[Message]:
    """Handles the visible messages; the first of them die."""
    messages = [*await pull(store)]
    for index, message in enumerate(messages):
        end = dead(message, reason="permanent", error="no") if index < dying else ack(message)
        await settle(store, end)
    return messages


@pytest.mark.usefixtures("small_chunks")
async def test_all_are_replayed_in_chunks_oldest_first(store: Store) -> None:
    await make_queue(store)
    await make_dead_letters(store, 10)
    bodies = [letter.body for letter in (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters]
    told: list[tuple[int, int]] = []
    summary = await replay(
        Context(store, DEFAULT), WORK, ALL, on_progress=lambda done, most: told.append((done, most))
    )
    assert summary == ReplaySummary(replayed=10)
    assert told == [(4, 10), (8, 10), (10, 10)]
    assert await counts(store) == Counts(ready=10)
    assert [message.body for message in await store.messages.peek(DEFAULT, WORK, 100)] == bodies


@pytest.mark.usefixtures("small_chunks")
async def test_a_limit_leaves_the_newer_ones(store: Store) -> None:
    await make_queue(store)
    await make_dead_letters(store, 10)
    letters = (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters
    assert (await replay(Context(store, DEFAULT), WORK, ALL, limit=7)).replayed == 7
    assert (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters == letters[7:]


@pytest.mark.usefixtures("small_chunks")
async def test_only_selected_dead_letters_are_replayed(store: Store) -> None:
    await make_queue(store)
    await make_dead_letters(store, 6, kind="a")
    await make_dead_letters(store, 6, kind="b")
    assert (await replay(Context(store, DEFAULT), WORK, Selection(type="b"))).replayed == 6
    assert {
        letter.type for letter in (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters
    } == {"a"}
    (first, *_) = (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters
    assert (await replay(Context(store, DEFAULT), WORK, Selection(ids=(first.id,)))).replayed == 1
    assert (await store.dead_letters.get(DEFAULT, first.id)).resolution is Resolution.REPLAYED


@pytest.mark.usefixtures("small_chunks")
async def test_a_rate_continues_across_chunks(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await make_dead_letters(store, 10)
    await replay(Context(store, DEFAULT), WORK, ALL, rate_per_second=2)
    ready = []
    for _ in range(10):
        ready.append((await counts(store)).ready)
        clock.advance(seconds=0.5)
    assert ready == [*range(1, 11)]


async def test_a_message_that_dies_again_is_not_replayed_again(store: Store) -> None:
    await make_queue(store, max_retries=0)
    await make_dead_letters(store, 3)

    async def die() -> None:
        await handle_all(store, dying=100)

    class Killing:
        """A store whose consumer is quicker than the replay."""

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def now(self) -> object:
            await die()
            return await store.now()

    killing: Store = Killing()  # type: ignore[assignment]
    assert (await replay(Context(killing, DEFAULT), WORK, Selection())).replayed == 3


class Consumed:
    """A store whose consumer lets every message die between two reads of the clock."""

    def __init__(self, store: Store, clock: VirtualClock, *, step_seconds: float) -> None:
        self._store, self._clock, self._step_seconds = store, clock, step_seconds

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def now(self) -> object:
        self._clock.advance(seconds=self._step_seconds)
        await handle_all(self._store, dying=100)
        return await self._store.now()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("step_seconds", [0, 1])
async def test_a_selected_message_that_dies_again_is_not_replayed_again(
    store: Store, clock: VirtualClock, step_seconds: float
) -> None:
    await make_queue(store)
    await make_dead_letters(store, 20, kind="b")
    await make_dead_letters(store, 6, kind="a")
    before = (await store.dead_letters.list(DEFAULT, WORK, Selection(type="a"))).letters
    consumed: Store = Consumed(store, clock, step_seconds=step_seconds)  # type: ignore[assignment]
    told: list[int] = []
    summary = await replay(
        Context(consumed, DEFAULT),
        WORK,
        Selection(type="a"),
        on_progress=lambda _, most: told.append(most),
    )
    assert summary == ReplaySummary(replayed=6)
    assert told == [6, 6]
    for letter in before:
        found = await store.dead_letters.get(DEFAULT, letter.id)
        assert found.resolution is Resolution.REPLAYED


@pytest.mark.usefixtures("small_chunks")
async def test_dead_letters_resolved_by_others_are_not_replaced_by_new_ones(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_dead_letters(store, 10)

    class Shared(Consumed):
        """Somebody else replays some of the same letters after the replay began."""

        looks = 0

        async def now(self) -> object:
            self.looks += 1
            if self.looks == 2:
                await store.dead_letters.replay(DEFAULT, WORK, Selection(limit=4), Pace())
            return await super().now()

    shared: Store = Shared(store, clock, step_seconds=1)  # type: ignore[assignment]
    assert (await replay(Context(shared, DEFAULT), WORK, ALL)).replayed == 6


async def test_an_empty_queue_has_nothing_to_replay(store: Store) -> None:
    await make_queue(store)
    assert await replay(Context(store, DEFAULT), WORK, ALL, canary=5) == ReplaySummary()


@pytest.mark.usefixtures("small_chunks")
async def test_the_rest_is_replayed_after_the_canaries_succeed(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_dead_letters(store, 10)
    handled: list[int] = []

    async def handle() -> None:
        handled.append(len(await handle_all(store)))

    consumer = Consumer(clock, handle)
    summary = await replay(Context(store, DEFAULT), WORK, ALL, canary=3, sleep=consumer.sleep)
    assert summary == ReplaySummary(replayed=10, canaries=3)
    assert handled == [3]
    assert consumer.sleeps == [CANARY_POLL_SECONDS]
    assert await counts(store) == Counts(ready=7)


@pytest.mark.usefixtures("small_chunks")
async def test_a_canary_that_dies_stops_the_rest(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    # Of the same kind as the one that dies again, so that it must be told from them by its id.
    await make_dead_letters(store, 10)

    async def handle() -> None:
        await handle_all(store, dying=2)

    summary = await replay(
        Context(store, DEFAULT), WORK, ALL, canary=3, sleep=Consumer(clock, handle).sleep
    )
    assert summary == ReplaySummary(
        replayed=3, canaries=3, canaries_failed=2, stopped=StopReason.CANARY_DIED
    )
    assert await counts(store) == Counts(dead=9)


async def test_another_message_that_dies_does_not_stop_the_replay(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_dead_letters(store, 5)

    async def handle() -> None:
        await handle_all(store)
        await make_dead_letters(store, 1)

    summary = await replay(
        Context(store, DEFAULT), WORK, ALL, limit=5, canary=2, sleep=Consumer(clock, handle).sleep
    )
    assert summary == ReplaySummary(replayed=5, canaries=2)


async def test_canaries_that_time_out_stop_the_rest(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await make_dead_letters(store, 5)

    async def snooze() -> None:
        for message in await pull(store):
            await settle(store, release(message))

    began = clock.now()
    summary = await replay(
        Context(store, DEFAULT),
        WORK,
        ALL,
        canary=2,
        rate_per_second=0.1,
        canary_timeout_seconds=60,
        sleep=Consumer(clock, snooze).sleep,
    )
    assert summary == ReplaySummary(replayed=2, canaries=2, stopped=StopReason.CANARY_TIMEOUT)
    # Two turns of ten seconds, and then a minute.
    assert (clock.now() - began).total_seconds() == pytest.approx(80, abs=1)
    assert (await counts(store)).dead == 3


async def test_as_many_canaries_as_dead_letters_replay_all(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await make_dead_letters(store, 2)

    async def handle() -> None:
        await handle_all(store)

    summary = await replay(
        Context(store, DEFAULT), WORK, ALL, canary=50, sleep=Consumer(clock, handle).sleep
    )
    assert summary == ReplaySummary(replayed=2, canaries=2)


@pytest.mark.usefixtures("small_chunks")
async def test_a_full_queue_stops_the_replay_and_loses_nothing(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 6, body=b"x" * 50_000)
    for message in await pull(store):
        await settle(store, dead(message, reason="permanent"))
    await store.queues.put(DEFAULT, WORK, QueueSettings(backlog_bytes_max=250_000))
    summary = await replay(Context(store, DEFAULT), WORK, ALL)
    assert summary == ReplaySummary(replayed=4, stopped=StopReason.BACKLOG_FULL)
    assert await counts(store) == Counts(ready=4, dead=2)


@pytest.mark.usefixtures("small_chunks")
async def test_many_dead_letters_are_discarded_in_chunks(store: Store) -> None:
    await make_queue(store)
    await make_dead_letters(store, 6, kind="a")
    await make_dead_letters(store, 6, kind="b")
    told: list[int] = []
    done = await discard(
        Context(store, DEFAULT),
        WORK,
        Selection(type="a"),
        on_progress=lambda now, _: told.append(now),
    )
    assert done == 6
    assert told == [4, 6]
    assert await discard(Context(store, DEFAULT), WORK, ALL, limit=2) == 2
    assert await counts(store) == Counts(dead=4)


async def test_a_tenant_replays_only_its_own_dead_letters_of_a_shared_queue(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    for scope in await make_tenants(store, "acme", "other"):
        await send_many(store, 1, scope=scope)
        message = await pull_one(store, scope=scope)
        await settle(store, dead(message, reason="permanent"), scope=scope)
    (acme,) = await make_tenants(store, "acme")
    assert (await replay(Context(store, acme), WORK, ALL)).replayed == 1
    assert (await counts(store, scope=SYSTEM)) == Counts(ready=1, dead=1)
    assert (await replay(Context(store, SYSTEM), WORK, ALL)).replayed == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"canary": -1}, "canary"),
        ({"canary": 101}, "canary"),
        ({"rate_per_second": 0.0}, "rate_per_second"),
        ({"rate_per_second": float("nan")}, "rate_per_second"),
        ({"canary_timeout_seconds": 0.0}, "canary_timeout_seconds"),
    ],
)
async def test_invalid_options_are_refused_by_field(
    store: Store, options: dict[str, float], field: str
) -> None:
    await make_queue(store)
    await make_dead_letters(store, 1)
    with pytest.raises(InvalidInput) as refused:
        await replay(Context(store, DEFAULT), WORK, ALL, **options)  # type: ignore[arg-type]
    assert [error.field for error in refused.value.errors] == [field]
    assert await counts(store) == Counts(dead=1)


async def test_a_rate_that_takes_over_a_year_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "DELAY_SECONDS_MAX", 1_500)
    await make_queue(store)
    await make_dead_letters(store, 2)
    with pytest.raises(InvalidInput, match="more than a year"):
        await replay(Context(store, DEFAULT), WORK, ALL, rate_per_second=0.001)
    # What is not chosen takes no time.
    first, _ = (await store.dead_letters.list(DEFAULT, WORK, ALL)).letters
    one = Selection(ids=(first.id,))
    assert (await replay(Context(store, DEFAULT), WORK, one, rate_per_second=0.001)).replayed == 1
    await make_dead_letters(store, 1, kind="b")
    chosen = Selection(type="b")
    assert (
        await replay(Context(store, DEFAULT), WORK, chosen, rate_per_second=0.001)
    ).replayed == 1
    assert (
        await replay(Context(store, DEFAULT), WORK, ALL, rate_per_second=0.001, limit=1)
    ).replayed == 1


async def test_a_missing_queue_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await replay(Context(store, DEFAULT), WORK, ALL)
