"""Late messages of several consumers: those fire that the policy for missed slots allows."""

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from tests.conformance.acts import ack, claim, join, make_queue, settle
from tests.conformance.schedule_acts import MINUTE, create, created_due, plan_now, records
from tests.kit.waiting import eventually
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, Ending, Fate, Message
from tickwork.core.schedule.model import Schedule
from tickwork.errors import StoreUnavailable
from tickwork.service.worker.claim import LateMessages
from tickwork.service.worker.prefetch import Prefetch
from tickwork.service.worker.settle import Settler
from tickwork.store.contract import Store
from tickwork.testing.errors_seen import HarnessObserver

LATEST: dict[str, Any] = {"missed": {"policy": "fire_most_recent"}}


class Consumer(NamedTuple):
    """What stands between a claim and the handlers."""

    prefetch: Prefetch
    settler: Settler
    late: LateMessages

    async def accept(self, *found: Message) -> list[Message]:
        """What handlers get of this."""
        await self.late.accept(found)
        await self.settler.drain()
        return self.prefetch.take_all()


async def consumer(store: Store) -> Consumer:
    queue = await store.queues.get(DEFAULT, "work")
    prefetch, settler = Prefetch(), Settler(store, queue, HarnessObserver(), lambda: None)
    return Consumer(prefetch, settler, LateMessages(store, prefetch, settler))


async def two_slots(store: Store, clock: VirtualClock) -> Schedule:
    """A schedule with two slots that were planned in time, a minute apart, one just due."""
    await make_queue(store)
    made = await created_due(store, clock, **LATEST)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    return made


async def late_ones(store: Store, clock: VirtualClock, count: int) -> None:
    """So many schedules, each with one slot that was planned in time, and is late by now."""
    await make_queue(store)
    for _ in range(count):
        await create(store, clock, **LATEST, once_at=(clock.now() + MINUTE / 2).isoformat())
    clock.advance(seconds=30)
    await plan_now(store, clock)
    clock.advance(seconds=61)


async def test_of_two_late_slots_that_two_consumers_have_the_latest_fires(
    store: Store, clock: VirtualClock
) -> None:
    made = await two_slots(store, clock)
    clock.advance(seconds=61)
    first, second = [await claim(store, await join(store), limit=1) for _ in range(2)]
    assert await (await consumer(store)).accept(*first) == []
    assert await (await consumer(store)).accept(*second) == [*second]
    assert await records(store, made) == [("skipped", "skipped_missed", 1)]


async def test_a_newer_slot_that_was_claimed_along_counts_also_when_it_is_done(
    store: Store, clock: VirtualClock
) -> None:
    made = await two_slots(store, clock)
    clock.advance(seconds=1)
    late, on_time = await claim(store, await join(store))
    assert (late.is_late, on_time.is_late) == (True, False)
    await settle(store, ack(on_time))
    assert await (await consumer(store)).accept(late, on_time) == [on_time]
    assert await records(store, made) == [("skipped", "skipped_missed", 1)]


async def test_what_is_claimed_late_while_others_are_judged_is_judged_as_well(
    store: Store, clock: VirtualClock
) -> None:
    await late_ones(store, clock, 2)
    first, second = await claim(store, await join(store))
    here = await consumer(store)
    await asyncio.gather(here.late.accept([first]), here.late.accept([second]))
    assert {message.id for message in here.prefetch.take_all()} == {first.id, second.id}
    assert here.late.waiting == []


class SlowStore:
    """A store that says how schedules stand only when it is told to."""

    def __init__(self, store: Store) -> None:
        self._store, self.gates = store, list[asyncio.Event]()
        self.schedules = self

    async def newer_due(self, scope: Any, asked: Any) -> Any:
        self.gates.append(asyncio.Event())
        await self.gates[-1].wait()
        return await self._store.schedules.newer_due(scope, asked)


async def test_one_that_is_claimed_anew_while_it_is_judged_is_another(
    store: Store, clock: VirtualClock
) -> None:
    await late_ones(store, clock, 2)
    node = await join(store)
    first, second = await claim(store, node)
    here, slow = await consumer(store), SlowStore(store)
    late = LateMessages(cast(Store, slow), here.prefetch, here.settler)
    sifts = [asyncio.create_task(late.accept([message])) for message in (first, second)]
    await eventually(lambda: len(slow.gates) == 2)
    slow.gates[0].set()
    await sifts[0]
    (given,) = here.prefetch.take_all()
    assert given.current_claim == first.current_claim
    await settle(store, Ending(claim=given.current_claim, fate=Fate.RELEASE))
    (again,) = await claim(store, node)
    sifts.append(asyncio.create_task(late.accept([again])))
    await eventually(lambda: len(slow.gates) == 3)
    for gate in slow.gates:
        gate.set()
    await asyncio.gather(*sifts)
    assert {message.current_claim for message in here.prefetch.take_all()} == {
        second.current_claim,
        again.current_claim,
    }
    assert late.waiting == []


async def test_if_the_database_is_away_what_is_late_is_given_back(
    store: Store, clock: VirtualClock
) -> None:
    await late_ones(store, clock, 1)
    (message,) = await claim(store, await join(store))
    here = await consumer(store)

    async def away(*_: Any) -> None:
        raise StoreUnavailable("away")

    nowhere: Any = SimpleNamespace(schedules=SimpleNamespace(newer_due=away))
    late = LateMessages(nowhere, here.prefetch, here.settler)
    with pytest.raises(StoreUnavailable):
        await late.accept([message])
    await here.settler.drain()
    assert (late.waiting, here.prefetch.take_all()) == ([], [])
    assert [claimed_message.id for claimed_message in await claim(store, await join(store))] == [
        message.id
    ]


async def test_slots_of_another_schedule_do_not_count(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await create(store, clock, **LATEST, interval_seconds=3_600)
    clock.advance(seconds=3_600)
    await plan_now(store, clock)
    await create(store, clock, **LATEST, once_at=(clock.now() + MINUTE / 2).isoformat())
    clock.advance(seconds=30)
    await plan_now(store, clock)
    clock.advance(seconds=61)
    found = await claim(store, await join(store))
    assert [message.is_late for message in found] == [True, True]
    assert len(await (await consumer(store)).accept(*found)) == 2
