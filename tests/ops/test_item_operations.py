"""An operation on runs or schedules changes each of them once, whoever carries it on and wherever a
node dies, and leaves alone what came later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conformance.acts import WORK, make_queue
from tests.ops.test_health import diverge
from tests.ops.test_operations import Dying, NodeDied
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Home
from tickwork.core import operation as core_operation
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.operation import LEASE_SECONDS, OperationReason, OperationState, StoredOperation
from tickwork.core.schedule.model import ScheduleSelection, ScheduleStatus
from tickwork.core.workflow.model import RunSelection, RunStatus
from tickwork.errors import InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.operations.verbs import begin, carry_on, get_operation, stop_operation
from tickwork.ops.schedules.create import create
from tickwork.ops.workflows import RunStart, ensure_workflow, start_runs, terminate_run
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

RESTART = ("runs.restart", {"workflow": "order", "status": "terminated"})
CANCEL = ("runs.cancel", {"workflow": "order"})
PAUSE = ("schedules.pause", {"name_prefix": "s"})


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    opened = await home.open(clock)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_operation, "ITEMS_AT_ONCE_MAX", 3)


async def make_runs(store: Store, *names: str, are_ended: bool) -> None:
    await ensure_workflow(store, "order")
    context = Context(store, DEFAULT)
    await start_runs(context, [RunStart(workflow="order", id=name) for name in names])
    for name in names if are_ended else ():
        await terminate_run(context, name)


async def make_schedules(store: Store, *names: str) -> None:
    await make_queue(store)
    target = {"type": "queue", "queue": WORK}
    for name in names:
        body = {"name": name, "cron_expr": "@daily", "target": target}
        await create(Context(store, DEFAULT), body)


async def make_things(store: Store, kind: str) -> None:
    """Seven of them."""
    names = [f"s{number}" for number in range(7)]
    if kind.startswith("runs"):
        await make_runs(store, *names, are_ended=kind == "runs.restart")
    else:
        await make_schedules(store, *names)


async def changes(store: Store, kind: str) -> dict[str | None, int]:
    """How often each thing was changed, by its name."""
    if kind == "runs.restart":
        runs = await store.workflows.list(DEFAULT, RunSelection(), 100)
        return {run.id: run.generation for run in runs}
    if kind == "runs.cancel":
        runs = await store.workflows.list(DEFAULT, RunSelection(), 100)
        cancelled = RunStatus.CANCELLED
        return {run.id: int(run.control is not None or run.status is cancelled) for run in runs}
    schedules = await store.schedules.list(DEFAULT, ScheduleSelection(), 100)
    return {known.name: known.version - 1 for known in schedules}


async def start(store: Store, kind: str, fields: Any, **how: Any) -> StoredOperation:
    return await begin(Context(store, DEFAULT), kind, fields, **how)


async def current(store: Store, operation: StoredOperation) -> StoredOperation:
    return await get_operation(Context(store, DEFAULT), operation.id)


async def carry_out(
    store: Store, clock: VirtualClock, operation: StoredOperation
) -> StoredOperation:
    for _ in range(1_000):
        seconds = await carry_on(Context(store, SYSTEM))
        known = await current(store, operation)
        if known.is_finished:
            return known
        clock.advance(seconds=seconds)
    raise AssertionError("it is not finished")


ONCE = {f"s{number}": 1 for number in range(7)}

ALL = pytest.mark.parametrize(("kind", "fields"), [RESTART, CANCEL, PAUSE])


@ALL
async def test_each_thing_that_fits_is_changed_once_and_later_ones_are_left(
    store: Store, clock: VirtualClock, kind: str, fields: Any
) -> None:
    await make_things(store, kind)
    clock.advance(seconds=1)
    operation = await start(store, kind, fields)
    assert (operation.total, operation.is_estimate) == (7, False)
    clock.advance(seconds=1)
    if kind.startswith("runs"):
        await make_runs(store, "s-later", are_ended=kind == "runs.restart")
    else:
        await make_schedules(store, "s-later")
    done = await carry_out(store, clock, operation)
    assert (done.state, done.done, done.failed, done.skipped) == (OperationState.DONE, 7, 0, 0)
    assert await changes(store, kind) == {**ONCE, "s-later": 0}


async def test_runs_that_diverged_before_the_start_are_restarted(
    store: Store, clock: VirtualClock
) -> None:
    await make_runs(store, "s0", "s1", "well", are_ended=False)
    clock.advance(seconds=1)
    for name in ("s0", "s1"):
        await diverge(store, name)
    operation = await start(store, "runs.restart", {"workflow": "order", "status": "diverged"})
    done = await carry_out(store, clock, operation)
    assert (done.state, done.done) == (OperationState.DONE, 2)
    assert await changes(store, "runs.restart") == {"s0": 1, "s1": 1, "well": 0}


@ALL
@pytest.mark.parametrize("is_after", [False, True])
async def test_a_node_that_is_killed_at_any_call_doubles_and_loses_nothing(
    store: Store, clock: VirtualClock, kind: str, fields: Any, is_after: bool
) -> None:
    await make_things(store, kind)
    operation = await start(store, kind, fields)
    # Each node lives for one call longer than the one before.
    for calls in range(200):
        dying: Any = Dying(store, [calls], is_after=is_after)
        try:
            while not (await current(store, operation)).is_finished:
                clock.advance(seconds=await carry_on(Context(dying, SYSTEM)))
        except NodeDied:
            clock.advance(seconds=LEASE_SECONDS)
            continue
        break
    done = await current(store, operation)
    assert (done.state, done.done, done.skipped) == (OperationState.DONE, 7, 0)
    assert await changes(store, kind) == ONCE


@ALL
async def test_two_nodes_share_an_operation_and_do_nothing_twice(
    home: Home, store: Store, clock: VirtualClock, kind: str, fields: Any
) -> None:
    await make_things(store, kind)
    operation = await start(store, kind, fields)
    other = await home.open(clock)

    async def run(own: Store) -> None:
        while not (await current(own, operation)).is_finished:
            await carry_on(Context(own, SYSTEM))
            clock.advance(seconds=LEASE_SECONDS)  # Every batch looks abandoned to the other.

    await asyncio.gather(run(store), run(other))
    done = await current(store, operation)
    assert (done.state, done.done, done.skipped) == (OperationState.DONE, 7, 0)
    assert await changes(store, kind) == ONCE
    await other.close()


@ALL
async def test_a_stop_ends_the_batch_that_is_running(store: Store, kind: str, fields: Any) -> None:
    await make_things(store, kind)
    operation = await start(store, kind, fields)

    class Stopping(Dying):
        """A store whose operation is stopped before the second change of a batch."""

        def __getattr__(self, name: str) -> Any:
            value = getattr(self._inner, name)
            if name != "joined":
                is_noun = name == "operations"
                return Stopping(value, self._left, is_after=False) if is_noun else value
            self._left[0] -= 1
            return self._stopping if self._left[0] == 0 else value

        def _stopping(self, scope: Any, next_: Any) -> Any:
            return _AfterStop(store, operation, self._inner.joined(scope, next_))

    stopping: Any = Stopping(store, [2], is_after=False)
    await carry_on(Context(stopping, SYSTEM))
    known = await current(store, operation)
    assert (known.state, known.done) == (OperationState.STOPPED, 1)
    assert sum((await changes(store, kind)).values()) == 1


class _AfterStop:
    def __init__(self, store: Store, operation: StoredOperation, inner: Any) -> None:
        self._store, self._operation, self._inner = store, operation, inner

    async def __aenter__(self) -> None:
        await stop_operation(Context(self._store, DEFAULT), self._operation.id)
        await self._inner.__aenter__()

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)


async def test_what_cannot_be_changed_any_more_is_skipped(
    store: Store, clock: VirtualClock
) -> None:
    await make_things(store, "runs.cancel")
    operation = await start(store, *CANCEL)
    clock.advance(seconds=1)
    for name in ("s1", "s5"):
        await terminate_run(Context(store, DEFAULT), name)
    done = await carry_out(store, clock, operation)
    assert (done.state, done.done, done.skipped) == (OperationState.DONE, 5, 2)


async def test_a_limit_is_kept(store: Store, clock: VirtualClock) -> None:
    await make_things(store, "schedules.pause")
    operation = await start(store, "schedules.pause", {"limit": 4})
    done = await carry_out(store, clock, operation)
    assert (done.total, done.done) == (4, 4)
    paused = ScheduleSelection(status=ScheduleStatus.PAUSED)
    assert len(await store.schedules.list(DEFAULT, paused, 100)) == 4
    again = await start(store, "schedules.resume", {})
    assert (await carry_out(store, clock, again)).done == 4
    assert await store.schedules.list(DEFAULT, paused, 100) == ()


async def test_a_rate_is_kept(store: Store, clock: VirtualClock) -> None:
    await make_things(store, "runs.restart")
    operation = await start(store, *RESTART, rate_per_second=2)
    began = clock.now()
    while not (known := await current(store, operation)).is_finished:
        assert known.done <= 2 + 2 * ((clock.now() - began).total_seconds() + 0.2)
        clock.advance(seconds=min(await carry_on(Context(store, SYSTEM)) or 0.05, 0.05))
    assert known.done == 7
    assert (clock.now() - began).total_seconds() > 2


@pytest.mark.parametrize("is_good", [True, False])
async def test_the_rest_waits_until_the_canaries_have_ended_well(
    store: Store, clock: VirtualClock, is_good: bool
) -> None:
    kind = "runs.cancel" if is_good else "runs.restart"
    await make_things(store, kind)
    operation = await start(store, *(CANCEL if is_good else RESTART), canary=2)
    await carry_on(Context(store, SYSTEM))
    await carry_on(Context(store, SYSTEM))
    known = await current(store, operation)
    assert (known.state, known.done) == (OperationState.CANARY, 2)
    for run in await store.workflows.list(DEFAULT, RunSelection(), 2):
        await terminate_run(Context(store, DEFAULT), run.id)
    done = await carry_out(store, clock, operation)
    if is_good:
        assert (done.state, done.done) == (OperationState.DONE, 7)
    else:
        assert (done.state, done.failed) == (OperationState.STOPPED, 2)
        assert done.reason == OperationReason.CANARY_DIED
        assert "terminated" in (done.error or "")
        assert sum((await changes(store, kind)).values()) == 2


async def test_a_canary_that_nothing_can_happen_to_is_refused(store: Store) -> None:
    for kind in ("schedules.pause", "dead_letters.discard"):
        with pytest.raises(InvalidInput, match="canary: has no meaning"):
            await start(store, kind, {"queue": WORK}, canary=1)
