"""The payload of a schedule fits the type of its target, or is refused; on both stores."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from tickwork import Firing, Message, Permanent
from tickwork.core.options import ScheduleFields, SchedulePatch
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.testing import harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
NINE = "0 9 * * *"


class Struct(msgspec.Struct):
    """A msgspec struct."""

    to: str
    at: datetime | None = None


@dataclass
class Data:
    """A dataclass."""

    to: str
    at: datetime | None = None


class Model(BaseModel):
    """A Pydantic model."""

    to: str
    at: datetime | None = None


async def faults_of(call: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        await call
    return {error.field: error.message for error in refused.value.errors}


def body(payload: Any, queue: str = "emails", **fields: Any) -> ScheduleFields:
    return {"cron_expr": NINE, "target": {"queue": queue}, "payload": payload, **fields}  # type: ignore[typeddict-item]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("kind", [Struct, Data, Model])
async def test_a_payload_that_does_not_fit_its_queue_is_refused_at_create_and_update(
    app: Tickwork, database: str | None, kind: type[Any]
) -> None:
    app.queue("emails", payload=kind)
    app.queue("other")
    async with harness(app, database=database, start=START):
        for wrong in ({"to": 5}, {"unknown": "x"}, "text", None):
            found = await faults_of(app.schedules.create(**body(wrong)))
            assert found.keys() == {"payload"}, wrong
            assert kind.__name__ in found["payload"]
        many = await faults_of(app.schedules.create_many([body({"to": "a"}), body({"to": 5})]))
        assert many.keys() == {"[1].payload"}
        bulk = await faults_of(app.schedules.create_bulk([body({"to": "a"}), body({"to": 5})]))
        assert bulk.keys() == {"[1].payload"}
        made = await app.schedules.create(**body({"to": "a"}, name="daily"))
        assert made.payload == {"to": "a"} or made.payload == {"to": "a", "at": None}
        assert (await faults_of(app.schedules.update("daily", payload={"to": 5}))).keys() == {
            "payload"
        }
        await app.schedules.create(**body("any", "other", name="free"))
        moved = await faults_of(app.schedules.update("free", target={"queue": "emails"}))
        assert moved.keys() == {"payload"}
        await app.schedules.update("free", target={"queue": "emails"}, payload={"to": "b"})


@pytest.mark.parametrize("kind", [Struct, Data, Model])
async def test_a_value_of_the_type_arrives_as_it_was_given(
    app: Tickwork, database: str | None, kind: type[Any]
) -> None:
    app.queue("emails", payload=kind)
    given, seen = kind(to="a", at=START), list[Any]()

    @app.on("emails")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    async with harness(app, database=database, start=START) as h:
        fields = body(given, idempotency_key="k")
        first = await app.schedules.create(**fields)
        assert (await app.schedules.create(**fields)).id == first.id
        await app.schedules.create_bulk([body(kind(to="b"))])
        await h.advance(hours=1)
        assert not await h.dead("emails")
    assert sorted(seen, key=lambda payload: str(payload.to)) == [given, kind(to="b")]


async def test_a_payload_fits_the_handler_of_its_type(app: Tickwork, database: str | None) -> None:
    app.queue("emails")

    @app.on("emails", type="welcome")
    async def handle(message: Message[Struct]) -> None: ...

    async with harness(app, database=database, start=START):
        target: Any = {"queue": "emails", "message_type": "welcome"}
        found = await faults_of(app.schedules.create(cron_expr=NINE, target=target))
        assert found["payload"].startswith("is missing; without it the body is null")
        await app.schedules.create(cron_expr=NINE, target=target, payload={"to": "a"})
        found = await faults_of(app.schedules.create(cron_expr=NINE, target={"queue": "emails"}))
        only = "is missing; the handlers of the queue take only 'welcome'"
        assert found == {"target.message_type": only}


async def test_a_scheduled_function_gets_the_type_it_names(
    app: Tickwork, database: str | None
) -> None:
    seen: list[Struct] = []

    @app.schedule(cron_expr=NINE, payload=Struct("a", START))
    async def report(firing: Firing[Struct]) -> None:
        seen.append(firing.payload)

    async with harness(app, database=database, start=START) as h:
        await h.advance(hours=1)
        wrong = app.schedules.update("report", payload={"to": 5})
        assert (await faults_of(wrong)).keys() == {"payload"}
    assert seen == [Struct("a", START)]


#: (arguments, the field, a piece of the sentence)
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"cron": NINE}, "tick.cron", "did you mean 'cron_expr'?"),
    ({"cron_expr": NINE, "tz": "UTC"}, "tick.tz", "did you mean 'timezone'?"),
    ({"cron_expr": NINE, "isolaton": "task"}, "tick.isolaton", "did you mean 'isolation'?"),
    ({"cron_expr": NINE, "timezone": "Europe/Berln"}, "tick.timezone", "'Europe/Berlin'?"),
    ({"cron_expr": "61 * * * *"}, "tick.cron_expr", "the minute field '61'"),
    ({"cron_expr": NINE, "overlap": "skp"}, "tick.overlap", "did you mean 'skip'?"),
    ({"cron_expr": NINE, "payload": {"to": 5}}, "tick.payload", "does not fit Struct"),
    ({"cron_expr": NINE, "payload": None}, "tick.payload", "is missing"),
    ({}, "tick.timing", "none is given"),
]


@pytest.mark.parametrize(("fields", "field", "piece"), WRONG)
def test_a_wrong_field_of_a_scheduled_function_is_refused_at_its_decorator(
    app: Tickwork, fields: dict[str, Any], field: str, piece: str
) -> None:
    async def tick(firing: Firing[Struct]) -> None: ...

    with pytest.raises(InvalidInput) as refused:
        app.schedule(**{"payload": {"to": "a"}, **fields})(tick)
    found = {error.field: error.message for error in refused.value.errors}
    assert piece in found[field]
    assert app._engine.registry.schedules == {}


def test_all_faults_of_a_scheduled_function_are_told_at_once(app: Tickwork) -> None:
    async def tick(firing: Firing[Struct]) -> None: ...

    wrong: Any = {"cron_expr": "bad", "timezone": "bad", "priority": 77, "payload": 5}
    with pytest.raises(InvalidInput) as refused:
        app.schedule(**wrong)(tick)
    fields = {error.field for error in refused.value.errors}
    assert fields == {"tick.cron_expr", "tick.timezone", "tick.priority", "tick.payload"}


async def test_a_calendar_and_a_limit_are_left_to_the_database(
    app: Tickwork, database: str | None
) -> None:
    @app.schedule(interval_seconds=5, calendar="holidays")
    async def tick(firing: Firing[Any]) -> None: ...

    found = await faults_of(harness(app, database=database).__aenter__())
    assert found.keys() == {"tick.calendar"}


async def test_an_unknown_target_is_refused_with_the_nearest_name(
    app: Tickwork, database: str | None
) -> None:
    app.queue("emails")
    async with harness(app, database=database):
        typo: ScheduleFields = {"cron_expr": "99 * * * *", "target": {"queue": "emials"}}
        found = await faults_of(app.schedules.create(**typo))
        assert found.keys() == {"cron_expr", "target.queue"}
        assert found["target.queue"] == "there is no queue 'emials'; did you mean 'emails'?"
        await app.schedules.create(cron_expr=NINE, target={"queue": "emails"}, name="a")
        patch: SchedulePatch = {"cron_expr": "99 * * * *", "target": {"queue": "emials"}}
        changed = await faults_of(app.schedules.update("a", **patch))
        assert changed.keys() == {"cron_expr", "target.queue"}
        typo["cron_expr"] = NINE
        bulk = await faults_of(app.schedules.create_bulk([typo]))
        assert bulk["target.queue"].endswith("did you mean 'emails'?")


async def test_an_edited_dead_letter_fits_the_type_of_its_queue(
    app: Tickwork, database: str | None
) -> None:
    emails, seen = app.queue("emails", payload=Struct), list[Struct]()

    @app.on("emails")
    async def handle(message: Message[Struct]) -> None:
        if message.body.to == "bad":
            raise Permanent("no such address")
        seen.append(message.body)

    async with harness(app, database=database) as h:
        await emails.send(Struct("bad"))
        await h.drain()
        (letter,) = await app.dead_letters.list("emails")
        assert (await faults_of(app.dead_letters.edit(letter.id, {"to": 5}))).keys() == {"body"}
        await app.dead_letters.edit(letter.id, Struct("good", START))
        await app.dead_letters.replay("emails")
        await h.drain()
    assert seen == [Struct("good", START)]
