"""Schedules call entities, and entities have schedules of their own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.kit.contexts import acting
from tickwork import Entity, InvalidInput, Tickwork, read
from tickwork.core.entity.call import queue_of
from tickwork.core.model import DEFAULT
from tickwork.core.when import Limits
from tickwork.ops.schedules.create import create
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
DAILY: Any = {"daily_time": {"hour": 9, "minute": 0}}
TARGET: Any = {"type": "entity", "entity": "Diary", "key": "a", "method": "note"}


class Diary(Entity):
    """Notes when it was called."""

    failures: int = 0

    async def note(self, text: str = "-") -> None:
        await self.storage.put("notes", [*await self.storage.get("notes", []), text])
        if type(self).failures:
            type(self).failures -= 1
            raise ValueError("not yet")

    async def plan(self, name: str, **options: Any) -> None:
        if "in_seconds" in options:
            options["at"] = self.now + timedelta(seconds=options.pop("in_seconds"))
        await self.schedule(name, **{"method": "note", **options})

    async def plan_and_fail(self) -> None:
        await self.plan("x", every=60)
        raise ValueError("no")

    async def drop(self, name: str) -> bool:
        return await self.unschedule(name)

    async def clear(self) -> None:
        await self.storage.delete_all()

    @read
    async def notes(self) -> Any:
        return await self.storage.get("notes", [])


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    app.entities.register(Diary)
    Diary.failures = 0
    async with harness(app, database=database, start=START) as made:
        yield made


async def test_a_schedule_calls_an_entity_with_its_payload(app: Tickwork, h: Harness) -> None:
    made = await app.schedules.create(**DAILY, target=TARGET, payload="morning")
    plain = await app.schedules.create(**DAILY, target=TARGET)
    assert (made.target, made.payload, plain.payload) == (TARGET, "morning", None)
    await h.advance(days=1)
    diary = app.entity(Diary, "a")
    assert sorted(await diary.notes()) == ["-", "morning"]
    changed: Any = {"key": "b"}
    await app.schedules.update(made.id, target=changed, payload="evening")
    await h.advance(days=1)
    assert (await diary.notes()).count("morning") == 1
    assert await app.entity(Diary, "b").notes() == ["evening"]


async def test_a_schedule_of_an_entity_takes_the_fields_of_any_schedule(
    app: Tickwork, h: Harness
) -> None:
    fields = {"daily_time": "09:30", "timezone": "Europe/Berlin", "jitter_seconds": 5}
    more = {"retry": {"max_attempts": 2}, "metadata": {"x": 1}, "payload": "tea"}
    await app.entity(Diary, "a").plan("daily", **fields, **more)
    await h.drain()
    (made,) = await app.schedules.list()
    assert (made.kind, made.timezone, made.payload) == ("daily", "Europe/Berlin", "tea")
    assert made.metadata == {"x": 1, "entity": "Diary", "key": "a", "schedule": "daily"}
    for wrong in ({}, {"every": 60, "cron": "0 9 * * *"}, {**fields, "every": 60}):
        with pytest.raises(InvalidInput):
            await app.entity(Diary, "a").plan("wrong", **wrong)
    await h.advance(hours=25)
    assert await app.entity(Diary, "a").notes() == ["tea"]


async def test_a_slot_whose_call_fails_is_retried_and_runs_once(app: Tickwork, h: Harness) -> None:
    retry: Any = {"max_attempts": 3, "backoff": {"kind": "fixed", "seconds": 10}}
    made = await app.schedules.create(**DAILY, target=TARGET, retry=retry)
    Diary.failures = 2
    await h.advance(hours=1)
    firings = await app.schedules.firings(made.id)
    assert [firing.status for firing in firings] == ["succeeded", "failed", "failed"]
    assert await app.entity(Diary, "a").notes() == ["-"]


@pytest.mark.one_store("sqlite")
@pytest.mark.usefixtures("h")
@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"type": "entity", "entity": "Dairy", "key": "a", "method": "b"}, "target.entity"),
        ({"type": "entity", "entity": "no name", "key": "a", "method": "b"}, "target.entity"),
        ({"type": "entity", "entity": "Diary", "key": "", "method": "note"}, "target.key"),
        ({"type": "entity", "entity": "Diary", "key": "a", "method": "noet"}, "target.method"),
        ({"type": "entity", "entity": "Diary", "key": "a"}, "target.method"),
        ({"type": "entity", "entity": "Diary", "key": "a", "method": "note", "x": 1}, "target.x"),
    ],
)
async def test_a_wrong_target_is_refused_by_its_field(
    app: Tickwork, target: Any, field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await app.schedules.create(**DAILY, target=target)
    assert [error.field for error in caught.value.errors] == [field]


async def test_a_wrong_method_is_refused_with_the_nearest_one(app: Tickwork, h: Harness) -> None:
    wrong: Any = {"type": "entity", "entity": "Diary", "key": "a", "method": "noet"}
    fault = "target.method: Diary has no method 'noet'; do you mean note?"
    bodies: Any = [{**DAILY, "target": wrong}]
    with pytest.raises(InvalidInput, match=re.escape(fault)):
        await app.schedules.create_many(bodies)
    with pytest.raises(InvalidInput, match=re.escape(fault)):
        await app.schedules.create_bulk(bodies)
    right: Any = {**wrong, "method": "note"}
    made = await app.schedules.create(**DAILY, target=right)
    with pytest.raises(InvalidInput, match=re.escape(fault)):
        await app.schedules.update(made.id, target=wrong)
    # A process without the class does not know its methods. The slot dies at once.
    body = {**DAILY, "name": "other", "target": wrong}
    stored = await create(acting(h.store, DEFAULT, limits=Limits()), body)
    await h.advance(hours=1)
    (dead,) = await h.dead(queue_of("Diary"))
    assert dead.reason == "unhandled_type"
    assert "Diary.noet (do you mean note?) on any live worker" in (dead.error or "")
    assert stored.name == "other"


async def test_an_entity_has_several_schedules_by_name(app: Tickwork, h: Harness) -> None:
    diary = app.entity(Diary, "a")
    await diary.plan("hourly", every=3600, payload="hour")
    await diary.plan("nine", cron="0 9 * * *", timezone="Europe/Berlin", payload="nine")
    await diary.plan("once", in_seconds=60, payload="once")
    await h.advance(hours=2, minutes=1)
    assert await diary.notes() == ["once", "hour", "hour"]
    await diary.plan("hourly", every=7200, payload="slow")  # It replaces the one before.
    await h.drain()
    assert len(await app.schedules.list()) == 3
    await h.advance(hours=3)
    assert await diary.notes() == ["once", "hour", "hour", "slow"]
    assert [await diary.drop("hourly"), await diary.drop("hourly")] == [True, False]
    await diary.plan("once", in_seconds=60, payload="again")
    await h.advance(hours=5)
    assert await diary.notes() == ["once", "hour", "hour", "slow", "again"]


async def test_a_schedule_that_is_set_again_keeps_nothing_of_the_one_before(
    app: Tickwork, h: Harness
) -> None:
    diary = app.entity(Diary, "a")
    await diary.plan("x", every=60, payload="p", jitter_seconds=5, metadata={"mine": 1})
    await h.drain()
    await diary.plan("x", every=120)
    await h.drain()
    (again,) = await app.schedules.list()
    await diary.plan("y", every=120)
    await h.drain()
    other = next(schedule for schedule in await app.schedules.list() if schedule.id != again.id)
    assert (again.jitter_seconds, again.payload) == (other.jitter_seconds, other.payload)
    assert again.metadata == {"entity": "Diary", "key": "a", "schedule": "x"}


async def test_the_schedules_of_an_entity_go_with_delete_all(app: Tickwork, h: Harness) -> None:
    diary = app.entity(Diary, "a")
    await diary.plan("a", every=60)
    await diary.plan("b", every=60)
    await h.drain()
    await diary.clear()
    await h.advance(hours=1)
    assert (await app.schedules.list(), await diary.notes()) == ((), [])


async def test_a_call_that_fails_schedules_nothing(app: Tickwork, h: Harness) -> None:
    with pytest.raises(ValueError, match="no"):
        await app.entity(Diary, "a").plan_and_fail()
    await h.drain()
    assert await app.schedules.list() == ()


@pytest.mark.one_store("sqlite")
@pytest.mark.usefixtures("h")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": "", "every": 60}, "name"),
        ({"name": "x" * 61, "every": 60}, "name"),
        ({"name": "x"}, "timing"),
        ({"name": "x", "every": 60, "cron": "* * * * *"}, "schedule"),
        ({"name": "x", "every": 1}, "interval_seconds"),
        ({"name": "x", "cron": "0 0 30 2 *"}, "cron_expr"),
        ({"name": "x", "cron": "* * * * *", "timezone": "Mars"}, "timezone"),
    ],
)
async def test_a_wrong_schedule_of_an_entity_is_refused_in_the_call(
    app: Tickwork, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await app.entity(Diary, "a").plan(**options)
    assert [error.field for error in caught.value.errors] == [field]
