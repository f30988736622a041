"""Types live in the database: who has not the code of an app is held to what the app declares."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from msgspec import Struct

from tests.api.acts import problem
from tests.kit.api import bearer, in_process, new_key
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import InvalidInput, Message, Tickwork, clock
from tickwork.api import create_api
from tickwork.core import when
from tickwork.core.model import DEFAULT
from tickwork.core.types.declared import UnknownTypes
from tickwork.facade.app import engine_of
from tickwork.ops.types import register_types
from tickwork.store.contract import Store

Http = httpx.AsyncClient
RIGHT, WRONG = {"to": "ada"}, {"to": 7}
PATH = "must be a string, not an integer - at `$.to`"


class Mail(Struct):
    to: str


class Order(Struct):
    cents: int


@pytest.fixture
async def declared(home: Home) -> AsyncIterator[Tickwork]:
    """An app that has declared its types."""
    app = Tickwork(home.url, name="mailer")
    app.queue("mails", max_retries=0)
    app.queue("orders", payload=Order)
    app.queue("free")

    @app.on("mails", type="mail.send")
    async def deliver(message: Message[Mail]) -> None:
        raise ValueError(message.id)

    await app.open()
    yield app
    await app.close()


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    store = await home.open()
    yield store
    await store.close()


@pytest.fixture
async def http(home: Home, declared: Tickwork, store: Store) -> AsyncIterator[Http]:
    """A bare server on the database of the app."""
    assert declared.name == "mailer"
    limits = when.Limits(min_interval_seconds=60)
    api = create_api(now=clock.now, limits=limits, open_store=home.open)
    async with in_process(api, **bearer(await new_key(store))) as client:
        yield client


def fields_of(answer: httpx.Response) -> dict[str, str]:
    errors = problem(answer, 422, "invalid_input")["errors"]
    return {error["field"]: error["message"] for error in errors}


async def count(store: Store, queue: str) -> int:
    counts = await store.queues.counts(DEFAULT, queue)
    return counts.ready + counts.delayed


async def test_a_server_without_the_app_refuses_what_does_not_fit(http: Http, store: Store) -> None:
    async def refused(path: str, body: dict[str, Any]) -> dict[str, str]:
        return fields_of(await http.post(path, json=body))

    url = "/v1/queues/mails/messages"
    wrong, right = ({"type": "mail.send", "body": body} for body in (WRONG, RIGHT))
    assert PATH in (await refused(url, wrong))["body"]
    assert await refused(f"{url}/batch", {"messages": [right, wrong]}) == {
        "messages[1].body": f"does not fit the declared type: {PATH}"
    }
    assert [*await refused("/v1/batches", {"queue": "mails", "items": [right, wrong]})] == [
        "items[1].body"
    ]
    unknown = await refused(url, {"type": "mail.sent", "body": RIGHT})
    assert unknown == {"type": "is handled by nobody in this queue; did you mean 'mail.send'?"}
    assert [*await refused("/v1/queues/orders/messages", {"body": {}})] == ["body"]
    target = {"type": "queue", "queue": "mails", "message_type": "mail.send"}
    schedule = {"daily_time": "09:00", "target": target, "payload": RIGHT}
    assert [*await refused("/v1/schedules", {**schedule, "payload": WRONG})] == ["payload"]
    misspelled = {**schedule, "target": {**target, "message_type": "mail.sned"}}
    assert [*await refused("/v1/schedules", misspelled)] == ["target.message_type"]
    assert await count(store, "mails") == await count(store, "orders") == 0
    made = await http.post("/v1/schedules", json=schedule)
    assert made.status_code == 201
    path = f"/v1/schedules/{made.json()['id']}"
    assert [*fields_of(await http.patch(path, json={"payload": WRONG}))] == ["payload"]
    for queue, body in (
        ("mails", right),
        ("orders", {"body": {"cents": 1}}),
        ("free", {"body": 1}),
    ):
        assert (await http.post(f"/v1/queues/{queue}/messages", json=body)).status_code == 201


async def test_another_app_is_held_to_what_is_declared(home: Home, declared: Tickwork) -> None:
    other = Tickwork(home.url, name="shop")
    mails = other.queue("mails")
    with pytest.raises(InvalidInput, match="must be a string"):
        await mails.send(WRONG, type="mail.send")
    with pytest.raises(InvalidInput, match="handled by nobody"):
        await mails.send_batch([RIGHT], type="mail.sent")
    with pytest.raises(InvalidInput, match=r"items\[1\].body"):
        await other.batch("mails", [RIGHT, WRONG], type="mail.send")
    await mails.send(RIGHT, type="mail.send")
    await declared.queue("mails").send(RIGHT, type="later")  # Its own app knows better.
    await other.close()


async def test_an_event_has_to_fit_what_its_subscribers_take(
    home: Home, http: Http, declared: Tickwork, store: Store
) -> None:
    """Published over HTTP, by another app, and in a handler; nothing is stored of it."""
    await declared.subscriptions.create("mail.*", "mails")
    await declared.subscriptions.create("*", "free")
    event = {"type": "mail.send", "data": WRONG}
    assert PATH in fields_of(await http.post("/v1/events", json=event))["data"]
    other, faults = Tickwork(home.url, name="shop"), list[str]()
    other.queue("commands")

    @other.on("commands")
    async def command(message: Message) -> None:
        try:
            await other.events.publish("mail.send", message.body)
        except InvalidInput as error:
            faults.append(str(error))

    with pytest.raises(InvalidInput, match=r"must be a string.*queue mails"):
        await other.events.publish("mail.send", WRONG)
    with pytest.raises(InvalidInput, match=r"got `int`.*queue mails"):
        await declared.events.publish("mail.send", WRONG)
    async with other.running():
        await other.queue("commands").send(WRONG)
        await eventually(lambda: bool(faults))
    assert PATH in faults[0]
    assert await count(store, "mails") == await count(store, "free") == 0
    await other.events.publish("mail.send", RIGHT)
    await other.events.publish("mail.sent", WRONG)  # A type of no handler is no fault of events.
    assert (await count(store, "mails"), await count(store, "free")) == (2, 2)
    await other.close()


async def test_an_edit_of_a_dead_letter_has_to_fit(http: Http, declared: Tickwork) -> None:
    async with declared.running():
        await declared.queue("mails").send(RIGHT, type="mail.send")
        letters = declared.dead_letters

        async def died() -> bool:
            return bool(await letters.list("mails"))

        await eventually(died)
        (letter,) = await letters.list("mails")
    path = f"/v1/dead/{letter.id}"
    refused = await http.patch(path, json={"body": WRONG})
    assert [*fields_of(refused)] == ["body"]
    assert (await http.patch(path, json={"body": {"to": "bob"}})).status_code == 200


async def test_types_are_listed_with_their_apps_and_shown_with_schemas(
    http: Http, declared: Tickwork
) -> None:
    found = {type_.type: type_ for type_ in await declared.types.list()}
    (mail,), (order,) = found["mail.send"].declared, found["*"].declared
    assert (mail.app, mail.queue, mail.schema, order.handlers) == ("mailer", "mails", None, ())
    assert mail.handlers[0].endswith("deliver")
    shown = (await http.get("/v1/types/mail.send")).json()
    (schema,) = [one["schema"] for one in shown["declared"]]
    assert schema["$defs"]["Mail"]["required"] == ["to"]
    assert shown["declared"][0]["version"] == mail.version
    problem(await http.get("/v1/types/nothing"), 404, "not_found")


async def test_what_is_known_is_not_written_again(declared: Tickwork) -> None:
    engine = engine_of(declared)
    context = await engine.context()
    assert await register_types(context, engine.registry) == 0


async def test_types_that_cannot_be_stored_stop_nobody(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no schema")

    monkeypatch.setattr("tickwork.app.declared_types.schema_of", refuse)
    app = Tickwork(home.url, name="mailer")
    await app.queue("orders", payload=Order).send(Order(1))
    assert "the types of messages are not in the database: no schema" in caplog.text
    await app.close()


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize("unknown", [UnknownTypes.WARN, UnknownTypes.ACCEPT])
async def test_a_setting_accepts_types_that_nobody_handles(
    home: Home,
    unknown: UnknownTypes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("TICKWORK_UNKNOWN_TYPES", unknown)
    other = Tickwork(home.url, name="shop")
    await other.queue("mails").send(RIGHT, type="mail.sent")
    assert ("mail.sent" in caplog.text) == (unknown is UnknownTypes.WARN)
    await other.close()
