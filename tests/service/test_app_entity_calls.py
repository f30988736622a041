"""Direct calls wait for their entity, hand it over in order, and leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from msgspec import structs

from tests.kit.waiting import delay, eventually
from tickwork import (
    Entity,
    EntityBusy,
    EntityMoved,
    InvalidInput,
    NotFound,
    TooMany,
    exposed,
)
from tickwork.core.entity.call import Call, call_message, entity_id, queue_of
from tickwork.core.entity.model import EntityHead
from tickwork.core.model import DEFAULT, SYSTEM, Claim, Ending, Fate, Settlement, State
from tickwork.errors import EntityCallFailed, NodeExpired, StoreUnavailable
from tickwork.facade.app import Tickwork
from tickwork.ops.context import Context
from tickwork.ops.entities import get_value, new_call, request_call
from tickwork.ops.entity_edits import put_value
from tickwork.store.ids import new_id
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.testing import Harness, harness

GATES = queue_of("Gate")


class Gate(Entity):
    """Stays open until the test lets it go."""

    entered: ClassVar[asyncio.Event]
    leave: ClassVar[asyncio.Event]
    out: ClassVar[Any]

    async def stay(self) -> str:
        self.entered.set()
        await self.leave.wait()
        await self.storage.put("stayed", value=True)
        return "stayed"

    async def pass_by(self) -> str:
        return "passed"

    async def fail(self) -> None:
        raise TypeError("as asked")

    @exposed
    async def refuse(self) -> None:
        raise TypeError("as asked")

    async def count(self) -> int:
        count: int = await self.storage.get("count", 0) + 1
        await self.storage.put("count", count)
        await self.out.send(count)
        return count


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    app.entities.register(Gate)
    Gate.entered, Gate.leave, Gate.out = asyncio.Event(), asyncio.Event(), app.queue("out")
    async with harness(app, database=database) as made:
        yield made


async def stay(app: Tickwork) -> asyncio.Task[Any]:
    """A call that keeps the entity."""
    staying: asyncio.Task[Any] = asyncio.ensure_future(app.entity(Gate, "a").stay())
    await Gate.entered.wait()
    return staying


async def is_empty(h: Harness) -> bool:
    counts = await h.store.queues.counts(SYSTEM, GATES)
    return counts.claimed + counts.blocked + counts.ready == 0


async def test_a_call_that_waits_too_long_is_refused_and_leaves_nothing(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    staying = await stay(app)
    monkeypatch.setattr("tickwork.entity.caller.CALL_WAIT_SECONDS_MAX", 0.05)
    kept = r"was kept for 30 seconds by the call of stay of Gate 'a' \(msg_[0-9a-f]+\)"
    lease = r"which runs on \S+ since 2026-\S+Z \(its lease lasts until 2026-\S+Z\); call it again"
    with pytest.raises(EntityBusy, match=f"{kept}, {lease}"):
        await app.entity(Gate, "a").pass_by()
    assert await app.entity(Gate, "b").pass_by() == "passed"
    Gate.leave.set()
    assert await staying == "stayed"
    await eventually(lambda: is_empty(h))


async def test_a_cancelled_call_frees_its_entity_or_its_turn(app: Tickwork, h: Harness) -> None:
    staying = await stay(app)
    waiting = [asyncio.ensure_future(app.entity(Gate, "a").pass_by()) for _ in range(3)]

    async def are_blocked() -> bool:
        return (await h.store.queues.counts(SYSTEM, GATES)).blocked == 3

    await eventually(are_blocked)
    waiting[0].cancel()
    staying.cancel()
    assert [await call for call in waiting[1:]] == ["passed", "passed"]
    await eventually(lambda: is_empty(h))
    assert (await h.store.entities.list(DEFAULT, "Gate", 10)) == ()


async def test_too_many_waiting_calls_are_refused(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in ("sqlite", "postgres"):
        monkeypatch.setattr(f"tickwork.store.{store}.entities.entities.WAITING_CALLS_MAX", 3)
    monkeypatch.setattr("tickwork.ops.entities.WAITING_CALLS_MAX", 3)
    staying = await stay(app)
    calls = [asyncio.ensure_future(app.entity(Gate, "a").pass_by()) for _ in range(4)]
    ended = await asyncio.wait_for(asyncio.wait(calls[2:]), 10)
    errors = [call.exception() for call in ended[0]]
    assert [type(error) for error in errors] == [TooMany, TooMany]
    with pytest.raises(TooMany, match="calls wait for Gate 'a'"):
        await app.entity(Gate, "a").send.pass_by()
    with pytest.raises(TooMany):
        await request_call(
            Context(h.store, DEFAULT), Call(entity="Gate", key="a", method="pass_by")
        )
    Gate.leave.set()
    await asyncio.gather(staying, *calls[:2])
    await eventually(lambda: is_empty(h))


class CancelAt:
    """Awaits something, and cancels the task at its n-th suspension."""

    def __init__(self, work: Any, number: int) -> None:
        self._work, self._left = work, number

    def __await__(self) -> Any:
        inner, value, error = self._work.__await__(), None, None
        while True:
            try:
                waited = inner.send(value) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            self._left -= 1
            if self._left == 0:
                task = asyncio.current_task()
                assert task is not None
                task.get_loop().call_soon(task.cancel)
            value = error = None
            try:
                value = yield waited
            except BaseException as raised:
                error = raised  # What is cancelled may have something to roll back.


async def test_a_call_that_is_cancelled_at_any_await_is_stored_whole_or_not_at_all(
    app: Tickwork, h: Harness
) -> None:
    async def cancelled_at(number: int) -> bool:
        async def call() -> None:
            await CancelAt(app.entity(Gate, "a").count(), number)

        task = asyncio.ensure_future(call())
        await asyncio.wait([task])
        return task.cancelled()

    number = cancelled = 0
    while number == cancelled and number < 100:
        number += 1
        cancelled += await cancelled_at(number)
        await eventually(lambda: is_empty(h))
    sent = sorted(message.body for message in await h.sent("out"))
    assert sent == [*range(1, len(sent) + 1)]
    assert await app.entity(Gate, "a").count() == len(sent) + 1
    assert 2 <= cancelled < 100


async def test_a_call_that_is_cancelled_on_its_way_to_the_database_frees_its_entity(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up, is_looking = PostgresQueues.id_of, asyncio.Event()

    async def look_up_slowly(*asked: Any) -> Any:
        is_looking.set()
        await delay(0.05)
        return await look_up(*asked)

    monkeypatch.setattr(PostgresQueues, "id_of", look_up_slowly)
    monkeypatch.setattr("tickwork.entity.caller.CALL_WAIT_SECONDS_MAX", 2.0)
    for _ in range(3):
        call = asyncio.ensure_future(app.entity(Gate, "a").pass_by())
        with suppress(TimeoutError):  # A SQLite store does not look it up here.
            await asyncio.wait_for(is_looking.wait(), 0.01)
        call.cancel()
        await asyncio.wait([call])
        is_looking.clear()
        assert await app.entity(Gate, "a").pass_by() == "passed"
        await eventually(lambda: is_empty(h))


async def test_an_app_closes_although_the_database_does_not_end_its_calls(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise StoreUnavailable("gone")

    monkeypatch.setattr("tickwork.entity.caller.CLOSE_SECONDS_MAX", 0.05)
    monkeypatch.setattr(h.store.messages, "settle", fail)
    with pytest.raises(TypeError):
        await app.entity(Gate, "a").fail()
    caller = app._engine.entities.caller(h.store)
    await asyncio.wait_for(caller.close(), 10)
    await eventually(lambda: not caller._ending)


async def test_a_change_by_an_operator_is_stored_with_its_audit_record_or_not_at_all(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    Gate.leave.set()
    await app.entity(Gate, "a").stay()
    monkeypatch.setattr(h.store.audit, "actor", "ann")
    await put_value(Context(h.store, DEFAULT), "Gate", "a", "stayed", 1)
    (newest,) = await h.store.audit.list(DEFAULT, 1)
    assert (newest.action, newest.actor) == ("entity.put_value", "ann")

    def refuse(*_: Any) -> Any:
        raise RuntimeError("no record")

    monkeypatch.setattr("tickwork.ops.audit.new_record", refuse)
    with pytest.raises(RuntimeError, match="no record"):
        await put_value(Context(h.store, DEFAULT), "Gate", "a", "stayed", 2)
    assert await get_value(Context(h.store, DEFAULT), "Gate", "a", "stayed") == 1
    await eventually(lambda: is_empty(h))


async def test_an_operator_replaces_a_value_of_a_full_storage(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    Gate.leave.set()
    await app.entity(Gate, "a").stay()
    monkeypatch.setattr("tickwork.ops.entity_edits.STORAGE_BYTES_MAX", len("stayed") + len("true"))
    await put_value(Context(h.store, DEFAULT), "Gate", "a", "stayed", None)
    with pytest.raises(InvalidInput, match="more than 10 bytes"):
        await put_value(Context(h.store, DEFAULT), "Gate", "a", "stayed", "long")
    assert await get_value(Context(h.store, DEFAULT), "Gate", "a", "stayed") is None


async def test_an_error_that_was_the_answer_to_a_call_is_no_result_of_its_repeat(
    app: Tickwork, h: Harness
) -> None:
    """Also if the call was made over HTTP, and its repeat is a direct one."""
    asked = new_call("Gate", "a", "refuse", (), {}, "same key")
    answering = asyncio.ensure_future(
        request_call(Context(h.store, DEFAULT), asked, wait_seconds=30)
    )
    await eventually(lambda: has_call(h))
    await h.drain()
    with pytest.raises(EntityCallFailed, match="as asked"):
        await answering
    with pytest.raises(EntityCallFailed, match="failed in refuse: TypeError: as asked"):
        await app.entity(Gate, "a", idempotency_key="same key").refuse()
    for _ in range(2):
        with pytest.raises(EntityCallFailed, match="failed in refuse: TypeError: as asked"):
            await request_call(Context(h.store, DEFAULT), asked, wait_seconds=1)


# The store


async def has_call(h: Harness) -> bool:
    return not await is_empty(h)


async def enter(h: Harness, node: Any, key: str = "a") -> Any:
    message = call_message(Call(entity="Gate", key=key, method="pass_by"), new_id())
    return (await h.store.entities.enter(DEFAULT, GATES, message, node)).message


async def join(h: Harness, seconds: float = 60) -> Any:
    node = new_id()
    await h.store.nodes.join(SYSTEM, node, name="n", roles=["caller"], ttl_seconds=seconds)
    return node


async def end(h: Harness, call: Any, node: Any) -> Any:
    claim = Claim("default", call.id, 1, node)
    ending = Ending(claim=claim, fate=Fate.ACK)
    return await h.store.messages.settle(DEFAULT, Settlement((ending,)))


async def test_a_free_entity_is_claimed_at_once_and_handed_over_in_order(h: Harness) -> None:
    one, two = await join(h), await join(h)
    calls = [await enter(h, node) for node in (one, two, one)]
    assert [call.state for call in calls] == [State.CLAIMED, State.BLOCKED, State.BLOCKED]
    ids = [call.id for call in calls]
    for number, node in enumerate((one, two, one)):
        left = {id_: index == 0 for index, id_ in enumerate(ids[number:])}
        assert await h.store.entities.entered(DEFAULT, ids) == left
        others = two if node == one else one
        assert (await end(h, calls[number], others)).refused
        assert not (await end(h, calls[number], node)).refused
    assert await h.store.entities.entered(DEFAULT, ids) == {}


async def test_a_claimed_call_is_given_what_the_call_before_it_committed(
    app: Tickwork, h: Harness
) -> None:
    await app.entity(Gate, "a", idempotency_key="k").count()
    head = await h.store.entities.head(DEFAULT, entity_id("Gate", "a"), "k")
    assert head.result is not None
    node, given = await join(h), list[EntityHead | None]()
    for _ in range(2):
        message = call_message(Call(entity="Gate", key="a", method="count"), new_id())
        entered = await h.store.entities.enter(DEFAULT, GATES, message, node, result_key="k")
        given.append(entered.head)
    assert given[0] is None or structs.replace(given[0], now=head.now) == head
    assert given[1] is None  # It is blocked.


async def test_no_worker_gets_a_direct_call_and_none_is_released(app: Tickwork, h: Harness) -> None:
    node = await join(h)
    first, second = await enter(h, node), await enter(h, node)
    await app.entity(Gate, "a").send.pass_by()
    await h.drain()
    assert await h.store.nodes.give_back_unknown(SYSTEM, node, ()) == 0
    counts = await h.store.queues.counts(SYSTEM, GATES)
    assert (counts.claimed, counts.blocked, counts.ready) == (1, 2, 0)
    await end(h, first, node)
    await h.drain()
    assert await h.store.entities.entered(DEFAULT, [second.id]) == {second.id: True}
    await end(h, second, node)
    await h.drain()
    assert await is_empty(h)


async def test_the_calls_of_a_dead_node_are_deleted_and_others_go_on(h: Harness) -> None:
    dying, living = await join(h, 10), await join(h, 3600)
    lost = [await enter(h, dying), await enter(h, dying)]
    behind = await enter(h, living)
    lost.append(await enter(h, dying))
    lost.append(await enter(h, dying, "b"))
    await h.outage(seconds=11)
    with pytest.raises(NodeExpired):
        await enter(h, dying)
    await h.store.reaper.reap(SYSTEM, 100)
    assert await h.store.entities.entered(DEFAULT, [call.id for call in lost]) == {}
    assert await h.store.entities.entered(DEFAULT, [behind.id]) == {behind.id: True}
    assert (await end(h, lost[0], dying)).refused  # A frozen process that thaws changes nothing.
    await end(h, behind, living)
    assert (await enter(h, living, "b")).state is State.CLAIMED


async def test_only_a_blocked_call_is_withdrawn(h: Harness) -> None:
    node = await join(h)
    first, second = await enter(h, node), await enter(h, node)
    assert not await h.store.entities.withdraw(DEFAULT, first.id)
    assert await h.store.entities.withdraw(DEFAULT, second.id)
    assert not await h.store.entities.withdraw(DEFAULT, second.id)
    await end(h, first, node)
    assert await is_empty(h)


async def test_a_call_of_an_unknown_type_is_not_found(h: Harness) -> None:
    message = call_message(Call(entity="Other", key="a", method="x"), new_id())
    with pytest.raises(NotFound):
        await h.store.entities.enter(DEFAULT, queue_of("Other"), message, await join(h))


async def test_a_waiting_call_whose_node_died_is_told(app: Tickwork, h: Harness) -> None:
    staying = await stay(app)
    waiting = asyncio.ensure_future(app.entity(Gate, "a").pass_by())

    async def is_blocked() -> bool:
        return (await h.store.queues.counts(SYSTEM, GATES)).blocked == 1

    await eventually(is_blocked)
    await h.store.nodes.leave(SYSTEM, h._node.id)
    await h.store.reaper.reap(SYSTEM, 100)
    Gate.leave.set()
    for call in (staying, waiting):
        with pytest.raises(EntityMoved):
            await call
    await h.join()
    assert await app.entity(Gate, "a").pass_by() == "passed"
