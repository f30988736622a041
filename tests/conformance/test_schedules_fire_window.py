"""Fire windows longer than the interval: a later slot may fire first, and none fires twice."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from tests.conformance.acts import make_queue, pull
from tests.conformance.schedule_acts import (
    again,
    create,
    end,
    firings,
    messages,
    pause,
    plan_now,
    resume,
    update,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.schedule.model import Schedule
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", [*KINDS], indirect=True)

STEPS = 40


async def test_no_slot_fires_twice_when_a_schedule_changes_during_an_open_fire_window(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    schedule = await create(store, clock, interval_seconds=10, fire_window_seconds=120)
    fired: Counter[Any] = Counter()
    for step in range(STEPS):
        clock.advance(seconds=7)
        await plan_now(store, clock)
        for message in await pull(store):
            fired[message.slot] += 1
            await end(store, message)
        schedule = await again(store, schedule)
        if step % 5 == 2:
            schedule = await update(store, schedule, body=b"%d" % step)
        elif step % 5 == 4:
            schedule = await pause(store, schedule)
            schedule = await resume(store, schedule)
    waiting = Counter(waiting_message.slot for waiting_message in await messages(store, schedule))
    assert max((fired + waiting).values()) == 1
    assert await accounted(store, schedule, set(fired) | set(waiting)) == []


async def accounted(store: Store, schedule: Schedule, seen: set[Any]) -> list[datetime]:
    """The slots before the next one that are neither messages nor recorded."""
    runs = [
        (firing.slot, firing.last_slot or firing.slot)
        for firing in await firings(store, schedule)
        if firing.attempt == 0
    ]
    assert schedule.next_slot is not None
    first = min(seen)
    step = schedule.definition.rule.timing.seconds  # type: ignore[union-attr]
    slots = [
        datetime.fromtimestamp(at, tz=first.tzinfo)
        for at in range(int(first.timestamp()), int(schedule.next_slot.timestamp()), step)
    ]
    return [
        slot
        for slot in slots
        if slot not in seen and not any(begin <= slot <= last for begin, last in runs)
    ]
