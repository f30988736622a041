"""System events of schedules: a dead firing, and a schedule that a dead firing paused."""

import json
from typing import Any

import pytest

from tests.conformance.acts import ALL, counts, make_queue, pull
from tests.conformance.schedule_acts import (
    again,
    created_due,
    end,
    end_next,
    pause,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.message.outcome import Permanent
from tickwork.core.model import DEFAULT, SYSTEM, Counts
from tickwork.core.schedule.model import OnDead, ScheduleStatus
from tickwork.core.when import iso
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

ALERTS = "alerts"


@pytest.fixture(autouse=True)
async def alerts(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, ALERTS)
    for types in ("firing.dead", "schedule.paused"):
        await store.subscriptions.put(DEFAULT, types, ALERTS)


async def heard(store: Store) -> dict[str | None, list[dict[str, Any]]]:
    """The published events, by type."""
    found: dict[str | None, list[dict[str, Any]]] = {}
    for message in await store.messages.peek(DEFAULT, ALERTS, ALL):
        found.setdefault(message.type, []).append(json.loads(message.body))
    return found


async def test_a_dead_firing_is_published_with_its_slot(store: Store, clock: VirtualClock) -> None:
    made = await created_due(store, clock)
    message = await end_next(store, Permanent("it is broken\n  see https://example.org"))
    assert message.slot is not None
    (told,) = (await heard(store))["firing.dead"]
    assert (told["schedule_id"], told["slot"], told["run"]) == (
        public_id(Prefix.SCHEDULE, made.id),
        iso(message.slot),
        0,
    )
    assert (told["reason"], told["error"], told["attempts"]) == ("permanent", "it is broken", 1)
    assert [*await heard(store)] == ["firing.dead"]
    assert (await again(store, made)).status is ScheduleStatus.ACTIVE


async def test_a_pause_by_a_dead_firing_is_published(store: Store, clock: VirtualClock) -> None:
    made = await created_due(store, clock, on_dead=OnDead.PAUSE)
    message = await end_next(store, Permanent("it is broken"))
    assert message.slot is not None
    found = await heard(store)
    assert {type_: len(told) for type_, told in found.items()} == {
        "firing.dead": 1,
        "schedule.paused": 1,
    }
    assert found["schedule.paused"] == [
        {
            "tenant": "default",
            "schedule_id": public_id(Prefix.SCHEDULE, made.id),
            "slot": iso(message.slot),
            "error": "it is broken",
        }
    ]
    assert (await again(store, made)).status is ScheduleStatus.PAUSED


async def test_several_dead_firings_publish_one_pause(store: Store, clock: VirtualClock) -> None:
    await created_due(store, clock, after_seconds=180, on_dead=OnDead.PAUSE)
    for message in await pull(store):
        await end(store, message, Permanent("it is broken"))
    found = await heard(store)
    assert len(found["firing.dead"]) > 1
    assert len(found["schedule.paused"]) == 1


async def test_a_manual_pause_is_not_published(store: Store, clock: VirtualClock) -> None:
    made = await created_due(store, clock)
    await pause(store, made)
    assert await heard(store) == {}


async def test_dead_firings_found_by_the_reaper_are_published(
    store: Store, clock: VirtualClock
) -> None:
    """No worker claimed it before it expired."""
    made = await created_due(store, clock, on_dead=OnDead.PAUSE, expires_after_seconds=60.0)
    clock.advance(seconds=120)
    await store.reaper.reap(SYSTEM, ALL)
    found = await heard(store)
    assert [event["reason"] for event in found["firing.dead"]] == ["expired"]
    assert [event["schedule_id"] for event in found["schedule.paused"]] == [
        public_id(Prefix.SCHEDULE, made.id)
    ]


async def test_a_dead_firing_without_subscribers_publishes_nothing(
    store: Store, clock: VirtualClock
) -> None:
    for types in ("firing.dead", "schedule.paused"):
        await store.subscriptions.delete(DEFAULT, types, ALERTS)
    made = await created_due(store, clock, on_dead=OnDead.PAUSE)
    await end_next(store, Permanent("it is broken"))
    assert (await again(store, made)).status is ScheduleStatus.PAUSED
    assert await counts(store, ALERTS) == Counts()
