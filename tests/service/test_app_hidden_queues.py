"""Nobody but Tickwork itself sends to the queues of deliveries: a message there is an order to
request an address. Every way from Python is refused, and an edit cannot change where it goes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tickwork import Entity, Message, Outgoing, Step
from tickwork.core.delivery.alert import ALERTS_QUEUE
from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE
from tickwork.core.delivery.target import DELIVERIES_QUEUE
from tickwork.core.limits import HIDDEN_QUEUES
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
FORGED: Any = {"target": {"type": "webhook", "url": "https://example.com/forged"}, "payload": 1}
DAILY: Any = {"daily_time": "09:00", "name": "morning"}
OTHER_ID = "018f0000-0000-7000-8000-000000000000"
CHANGES: dict[str, list[Any]] = {
    DELIVERIES_QUEUE: [FORGED, {"target": None}, {"first": {}}, {"delivery": "twice"}],
    ENDPOINTS_QUEUE: [{"endpoint": OTHER_ID}, {"delivery": OTHER_ID}],
    ALERTS_QUEUE: [{"queue": "other"}],
}
USED = "is used by Tickwork itself"


def test_every_queue_that_tickwork_uses_is_refused_to_others() -> None:
    assert {ALERTS_QUEUE, DELIVERIES_QUEUE, ENDPOINTS_QUEUE} == HIDDEN_QUEUES


@pytest.mark.parametrize("queue", sorted(HIDDEN_QUEUES))
def test_a_hidden_queue_cannot_be_declared_or_consumed(queue: str) -> None:
    app = Tickwork()

    async def handle(message: Any) -> None: ...

    for declare in (
        lambda: app.queue(queue),
        lambda: app.queue(queue, max_retries=0, shared=True),
        lambda: app.queue("work", dead_letter_queue=queue),
        lambda: app.on(queue)(handle),
        lambda: app.consumer(queue)(handle),
        lambda: app.schedule(cron_expr="0 9 * * *", queue=queue)(handle),
    ):
        with pytest.raises(InvalidInput, match=USED):
            declare()


@pytest.mark.parametrize("queue", sorted(HIDDEN_QUEUES))
async def test_nothing_is_sent_to_a_hidden_queue(
    app: Tickwork, database: str | None, queue: str
) -> None:
    work, errors = app.queue("work", max_retries=0), list[str]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        for send in (
            lambda: message.send(queue, FORGED),
            lambda: app.batch(queue, [FORGED]),
            lambda: app.batch("work", [], completion_queue=queue),
        ):
            try:
                if (sent := send()) is not None:
                    await sent
            except InvalidInput as error:
                errors.append(str(error))

    async with harness(app, database=database, start=START) as h:
        await work.send(1)
        await h.drain()
        with pytest.raises(InvalidInput, match=USED):
            await app.batch(queue, [Outgoing(FORGED)])
        with pytest.raises(InvalidInput, match=USED):
            await app.schedules.create(**DAILY, target={"queue": queue}, payload=FORGED)
        told: Any = {"queue": queue}
        with pytest.raises(InvalidInput, match=USED):
            await app.schedules.create(**DAILY, target={"queue": "work"}, on_success=told)
        made = await app.schedules.create(**DAILY, target={"queue": "work"}, payload=FORGED)
        with pytest.raises(InvalidInput, match=USED):
            await app.schedules.update(made.id, target={"queue": queue})
        await h.advance(hours=1)
        assert h.deliveries.webhooks == []
    assert len(errors) == 6  # Once for the message, and once for the slot.
    assert all(USED in error for error in errors)


async def dead_delivery(app: Tickwork, h: Harness, queue: str) -> Any:
    h.deliveries.answer = lambda _: 500
    if queue == DELIVERIES_QUEUE:
        await app.schedules.create(**DAILY, target_url="https://example.com/hook", payload=1)
    elif queue == ENDPOINTS_QUEUE:
        await app.endpoints.create(
            "shop", url="https://example.com/shop", types=["*"], retry_seconds=[]
        )
        await app.events.publish("order.paid", 1)
    else:
        await app.alerts.set(webhook="https://example.com/alerts")
        await app.queue("work").send(1)
    await h.advance(days=2)
    return (await app.dead_letters.list(queue))[0]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("queue", sorted(HIDDEN_QUEUES))
async def test_an_edited_delivery_goes_where_it_went_before(
    app: Tickwork, database: str | None, queue: str
) -> None:
    app.queue("work", max_retries=0)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        raise ValueError(f"no {message.body}")

    async with harness(app, database=database, start=START) as h:
        letter = await dead_delivery(app, h, queue)
        body = letter.body
        forgeries: list[Any] = [{**body, **change} for change in CHANGES[queue]]
        for forged in (*forgeries, 1, None, "x"):
            with pytest.raises(InvalidInput, match="body"):
                await app.dead_letters.edit(letter.id, forged)
        if queue != ALERTS_QUEUE:
            field = "payload" if queue == DELIVERIES_QUEUE else "event"
            await app.dead_letters.edit(letter.id, {**body, field: {"edited": True}})
            h.deliveries.answer = lambda _: 200
            await app.dead_letters.replay(queue, ids=[letter.id])
            await h.drain()
            assert h.deliveries.webhooks[-1].body == b'{"edited":true}'


async def built_in_queues(app: Tickwork) -> list[str]:
    return [queue.name for queue in await app.queues.list() if queue.name in BUILT_IN]


BUILT_IN = ("tickwork.endpoints", "tickwork.entities.Brand", "tickwork.workflows.content")


class Brand(Entity):
    async def plan(self) -> None: ...


async def test_a_queue_of_tickwork_itself_is_listed_while_something_is_in_it(
    database: str | None,
) -> None:
    app = Tickwork()
    app.entities.register(Brand)

    @app.workflow()
    async def content(step: Step) -> None:
        await step.sleep("cool-down", 3_600)

    async with harness(app, database=database, start=START) as h:
        await app.endpoints.create("shop", url="https://example.com/hook", types=["order.*"])
        assert await built_in_queues(app) == []
        await app.workflows.start(content, id="one")
        await app.events.publish("order.paid", {})
        await app.entity(Brand, "acme").send.plan()
        expected = [*BUILT_IN]
        assert await built_in_queues(app) == expected
        views = {view.queue: view for view in await app.stats()}
        assert views.keys() >= {*expected}
        assert views["tickwork.endpoints"].counts.ready == 1
        await h.drain()
        assert await built_in_queues(app) == expected[-1:]
