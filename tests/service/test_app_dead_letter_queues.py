"""Dead-letter queues of an app: to name one is enough, and whoever declares it has the word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.app.message import Message, MessageBatch, Permanent
from tickwork.core.model import DEFAULT
from tickwork.facade.app import Tickwork
from tickwork.testing import harness


@pytest.fixture
async def here(home: Home) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind."""
    app = Tickwork(home.url)
    yield app
    await app.close()


async def retries_of(app: Tickwork, queue: str) -> int:
    store = await app._engine.open()
    return (await store.queues.get(DEFAULT, queue)).settings.max_retries


async def test_what_dies_moves_to_a_queue_that_is_only_named(
    app: Tickwork, database: str | None
) -> None:
    emails = app.queue("emails", max_batch_timeout=5, dead_letter_queue="emails-dlq")

    @app.consumer("emails")
    async def send_emails(_: MessageBatch[Any]) -> None:
        raise Permanent("no such address")

    async with harness(app, database=database) as h:
        assert await h.sent("emails-dlq") == []
        await emails.send({"to": "nobody"})
        await h.drain()
        assert [message.body for message in await h.sent("emails-dlq")] == [{"to": "nobody"}]
        assert len(await h.dead("emails")) == 1


async def test_it_is_there_when_the_app_is_open_and_may_have_a_handler(here: Tickwork) -> None:
    emails, seen = here.queue("emails", dead_letter_queue="emails-dlq"), list[Any]()

    @here.on("emails")
    async def fail(_: Message[Any]) -> None:
        raise Permanent("no such address")

    @here.on("emails-dlq")
    async def look(message: Message[Any]) -> None:
        seen.append(message.body)

    await emails.send("x")
    assert await retries_of(here, "emails-dlq") == 3
    async with here.running():
        await eventually(lambda: seen)
    assert seen == ["x"]


async def test_it_is_made_with_a_queue_that_is_declared_late(here: Tickwork) -> None:
    store = await here._engine.open()
    await here.queue("emails", dead_letter_queue="emails-dlq").send("x")
    assert {queue.name for queue in await store.queues.list(DEFAULT)} == {"emails", "emails-dlq"}
    here.queue("emails-dlq", max_retries=7)
    await here.queue("emails-dlq").send("y")
    assert await retries_of(here, "emails-dlq") == 7


async def test_one_that_is_there_already_stays_as_it_is(home: Home, here: Tickwork) -> None:
    owner = Tickwork(home.url)
    owner.queue("emails-dlq", max_retries=9)
    await owner.open()
    await owner.close()
    await here.queue("emails", dead_letter_queue="emails-dlq").send("x")
    assert await retries_of(here, "emails-dlq") == 9
