"""What the consumer of a dead-letter queue sees of a message's death: `message.died`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.service.programs import virtual
from tickwork.app.message import Message, Permanent
from tickwork.core.message.dead_letter import Death
from tickwork.facade.app import Tickwork
from tickwork.testing import harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
Seen = list[tuple[str, Death | None]]


def watch(app: Tickwork, queue: str, seen: Seen) -> None:
    """Notes how each message of a queue died before."""

    @app.on(queue)
    async def note(message: Message[Any]) -> None:
        seen.append((message.body, message.died))


async def test_the_consumer_of_a_dead_letter_queue_sees_how_each_message_died(
    app: Tickwork, database: str | None
) -> None:
    work, seen = app.queue("work", max_retries=1, dead_letter_queue="dead"), Seen()
    watch(app, "dead", seen)

    @app.on("work")
    async def fail(message: Message[Any]) -> None:
        assert message.died is None
        raise ValueError(f"no {message.body}")

    async with harness(app, database=database, start=START) as h:
        await work.send("luck")
        await h.advance(minutes=1)
        (letter,) = await h.dead("work")
    ((body, died),) = seen
    assert died is not None
    assert (body, died.queue, died.reason, died.attempts) == ("luck", "work", "max_retries", 2)
    assert died.error == "ValueError: no luck"
    assert "Traceback" in str(letter.error)
    assert died.dead_letter_id == letter.letter.id
    assert died.failed_at == letter.letter.failed_at == START + timedelta(seconds=30)


async def test_a_message_that_expired_has_died_without_an_error(
    app: Tickwork, database: str | None
) -> None:
    work, seen = app.queue("work", dead_letter_queue="dead"), Seen()
    watch(app, "dead", seen)

    async with harness(app, database=database, start=START) as h:
        await app.queues.pause("work")
        await work.send(1, expires_after_seconds=60)
        await h.advance(minutes=5)
    ((_, died),) = seen
    assert died is not None
    assert (died.reason, died.attempts, died.error) == ("expired", 0, None)


async def test_a_handler_in_a_process_sees_the_death(app: Tickwork, database: str | None) -> None:
    work = app.queue("work", dead_letter_queue="dead")
    app.queue("out")
    app.on("dead", isolation="process")(virtual.tell_death)

    @app.on("work")
    async def fail(_: Message[Any]) -> None:
        raise Permanent("no")

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        assert [message.body for message in await h.sent("out")] == [["work", "permanent", 1, None]]


async def test_a_death_is_known_after_a_replay_in_the_dead_letter_queue(
    app: Tickwork, database: str | None
) -> None:
    work, seen, is_broken = app.queue("work", dead_letter_queue="dead"), Seen(), True

    @app.on("work")
    async def fail(_: Message[Any]) -> None:
        raise Permanent("first")

    @app.on("dead")
    async def note(message: Message[Any]) -> None:
        if is_broken:
            raise Permanent("second")
        seen.append((message.body, message.died))

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        (letter,) = await app.dead_letters.list("dead")
        assert letter.died is not None
        assert (letter.died.queue, letter.died.error) == ("work", "first")
        is_broken = False
        await app.dead_letters.replay("dead")
        await h.drain()
    assert seen == [("x", letter.died)]


async def test_the_last_death_counts_where_dead_letter_queues_follow_each_other(
    app: Tickwork, database: str | None
) -> None:
    first, seen = app.queue("first", dead_letter_queue="second"), Seen()
    app.queue("second", dead_letter_queue="third")
    watch(app, "third", seen)

    @app.on("first")
    @app.on("second")
    async def fail(message: Message[Any]) -> None:
        raise Permanent("first" if message.died is None else "second")

    async with harness(app, database=database) as h:
        await first.send("x")
        await h.drain()
    ((_, died),) = seen
    assert died is not None
    assert (died.queue, died.error) == ("second", "second")


async def test_a_waiting_message_shows_its_death(app: Tickwork, database: str | None) -> None:
    work = app.queue("work", dead_letter_queue="dead")

    @app.on("work")
    async def fail(_: Message[Any]) -> None:
        raise Permanent("no")

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        (waiting,) = await app.messages.peek("dead")
        assert waiting.died is not None
        assert (waiting.died.queue, waiting.died.error) == ("work", "no")
