"""Batches that a handler makes, and handlers that are told when a batch has ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.service.own_rows import OwnRows
from tickwork.app.invocation import BatchNotStored
from tickwork.app.message import Message, MessageBatch
from tickwork.core.answers.batch import BatchAnswer
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.fields import read_id
from tickwork.core.limits import ENDING_ITEMS_MAX
from tickwork.core.message.backoff import Fixed
from tickwork.core.message.batch import Batch, BatchStatus
from tickwork.core.model import (
    DEFAULT,
    REASON_MAX_RETRIES,
    SYSTEM,
    ClaimRequest,
    ContentType,
    Counts,
    Ending,
    Fate,
    Scope,
    Settlement,
    SettleResult,
    Tenant,
)
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.ops.batches import BatchHandle
from tickwork.ops.send import compose
from tickwork.store.ids import new_id
from tickwork.testing import Harness, harness

ALL = 1_000


async def batches(h: Harness, scope: Scope = DEFAULT) -> tuple[Batch, ...]:
    return await h.store.batches.list(scope, ALL)


async def bodies(h: Harness, queue: str = "items") -> list[Any]:
    return sorted(message.body for message in await h.sent(queue))


async def do_the_same_event(h: Harness, event_id: str) -> None:
    """As another worker does, with a double of a message."""
    await h.store.messages.send(DEFAULT, "work", compose("double", event_id=event_id, priority=9))
    request = ClaimRequest(queue="work", holder=new_id(), limit=1, lease_seconds=30)
    (double,) = await h.store.messages.claim(DEFAULT, request)
    assert double.event_id == event_id
    ending = Ending(claim=double.current_claim, fate=Fate.ACK)
    assert await h.store.messages.settle(SYSTEM, Settlement((ending,))) == SettleResult()


# With the ack


async def test_a_batch_commits_with_the_ack_of_its_message(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work", max_retries=2, backoff=Fixed(0))
    app.queue("items")
    own = OwnRows(app, database)
    made: list[BatchHandle] = []

    @app.on("work")
    async def split(message: Message[Any]) -> None:
        made.append(await app.batch("items", (f"item {n}" for n in range(3)), type="part"))
        own.insert(message.transaction(), made[-1].id)
        assert await batches(h) == ()
        if message.attempts < 3:
            raise ConnectionError("after all the work")

    async with harness(app, database=database) as h:
        await own.make(h)
        message_id = await work.send("x", correlation_id="story")
        await h.drain()
        (batch,) = await batches(h)
        assert (public_id(Prefix.BATCH, batch.id), batch.total, batch.status) == (
            made[-1].id,
            3,
            BatchStatus.RUNNING,
        )
        assert await own.all(h) == [made[-1].id]
        assert (await made[-1].progress()).pending == 3
        assert await bodies(h) == ["item 0", "item 1", "item 2"]
        (item, *_) = [sent.message for sent in await h.sent("items")]
        assert (item.type, item.hops, item.batch_id) == ("part", 1, batch.id)
        assert (item.correlation_id, item.causation_id) == ("story", message_id)


async def test_before_it_commits_a_batch_can_only_be_named(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work", max_retries=0)
    app.queue("items")

    @app.on("work")
    async def split(_: Message[Any]) -> None:
        made = await app.batch("items", [1])
        assert made.id.startswith("bat_")
        for ask in (made.progress, made.wait, made.cancel):
            with pytest.raises(BatchNotStored, match="detached=True"):
                await ask()

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        assert await h.dead("work") == []


async def test_a_batch_of_a_claim_that_was_lost_is_not_made(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work")
    app.queue("items")
    seen: list[str] = []

    @app.on("work")
    async def split(message: Message[Any]) -> None:
        seen.append((await app.batch("items", [len(seen)])).id)
        if len(seen) == 1:  # As when this process is taken for dead, and another has the message.
            await h.store.nodes.leave(SYSTEM, message._stored.current_claim.holder)

    async with harness(app, database=database) as h:
        await work.send("x")
        await h.drain()
        assert [public_id(Prefix.BATCH, batch.id) for batch in await batches(h)] == seen[1:]
        assert await bodies(h) == [1]


async def test_more_than_fits_is_refused_with_advice(app: Tickwork) -> None:
    work = app.queue("work", max_retries=0)
    app.queue("items")
    refused: list[InvalidInput] = []

    def endless() -> Any:
        while True:
            yield "x"

    @app.on("work")
    async def split(_: Message[Any]) -> None:
        await app.batch("items", range(ENDING_ITEMS_MAX - 1))
        for items in (range(2), endless(), [{"bad": object()}]):
            with pytest.raises(InvalidInput) as caught:
                await app.batch("items", items)
            refused.append(caught.value)
        await app.batch("items", [1])

    async with harness(app) as h:
        await work.send("x")
        await h.drain()
        assert await h.dead("work") == []
        assert sorted(batch.total for batch in await batches(h)) == [1, ENDING_ITEMS_MAX - 1]
    assert ["detached=True" in str(error) for error in refused] == [True, True, False]
    assert "items[0].body" in str(refused[2])


async def test_a_batch_that_is_refused_when_it_commits_fails_its_message(
    app: Tickwork, database: str | None
) -> None:
    work, items = app.queue("work", max_retries=0), app.queue("items", backlog_bytes_max=128_000)

    @app.on("work")
    async def split(message: Message[Any]) -> None:
        message.send("items", "own")
        await app.batch("items", ["x" * 60_000] * 2)

    async with harness(app, database=database) as h:
        await items.send("x" * 60_000)
        await work.send("x")
        await h.drain()
        (dead,) = await h.dead("work")
        assert (dead.reason, "items" in (dead.error or "")) == (REASON_MAX_RETRIES, True)
        assert (await batches(h), len(await h.sent("items"))) == ((), 1)


async def test_a_batch_belongs_to_the_tenant_whose_message_it_is(database: str | None) -> None:
    app = Tickwork()
    app.queue("work", shared=True)
    app.queue("items", shared=True)

    @app.on("work")
    async def split(_: Message[Any]) -> None:
        await app.batch("items", [1])
        await app.batch("items", [2], detached=True)

    async with harness(app, database=database) as h:
        await h.store.tenants.put(SYSTEM, Tenant(id="one"))
        message = app._engine.composer.message("work", "x", ContentType.JSON, {})
        await h.store.messages.send(Scope("one"), "work", message)
        await h.drain()
        assert [batch.total for batch in await batches(h, Scope("one"))] == [1, 1]
        assert await batches(h) == ()


@pytest.mark.parametrize("lost", ["none", "first", "all"])
async def test_what_a_batch_handler_makes_happens_once_if_any_of_its_messages_counts(
    app: Tickwork, database: str | None, lost: str
) -> None:
    """Of the first call nothing counts but what was not lost, or done by somebody else."""
    work = app.queue("work", max_batch_size=3)
    out, calls = app.queue("out"), list[int]()
    app.queue("items")

    @app.consumer("work", max_concurrency=1)
    async def split(batch: MessageBatch[Any]) -> None:
        calls.append(len(batch))
        await app.batch("items", [item.body for item in batch])
        await out.send(len(batch))
        if len(calls) > 1 or lost == "none":
            return
        _, late, third = (item._stored.current_claim for item in batch)
        gone = [Ending(claim=late, fate=Fate.RELEASE)]
        if lost == "all":
            gone.append(Ending(claim=third, fate=Fate.ACK))
        await h.store.messages.settle(SYSTEM, Settlement(tuple(gone)))
        await do_the_same_event(h, "of a")

    async with harness(app, database=database) as h:
        for body in "abc":
            await work.send(body, event_id=f"of {body}")
        await h.drain()
        made = sorted(batch.total for batch in await batches(h))
        assert made == await bodies(h, "out") == {"none": [3], "first": [1, 3], "all": [1]}[lost]
        assert calls == ([3] if lost == "none" else [3, 1])
        assert (await work.stats()).counts == Counts()


# Detached


async def test_a_detached_batch_is_the_same_one_when_its_message_comes_again(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work", max_retries=3, backoff=Fixed(0))
    app.queue("items")
    names: list[tuple[str, str]] = []

    class Interrupted(Exception):
        """In the middle of the items."""

    def items(attempt: int) -> Any:
        yield from range(2_500)
        if attempt == 1:
            raise Interrupted
        yield from range(2_500, 6_000)

    @app.on("work")
    async def split(message: Message[Any]) -> None:
        first = await app.batch("items", ["only"], detached=True)
        assert (await first.progress()).total == 1
        second = await app.batch("items", items(message.attempts), detached=True)
        names.append((first.id, second.id))
        if message.attempts < 4:
            raise ConnectionError("after all the work")

    async with harness(app, database=database) as h:
        message_id = await work.send("x")
        await h.drain()
        found = await batches(h)
        assert sorted(batch.total for batch in found) == [1, 6_000]
        assert {public_id(Prefix.BATCH, batch.id) for batch in found} == set(names[0])
        assert (len(names), len(set(names))) == (3, 1)
        (item,) = await h.store.messages.peek(DEFAULT, "items", 1)
        assert (item.causation_id, item.hops) == (message_id, 1)


async def test_a_batch_handler_names_what_it_detaches(app: Tickwork, database: str | None) -> None:
    work, day = app.queue("work", max_batch_size=2), new_id()
    app.queue("items")

    @app.consumer("work")
    async def split(batch: MessageBatch[Any]) -> None:
        with pytest.raises(InvalidInput, match="batch_id"):
            await app.batch("items", [1], detached=True)
        for _ in batch:
            await app.batch("items", [1], detached=True, batch_id=day)

    async with harness(app, database=database) as h:
        await work.send_batch(["a", "b", "c", "d"])
        await h.drain()
        assert [batch.id for batch in await batches(h)] == [day]
        assert await bodies(h) == [1]
        assert await h.dead("work") == []


async def test_a_batch_with_a_name_is_made_once(app: Tickwork, database: str | None) -> None:
    """However often it is asked for, in handlers and outside."""
    work, day = app.queue("work"), new_id()
    app.queue("items")

    @app.on("work")
    async def start(message: Message[Any]) -> None:
        await app.batch("items", message.body, batch_id=day)

    async with harness(app, database=database) as h:
        await work.send_batch([["a", "b"], ["a", "b"]])
        await h.drain()
        made = await app.batch("items", ["a", "b"], batch_id=day)
        for spelling in (made.id, str(day), (await made.progress()).id):
            assert (await app.batch("items", ["a", "b"], batch_id=spelling)).id == made.id
        assert [batch.id for batch in await batches(h)] == [day]
        assert await bodies(h) == ["a", "b"]


# The end


async def test_whoever_asked_is_told_of_every_batch_that_has_ended(
    app: Tickwork, database: str | None
) -> None:
    items, work = app.queue("items", max_retries=0), app.queue("work")
    told: list[BatchAnswer] = []

    @app.on("items")
    async def handle(message: Message[Any]) -> None:
        if message.body == "bad":
            raise ValueError("no")

    @app.on("work")
    async def split(message: Message[Any]) -> None:
        await app.batch("items", message.body)

    @app.on_completed("items")
    async def done(batch: BatchAnswer) -> None:
        told.append(batch)
        await app.queue("out").send(batch.id)

    app.queue("out")
    async with harness(app, database=database) as h:
        outside = await app.batch("items", ["good", "bad", "good"])
        empty = await app.batch("items", [])
        await work.send_batch([["good"], []])
        await items.send("of no batch")
        await h.drain()
        found = {batch.id: batch for batch in await batches(h)}
        completed = {batch.id.uuid: batch.completed for batch in told}
        assert completed == {batch_id: batch.completed for batch_id, batch in found.items()}
        assert (len(told), len(found)) == (4, 4)
        assert sorted(await bodies(h, "out")) == sorted(
            public_id(Prefix.BATCH, batch_id) for batch_id in found
        )
        assert {outside.id, empty.id} <= {public_id(Prefix.BATCH, batch_id) for batch_id in found}
        mixed = found[read_id("batch", outside.id)]
        assert (mixed.status, mixed.completed, mixed.failed) == (BatchStatus.COMPLETED, 2, 1)


async def test_who_fails_is_told_again(app: Tickwork, database: str | None) -> None:
    app.queue("items")
    told: list[int] = []

    @app.on_completed("items", max_concurrency=1)
    async def done(batch: BatchAnswer) -> None:
        told.append(batch.total)
        if len(told) == 1:
            raise ConnectionError("once")

    async with harness(app, database=database) as h:
        await app.batch("items", [])
        await h.advance(hours=1)
        assert told == [0, 0]


async def test_another_queue_may_be_named_for_the_end(app: Tickwork, database: str | None) -> None:
    app.queue("items")
    app.queue("mine")

    @app.on_completed("items")
    async def done(batch: BatchAnswer) -> None:
        raise AssertionError(batch)

    async with harness(app, database=database) as h:
        await app.batch("items", [], completion_queue="mine")
        await h.drain()
        assert len(await h.sent("mine")) == 1


def test_who_is_told_is_a_coroutine_function_of_a_queue_that_is_declared(app: Tickwork) -> None:
    async def done(batch: BatchAnswer) -> None: ...

    def plainly(batch: BatchAnswer) -> None: ...

    with pytest.raises(InvalidInput, match="is not declared"):
        app.on_completed("items")(done)
    app.queue("items")
    with pytest.raises(InvalidInput, match="coroutine"):
        app.on_completed("items")(plainly)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="isolation"):
        app.on_completed("items", isolation="process")(done)  # type: ignore[call-arg]
    app.on_completed("items")(done)
    with pytest.raises(InvalidInput, match="already"):
        app.on_completed("items")(done)
    assert app._engine.registry.completions == {"items": "items.completed"}
    asyncio.run(app.close())
