"""Every slot is counted once, by outcome and lateness, on both stores."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.app.message import Message
from tickwork.clock import now
from tickwork.core.model import DEFAULT, Reaped
from tickwork.core.schedule.firing import FiringStatus
from tickwork.facade.app import Tickwork
from tickwork.service.observe.schedule_metrics import (
    LATENESS_SECONDS,
    ScheduleMetrics,
)
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
TO_WORK: dict[str, Any] = {"target": {"queue": "work"}, "name": "it"}


@pytest.fixture
def app() -> Tickwork:
    """With slots as near to each other as ten seconds."""
    return Tickwork(min_interval_seconds=1)


@pytest.fixture
def ran(app: Tickwork) -> list[datetime]:
    """The slots that were handled; each fails as often as it is told to."""
    ran: list[datetime] = []
    app.queue("work", max_retries=3, backoff={"kind": "fixed", "seconds": 30})  # type: ignore[call-overload]

    @app.on("work")
    async def work(message: Message[Any]) -> None:
        ran.append(message.metadata["slot"])
        fails = message.body if isinstance(message.body, int) else 0
        if message.attempts <= fails:
            raise ValueError("not yet")

    return ran


def counted(h: Harness) -> dict[str, int]:
    """As a scrape would show it."""
    return dict(h._schedule_metrics.slots)


def lateness(h: Harness) -> dict[float, int]:
    """How many slots were late, by bound."""
    numbers = zip((*LATENESS_SECONDS, float("inf")), h._schedule_metrics.lateness, strict=True)
    return {bound: number for bound, number in numbers if number}


async def recorded(app: Tickwork) -> dict[str, int]:
    """The slots of the record, by what became of them in the end."""
    found: Counter[str] = Counter()
    for firing in await app.schedules.firings("it", limit=1_000):
        if firing.status is FiringStatus.SKIPPED:
            found[firing.reason or ""] += firing.count
        elif firing.status in (FiringStatus.SUCCEEDED, FiringStatus.EXPIRED):
            found["catch_up" if firing.catch_up else str(firing.status)] += 1
    return dict(found)


async def test_a_slot_that_was_withdrawn_and_planned_again_counts_once(
    app: Tickwork, database: str | None, ran: list[datetime]
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(interval_seconds=10, **TO_WORK)
        for priority in range(6):
            await h.advance(seconds=10)
            await app.schedules.update("it", priority=priority)
        assert counted(h) == {"fired": len(ran)} == {"fired": 6}
        assert (lateness(h), h._schedule_metrics.lateness_seconds) == ({0.0: 6}, 0)


async def test_what_is_too_late_at_its_claim_is_skipped_and_not_fired(
    app: Tickwork, database: str | None, ran: list[datetime]
) -> None:
    async with harness(app, database=database, start=START) as h:
        missed = {"policy": "skip", "grace_seconds": 5}
        await app.schedules.create(interval_seconds=10, missed=missed, **TO_WORK)  # type: ignore[arg-type]
        await h.store.queues.pause(DEFAULT, "work")
        await h.advance(minutes=5)
        assert counted(h) == {}
        await h.store.queues.resume(DEFAULT, "work")
        await h.advance(seconds=1)
        assert counted(h) == {"skipped_missed": 29, "fired": 1}
        assert await recorded(app) == {"skipped_missed": 29, "succeeded": 1}
        assert len(ran) == 1


async def test_a_retry_and_an_extra_run_are_no_more_slots(
    app: Tickwork, database: str | None, ran: list[datetime]
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(cron_expr="0 * * * *", payload=2, **TO_WORK)
        await h.advance(minutes=70)
        await app.schedules.trigger("it")
        await h.advance(minutes=10)
        assert len(ran) == 6
        assert counted(h) == {"fired": 1}


async def test_what_expires_before_anybody_began_with_it_is_counted_as_expired(
    app: Tickwork, database: str | None, ran: list[datetime]
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(interval_seconds=600, expires_after_seconds=60, **TO_WORK)
        await h.store.queues.pause(DEFAULT, "work")
        await h.advance(minutes=25)
        assert (counted(h), ran) == ({"expired": 2}, [])
        assert await recorded(app) == {"expired": 2}
        found = await app.schedules.firings("it")
        assert [(firing.attempt, firing.reason) for firing in found] == [(0, "expired")] * 2


async def test_how_late_slots_became_claimable_is_counted_with_those_that_were_missed(
    app: Tickwork, database: str | None, ran: list[datetime]
) -> None:
    async with harness(app, database=database, start=START) as h:
        missed = {"policy": "fire_late", "cap": 1}
        await app.schedules.create(interval_seconds=600, missed=missed, **TO_WORK)  # type: ignore[arg-type]
        await h.outage(seconds=1_203)
        await h.advance(minutes=8)
        assert len(ran) == 2
        assert counted(h) == {"catch_up": 1, "fired": 1}
        assert lateness(h) == {5.0: 1, 3600.0: 1}
        assert h._schedule_metrics.lateness_seconds == 603 + 3


async def test_a_node_at_work_tells_what_it_counted(home: Home) -> None:
    registry, app = CollectorRegistry(), Tickwork(home.url)
    app.queue("work")

    @app.on("work")
    async def work(message: Message[Any]) -> None:
        assert message.metadata["slot"] is not None

    def fired() -> bool:
        slots = registry.get_sample_value("tickwork_schedule_slots_total", {"outcome": "fired"})
        return (slots, registry.get_sample_value("tickwork_slot_lateness_seconds_count")) == (1, 1)

    async with app.running(registry=registry):
        await app.schedules.create(once_at=now().isoformat(), **TO_WORK)
        await eventually(fired)
    await app.close()


def test_a_node_that_leads_nothing_tells_of_slots_only() -> None:
    metrics = ScheduleMetrics(is_leading=False)
    metrics.claims_reaped(Reaped(expired_slots=2))
    (slots, late) = metrics.collect()
    assert (slots.name, late.name) == ("tickwork_schedule_slots", "tickwork_slot_lateness_seconds")
    assert [(sample.labels, sample.value) for sample in slots.samples] == [
        ({"outcome": "expired"}, 2)
    ]
    leading = ScheduleMetrics(is_leading=True).collect()
    assert "tickwork_shards_held" in {family.name for family in leading}
