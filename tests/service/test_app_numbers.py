"""NaN and infinity are refused wherever an app gives a value that is stored or sent as JSON:
msgspec would write null without an error."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from tickwork import HttpRequest, InvalidInput, Step, Tickwork
from tickwork.client.exchange import encoded
from tickwork.core.http.message import encoded as encoded_json
from tickwork.core.options import QueueTargetFields
from tickwork.testing import Harness, harness

NAN = float("nan")
PRICED = {"items": [None, {"price": NAN}]}
WORK_TARGET: QueueTargetFields = {"type": "queue", "queue": "work"}


class Price(BaseModel):
    """A model that allows any number."""

    price: float | None


async def returning(step: Step, which: str) -> Any:
    if which == "step":
        return await step.do("price", price)
    return PRICED if which == "result" else None


async def price() -> Any:
    return PRICED


async def fail(_message: Any) -> None:
    raise ValueError("as asked")


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    app.queue("work")
    app.queue("prices", payload=Price)
    app.queue("failing", max_retries=0)
    app.consumer("failing")(fail)
    app.workflow(version="1")(returning)
    async with harness(app, database=database) as made:
        yield made


Given = Callable[[Tickwork], Awaitable[Any]]
GIVEN: dict[str, tuple[Given, str]] = {
    "send": (lambda app: app.queue("work").send(PRICED), "body.items[1].price"),
    "send_batch": (
        lambda app: app.queue("work").send_batch([1, PRICED]),
        "body.items[1].price",
    ),
    "batch": (lambda app: app.batch("work", [1, PRICED]), "body.items[1].price"),
    "model": (lambda app: app.queue("prices").send(Price(price=NAN)), "$.price"),
    "event": (lambda app: app.events.publish("shop.sold", PRICED), "data.items[1].price"),
    "payload": (
        lambda app: app.schedules.create(interval_seconds=60, target=WORK_TARGET, payload=PRICED),
        "payload.items[1].price",
    ),
    "metadata": (
        lambda app: app.schedules.create(
            interval_seconds=60, target=WORK_TARGET, metadata={"price": NAN}
        ),
        "metadata.price",
    ),
    "params": (lambda app: app.workflows.start("returning", PRICED, id="a"), "items[1].price"),
}


@pytest.mark.one_store("sqlite")
@pytest.mark.usefixtures("h")
@pytest.mark.parametrize("name", GIVEN)
async def test_a_nan_is_refused_with_its_path(app: Tickwork, name: str) -> None:
    give, path = GIVEN[name]
    with pytest.raises(InvalidInput) as refused:
        await give(app)
    assert path in str(refused.value)
    assert "JSON cannot represent" in str(refused.value)


@pytest.mark.parametrize("which", ["result", "step"])
async def test_a_nan_of_a_workflow_is_refused_with_its_path(
    app: Tickwork, h: Harness, which: str
) -> None:
    run = await app.workflows.start("returning", which, id="a")
    await h.advance(minutes=30)
    status = await run.status()
    assert "items[1].price, which JSON cannot represent" in str(status.error)


async def test_an_edited_dead_letter_has_no_nan(app: Tickwork, h: Harness) -> None:
    await app.queue("failing").send(1)
    await h.drain()
    (dead,) = await app.dead_letters.list("failing")
    with pytest.raises(InvalidInput, match=r"has nan at body\.items\[1\]\.price"):
        await app.dead_letters.edit(dead.id, PRICED)


def test_clients_and_services_send_no_nan() -> None:
    with pytest.raises(InvalidInput, match=r"has nan at messages\[0\]\.body\.items\[1\]\.price"):
        encoded({"messages": [{"body": PRICED, "key": None}]})
    with pytest.raises(InvalidInput, match=r"has nan at body\.price"):
        encoded({"body": Price(price=NAN)})
    with pytest.raises(InvalidInput, match=r"has nan at json\.items\[1\]\.price"):
        encoded_json(PRICED)
    assert encoded({"body": Price(price=None)}) == b'{"body":{"price":null}}'


async def test_a_handler_that_answers_a_nan_has_failed(
    app: Tickwork, caplog: pytest.LogCaptureFixture
) -> None:
    @app.http("GET", "/price", key=None)
    async def price_of(_request: HttpRequest) -> object:
        return PRICED

    async with harness(app) as h:
        assert (await h.http.get("/price")).status == 500
    assert "has nan at answer.items[1].price" in caplog.text
