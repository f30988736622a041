"""`app.owner(…)` reaches what belongs to one owner, and nothing else, on both stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork.core.answers.schedule import ScheduleAnswer
from tickwork.core.options import ScheduleFields
from tickwork.errors import InvalidInput, NotFound
from tickwork.facade.app import Tickwork
from tickwork.facade.owner import Owner
from tickwork.testing import harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
EVERY_DAY: ScheduleFields = {
    "daily_time": {"hour": 9, "minute": 0},
    "target": {"type": "queue", "queue": "reminders"},
}
URL = "https://example.com/hook"

ON_A_SCHEDULE: dict[str, Callable[[Owner, Any], Awaitable[object]]] = {
    "get": lambda owner, name: owner.schedules.get(name),
    "update": lambda owner, name: owner.schedules.update(name, metadata={"a": 1}),
    "pause": lambda owner, name: owner.schedules.pause(name),
    "resume": lambda owner, name: owner.schedules.resume(name),
    "trigger": lambda owner, name: owner.schedules.trigger(name),
    "backfill": lambda owner, name: owner.schedules.backfill(
        name, since=START - timedelta(days=1), until=START
    ),
    "upcoming": lambda owner, name: owner.schedules.upcoming(name),
    "firings": lambda owner, name: owner.schedules.firings(name),
    "why": lambda owner, name: owner.schedules.why(name),
    "delete": lambda owner, name: owner.schedules.delete(name),
}

ON_AN_ENDPOINT: dict[str, Callable[[Owner, Any], Awaitable[object]]] = {
    "get": lambda owner, name: owner.endpoints.get(name),
    "update": lambda owner, name: owner.endpoints.update(name, url=URL),
    "rotate_secret": lambda owner, name: owner.endpoints.rotate_secret(name),
    "public_keys": lambda owner, name: owner.endpoints.public_keys(name),
    "test": lambda owner, name: owner.endpoints.test(name),
    "disable": lambda owner, name: owner.endpoints.disable(name),
    "enable": lambda owner, name: owner.endpoints.enable(name),
    "stats": lambda owner, name: owner.endpoints.stats(name),
    "delete": lambda owner, name: owner.endpoints.delete(name),
}

OF_NO_SCHEDULE = {"create", "create_many", "create_bulk", "list", "preview", "forecast"}


@pytest.fixture(params=["default", "acme"])
def tenant_app(app: Tickwork, request: pytest.FixtureRequest) -> Tickwork:
    return app if request.param == "default" else Tickwork(tenant="acme")


async def make(whose: Tickwork | Owner, name: str) -> ScheduleAnswer:
    daily: ScheduleFields = {**EVERY_DAY, "name": name}
    return await whose.schedules.create(**daily)


def verbs(noun: object) -> set[str]:
    return {name for name in dir(noun) if not name.startswith("_")}


async def test_every_verb_on_a_schedule_reaches_the_owners_only(
    tenant_app: Tickwork, database: str | None
) -> None:
    app = tenant_app
    app.queue("reminders")
    ann, bob = app.owner("ann"), app.owner("bob")
    assert verbs(ann.schedules) == {*ON_A_SCHEDULE, *OF_NO_SCHEDULE}
    async with harness(app, database=database, start=START) as h:
        foreign = [
            await make(bob, "bobs"),
            await make(app, "nobodys"),
        ]
        own = await make(ann, "own")
        await h.advance(days=1)
        for verb, call in ON_A_SCHEDULE.items():
            for schedule in foreign:
                for reference in (schedule.id, schedule.name):
                    with pytest.raises(NotFound):
                        await call(ann, reference)
            if verb == "resume":
                await ann.schedules.pause("own")
            await call(ann, "own")
        after = [await app.schedules.get(schedule.id) for schedule in foreign]
        assert [(schedule.status, schedule.fired) for schedule in after] == [("active", 1)] * 2
        assert own.owner == "ann"


async def test_lists_and_new_schedules_are_the_owners(app: Tickwork, database: str | None) -> None:
    app.queue("reminders")
    ann, bob = app.owner("ann"), app.owner("bob")
    async with harness(app, database=database, start=START):
        await make(bob, "the-same")
        await app.schedules.create(**EVERY_DAY)
        await make(ann, "the-same")
        await ann.schedules.create_many([EVERY_DAY, {**EVERY_DAY, "owner": "ann"}])
        assert await ann.schedules.create_bulk([EVERY_DAY]) == 1
        assert [schedule.owner for schedule in await ann.schedules.list()] == ["ann"] * 4
        assert len(await bob.schedules.list()) == 1
        assert len(await ann.schedules.upcoming(limit=4)) == 4
        assert len({fire.schedule_id for fire in await bob.schedules.upcoming(limit=4)}) == 1
        for ask in (ann.schedules.list, ann.schedules.upcoming):
            with pytest.raises(NotFound, match="owner bob"):
                await ask(owner="bob")
        foreign: ScheduleFields = {**EVERY_DAY, "owner": "bob"}
        for create in (
            ann.schedules.create(**foreign),
            ann.schedules.create_many([foreign]),
            ann.schedules.create_bulk([foreign]),
        ):
            with pytest.raises(InvalidInput, match="must be your own, or left out"):
                await create
        with pytest.raises(InvalidInput, match="a forecast is that of a tenant"):
            await ann.schedules.forecast()
        assert len(await bob.schedules.list()) == 1


async def test_endpoints_and_events_are_the_owners(app: Tickwork, database: str | None) -> None:
    ann, bob = app.owner("ann"), app.owner("bob")
    async with harness(app, database=database, start=START) as h:
        await bob.endpoints.create("bobs", url=URL, types=["*"])
        await app.endpoints.create("nobodys", url=URL, types=["*"])
        made = await ann.endpoints.create("own", url=URL, types=["*"], signature="v1a")
        assert made.owner == "ann"
        assert [endpoint.name for endpoint in await ann.endpoints.list()] == ["own"]
        assert verbs(ann.endpoints) == {*ON_AN_ENDPOINT, "create", "list"}
        with pytest.raises(InvalidInput, match="must be your own, or left out"):
            await ann.endpoints.update("own", owner="bob")
        published = await ann.events.publish("order.paid", {})
        assert published.endpoints == 2
        with pytest.raises(InvalidInput, match="must be your own, or left out"):
            await ann.events.publish("order.paid", {}, owner="bob")
        await h.drain()
        for call in ON_AN_ENDPOINT.values():
            for name in ("bobs", "nobodys"):
                with pytest.raises(NotFound):
                    await call(ann, name)
            await call(ann, "own")
        assert len(await app.endpoints.list()) == 2


@pytest.mark.parametrize("name", ["", None, 7, "a\0b"])
def test_an_owner_has_a_name(name: Any) -> None:
    with pytest.raises(InvalidInput, match="owner"):
        Tickwork().owner(name)
