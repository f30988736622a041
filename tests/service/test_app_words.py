"""What an app says when something is amiss: what it is, and what to do."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.app.message import Message
from tickwork.core.limits import BATCH_MESSAGES_MAX, BODY_BYTES_MAX
from tickwork.core.model import DEFAULT
from tickwork.errors import InvalidInput, StoreUnavailable
from tickwork.facade.app import Tickwork
from tickwork.testing import harness


async def test_an_app_with_queues_and_without_handlers_says_so(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """Without queues it may have schedules that call URLs or send email."""
    app = Tickwork(home.url)
    async with app.running():
        pass
    app.queue("work")
    async with app.running(roles=["api"]):
        pass
    assert not caplog.records
    async with app.running():
        pass
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "no handlers" in caplog.text


async def test_a_type_that_nobody_handles_is_told_once(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    app = Tickwork(home.url)
    work, seen = app.queue("work"), list[Any]()

    @app.on("work", type="known", max_concurrency=1)
    async def handle(message: Any) -> None:
        seen.append(message.body)

    for number in range(3):
        await work.send(number, type="unknown")
        await work.send(number)
    await work.send("last", type="known")
    async with app.running():
        await eventually(lambda: seen)
    told = [
        record.getMessage()
        for record in caplog.records
        if "no handler in this process" in record.getMessage()
    ]
    assert len(told) == 2
    assert any("the type 'unknown'" in line for line in told)


async def test_a_server_that_does_not_answer_is_told_with_what_to_do() -> None:
    with pytest.raises(StoreUnavailable, match="check that the server is running"):
        await Tickwork("postgresql://nobody@127.0.0.1:1/none").open()


async def test_a_batch_for_a_queue_that_is_not_there_is_told_the_nearest(
    app: Tickwork, database: str | None
) -> None:
    app.queue("emails")
    told = list[str]()

    @app.on("emails")
    async def handle(_: Any) -> None:
        with pytest.raises(InvalidInput, match="did you mean 'emails'") as refused:
            await app.batch("emals", [1])
        told.append(str(refused.value))

    async with harness(app, database=database, raise_errors=True) as h:
        with pytest.raises(
            InvalidInput, match="queue: there is no queue 'emals'; did you mean 'emails'"
        ):
            await app.batch("emals", [1])
        await app.queue("emails").send(1)
        await h.drain()
    assert len(told) == 1


async def test_a_completion_queue_that_nobody_has_is_refused_where_it_is_named(
    app: Tickwork, database: str | None
) -> None:
    emails = app.queue("emails")
    told = list[str]()

    @app.on("emails")
    async def handle(_: Any) -> None:
        with pytest.raises(InvalidInput) as refused:
            await app.batch("emails", [1], completion_queue="done")
        told.append(str(refused.value))

    async with harness(app, database=database, raise_errors=True) as h:
        with pytest.raises(InvalidInput, match="completion_queue: there is no queue 'emals'; did"):
            await app.batch("emails", [1], completion_queue="emals")
        assert not await h.store.batches.list(DEFAULT, 10)
        await emails.send(1)
        await h.drain()
        app.queue("done")
        await app.batch("emails", [], completion_queue="done")
        assert len(await h.sent("done")) == 1
    assert told == ["completion_queue: there is no queue 'done'; add app.queue('done') before it"]


async def test_one_event_id_for_several_messages_is_refused(
    app: Tickwork, database: str | None
) -> None:
    """Only one of them would be handled, and all would count as completed."""
    emails, outer = app.queue("emails"), app.queue("outer")
    handled, said = (
        list[str](),
        "event_id: .*all but one would be dropped as duplicates",
    )

    @app.on("emails")
    async def handle(message: Message[str]) -> None:
        handled.append(message.body)

    @app.on("outer")
    async def make(_: Any) -> None:
        for call in (
            emails.send_batch(["a", "b"], event_id="x"),
            app.batch("emails", ["a", "b"], event_id="x"),
        ):
            with pytest.raises(InvalidInput, match=said):
                await call
        await app.batch("emails", (name for name in ["in a handler"]), event_id="y")

    async with harness(app, database=database, raise_errors=True) as h:
        with pytest.raises(InvalidInput, match=said):
            await emails.send_batch(["a", "b"], event_id="x")
        with pytest.raises(InvalidInput, match=said):
            await app.batch("emails", (body for body in "abc"), event_id="x")
        assert not await h.store.batches.list(DEFAULT, 10)
        await emails.send_batch(["alone"], event_id="x")
        await outer.send(1)
        await app.batch("emails", (name for name in ["of a batch"]), event_id="z")
        await h.drain()
    assert sorted(handled) == ["alone", "in a handler", "of a batch"]


async def test_what_is_no_batch_is_refused_before_anything_is_stored(
    app: Tickwork, database: str | None
) -> None:
    app.queue("emails")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"queue": 5}, "queue: must be the name of a queue, a text, not 5"),
        ({"completion_queue": 5}, "completion_queue: must be the name of a queue"),
        ({"batch_id": "x"}, r"batch_id: must be a UUID, such as uuid.uuid4\(\)"),
        ({"items": None}, "items: must be a list or another iterable of bodies, not None"),
    ]
    async with harness(app, database=database) as h:
        for given, said in wrong:
            with pytest.raises(InvalidInput, match=said):
                await app.batch(**{"queue": "emails", "items": [1], **given})
        assert not await h.store.batches.list(DEFAULT, 10)


async def test_settings_that_are_said_when_the_queue_is_there_count(home: Home) -> None:
    app = Tickwork(home.url)
    emails = app.queue("emails")
    await emails.send(1)
    app.queue("emails", max_retries=7)
    await emails.send(2)
    made = await (await app._engine.open()).queues.get(DEFAULT, "emails")
    await app.close()
    assert made.settings.max_retries == 7


async def test_a_batch_for_a_queue_of_another_app_is_made(home: Home) -> None:
    owner, other = Tickwork(home.url), Tickwork(home.url)
    owner.queue("emails")
    await owner.open()
    batch = await other.batch("emails", [1, 2])
    assert (await batch.progress()).total == 2
    await owner.close()
    await other.close()


@pytest.mark.one_store("sqlite")
async def test_a_handler_sends_no_more_at_once_than_anybody_else(
    app: Tickwork, database: str | None
) -> None:
    out, refused = app.queue("out"), list[str]()
    work = app.queue("work")
    many = [*range(BATCH_MESSAGES_MAX + 1)]

    @app.on("work")
    async def handle(_: Any) -> None:
        try:
            await out.send_batch(many)
        except InvalidInput as error:
            refused.append(str(error))
        with pytest.raises(InvalidInput, match=r"messages\[1\].body"):
            await out.send_batch(["kept by itself", "x" * BODY_BYTES_MAX])  # All or none.
        await out.send_batch(many[:-1])

    async with harness(app, database=database, raise_errors=True) as h:
        with pytest.raises(InvalidInput) as outside:
            await out.send_batch(many)
        await work.send(1)
        await h.drain()
        assert len(await h.sent("out")) == BATCH_MESSAGES_MAX
    assert refused == [str(outside.value)]


async def test_who_waits_for_a_batch_may_say_for_how_long(home: Home) -> None:
    app = Tickwork(home.url)
    app.queue("items")
    batch = await app.batch("items", [1, 2])
    with pytest.raises(TimeoutError, match=r"0 of 2 items completed or failed within 0\.1 s"):
        await batch.wait(timeout_seconds=0.1)

    @app.on("items")
    async def handle(_: Any) -> None: ...

    async with app.running():
        assert (await batch.wait(timeout_seconds=30)).completed == 2


@pytest.mark.one_store("sqlite")
async def test_a_process_of_its_own_says_what_it_handles(home: Home, children: Children) -> None:
    app = Tickwork(home.url)
    for name in ("work", "gathered", "out"):
        app.queue(name)
    await app.queue("work").send("first")
    await app.close()
    child = children.spawn("tests.service.programs.draining", home.url, "30")
    await child.line("began first", 30)
    child.terminate()
    await child.succeeded(30)
    (told,) = [line for line in child.stderr().splitlines() if "handling" in line]
    assert "gathered" in told
    assert "work" in told
