"""Declared schedules are created and updated by name, also by many processes, on both stores."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.conformance.acts import WORK, make_queue
from tests.conformance.schedule_acts import messages, plan_now
from tests.kit.contexts import acting
from tests.stores.clock import VirtualClock
from tickwork.app.declarations import ScheduleDeclaration
from tickwork.core.model import DEFAULT, Scope
from tickwork.core.schedule.model import Schedule, ScheduleSelection, ScheduleStatus
from tickwork.core.when import Cron, Limits
from tickwork.errors import Conflict
from tickwork.ops.context import Context
from tickwork.ops.schedules import change, declare
from tickwork.ops.schedules.declare import Declared, declare_schedules
from tickwork.ops.schedules.lookup import get_schedule
from tickwork.ops.schedules.public import show_schedule
from tickwork.store.contract import Store

LIMITS = Limits(min_interval_seconds=1)
HOURLY: dict[str, Any] = {"cron_expr": "0 * * * *"}
NODES = 4


@pytest.fixture(autouse=True)
async def queue(store: Store) -> None:
    await make_queue(store)


async def declare_named(store: Store, app: str = "shop", /, **fields: dict[str, Any]) -> Declared:
    """Declares schedules of an app by their names."""
    target = {"type": "queue", "queue": WORK}
    declared = [
        ScheduleDeclaration(name, {"target": target, "name": name, **field})
        for name, field in fields.items()
    ]
    return await declare_schedules(acting(store, DEFAULT, limits=LIMITS), declared, app=app)


async def stored(store: Store, name: str = "report") -> Schedule:
    return await get_schedule(Context(store, DEFAULT), name)


@pytest.mark.parametrize("round_", range(5))
async def test_nodes_that_start_together_agree_on_what_changed(store: Store, round_: int) -> None:
    await declare_named(store, report=HOURLY)
    changed = {"cron_expr": f"{round_} 9 * * *"}
    done = await asyncio.gather(*(declare_named(store, report=changed) for _ in range(NODES)))
    assert sum(len(result.updated) for result in done) == 1
    assert (await stored(store)).definition.rule.timing == Cron(changed["cron_expr"])


async def test_nodes_that_start_together_create_a_schedule_once(store: Store) -> None:
    done = await asyncio.gather(*(declare_named(store, report=HOURLY) for _ in range(NODES)))
    assert sorted(len(result.created) for result in done) == [0] * (NODES - 1) + [1]
    assert (await stored(store)).version == 1


async def test_a_lasting_conflict_is_raised(store: Store) -> None:
    keyed = {**HOURLY, "idempotency_key": "k"}
    await declare_named(store, report=keyed)
    changed = await declare_named(store, report={**keyed, "priority": 7})
    assert changed.updated == ("report",)
    await change.delete(Context(store, DEFAULT), "report")
    with pytest.raises(Conflict, match="is deleted"):
        await declare_named(store, report=keyed)


@pytest.mark.parametrize(
    "fields",
    [
        HOURLY,
        {"interval_minutes": 1},
        {"interval_seconds": 40, "start_at": "2020-01-01T00:00:00Z"},
        {"interval_seconds": 40, "interval_mode": "fixed_delay"},
        {"cron_expr": "H * * * *"},
        {**HOURLY, "jitter_seconds": 60, "fire_window_seconds": 90},
        {"rrule": "FREQ=HOURLY", "start_at": "2020-01-01T00:00:00"},
        {
            "daily_time": {"hour": 9, "minute": 0},
            "timezone": "Europe/Berlin",
            "dst": {"gap": "skip"},
            "missed": {"policy": "skip"},
            "overlap": "skip",
            "on_dead": "pause",
            "exclude": ["2027-01-02", "2027-01-01"],
            "retry": {"max_attempts": 3, "backoff": {"kind": "fixed", "seconds": 5}},
            "expires_after_seconds": 60,
            "payload": {"b": 1, "a": [None, 1.5]},
            "metadata": {"z": 1, "a": 2},
        },
    ],
)
async def test_declaring_again_changes_nothing(
    store: Store, clock: VirtualClock, fields: dict[str, Any]
) -> None:
    assert (await declare_named(store, report=fields)).created == ("report",)
    for _ in range(2):
        clock.advance(seconds=35)
        await plan_now(store, clock)
        before, planned = await stored(store), await messages(store, await stored(store))
        again = await declare_named(store, report=fields)
        assert again == Declared((), (), ())
        assert await stored(store) == before
        assert await messages(store, before) == planned


async def test_a_field_that_the_code_removes_is_removed(store: Store) -> None:
    first = {**HOURLY, "missed": {"policy": "skip", "cap": 3}, "metadata": {"a": 1, "b": 2}}
    then = {**HOURLY, "missed": {"cap": 4}, "metadata": {"c": 3, "b": 2}}
    await declare_named(store, report=first)
    assert (await declare_named(store, report=then)).updated == ("report",)
    shown = show_schedule(await stored(store), await store.now())
    assert shown.missed == {"policy": "fire_late", "cap": 4, "grace_seconds": 60}
    assert shown.metadata == {"b": 2, "c": 3, "declared": "shop"}
    assert (await declare_named(store, report=then)).updated == ()


async def test_a_completed_schedule_does_not_prevent_the_start(store: Store) -> None:
    over = {**HOURLY, "end_at": "2020-01-01T00:00:00Z"}
    assert (await declare_named(store, report=over)).created == ("report",)
    assert (await stored(store)).status is ScheduleStatus.COMPLETED
    assert await declare_named(store, report=over) == Declared((), (), ())
    assert (await declare_named(store)).removed == ()  # It does not go on.


async def test_schedules_that_are_no_longer_declared_are_reported(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await declare_named(store, first=HOURLY, second=HOURLY)
    await change.update(acting(store, DEFAULT, limits=LIMITS), "first", {"priority": 7})
    assert (await declare_named(store, first=HOURLY)).removed == ("second",)
    with caplog.at_level(logging.WARNING, "tickwork"):
        assert (await declare_named(store)).removed == ("first", "second")
    assert "first, second" in caplog.text
    await change.delete(Context(store, DEFAULT), "first")
    await change.delete(Context(store, DEFAULT), "second")
    assert (await declare_named(store)).removed == ()


async def test_two_apps_that_declare_one_name_have_a_schedule_each(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    daily = {"cron_expr": "@daily"}
    assert (await declare_named(store, "shop", report=HOURLY)).created == ("report",)
    assert (await declare_named(store, "billing", report=daily)).created == ("billing.report",)
    assert "named 'report'" in caplog.text
    assert await declare_named(store, "shop", report=HOURLY) == Declared((), (), ())
    assert await declare_named(store, "billing", report=daily) == Declared((), (), ())
    assert (await stored(store)).definition.rule.timing == Cron("0 * * * *")
    assert (await stored(store, "billing.report")).definition.rule.timing == Cron("@daily")
    changed = await declare_named(store, "billing", report={**daily, "priority": 7})
    assert changed.updated == ("billing.report",)


async def test_apps_that_start_together_have_a_schedule_each(store: Store) -> None:
    apps = [f"app{number}" for number in range(NODES)]
    await asyncio.gather(*(declare_named(store, app, report=HOURLY) for app in apps))
    named = {
        schedule.name for schedule in await store.schedules.list(DEFAULT, ScheduleSelection(), 100)
    }
    assert len(named) == NODES
    assert sum(f"{app}.report" in named for app in apps) == NODES - 1
    assert "report" in named


async def test_an_app_never_takes_a_schedule_that_another_app_creates_meanwhile(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = store.schedules.find

    async def find_then_another_app_declares(scope: Scope, ref: str) -> Schedule | None:
        found = await find(scope, ref)
        if ref == "report":
            monkeypatch.setattr(store.schedules, "find", find)
            await declare_named(store, "billing", report={"cron_expr": "@daily"})
        return found

    monkeypatch.setattr(store.schedules, "find", find_then_another_app_declares)
    assert (await declare_named(store, "shop", report=HOURLY)).created == ("shop.report",)
    assert (await stored(store)).definition.rule.timing == Cron("@daily")


async def test_only_what_the_same_app_declared_is_reported_as_no_longer_declared(
    store: Store,
) -> None:
    await declare_named(store, "shop", report=HOURLY, sale=HOURLY)
    await declare_named(store, "billing", report=HOURLY, invoices=HOURLY)
    assert (await declare_named(store, "shop", report=HOURLY)).removed == ("sale",)
    assert (await declare_named(store, "billing")).removed == ("billing.report", "invoices")
    assert (await declare_named(store, "other")).removed == ()


async def test_a_schedule_declared_before_apps_had_names_is_taken_over(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await declare_named(store, "shop", report=HOURLY)
    old = {"metadata": {"declared": True}}
    await change.update(acting(store, DEFAULT, limits=LIMITS), "report", old)
    assert (await declare_named(store, "other")).removed == ()
    assert (await declare_named(store, "billing", report=HOURLY)).updated == ("report",)
    assert "declared before apps had names" in caplog.text
    assert await declare_named(store, "billing", report=HOURLY) == Declared((), (), ())


async def test_the_search_for_undeclared_schedules_is_paged_and_bounded(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"n{number}" for number in range(6)]
    await declare_named(store, **dict.fromkeys(names, HOURLY))
    monkeypatch.setattr(declare, "PAGE", 2)
    assert (await declare_named(store)).removed == tuple(names)
    monkeypatch.setattr(declare, "SEARCHED_MAX", 4)
    with caplog.at_level(logging.INFO, "tickwork"):
        assert (await declare_named(store)).removed == tuple(names[:4])
    assert "only the first 4 named schedules" in caplog.text
