"""Whatever ends is counted once in its minute and hour, whatever history its queue keeps."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    ack_all,
    dead,
    make_queue,
    make_tenants,
    pull,
    pull_one,
    retry,
    send,
    send_many,
    settle,
)
from tests.conformance.test_history import ENDINGS, Ended
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.history import HistoryDefault, HistoryKept
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.core.queue.performance import (
    KEPT_SECONDS,
    PERCENTILES,
    PeriodPerformance,
    Width,
    percentiles,
    period_of,
)
from tickwork.errors import InvalidInput
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

_LONG = timedelta(days=400)


async def rows(
    store: Store, width: Width = Width.HOUR, *, scope: Scope = DEFAULT, queue: str | None = None
) -> tuple[PeriodPerformance, ...]:
    """All rows of a width, newest first, after the notes are rolled up."""
    while await store.performance.roll_up(SYSTEM, 2):
        pass
    now = await store.now()
    return await store.performance.list(scope, width, now - _LONG, now + _LONG, ALL, queue=queue)


@pytest.mark.parametrize("kept", ["all", "failures", "off"])
@pytest.mark.parametrize("end", ENDINGS)
async def test_whatever_ends_is_counted_once(
    store: Store,
    clock: VirtualClock,
    end: Callable[[Store, VirtualClock], Awaitable[set[Ended]]],
    kept: HistoryKept,
) -> None:
    await store.history.set_default(SYSTEM, HistoryDefault(kept))
    await make_queue(store)
    ended = await end(store, clock)
    outcomes = Counter(outcome for _, outcome, _, _ in ended)
    expected = (outcomes["done"], outcomes["dead"] + outcomes["expired"], outcomes["discarded"])
    for width in (Width.MINUTE, Width.HOUR):
        found = [row.performance for row in await rows(store, width)]
        counts = [(row.done, row.failed, row.discarded) for row in found]
        assert tuple(map(sum, zip(*counts, strict=True))) == expected
        started = sum(attempts > 0 for _, _, _, attempts in ended)
        assert sum(sum(row.runs.values()) for row in found) == started
        assert sum(sum(row.waits.values()) for row in found) == started


async def test_waits_and_runs_are_those_of_the_last_attempt(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store, type="order.placed", delay_seconds=100.0)
    clock.advance(seconds=110)
    await settle(store, retry(await pull_one(store), delay_seconds=50.0))
    clock.advance(seconds=70)
    message = await pull_one(store)
    clock.advance(seconds=5)
    await settle(store, ack(message, took_seconds=4.0))
    (row,) = await rows(store, Width.MINUTE)
    assert (row.period, row.queue) == (period_of(clock.now(), Width.MINUTE), WORK)
    assert row.type == "order.placed"
    (wait,), (run,) = (
        percentiles(histogram, [0.5]) for histogram in (row.performance.waits, row.performance.runs)
    )
    assert wait == pytest.approx(21.0, rel=0.05)
    assert run == pytest.approx(4.0, rel=0.05)


async def test_percentiles_are_near_the_durations(store: Store, clock: VirtualClock) -> None:
    """Both of messages that are acked together and of those that are settled one by one."""
    await make_queue(store)
    seconds = [0.001 * 1.13**power for power in range(100)]
    await send_many(store, 100)
    clock.advance(seconds=10_000_000)
    messages = await pull(store, limit=100)
    endings = [
        ack(message, took_seconds=took) for message, took in zip(messages, seconds, strict=True)
    ]
    await settle(store, *endings[::2])
    for ending in endings[1::2]:
        await settle(store, ending)
    (row,) = await rows(store)
    exact = [seconds[int(share * 100) - 1] for share in PERCENTILES]
    assert percentiles(row.performance.runs, PERCENTILES) == pytest.approx(exact, rel=0.05)


async def test_two_that_roll_up_at_once_count_each_note_once(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    for _ in range(5):
        await send_many(store, 4)
        await ack_all(store)
        await asyncio.gather(*(store.performance.roll_up(SYSTEM, 3) for _ in range(4)))
    clock.advance(seconds=3_660)
    await send_many(store, 4)
    await ack_all(store)
    assert [row.performance.done for row in await rows(store)] == [4, 20]


async def test_a_tenant_sees_only_its_own_rows(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    for scope, messages in ((one, 2), (two, 3)):
        await send_many(store, messages, scope=scope)
    await settle(store, *map(ack, await pull(store, scope=SYSTEM)), scope=SYSTEM)
    assert [row.performance.done for row in await rows(store, scope=one)] == [2]
    assert [row.performance.done for row in await rows(store, scope=two)] == [3]
    assert await rows(store) == ()
    with pytest.raises(InvalidInput):
        await store.performance.roll_up(one, 1)


async def test_rows_are_found_by_queue_type_and_time(store: Store, clock: VirtualClock) -> None:
    for queue in (WORK, "other"):
        await make_queue(store, queue)
        for type_ in ("a", "b"):
            await send(store, queue=queue, type=type_)
        await ack_all(store, queue=queue)
    began = period_of(clock.now(), Width.HOUR)
    clock.advance(seconds=7_200)
    await send(store, type="a")
    await settle(store, dead(await pull_one(store), reason="x"))
    assert len(await rows(store)) == 5
    assert len(await rows(store, queue="other")) == 2

    async def found(**filters: str) -> list[tuple[str, str | None]]:
        until = began + timedelta(hours=1)
        listed = await store.performance.list(DEFAULT, Width.HOUR, began, until, ALL, **filters)
        return [(row.queue, row.type) for row in listed]

    assert await found() == [("other", "a"), ("other", "b"), (WORK, "a"), (WORK, "b")]
    assert await found(type="a", queue=WORK) == [(WORK, "a")]


async def test_minutes_are_kept_for_days_and_hours_for_months(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)
    await ack_all(store)
    assert len(await rows(store, Width.MINUTE)) == 1
    began = clock.now()
    for width, left in ((Width.MINUTE, (0, 1)), (Width.HOUR, (0, 0))):
        over = began + timedelta(seconds=KEPT_SECONDS[width])
        clock.advance(seconds=(over - clock.now()).total_seconds() - 3_600)
        await store.pruner.prune(SYSTEM, ALL)
        assert len(await rows(store, width)) == 1
        clock.advance(seconds=3_600)
        await store.pruner.prune(SYSTEM, ALL)
        assert (len(await rows(store, Width.MINUTE)), len(await rows(store))) == left
