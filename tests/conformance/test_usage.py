"""What a tenant used is a count of everything that ended, once, in the hour in which it did."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest

from tests.conformance.acts import (
    ALL,
    ack,
    create_batch,
    dead,
    make_queue,
    make_tenants,
    news,
    pull,
    pull_one,
    retry,
    send_many,
    sending,
    settle,
)
from tests.conformance.test_history import ENDINGS, Ended
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.limits import ENTITIES_PREFIX
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.core.queue.performance import Width, period_of
from tickwork.core.usage import (
    DELIVERY_QUEUES,
    USAGE_KEPT_SECONDS,
    UsageMeasure,
    UsageRow,
    UsageWidth,
)
from tickwork.errors import NotFound
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

_LONG = timedelta(days=500)


async def used(
    store: Store, scope: Scope = DEFAULT, width: UsageWidth = UsageWidth.HOUR
) -> tuple[UsageRow, ...]:
    """All amounts of a tenant, newest first, after the notes are rolled up."""
    while await store.performance.roll_up(SYSTEM, 2):
        pass
    now = await store.now()
    return await store.usage.list(scope, width, now - _LONG, now + _LONG, ALL)


def _sums(rows: tuple[UsageRow, ...]) -> Counter[str]:
    sums = Counter[str]()
    for row in rows:
        sums[row.measure] += row.amount
    return sums


@pytest.mark.parametrize("end", ENDINGS)
async def test_whatever_ends_is_used_once(
    store: Store,
    clock: VirtualClock,
    end: Callable[[Store, VirtualClock], Awaitable[set[Ended]]],
) -> None:
    await make_queue(store)
    outcomes = Counter(outcome for _, outcome, _, _ in await end(store, clock))
    sums = _sums(await used(store))
    assert sums[UsageMeasure.HANDLED] == outcomes["done"]
    assert sums[UsageMeasure.FAILED] == outcomes["dead"] + outcomes["expired"]
    assert sums[UsageMeasure.DISCARDED] == outcomes["discarded"]


async def test_usage_is_exact_with_tenants_batches_retries_and_rollbacks(
    store: Store, clock: VirtualClock
) -> None:
    """Three hours of two tenants, each message once: not when its settlement is rolled back, is
    refused or retries it."""
    await make_queue(store, scope=SYSTEM)
    scopes = await make_tenants(store, "one", "two")
    expected = Counter[tuple[str, datetime, str]]()
    for hour in range(3):
        for number, scope in enumerate(scopes, start=1):
            period = period_of(clock.now(), Width.HOUR)
            await send_many(store, 4 + number + hour, scope=scope)
            await create_batch(store, news(3), scope=scope)
            messages = await pull(store, scope=scope)
            assert len(messages) == 7 + number + hour
            with pytest.raises(NotFound):
                await settle(store, ack(messages[0], sending("nowhere")), scope=scope)
            again, died, *done = messages
            endings = [ack(message, took_seconds=0.5) for message in done]
            await settle(store, retry(again), dead(died, reason="x"), *endings, scope=scope)
            await settle(store, *endings, scope=scope)  # All refused: they have ended.
            clock.advance(seconds=60)
            await settle(store, ack(await pull_one(store, scope=scope)), scope=scope)
            tenant = str(scope.tenant)
            expected[tenant, period, UsageMeasure.HANDLED] += len(messages) - 1
            expected[tenant, period, UsageMeasure.FAILED] += 1
            clock.advance(seconds=60)
        clock.advance(seconds=3_600)

    def counted(rows: tuple[UsageRow, ...]) -> Counter[tuple[str, datetime, str]]:
        shown = (UsageMeasure.HANDLED, UsageMeasure.FAILED, UsageMeasure.DISCARDED)
        return Counter(
            {
                (row.tenant, row.period, row.measure): row.amount
                for row in rows
                if row.measure in shown
            }
        )

    assert counted(await used(store, SYSTEM)) == expected
    for scope in scopes:
        own = {name: count for name, count in expected.items() if name[0] == scope.tenant}
        assert counted(await used(store, scope)) == Counter(own)
    assert await used(store) == ()
    by_day = Counter[tuple[str, datetime, str]]()
    for (tenant, period, measure), count in expected.items():
        by_day[tenant, period_of(period, Width.DAY), measure] += count
    assert counted(await used(store, SYSTEM, UsageWidth.DAY)) == by_day


async def test_handler_seconds_are_those_of_the_last_attempts(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send_many(store, 10)
    messages = await pull(store)
    clock.advance(seconds=20)
    seconds = [0.25 * number for number in range(1, 11)]
    endings = [
        ack(message, took_seconds=took) for message, took in zip(messages, seconds, strict=True)
    ]
    await settle(store, *endings[:6])
    for ending in endings[6:]:
        await settle(store, ending)
    amount = _sums(await used(store))[UsageMeasure.HANDLER_MICROSECONDS]
    assert amount == pytest.approx(sum(seconds) * 1_000_000, abs=10)


async def test_deliveries_and_calls_of_entities_are_no_messages_of_the_tenant(
    store: Store, clock: VirtualClock
) -> None:
    queues = [*sorted(DELIVERY_QUEUES), f"{ENTITIES_PREFIX}carts"]
    for queue in queues:
        await make_queue(store, queue, scope=SYSTEM)
        await send_many(store, 3, queue=queue)
        first, second, third = await pull(store, queue=queue)
        clock.advance(seconds=2)
        await settle(store, ack(first), dead(second, reason="x"), retry(third, delay_seconds=9.0))
    sums = _sums(await used(store))
    assert sums[UsageMeasure.DELIVERIES] == 4
    assert sums[UsageMeasure.ENTITY_CALLS] == 2
    assert sums[UsageMeasure.HANDLED] == sums[UsageMeasure.FAILED] == 0
    # Those of the calls alone: nobody's handler delivers.
    assert sums[UsageMeasure.HANDLER_MICROSECONDS] == pytest.approx(4_000_000, abs=10)


async def test_usage_is_kept_for_400_days(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send_many(store, 1)
    await settle(store, *map(ack, await pull(store)))
    over = period_of(clock.now(), Width.HOUR) + timedelta(seconds=USAGE_KEPT_SECONDS)
    assert await used(store)
    clock.advance(seconds=(over - clock.now()).total_seconds() - 1)
    await store.pruner.prune(SYSTEM, ALL)
    assert _sums(await used(store))[UsageMeasure.HANDLED] == 1
    clock.advance(seconds=1)
    await store.pruner.prune(SYSTEM, ALL)
    assert await used(store) == ()
