"""The batch contract: when a consumer is called, and what becomes of each message."""

from datetime import timedelta
from typing import Any

import pytest

from tickwork.app.invocation import HandlerEnded
from tickwork.app.message import Message, MessageBatch, Permanent, Snooze
from tickwork.core.message.backoff import Fixed
from tickwork.core.model import REASON_MAX_RETRIES
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

SETTINGS: dict[str, Any] = {
    "max_batch_size": 3,
    "max_batch_timeout": 5,
    "max_retries": 1,
    "backoff": Fixed(60),
}


class Calls:
    """A batch handler that notes what it was given, and when; then it does as told."""

    def __init__(self) -> None:
        self.given: list[list[Any]] = []
        self.times: list[timedelta] = []
        self.attempts: list[int] = []

    def note(self, batch: MessageBatch[Any], since: timedelta = timedelta()) -> None:
        self.given.append([message.body for message in batch])
        self.times.append(since)
        self.attempts += [message.attempts for message in batch.messages]


async def dead(h: Harness) -> list[tuple[Any, str, int]]:
    return [(letter.body, letter.reason, letter.attempts) for letter in await h.dead("work")]


async def test_a_batch_goes_when_it_is_full(app: Tickwork, database: str | None) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch, h.now - began)

    async with harness(app, database=database) as h:
        began = h.now
        await work.send_batch([1, 2, 3])
        await h.advance(seconds=0)
        assert calls.given == [[1, 2, 3]]
        assert calls.times == [timedelta()]


async def test_a_batch_that_is_not_full_goes_after_its_timeout(
    app: Tickwork, database: str | None
) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch, h.now - began)

    async with harness(app, database=database) as h:
        began = h.now
        await work.send(1)
        await h.advance(seconds=4)
        await work.send(2)
        await h.advance(seconds=0.9)
        assert calls.given == []
        await h.advance(seconds=10)
        assert calls.given == [[1, 2]]
        assert calls.times == [timedelta(seconds=5)]


async def test_draining_waits_for_batches_that_are_being_gathered(
    app: Tickwork, database: str | None
) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch, h.now - began)

    async with harness(app, database=database) as h:
        began = h.now
        await work.send_batch([1, 2, 3, 4])
        await h.drain()
        assert calls.given == [[1, 2, 3], [4]]
        assert calls.times == [timedelta(), timedelta(seconds=5)]


async def test_without_a_timeout_nothing_is_waited_for(app: Tickwork, database: str | None) -> None:
    work, calls = app.queue("work", max_batch_timeout=0), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch)

    async with harness(app, database=database) as h:
        await work.send(1)
        await h.advance(seconds=0)
        assert calls.given == [[1]]


async def test_a_batch_is_never_empty(app: Tickwork, database: str | None) -> None:
    app.queue("work", payload=int, **SETTINGS)
    calls = Calls()
    texts = app.queue("texts")

    @app.consumer("work")
    async def handle(batch: MessageBatch[int]) -> None:
        calls.note(batch)

    @app.on("texts")
    async def pass_on(message: Message[Any]) -> None:
        message.send("work", 1, delay_seconds=30)

    async with harness(app, database=database) as h:
        await h.advance(minutes=1)
        await texts.send("now")
        await h.advance(seconds=20)
        assert calls.given == []
        await h.drain()
        await h.advance(seconds=15)
        assert calls.given == [[1]]


async def test_a_normal_return_acks_what_was_not_spoken_of(
    app: Tickwork, database: str | None
) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch)
        if len(calls.given) == 1:
            batch.messages[1].retry(delay_seconds=0)

    async with harness(app, database=database) as h:
        await work.send_batch(["a", "b", "c"])
        await h.drain()
        assert calls.given == [["a", "b", "c"], ["b"]]
        assert calls.attempts == [1, 1, 1, 2]
        assert await dead(h) == []


async def test_an_exception_retries_what_was_not_acked(app: Tickwork, database: str | None) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch, h.now - began)
        batch.messages[0].ack()
        raise ValueError("no")

    async with harness(app, database=database) as h:
        began = h.now
        await work.send_batch(["a", "b", "c"])
        await h.advance(minutes=10)
        assert calls.given == [["a", "b", "c"], ["b", "c"]]
        assert calls.times == [timedelta(), timedelta(seconds=65)]
        assert await dead(h) == [("c", REASON_MAX_RETRIES, 2)]


async def test_the_first_word_on_a_message_counts(app: Tickwork, database: str | None) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch)
        first, second, *_ = batch.messages if len(batch) > 1 else [*batch.messages] * 2
        first.ack()
        first.retry(delay_seconds=0)
        second.retry(delay_seconds=1)
        second.ack()

    async with harness(app, database=database) as h:
        await work.send_batch(["a", "b", "c"])
        await h.advance(seconds=3)
        assert calls.given == [["a", "b", "c"]]
        await h.advance(minutes=1)
        assert calls.given == [["a", "b", "c"], ["b"]]


async def test_the_first_word_on_the_whole_batch_counts(
    app: Tickwork, database: str | None
) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch)
        batch.ack_all()
        batch.retry_all()

    async with harness(app, database=database) as h:
        await work.send_batch(["a", "b", "c"])
        await h.advance(minutes=10)
        assert calls.given == [["a", "b", "c"]]


@pytest.mark.parametrize("is_before", [True, False])
async def test_a_word_on_a_message_beats_one_on_the_batch(
    app: Tickwork, database: str | None, is_before: bool
) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch)
        if len(calls.given) > 1:
            return
        if is_before:
            batch.messages[1].ack()
        batch.retry_all(delay_seconds=0)
        if not is_before:
            batch.messages[1].ack()

    async with harness(app, database=database) as h:
        await work.send_batch(["a", "b", "c"])
        await h.drain()
        assert calls.given == [["a", "b", "c"], ["a", "c"]]


async def test_all_that_was_acked_together_stays_acked_when_the_handler_raises(
    app: Tickwork, database: str | None
) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch)
        batch.messages[0].retry(delay_seconds=0)
        batch.ack_all()
        raise ValueError("after all was said")

    async with harness(app, database=database) as h:
        await work.send_batch(["a", "b", "c"])
        await h.advance(minutes=10)
        assert calls.given == [["a", "b", "c"], ["a"]]
        assert await dead(h) == [("a", REASON_MAX_RETRIES, 2)]


async def test_what_a_batch_handler_raises_is_for_all_that_is_left(
    app: Tickwork, database: str | None
) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch, h.now - began)
        if len(calls.given) == 1:
            raise Snooze(100)
        batch.messages[0].ack()
        raise Permanent("never")

    async with harness(app, database=database) as h:
        began = h.now
        await work.send_batch(["a", "b", "c"])
        await h.advance(minutes=10)
        assert calls.given == [["a", "b", "c"], ["a", "b", "c"]]
        assert calls.attempts == [1] * 6
        assert calls.times[1] == timedelta(seconds=100)
        assert sorted(await dead(h)) == [("b", "permanent", 1), ("c", "permanent", 1)]


async def test_a_messages_own_sends_go_with_its_ack_and_only_with_it(
    app: Tickwork, database: str | None
) -> None:
    work, calls = app.queue("work", **SETTINGS), Calls()
    app.queue("out")

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch)
        for message in batch:
            message.send("out", f"{message.body} {message.attempts}")
        if len(calls.given) == 1:
            batch.messages[0].ack()
            batch.messages[1].retry(delay_seconds=0)
            raise ValueError("no")

    async with harness(app, database=database) as h:
        await work.send_batch(["a", "b", "c"])
        await h.advance(minutes=10)
        assert sorted(message.body for message in await h.sent("out")) == ["a 1", "b 2", "c 2"]


@pytest.mark.parametrize("is_failing", [True, False])
async def test_a_bare_send_commits_when_the_handler_returns(
    app: Tickwork, database: str | None, is_failing: bool
) -> None:
    work, calls = app.queue("work", **SETTINGS | {"max_retries": 0}), Calls()
    out = app.queue("out")

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        calls.note(batch)
        await out.send(f"{len(batch)} came")
        batch.messages[0].ack()
        batch.messages[1].retry()
        if is_failing:
            raise ValueError("no")

    async with harness(app, database=database) as h:
        await work.send_batch(["a", "b", "c"])
        await h.drain()
        assert [message.body for message in await h.sent("out")] == (
            [] if is_failing else ["3 came"]
        )


async def test_a_bare_send_belongs_to_a_message_that_was_acked(
    app: Tickwork, database: str | None
) -> None:
    work, out = app.queue("work", **SETTINGS), app.queue("out")

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        await out.send("x")
        batch.messages[0].retry()

    async with harness(app, database=database) as h:
        _, second, _ = await work.send_batch(["a", "b", "c"])
        await h.advance(seconds=1)
        (sent,) = await h.sent("out")
        assert sent.message.causation_id == second


async def test_after_its_handler_a_batch_takes_no_more_words(
    app: Tickwork, database: str | None
) -> None:
    work, kept = app.queue("work", **SETTINGS), list[MessageBatch[Any]]()

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        kept.append(batch)

    async with harness(app, database=database) as h:
        await work.send_batch(["a", "b", "c"])
        await h.drain()
        (batch,) = kept
        for say in (batch.ack_all, batch.retry_all, batch.messages[0].ack):
            with pytest.raises(HandlerEnded):
                say()
