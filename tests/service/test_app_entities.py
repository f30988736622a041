"""Entities: calls and sends run one at a time per key, and commit whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import Context
from typing import Any

import pytest

from tickwork import (
    Conflict,
    Entity,
    EntityCycle,
    EntityMoved,
    InvalidInput,
    NotFound,
    Permanent,
    read,
)
from tickwork.core.entity.call import queue_of
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import SYSTEM
from tickwork.errors import FieldError
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

COUNTERS = queue_of("Counter")


class Counter(Entity):
    """Counts. Its methods are told the app by the test."""

    app: Tickwork

    async def add(self, number: int = 1) -> int:
        total: int = await self.storage.get("n", 0) + number
        await self.storage.put("n", total)
        await self.app.queue("totals").send(total)
        return total

    async def add_and_fail(self, number: int) -> None:
        await self.add(number)
        raise ValueError("too large")

    async def reject(self) -> None:
        raise Permanent("never")

    @read
    async def value(self) -> Any:
        return await self.storage.get("n", 0)

    @read
    async def write_in_read(self) -> None:
        await self.storage.put("n", 0)

    async def call(self, *keys: str) -> Any:
        first, *rest = keys
        other = self.app.entity(Counter, first)
        return await (other.call(*rest) if rest else other.add())


ORDERS: list[Any] = []


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    app.queue("totals")
    app.queue("orders", max_retries=3)
    app.entities.register(Counter)
    Counter.app = app
    ORDERS.clear()

    @app.on("orders")
    async def ordered(message: Any) -> None:
        a, b = app.entity(Counter, "a"), app.entity(Counter, "b")
        await b.send.add(7)
        ORDERS.append([await a.add(3), await a.add()])
        if message.attempts == 1:
            raise ValueError("after the calls, and before the ack")

    async with harness(app, database=database) as made:
        yield made


async def totals(h: Harness) -> list[Any]:
    return [message.body for message in await h.sent("totals")]


async def test_a_call_returns_its_result_after_it_was_committed(app: Tickwork, h: Harness) -> None:
    counter = app.entity(Counter, "a")
    assert [await counter.add(), await counter.add(4), await counter.value()] == [1, 5, 5]
    assert await app.entity("Counter", "b").value() == 0
    assert await totals(h) == [1, 5]


async def test_calls_made_at_once_run_one_at_a_time_in_order(app: Tickwork, h: Harness) -> None:
    counter = app.entity(Counter, "a")
    assert await counter.add() == 1
    assert await asyncio.gather(*(counter.add() for _ in range(11))) == [*range(2, 13)]
    assert await totals(h) == [*range(1, 13)]


async def test_a_send_runs_on_a_worker_in_the_order_of_calls(app: Tickwork, h: Harness) -> None:
    counter = app.entity(Counter, "a")
    await counter.send.add(10)
    await counter.send.add(number=20)
    assert await counter.value() == 0
    assert await counter.add(1) == 31  # It waited for the sends before it.
    assert await totals(h) == [10, 30, 31]


async def test_a_call_that_fails_changes_and_sends_nothing(app: Tickwork, h: Harness) -> None:
    counter = app.entity(Counter, "a")
    await counter.add()
    with pytest.raises(ValueError, match="too large"):
        await counter.add_and_fail(10)
    assert await counter.add() == 2
    assert await totals(h) == [1, 2]


async def test_a_send_that_fails_is_retried_and_then_a_dead_letter(
    app: Tickwork, h: Harness
) -> None:
    counter = app.entity(Counter, "a")
    await counter.send.add_and_fail(10)
    await counter.send.reject()
    await h.advance(minutes=5)
    dead = (await h.store.dead_letters.list(SYSTEM, COUNTERS, Selection(limit=100))).letters
    assert [(letter.reason, letter.attempts) for letter in dead] == [
        ("max_retries", 7),
        ("permanent", 1),
    ]
    assert await counter.value() == 0
    assert await totals(h) == []


@pytest.mark.usefixtures("h")
async def test_a_call_into_its_own_chain_is_refused_at_once(app: Tickwork) -> None:
    assert await app.entity(Counter, "a").call("b", "c") == 1
    with pytest.raises(EntityCycle, match=r"'a' → Counter 'b' → Counter 'a'; use \.send"):
        await app.entity(Counter, "a").call("b", "a", "c")
    assert await app.entity(Counter, "a").value() == 0
    assert await app.entity(Counter, "a").add() == 1  # Both entities are free again.
    assert await app.entity(Counter, "b").add() == 1


async def test_a_repeat_with_the_same_idempotency_key_returns_the_first_result(
    app: Tickwork, h: Harness
) -> None:
    once = app.entity(Counter, "a", idempotency_key="order-7")
    assert [await once.add(5), await once.add(5)] == [5, 5]
    await once.send.add(5)
    await h.drain()
    assert await app.entity(Counter, "a").value() == 5
    with pytest.raises(Conflict, match="'order-7' was used for another call"):
        await once.add(6)
    assert await app.entity(Counter, "b", idempotency_key="order-7").add(6) == 6
    await h.advance(days=1, hours=1)
    assert await once.add(6) == 11


async def test_a_handler_that_is_retried_calls_and_sends_to_an_entity_once(
    app: Tickwork, h: Harness
) -> None:
    await app.queue("orders").send({})
    await h.advance(minutes=5)
    assert ORDERS == [[3, 4], [3, 4]]
    assert await app.entity(Counter, "a").value() == 4
    assert await app.entity(Counter, "b").value() == 7


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda app: app.entity(Counter, ""), "key"),
        (lambda app: app.entity(Counter, 7), "key"),
        (lambda app: app.entity(Counter, "ä" * 257), "key"),
        (lambda app: app.entity(Counter, "a\0"), "key"),
        (lambda app: app.entity(Counter, "a", idempotency_key=""), "idempotency_key"),
        (lambda app: app.entity("Unknown", "a"), "entity"),
        (lambda app: app.entity(int, "a"), "entity"),
        (lambda app: app.entity(Counter, "a").add(1, 2), "args"),
        (lambda app: app.entity(Counter, "a").add(object()), "args"),
        (lambda app: app.entity(Counter, "a").send.add(object()), "args"),
        (lambda app: app.entity(Counter, "a").write_in_read(), "storage"),
    ],
)
@pytest.mark.usefixtures("h")
async def test_a_wrong_call_is_refused_by_its_field(app: Tickwork, call: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        made = call(app)
        await made
    assert [error.field for error in caught.value.errors] == [field]
    assert await app.entity(Counter, "a").add() == 1


@pytest.mark.usefixtures("h")
async def test_an_unknown_method_is_named_with_the_nearest_one(app: Tickwork) -> None:
    for name in ("valu", "_secret", "alarm", "migrate", "storage"):
        with pytest.raises(NotFound):
            getattr(app.entity(Counter, "a").send, name)
    with pytest.raises(NotFound, match="do you mean value"):
        app.entity(Counter, "a").valu  # noqa: B018


class _NotAsync(Entity):
    def add(self) -> None: ...


class _WithInit(Entity):
    def __init__(self) -> None: ...


class _OwnStorage(Entity):
    storage = None  # type: ignore[assignment]


class _OldVersion(Entity):
    schema_version = 0


@pytest.mark.parametrize(
    ("cls", "field"),
    [
        (_NotAsync, "_NotAsync.add"),
        (_WithInit, "_WithInit.__init__"),
        (_OwnStorage, "_OwnStorage.storage"),
        (_OldVersion, "_OldVersion.schema_version"),
        (dict, "entity"),
    ],
)
def test_a_class_that_cannot_be_an_entity_is_refused(app: Tickwork, cls: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        app.entities.register(cls)
    assert [error.field for error in caught.value.errors] == [field]


def test_two_classes_of_one_name_are_refused(app: Tickwork) -> None:
    app.entities.register(Counter)
    app.entities.register(Counter)
    with pytest.raises(InvalidInput) as caught:
        app.entities.register(name="Counter")(_NotAsyncButFine)
    assert caught.value.errors[0] == FieldError(
        "entity", "Counter is declared already; give one of them another name"
    )


class _NotAsyncButFine(Entity):
    async def add(self) -> None: ...


async def test_a_caller_that_lost_its_node_changes_nothing(app: Tickwork, h: Harness) -> None:
    """The process was frozen beyond its lease; meanwhile others called the entity."""
    counter, others = app.entity(Counter, "a"), list[int]()

    class Frozen(Counter):
        async def add(self, number: int = 1) -> int:
            if number == 100 and not others:
                await h.store.nodes.leave(SYSTEM, h._node.id)
                await h.store.reaper.reap(SYSTEM, 100)
                await h.join()
                # In a context of its own, as another process would be.
                another: asyncio.Future[int] = Context().run(asyncio.ensure_future, counter.add())
                others.append(await another)
            return await super().add(number)

    engine_types = app._engine.entities.types
    engine_types["Counter"].cls = Frozen
    with pytest.raises(EntityMoved, match="nothing was written"):
        await counter.add(100)
    assert (others, await counter.value(), await totals(h)) == ([1], 1, [1])
