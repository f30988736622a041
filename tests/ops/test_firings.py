"""Firings are listed newest first, with planned and running ones, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.acts import make_queue, pull
from tests.conformance.schedule_acts import created_due, end, plan_now, slots
from tests.stores.clock import VirtualClock
from tickwork.core.answers.schedule import FiringAnswer
from tickwork.core.message.outcome import Failed
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.firing import FiringStatus
from tickwork.core.schedule.model import Schedule
from tickwork.ops.context import Context
from tickwork.ops.schedules.views import list_firings
from tickwork.store.contract import Store

PLANNED, RUNNING = FiringStatus.PLANNED, FiringStatus.RUNNING
SUCCEEDED, FAILED = FiringStatus.SUCCEEDED, FiringStatus.FAILED


@pytest.fixture
async def made(store: Store, clock: VirtualClock) -> Schedule:
    """Every 20 seconds; three slots are due, and the next is planned."""
    await make_queue(store)
    return await created_due(store, clock, interval_seconds=20)


async def asked(
    store: Store, schedule: Schedule, limit: int = 100, **choice: Any
) -> tuple[FiringAnswer, ...]:
    return await list_firings(Context(store, DEFAULT), schedule.id, limit=limit, **choice)


def standings(found: tuple[FiringAnswer, ...]) -> list[tuple[FiringStatus, int]]:
    return [(firing.status, firing.attempt) for firing in found]


async def test_unfinished_firings_are_listed_before_finished_ones(
    store: Store, made: Schedule
) -> None:
    there = await slots(store, made)
    first, second, _ = await pull(store, limit=3)
    await end(store, first)
    await end(store, second, Failed("no"))
    found = await asked(store, made)
    assert standings(found) == [
        (PLANNED, 0),
        (RUNNING, 1),
        (PLANNED, 1),
        (FAILED, 1),
        (SUCCEEDED, 1),
    ]
    assert [firing.slot for firing in found] == [there[3], there[2], there[1], there[1], there[0]]
    assert [firing.finished_at is None for firing in found] == [True] * 3 + [False] * 2
    assert found[1].finished_at is None
    assert found[1].started_at == await store.now(), "when it was claimed"
    assert [firing.started_at is None for firing in found if firing.status is PLANNED] == [True] * 2


async def test_a_status_selects_unfinished_firings(store: Store, made: Schedule) -> None:
    there = await slots(store, made)
    await pull(store, limit=2)
    assert standings(await asked(store, made, status=RUNNING)) == [(RUNNING, 1)] * 2
    waiting = await asked(store, made, status=PLANNED)
    assert [firing.slot for firing in waiting] == there[:1:-1]
    (next_one,) = await asked(store, made, 1, status=PLANNED)
    assert next_one.slot == there[2], "the one that comes first"
    assert await asked(store, made, status=SUCCEEDED) == ()


async def test_a_page_continues_after_the_last_firing(
    store: Store, clock: VirtualClock, made: Schedule
) -> None:
    """However many are unfinished, and whatever the last one is."""
    for message in await pull(store, limit=3):
        await end(store, message)
    clock.advance(seconds=60)
    await plan_now(store, clock)
    open_now = len(await asked(store, made)) - 3
    for limit in (1, 2, 3, 10):
        page = await asked(store, made, limit)
        assert page[0].status is PLANNED
        recorded = [firing.id for firing in page if firing.status is SUCCEEDED]
        while page:
            page = await asked(store, made, limit, before=(page[-1].finished_at, page[-1].id))
            assert all(firing.status is SUCCEEDED for firing in page)
            recorded += [firing.id for firing in page]
        assert len(recorded) == len({*recorded}) == 3
    assert len(await asked(store, made, 2, status=PLANNED)) == min(open_now, 2)
    (first, *_) = await asked(store, made, status=PLANNED)
    assert await asked(store, made, status=PLANNED, before=(None, first.id)) == ()


async def test_a_firing_that_finishes_between_the_queries_is_listed_once(
    store: Store, made: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    (message, *_) = await pull(store, limit=1)
    look = store.schedules.messages

    async def and_then_it_ends(*args: Any, **options: Any) -> Any:
        seen = await look(*args, **options)
        await end(store, message)
        return seen

    monkeypatch.setattr(store.schedules, "messages", and_then_it_ends)
    found = await asked(store, made)
    assert [firing.status for firing in found if firing.slot == message.slot] == [SUCCEEDED]
