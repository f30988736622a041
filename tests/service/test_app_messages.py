"""The per-message contract: attempts, delays, endings, and who handles what."""

import asyncio
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest

from tickwork.app.invocation import HandlerEnded
from tickwork.app.message import Message, MessageBatch, Permanent, Snooze
from tickwork.core.limits import DELAY_SECONDS_MAX, HOPS_MAX
from tickwork.core.message.backoff import Backoff, Exponential, Fixed, Listed
from tickwork.core.message.decide import UNHANDLED_DELAY_SECONDS, UNHANDLED_RELEASES_MAX
from tickwork.core.model import REASON_MAX_RETRIES, REASON_TOO_MANY_HOPS, REASON_UNHANDLED_TYPE
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness
from tickwork.testing.clock import START

Log = list[tuple[Any, int, float]]
"""Body, attempt, and seconds since the beginning."""


async def test_a_message_whose_handler_returns_is_done(app: Tickwork, database: str | None) -> None:
    work, seen = app.queue("work"), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append((message.body, message.attempts, message.id))

    async with harness(app, database=database) as h:
        sent = await work.send({"a": [1, None]})
        await h.drain()
        assert seen == [({"a": [1, None]}, 1, sent)]
        await h.advance(days=1)
        assert len(seen) == 1
        assert await h.dead("work") == []


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        (Exponential(), [30, 60, 120]),
        (Exponential(base_seconds=400), [400, 600, 600]),
        (Listed((60, 300)), [60, 300, 300]),
        (Fixed(7), [7, 7, 7]),
    ],
)
async def test_a_failing_message_comes_back_by_the_backoff_and_then_is_dead(
    app: Tickwork, database: str | None, backoff: Backoff, delays: list[int]
) -> None:
    work, log = app.queue("work", max_retries=3, backoff=backoff), Log()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, message.attempts, seconds(h)))
        raise ValueError(f"attempt {message.attempts}")

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.advance(days=1)
        times = [0, *delays]
        assert log == [("x", n + 1, sum(times[: n + 1])) for n in range(4)]
        (dead,) = await h.dead("work")
        assert (dead.body, dead.reason, dead.attempts) == ("x", REASON_MAX_RETRIES, 4)
        assert "ValueError: attempt 4" in (dead.error or "")
        assert dead.letter.failed_at == h.now - timedelta(days=1) + timedelta(seconds=sum(times))


async def test_without_retries_there_is_one_delivery(app: Tickwork, database: str | None) -> None:
    work, log = app.queue("work", max_retries=0), Log()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, message.attempts, seconds(h)))
        message.retry(delay_seconds=5)

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.advance(hours=1)
        assert log == [("x", 1, 0)]
        assert [letter.reason for letter in await h.dead("work")] == [REASON_MAX_RETRIES]


async def test_a_delay_of_ones_own_wins_also_none(app: Tickwork, database: str | None) -> None:
    work, log = app.queue("work", max_retries=3, backoff=Fixed(60)), Log()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, message.attempts, seconds(h)))
        if message.attempts < 4:
            message.retry(*[(0,), (7.5,), ()][message.attempts - 1])

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.advance(hours=1)
        assert [(attempt, at) for _, attempt, at in log] == [(1, 0), (2, 0), (3, 7.5), (4, 67.5)]
        assert await h.dead("work") == []


async def test_a_snooze_costs_no_attempt(app: Tickwork, database: str | None) -> None:
    work, log = app.queue("work", max_retries=0), Log()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, message.attempts, seconds(h)))
        if len(log) < 5:
            raise Snooze(100)

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.advance(hours=1)
        assert log == [("x", 1, 100 * n) for n in range(5)]
        assert await h.dead("work") == []


async def test_what_can_never_succeed_is_dead_at_once(app: Tickwork, database: str | None) -> None:
    work, log = app.queue("work", max_retries=9), Log()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, message.attempts, seconds(h)))
        raise Permanent("no such customer")

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.advance(hours=1)
        assert len(log) == 1
        (dead,) = await h.dead("work")
        assert (dead.reason, dead.error, dead.attempts) == ("permanent", "no such customer", 1)


async def test_an_ack_stays_when_the_handler_raises_afterwards(
    app: Tickwork, database: str | None
) -> None:
    work, log = app.queue("work"), Log()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, message.attempts, seconds(h)))
        message.ack()
        message.retry()
        raise ValueError("too late")

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.advance(hours=1)
        assert len(log) == 1
        assert await h.dead("work") == []


async def test_a_delay_that_is_no_number_is_the_handlers_error(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work", max_retries=0)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        message.retry(delay_seconds=message.body)

    async with harness(app, database=database) as h:
        await work.send("30")
        await h.drain()
        (dead,) = await h.dead("work")
        assert "seconds must be a number, not str" in (dead.error or "")


async def test_what_is_delayed_expires_after_its_delay_and_so_long_whatever_it_says(
    app: Tickwork, database: str | None
) -> None:
    work, log = app.queue("work"), Log()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, message.attempts, seconds(h)))
        raise Snooze(30)

    async with harness(app, database=database) as h:
        await work.send("x", delay_seconds=100, expires_after_seconds=50)
        await h.advance(hours=1)
        assert [at for _, _, at in log] == [100, 130]
        assert [letter.reason for letter in await h.dead("work")] == ["expired"]


async def test_a_delay_out_of_its_limits_is_the_handlers_error(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work", max_retries=0, max_batch_size=1, max_batch_timeout=0)
    delays = {
        "negative": -1,
        "barely": -0.001,
        "inf": inf,
        "nan": nan,
        "more": DELAY_SECONDS_MAX + 1,
    }

    @app.consumer("work")
    async def handle(batch: MessageBatch[Any]) -> None:
        (message,) = batch
        word, delay = message.body
        if word == "retry":
            message.retry(delays[delay])
        elif word == "retry_all":
            batch.retry_all(delays[delay])
        raise Snooze(delays[delay])

    bodies = [[word, delay] for word in ("retry", "retry_all", "snooze") for delay in delays]
    async with harness(app, database=database) as h:
        await work.send_batch(bodies)
        await h.drain()
        dead = await h.dead("work")
        assert sorted(letter.body for letter in dead) == sorted(bodies)
        for letter in dead:
            assert f"seconds must be from 0 to {DELAY_SECONDS_MAX}" in (letter.error or ""), (
                letter.body
            )


async def test_a_message_is_handled_by_its_type_or_by_who_takes_any(
    app: Tickwork, database: str | None
) -> None:
    work, seen = app.queue("work"), list[tuple[str, Any]]()

    @app.on("work", type="a")
    async def a(message: Message[Any]) -> None:
        seen.append(("a", message.body))

    @app.on("work", type="b")
    async def b(message: Message[Any]) -> None:
        seen.append(("b", message.body))

    @app.on("work")
    async def rest(message: Message[Any]) -> None:
        seen.append(("rest", message.body))

    async with harness(app, database=database) as h:
        await work.send(1, type="a")
        await work.send(2, type="b")
        await work.send(3, type="c")
        await work.send(4)
        await h.drain()
        assert sorted(seen) == [("a", 1), ("b", 2), ("rest", 3), ("rest", 4)]


async def test_an_unknown_type_waits_for_other_nodes_and_then_is_dead(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work")

    @app.on("work", type="known")
    async def handle(message: Message[Any]) -> None:
        raise AssertionError(message.body)

    async with harness(app, database=database) as h:
        await work.send("x", type="new")
        await h.advance(seconds=UNHANDLED_DELAY_SECONDS * UNHANDLED_RELEASES_MAX - 1)
        assert await h.dead("work") == []
        await h.advance(seconds=1)
        (dead,) = await h.dead("work")
        assert (dead.reason, dead.attempts) == (REASON_UNHANDLED_TYPE, 0)
        assert "'new'" in (dead.error or "")


async def test_a_message_knows_where_it_comes_from(app: Tickwork, database: str | None) -> None:
    work, seen = app.queue("work"), list[Message[Any]]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message)

    async with harness(app, database=database) as h:
        await work.send("x", type="t", source="s", key="k", event_id="e", priority=9)
        plain = await work.send("y", correlation_id="c", causation_id="d")
        began = h.now
        await h.drain()
        first, second = sorted(seen, key=lambda message: str(message.body))
        assert (first.type, first.source, first.key, first.event_id) == ("t", "s", "k", "e")
        assert (first.tenant, first.timestamp, first.hops) == ("default", began, 0)
        assert first.correlation_id == first.id
        assert (second.event_id, second.correlation_id, second.causation_id) == (plain, "c", "d")
        assert (second.type, second.source, second.key, second.metadata) == (None, None, None, {})


async def test_correlation_causation_and_hops_flow_by_themselves(
    app: Tickwork, database: str | None
) -> None:
    one, two, three = app.queue("one"), app.queue("two"), app.queue("three")

    @app.on("one")
    async def first(message: Message[Any]) -> None:
        await two.send(message.body)

    @app.on("two")
    async def second(message: Message[Any]) -> None:
        message.send("three", message.body)
        await three.send("another story", correlation_id="mine", causation_id="me")

    async with harness(app, database=database) as h:
        begun = await one.send("x", event_id="event")
        await h.drain()
        (middle,) = await h.sent("two")
        assert (middle.message.correlation_id, middle.message.causation_id) == (begun, "event")
        assert middle.message.hops == 1
        found = {sent.body: sent.message for sent in await h.sent("three")}
        last = found["x"]
        assert (last.correlation_id, last.causation_id, last.hops) == (
            begun,
            f"msg_{middle.message.id.hex}",
            2,
        )
        own = found["another story"]
        assert (own.correlation_id, own.causation_id, own.hops) == ("mine", "me", 2)


async def test_what_goes_round_ends_after_so_many_hops(app: Tickwork, database: str | None) -> None:
    work, hops = app.queue("work"), list[int]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        hops.append(message.hops)
        await work.send(message.body)

    async with harness(app, database=database) as h:
        await work.send("round and round")
        await h.drain()
        assert hops == [*range(HOPS_MAX)]
        (dead,) = await h.dead("work")
        assert (dead.reason, dead.attempts) == (REASON_TOO_MANY_HOPS, 0)


async def test_keys_keep_their_order_through_retries(app: Tickwork, database: str | None) -> None:
    work, log = app.queue("work", backoff=Fixed(10)), Log()

    @app.on("work", max_concurrency=10)
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, message.attempts, seconds(h)))
        if message.body == "a1" and message.attempts == 1:
            raise ValueError("not yet")

    async with harness(app, database=database) as h:
        for body in ("a1", "a2", "b1", "b2"):
            await work.send(body, key=body[0])
        await h.advance(minutes=1)
        assert [entry for entry in log if entry[0][0] == "a"] == [
            ("a1", 1, 0),
            ("a1", 2, 10),
            ("a2", 1, 10),
        ]
        assert [entry for entry in log if entry[0][0] == "b"] == [("b1", 1, 0), ("b2", 1, 0)]


async def test_an_event_is_handled_once(app: Tickwork, database: str | None) -> None:
    work, log = app.queue("work"), Log()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        log.append((message.body, message.attempts, seconds(h)))

    async with harness(app, database=database) as h:
        await work.send(1, event_id="same")
        await h.drain()
        await work.send(2, event_id="same")
        await h.advance(days=14)
        assert [body for body, *_ in log] == [1]


async def test_the_time_that_is_left_is_what_the_queue_gives(
    app: Tickwork, database: str | None
) -> None:
    work, left = app.queue("work", timeout_seconds=30), list[float]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        left.append(message.time_left())

    async with harness(app, database=database) as h:
        await work.send(1)
        await h.drain()
        assert left == [30]


async def test_after_its_handler_a_message_takes_no_more_words(
    app: Tickwork, database: str | None
) -> None:
    work, kept = app.queue("work"), list[Message[Any]]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        kept.append(message)

    async with harness(app, database=database) as h:
        await work.send(1)
        await h.drain()
        (message,) = kept
        for say in (message.ack, message.retry, message.transaction):
            with pytest.raises(HandlerEnded):
                say()
        with pytest.raises(HandlerEnded):
            message.send("work", 2)


def seconds(h: Harness) -> float:
    """Since the beginning."""
    return (h.now - START).total_seconds()


async def test_what_one_task_of_a_group_says_the_handler_says(
    app: Tickwork, database: str | None
) -> None:
    work, attempts = app.queue("work", max_retries=0), list[int]()

    async def raising(*errors: Exception) -> None:
        async with asyncio.TaskGroup() as group:
            for error in errors:
                group.create_task(raising_one(error))

    async def raising_one(error: Exception) -> None:
        raise error

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        if message.body == "later":
            attempts.append(message.attempts)
            if len(attempts) == 1:
                await raising(Snooze(100))
        elif message.body == "never":
            async with asyncio.TaskGroup() as group:
                group.create_task(raising(Permanent("no such customer")))
        else:
            await raising(Permanent("no such customer"), Snooze(100))

    async with harness(app, database=database, raise_errors=True) as h:
        await work.send("later")
        await h.advance(seconds=101)
        assert attempts == [1, 1]
        for body in ("never", "both"):
            await work.send(body)
            with pytest.raises(ExceptionGroup):
                await h.drain()
        never, both = await h.dead("work")
    assert (never.reason, never.error) == ("permanent", "no such customer")
    assert both.reason == "max_retries"
