"""Statistics: the counts of a queue, the age of its oldest message, and its counters."""

from collections import Counter
from datetime import timedelta

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    claim,
    counts,
    create_batch,
    dead,
    die,
    join,
    kill_all,
    kill_holders,
    make_queue,
    make_tenants,
    new,
    news,
    pull,
    pull_one,
    release,
    retry,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.message.dead_letter import DEAD_LETTER_RETENTION_SECONDS, Pace, Selection
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings, Scope
from tickwork.core.queue.stats import CounterName, DeadCount, TypeCount, Waiting
from tickwork.errors import InvalidInput
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def passed(
    store: Store, queue: str = WORK, *, scope: Scope = DEFAULT
) -> dict[CounterName, int]:
    """The counters of the last minutes."""
    sums: Counter[CounterName] = Counter()
    for minute in (await store.stats.queue(scope, queue)).minutes:
        sums[minute.counter] += minute.messages
    return dict(sums)


async def test_an_unused_queue_has_empty_statistics(store: Store) -> None:
    await make_queue(store)
    stats = await store.stats.queue(DEFAULT, WORK)
    assert (stats.oldest_age_seconds, stats.minutes, stats.kinds) == (None, (), ())
    assert stats.counts == await counts(store)


async def test_claims_that_came_back_from_dead_workers_are_counted(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send_many(store, 2, type="a")
    await send(store, type="b", source="mill")
    node = await join(store)
    await claim(store, node)
    await store.nodes.leave(SYSTEM, node)
    await pull(store, lease_seconds=1)
    await die(store, clock)
    assert CounterName.LOST not in await passed(store), "no worker died"
    await kill_holders(store, clock, 1)
    assert (await passed(store))[CounterName.LOST] == 3
    kinds = (await store.stats.queue(DEFAULT, WORK)).kinds
    assert [kind for kind in kinds if kind.counter is CounterName.LOST] == [
        TypeCount("a", None, CounterName.LOST, 2),
        TypeCount("b", "mill", CounterName.LOST, 1),
    ]
    await kill_holders(store, clock, 2 + 3)
    told = await passed(store)
    assert (told[CounterName.LOST], told[CounterName.DEAD]) == (9, 3), "twice, then each died alone"


@pytest.mark.parametrize("cap", [None, 128_000])
async def test_a_message_given_twice_in_one_send_is_counted_once(
    store: Store, cap: int | None
) -> None:
    await make_queue(store, backlog_bytes_max=cap)
    message = new()
    await store.messages.send_batch(DEFAULT, WORK, [message, new(), message])
    assert await passed(store) == {CounterName.SENT: 2}
    assert (await counts(store)).ready == 2


async def test_the_statistics_include_the_queues_counts(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 4)
    await send(store, delay_seconds=60)
    await send(store, key="a")
    await send(store, key="a")
    await settle(store, dead(await pull_one(store, limit=1), reason="x"))
    await pull(store, limit=2)
    stats = await store.stats.queue(DEFAULT, WORK)
    assert stats.counts == await counts(store)
    assert (stats.counts.blocked, stats.counts.dead, stats.counts.claimed) == (1, 1, 2)


async def test_ready_messages_that_have_waited_for_a_minute_are_late(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)

    async def late() -> int:
        return (await store.stats.queue(DEFAULT, WORK)).late

    await send_many(store, 2)
    await send(store, delay_seconds=30)
    clock.advance(seconds=59)
    assert await late() == 0
    clock.advance(seconds=1)
    assert await late() == 2
    clock.advance(seconds=30)
    assert await late() == 3
    await pull(store)
    assert await late() == 0


async def test_messages_that_died_within_a_day_are_counted_by_type(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)

    async def died() -> tuple[DeadCount, ...]:
        return (await store.stats.queue(DEFAULT, WORK)).dead

    for kind in ("b", None, "b"):
        await send(store, type=kind)
        await settle(store, dead(await pull_one(store), reason="x"))
    assert await died() == (DeadCount(None, 1), DeadCount("b", 2))
    clock.advance(seconds=23 * 3_600)
    assert len(await died()) == 2
    clock.advance(seconds=3_600 + 60)
    assert await died() == ()


async def test_a_bounded_count_stops_at_its_bound_and_is_exact_below_it(store: Store) -> None:
    await make_queue(store)
    await send_many(store, 3)
    await send(store, priority=9)
    for priority in (4, 9):
        await send(store, priority=priority, delay_seconds=60)
    whole = await counts(store)
    assert (whole.ready, whole.delayed) == (4, 2)
    for at_most in (1, 2, 3, 4, 5, None):
        found = await store.queues.counts(DEFAULT, WORK, at_most=at_most)
        most = 9 if at_most is None else at_most
        assert (found.ready, found.delayed) == (min(4, most), min(2, most))
        assert (await store.stats.queue(DEFAULT, WORK, at_most=at_most)).counts == found
    await pull(store, limit=4)
    assert (await store.queues.counts(DEFAULT, WORK, at_most=3)).claimed == 3


async def test_the_oldest_age_is_of_the_oldest_claimable_message(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)

    async def age() -> float | None:
        return (await store.stats.queue(DEFAULT, WORK)).oldest_age_seconds

    await send(store, delay_seconds=10)
    assert await age() is None
    clock.advance(seconds=12.5)
    assert await age() == 2.5
    await send(store, priority=9)
    clock.advance(seconds=1)
    assert await age() == 3.5
    await pull(store)
    assert await age() is None


async def test_what_waits_is_counted_in_each_queue_up_to_a_bound(
    store: Store, clock: VirtualClock
) -> None:
    queues = [await make_queue(store, "other"), await make_queue(store)]
    await send(store, delay_seconds=10)
    await send(store, delay_seconds=60)
    clock.advance(seconds=12.5)
    for priority in (4, 9):
        await send(store, priority=priority)

    async def waiting(at_most: int) -> tuple[Waiting, ...]:
        return await store.stats.waiting(SYSTEM, queues, at_most=at_most)

    assert await waiting(10) == (Waiting(0, None), Waiting(3, 2.5))
    assert await waiting(2) == (Waiting(0, None), Waiting(2, 2.5))
    await pull(store)
    assert await waiting(10) == (Waiting(0, None), Waiting(0, None))
    with pytest.raises(InvalidInput, match="must be the system"):
        await store.stats.waiting(DEFAULT, queues, at_most=10)


async def test_messages_are_counted_by_the_minute(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send_many(store, 5)
    one, two, three, four, _ = await pull(store)
    await settle(store, ack(one), retry(two, delay_seconds=60), release(three))
    await settle(store, dead(four, reason="x"))
    assert await passed(store) == {
        CounterName.SENT: 5,
        CounterName.DONE: 1,
        CounterName.RETRIED: 1,
        CounterName.DEAD: 1,
    }
    first = (await store.stats.queue(DEFAULT, WORK)).minutes
    assert {minute_count.minute for minute_count in first} == {clock.now().replace(second=0)}
    clock.advance(seconds=90)
    await send(store)
    minutes = (await store.stats.queue(DEFAULT, WORK)).minutes
    assert minutes[:-1] == first
    assert (minutes[-1].counter, minutes[-1].messages) == (CounterName.SENT, 1)
    assert minutes[-1].minute == first[0].minute + timedelta(minutes=1)
    assert [*minutes] == sorted(minutes, key=lambda minute: (minute.minute, minute.counter))


async def test_removed_messages_are_counted(store: Store) -> None:
    await make_queue(store)
    first, *_ = await send_many(store, 3)
    await store.messages.delete(DEFAULT, WORK, first.id)
    await store.queues.purge(DEFAULT, WORK)
    batch = await create_batch(store, news(4))
    await store.batches.cancel(DEFAULT, batch.id)
    assert await passed(store) == {CounterName.SENT: 7, CounterName.PURGED: 7}


async def test_replayed_and_discarded_dead_letters_are_counted(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send_many(store, 6)
    await kill_all(store)
    await store.dead_letters.replay(DEFAULT, WORK, Selection(limit=1), Pace())
    await store.dead_letters.discard(DEFAULT, WORK, Selection(limit=2))
    found = await passed(store)
    assert (found[CounterName.DEAD], found[CounterName.REPLAYED], found[CounterName.DISCARDED]) == (
        6,
        1,
        2,
    )
    clock.advance(seconds=DEAD_LETTER_RETENTION_SECONDS + 1)
    assert (await store.pruner.prune(SYSTEM, ALL)).dead_letters == 6
    assert (await passed(store))[CounterName.PRUNED] == 6


async def test_copies_and_duplicates_are_counted_in_their_own_queue(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "audit")
    await store.subscriptions.put(DEFAULT, "paid", "audit")
    for _ in range(2):
        await send(store, type="paid", event_id="paid-1")
    one, two = await pull(store)
    await settle(store, ack(one))
    await settle(store, ack(two))
    await send(store, event_id="paid-1")
    assert await pull(store) == ()
    assert await passed(store) == {CounterName.SENT: 3, CounterName.DONE: 3}
    assert await passed(store, "audit") == {CounterName.SENT: 2}


async def test_a_repeated_send_is_not_counted(store: Store) -> None:
    await make_queue(store)
    message = await send(store)
    await store.messages.send(DEFAULT, WORK, message)
    await store.messages.send_batch(DEFAULT, WORK, [message, new()])
    assert await passed(store) == {CounterName.SENT: 2}


async def test_expired_messages_and_leases_are_counted(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, max_retries=1)
    await send(store, expires_after_seconds=1)
    await send(store, delay_seconds=1)
    clock.advance(seconds=1)
    for _ in range(2):
        assert len(await pull(store, lease_seconds=0)) == 1
        await store.reaper.reap(SYSTEM, ALL)
    assert await passed(store) == {CounterName.SENT: 2, CounterName.RETRIED: 1, CounterName.DEAD: 2}


async def test_counts_are_kept_by_type_and_source(store: Store) -> None:
    await make_queue(store)
    for type_, source in (("paid", "shop"), ("paid", "shop"), ("paid", None), (None, None)):
        await send(store, type=type_, source=source)
    await settle(store, *map(ack, await pull(store)))
    kinds = (await store.stats.queue(DEFAULT, WORK)).kinds
    assert kinds == (
        TypeCount(None, None, CounterName.DONE, 1),
        TypeCount(None, None, CounterName.SENT, 1),
        TypeCount("paid", None, CounterName.DONE, 1),
        TypeCount("paid", None, CounterName.SENT, 1),
        TypeCount("paid", "shop", CounterName.DONE, 2),
        TypeCount("paid", "shop", CounterName.SENT, 2),
    )


async def test_of_a_partly_repeated_send_only_new_messages_are_counted(store: Store) -> None:
    await make_queue(store)
    known, fresh = new(type="paid"), new(type="refunded")
    await store.messages.send(DEFAULT, WORK, known)
    await store.messages.send_batch(DEFAULT, WORK, [known, fresh, fresh])
    assert (await store.stats.queue(DEFAULT, WORK)).kinds == (
        TypeCount("paid", None, CounterName.SENT, 1),
        TypeCount("refunded", None, CounterName.SENT, 1),
    )


async def test_old_counts_are_not_shown(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store, type="paid")
    assert await passed(store) == {CounterName.SENT: 1}
    clock.advance(seconds=28 * 60)
    assert await passed(store) == {CounterName.SENT: 1}
    clock.advance(seconds=3 * 60)
    stats = await store.stats.queue(DEFAULT, WORK)
    assert stats.minutes == ()
    assert [kind.type for kind in stats.kinds] == ["paid"]
    clock.advance(seconds=30 * 60)
    assert (await store.stats.queue(DEFAULT, WORK)).kinds == ()


async def test_a_shared_queue_shows_each_tenant_its_own_counts(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    await send_many(store, 2, scope=one)
    await send_many(store, 3, scope=two)
    assert await passed(store, scope=one) == {CounterName.SENT: 2}
    assert await passed(store, scope=two) == {CounterName.SENT: 3}
    assert await passed(store, scope=SYSTEM) == {CounterName.SENT: 5}
    stats = await store.stats.queue(one, WORK)
    assert (stats.counts.ready, [kind.messages for kind in stats.kinds]) == (2, [2])


async def test_counts_flushed_by_one_process_are_read_by_another(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    other = await home.open(clock)
    try:
        await send_many(store, 2)
        await store.stats.flush(SYSTEM)
        await send_many(other, 3)
        assert await passed(other) == {CounterName.SENT: 5}
        await store.stats.flush(SYSTEM)
        assert await passed(store) == {CounterName.SENT: 5}
    finally:
        await other.close()


async def test_rolled_back_and_refused_changes_are_not_counted(store: Store) -> None:
    await make_queue(store)
    await send(store)
    message = await pull_one(store)
    await settle(store, ack(message))
    assert (await settle(store, ack(message))).refused
    with pytest.raises(InvalidInput):
        await store.messages.send_batch(DEFAULT, WORK, [new(), new(priority=10)])
    assert await passed(store) == {CounterName.SENT: 1, CounterName.DONE: 1}


async def test_only_the_system_flushes_counters(store: Store) -> None:
    with pytest.raises(InvalidInput, match="system"):
        await store.stats.flush(DEFAULT)


async def test_sources_that_are_ids_share_one_counter(store: Store) -> None:
    await make_queue(store)
    for _ in range(3):
        await send(store, source=str(new_id()))
    stats = await store.stats.queue(DEFAULT, WORK)
    assert [(kind.source, kind.messages) for kind in stats.kinds] == [("(id)", 3)]


async def test_the_statistics_of_many_queues_are_those_of_each(store: Store) -> None:
    other = Scope("other")
    await make_tenants(store, "other")
    for scope, name in ((DEFAULT, "a"), (DEFAULT, "b"), (SYSTEM, "shared"), (other, "b")):
        await store.queues.put(scope, name, QueueSettings())
    for scope, name, number in (
        (DEFAULT, "a", 3), (DEFAULT, "shared", 2), (other, "shared", 1), (other, "b", 4)
    ):  # fmt: skip
        for index in range(number):
            await send(store, queue=name, scope=scope, type=f"{name} {index % 2}")
    for scope, expected in (
        (DEFAULT, {"a": 3, "b": 0, "shared": 2}), (other, {"b": 4, "shared": 1})
    ):  # fmt: skip
        seen = await store.queues.list(scope)
        found = await store.stats.queues(scope, seen, at_most=100)
        assert found == tuple([await store.stats.queue(scope, queue.name) for queue in seen])
        assert {
            queue.name: stats.counts.ready for queue, stats in zip(seen, found, strict=True)
        } == expected
        assert (await store.stats.queues(scope, seen[::-1], at_most=2))[-1].counts.ready == (
            min(expected[seen[0].name], 2)
        )
    every = await store.queues.list(SYSTEM)
    counted = {
        (queue.tenant, queue.name): stats.counts.ready
        for queue, stats in zip(every, await store.stats.queues(SYSTEM, every), strict=True)
    }
    assert counted == {
        ("default", "a"): 3, ("default", "b"): 0, (None, "shared"): 3, ("other", "b"): 4,
    }  # fmt: skip
    assert await store.stats.queues(DEFAULT, ()) == ()
