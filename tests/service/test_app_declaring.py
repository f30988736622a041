"""What is declared: whose word on a queue's settings counts, and what is no handler or batch."""

from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tickwork import Batch, Firing, Message
from tickwork.core.model import DEFAULT
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.testing import harness


async def retries_of(app: Tickwork, queue: str) -> int:
    store = await app._engine.open()
    return (await store.queues.get(DEFAULT, queue)).settings.max_retries


async def test_who_only_names_a_queue_leaves_its_settings_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'app.db'}"
    owner, producer, later = Tickwork(url), Tickwork(url), Tickwork(url)
    owner.queue("emails", max_retries=9)
    assert await retries_of(owner, "emails") == 9
    await owner.close()
    await producer.queue("emails").send({"to": "a@example.com"})
    assert await retries_of(producer, "emails") == 9
    await producer.close()
    later.queue("emails", max_retries=1)
    assert await retries_of(later, "emails") == 1
    await later.close()


async def test_a_queue_that_nobody_described_is_made_as_usual(tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path / 'app.db'}")
    await app.queue("emails").send({})
    assert await retries_of(app, "emails") == 3
    await app.close()


async def test_a_bad_address_is_named_as_the_argument_it_is() -> None:
    with pytest.raises(InvalidInput) as raised:
        await Tickwork("mysql://localhost/app").open()
    assert [error.field for error in raised.value.errors] == ["database"]


async def test_a_handler_that_comes_too_late_is_refused(app: Tickwork, tmp_path: Path) -> None:
    """Nobody would call it, and its messages would wait for ever."""
    app.queue("late")

    async def handle(_message: object) -> None: ...

    async with harness(app):
        with pytest.raises(InvalidInput, match="declared while the app runs"):
            app.on("late")(handle)
    other = Tickwork(f"sqlite:///{tmp_path / 'app.db'}")
    other.queue("late")
    async with other.running():
        with pytest.raises(InvalidInput, match="declared while the app runs"):
            other.on("late")(handle)
    other.on("late")(handle)


async def test_nothing_is_left_of_what_was_refused(app: Tickwork, database: str | None) -> None:
    """Half of it would be a schedule, or an end of batches, that nobody handles."""
    app.queue("work")

    async def late(_given: object) -> None: ...

    def declare() -> None:
        app.schedule(interval_seconds=60)(late)

    def declare_completion() -> None:
        app.on_completed("work")(late)

    async with harness(app, database=database):
        for refused in (declare, declare_completion):
            with pytest.raises(InvalidInput, match="declared while the app runs"):
                refused()
    async with harness(app, database=database):
        assert await app.schedules.list() == ()
    assert [*app._engine.registry.queues] == ["work"]
    assert app._engine.registry.completions == {}
    declare()
    declare_completion()
    async with harness(app, database=database):
        assert [schedule.name for schedule in await app.schedules.list()] == ["late"]


async def nothing() -> None: ...


async def two(_first: object, _second: object) -> None: ...


async def named(*, message: object) -> None: ...


@pytest.mark.parametrize("function", [nothing, two, named])
async def test_a_handler_that_cannot_be_called_is_refused(app: Tickwork, function: Any) -> None:
    app.queue("work")
    with pytest.raises(InvalidInput, match="is called with one argument"):
        app.on("work")(function)
    with pytest.raises(InvalidInput, match="is called with one argument"):
        app.schedule(interval_seconds=60)(function)
    with pytest.raises(InvalidInput, match="is called with one argument"):
        app.on_completed("work")(function)


def with_extra(function: Any) -> Any:
    """A decorator that supplies what its function wants beside."""

    @wraps(function)
    async def wrapper(message: object) -> None:
        await function(message, "extra")

    return wrapper


async def test_a_decorator_may_supply_arguments(app: Tickwork) -> None:
    work = app.queue("work")
    given: list[tuple[str, str]] = []

    @app.on("work")
    @with_extra
    async def handle(message: Message[int], extra: str) -> None:
        given.append((f"message {message.body}", extra))

    @app.on_completed("work")
    @with_extra
    async def done(batch: Batch, extra: str) -> None:
        given.append((f"batch of {batch.total}", extra))

    @app.schedule(interval_seconds=60)
    @with_extra
    async def tick(_firing: Firing[Any], extra: str) -> None:
        given.append(("firing", extra))

    async with harness(app) as h:
        with pytest.raises(InvalidInput, match="does not fit int"):
            await work.send("no number")
        await app.batch("work", [7])
        await h.advance(seconds=90)
        wanted = {"message 7": "extra", "batch of 1": "extra", "firing": "extra"}
        assert dict(given) == wanted


class Model(BaseModel):
    """One body, though it can be gone through."""

    to: str = "x"
    n: int = 1


ONE_BODY = ["abc", b"abc", bytearray(b"abc"), memoryview(b"abc"), {"to": "x", "n": 1}, Model()]


@pytest.mark.parametrize("items", ONE_BODY)
async def test_one_body_is_not_taken_apart(app: Tickwork, items: Any) -> None:
    work = app.queue("work")
    async with harness(app) as h:
        for sending in (app.batch("work", items), work.send_batch(items)):
            with pytest.raises(
                InvalidInput, match=r"must be .*; (one alone: |for a single body use )"
            ):
                await sending
        assert await h.sent("work") == []
