"""An operation does each thing once, whoever carries it on and wherever a node dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import WORK, ack, counts, dead, make_queue, pull, send_many, settle
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Home
from tickwork.core import operation as core_operation
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, SYSTEM, Counts, Scope
from tickwork.core.operation import (
    LEASE_SECONDS,
    DeadLetterSelection,
    OperationKind,
    OperationReason,
    OperationState,
    StoredOperation,
)
from tickwork.errors import Conflict, NotFound
from tickwork.ops.context import Context
from tickwork.ops.operations.verbs import (
    carry_on,
    get_operation,
    list_operations,
    start,
    stop_operation,
)
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

REPLAY, DISCARD = OperationKind.REPLAY_DEAD_LETTERS, OperationKind.DISCARD_DEAD_LETTERS


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    opened = await home.open(clock)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_operation, "DEAD_LETTERS_AT_ONCE_MAX", 4)


async def make_dead_letters(store: Store, number: int) -> None:
    await make_queue(store)
    await send_many(store, number)
    for message in await pull(store):
        await settle(store, dead(message, reason="permanent", error="no"))


async def begin(store: Store, kind: OperationKind, letters: int, **how: Any) -> StoredOperation:
    selection = DeadLetterSelection(queue=WORK, failed_before=await store.now())
    return await start(Context(store, DEFAULT), kind, selection, total=letters, **how)


async def current(store: Store, operation: StoredOperation) -> StoredOperation:
    return await get_operation(Context(store, DEFAULT), operation.id)


async def carry_out(
    store: Store, clock: VirtualClock, operation: StoredOperation, *, batches_max: int = 1_000
) -> StoredOperation:
    """Carries it on as a node does, until it is finished."""
    for _ in range(batches_max):
        seconds = await carry_on(Context(store, SYSTEM))
        known = await current(store, operation)
        if known.is_finished:
            return known
        clock.advance(seconds=seconds)
    raise AssertionError("it is not finished")


@pytest.mark.parametrize(("kind", "left"), [(REPLAY, Counts(ready=10)), (DISCARD, Counts())])
async def test_a_node_does_all_that_an_operation_selects(
    store: Store, clock: VirtualClock, kind: OperationKind, left: Counts
) -> None:
    await make_dead_letters(store, 10)
    operation = await begin(store, kind, 10)
    done = await carry_out(store, clock, operation)
    assert (done.state, done.done, done.skipped) == (OperationState.DONE, 10, 0)
    assert done.finished_at is not None
    assert await counts(store) == left


class NodeDied(Exception):
    """The node was killed."""


class Dying:
    """A store whose process is killed at one of its calls: before it, or after it has committed."""

    def __init__(self, inner: Any, left: list[int], *, is_after: bool) -> None:
        self._inner, self._left, self._is_after = inner, left, is_after

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "joined" or value is None:  # No call: what is joined dies with its change.
            return value
        if not callable(value):
            return Dying(value, self._left, is_after=self._is_after)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._left[0] -= 1
            if self._left[0] < 0 and not self._is_after:
                raise NodeDied
            result = await value(*args, **kwargs)
            if self._left[0] < 0:
                raise NodeDied
            return result

        return call


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("kind", [REPLAY, DISCARD])
async def test_a_node_that_is_killed_at_any_call_leaves_the_rest_to_another(
    store: Store, clock: VirtualClock, kind: OperationKind, is_after: bool
) -> None:
    await make_dead_letters(store, 10)
    operation = await begin(store, kind, 10)
    # Each node lives for one call longer than the one before.
    for calls in range(100):
        left = [calls]
        dying: Any = Dying(store, left, is_after=is_after)
        try:
            while not (await current(store, operation)).is_finished:
                clock.advance(seconds=await carry_on(Context(dying, SYSTEM)))
        except NodeDied:
            clock.advance(seconds=LEASE_SECONDS)
            continue
        break
    done = await current(store, operation)
    assert (done.state, done.done, done.skipped) == (OperationState.DONE, 10, 0)
    assert await counts(store) == Counts(ready=10 if kind is REPLAY else 0)


async def test_many_runners_at_once_do_nothing_twice(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    await make_dead_letters(store, 40)
    operation = await begin(store, REPLAY, 40)
    stores = [await home.open(clock) for _ in range(3)]

    async def run(own: Store) -> None:
        while not (await current(own, operation)).is_finished:
            await carry_on(Context(own, SYSTEM))
            # Every batch looks abandoned to the others.
            clock.advance(seconds=LEASE_SECONDS)

    await asyncio.gather(*map(run, stores))
    done = await current(store, operation)
    assert (done.state, done.done) == (OperationState.DONE, 40)
    assert await counts(store) == Counts(ready=40)
    for own in stores:
        await own.close()


async def test_after_a_stop_nothing_is_done(store: Store, clock: VirtualClock) -> None:
    await make_dead_letters(store, 10)
    operation = await begin(store, REPLAY, 10)
    await carry_on(Context(store, SYSTEM))
    stopped = await stop_operation(Context(store, DEFAULT), operation.id)
    assert (stopped.state, stopped.reason) == (OperationState.STOPPED, OperationReason.STOPPED)
    clock.advance(seconds=60)
    await carry_on(Context(store, SYSTEM))
    assert await current(store, operation) == stopped
    assert await counts(store) == Counts(ready=4, dead=6)
    with pytest.raises(Conflict, match="finished already"):
        await stop_operation(Context(store, DEFAULT), operation.id)


async def test_a_stop_undoes_the_batch_that_is_running(store: Store) -> None:
    await make_dead_letters(store, 10)
    operation = await begin(store, DISCARD, 10)

    class Stopping(Dying):
        """A store that stops the operation while a batch begins."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(self._inner, name)
            if name == "operations":
                return Stopping(value, [0], is_after=False)
            if name != "discard":
                return value

            async def discard(*args: Any, **kwargs: Any) -> Any:
                await stop_operation(Context(store, DEFAULT), operation.id)
                return await value(*args, **kwargs)

            return discard

    stopping: Any = Stopping(store, [0], is_after=False)
    await carry_on(Context(stopping, SYSTEM))
    known = await current(store, operation)
    assert (known.state, known.done) == (OperationState.STOPPED, 0)
    assert await counts(store) == Counts(dead=10)


async def test_a_rate_is_kept_across_batches_and_nodes(store: Store, clock: VirtualClock) -> None:
    await make_dead_letters(store, 10)
    operation = await begin(store, REPLAY, 10, rate_per_second=2)
    began = clock.now()
    ready: list[int] = []
    while not ready or ready[-1] < 10:
        known = await current(store, operation)
        ready.append((await counts(store)).ready)
        assert ready[-1] <= 1 + 2 * (clock.now() - began).total_seconds()
        # A stop takes effect within a second: so much is sent ahead, and no more.
        assert known.done <= 1 + 2 * ((clock.now() - began).total_seconds() + 1.2)
        clock.advance(seconds=min(await carry_on(Context(store, SYSTEM)) or 0.05, 0.05))
    assert (clock.now() - began).total_seconds() == pytest.approx(4.6, abs=0.2)


Handle = Callable[[], Awaitable[None]]


@pytest.mark.parametrize(
    ("end", "state", "reason"),
    [
        ("ack", OperationState.DONE, None),
        ("die", OperationState.STOPPED, OperationReason.CANARY_DIED),
        ("wait", OperationState.STOPPED, OperationReason.CANARY_TIMEOUT),
    ],
)
async def test_the_canaries_decide_about_the_rest(
    store: Store, clock: VirtualClock, end: str, state: OperationState, reason: str | None
) -> None:
    await make_dead_letters(store, 10)
    operation = await begin(store, REPLAY, 10, canary=3, canary_timeout_seconds=30)
    await carry_on(Context(store, SYSTEM))
    assert await counts(store) == Counts(ready=3, dead=7)
    for message in [] if end == "wait" else await pull(store):
        how = ack(message) if end == "ack" else dead(message, reason="permanent", error="no")
        await settle(store, how)
    done = await carry_out(store, clock, operation)
    assert (done.state, done.reason) == (state, reason)
    assert (done.done, done.failed) == {"ack": (10, 0), "die": (0, 3), "wait": (3, 0)}[end]


async def test_what_others_resolve_is_skipped_and_what_dies_later_is_left(
    store: Store, clock: VirtualClock
) -> None:
    await make_dead_letters(store, 10)
    operation = await begin(store, DISCARD, 10)
    clock.advance(seconds=1)
    await store.dead_letters.discard(DEFAULT, WORK, Selection(limit=3))
    await send_many(store, 2)
    for message in await pull(store):
        await settle(store, dead(message, reason="permanent"))
    done = await carry_out(store, clock, operation)
    assert (done.state, done.done, done.skipped) == (OperationState.DONE, 7, 3)
    assert await counts(store) == Counts(dead=2)


async def test_an_operation_whose_queue_is_gone_has_failed_and_says_why(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    selection = DeadLetterSelection(queue="gone", failed_before=await store.now())
    operation = await start(Context(store, DEFAULT), REPLAY, selection, total=3)
    done = await carry_out(store, clock, operation)
    assert done.state == OperationState.FAILED
    assert "gone" in (done.error or "")


async def test_a_tenant_sees_its_own_operations(store: Store) -> None:
    await make_dead_letters(store, 1)
    operations = [await begin(store, REPLAY, 1) for _ in range(3)]
    await stop_operation(Context(store, DEFAULT), operations[0].id)
    own = Context(store, DEFAULT)
    newest_first = [operation.id for operation in reversed(operations)]
    assert [found.id for found in await list_operations(own)] == newest_first
    assert [found.id for found in await list_operations(own, limit=1)] == newest_first[:1]
    page = await list_operations(own, before=newest_first[0])
    assert [found.id for found in page] == newest_first[1:]
    assert [found.id for found in await list_operations(own, is_open=True)] == newest_first[:2]
    other = Context(store, Scope("other"))
    assert await list_operations(other) == ()
    with pytest.raises(NotFound):
        await get_operation(other, operations[1].id)
    with pytest.raises(NotFound):
        await stop_operation(other, operations[1].id)
    assert len(await list_operations(Context(store, SYSTEM))) == 3


async def test_its_start_and_its_stop_are_in_the_audit_log(store: Store) -> None:
    await make_dead_letters(store, 1)
    store.audit.actor = "ada"
    operation = await begin(store, REPLAY, 1)
    stopped = await stop_operation(Context(store, DEFAULT), operation.id)
    assert (operation.started_by, stopped.stopped_by) == ("ada", "ada")
    records = await store.audit.list(DEFAULT, 10)
    assert [(record.actor, record.action) for record in records] == [
        ("ada", "operation.stop"),
        ("ada", "operation.start"),
    ]
