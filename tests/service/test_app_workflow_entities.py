"""Workflows that call entities: each step calls once, however often it is tried."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tickwork import Entity, Message, NotFound, Retries, RunFailed, Step
from tickwork.core.model import DEFAULT, SYSTEM, Scope, Tenant
from tickwork.facade.app import Tickwork
from tickwork.ops.context import Context
from tickwork.ops.workflows import RunStart, start_runs
from tickwork.testing import harness


class Counter(Entity):
    """Counts."""

    async def add(self, number: int) -> int:
        total: int = await self.storage.get("n", 0) + number
        await self.storage.put("n", total)
        return total


async def test_a_step_calls_an_entity_once_and_again_after_a_restart_or_with_new_params(
    app: Tickwork, database: str | None
) -> None:
    app.entities.register(Counter)
    attempts: list[int] = []

    async def add(number: int) -> list[int]:
        counter = app.entity(Counter, "a")
        totals = [await counter.add(number), await counter.add(number)]
        attempts.append(number)
        if len(attempts) == 1:
            raise ValueError("after the calls, and before the record")
        return totals

    @app.workflow()
    async def count(step: Step, params: int) -> Any:
        retries = Retries(2, delay_seconds=1)
        totals = [await step.do(name, add, 1, retries=retries) for name in ("one", "two")]
        if params:
            step.continue_as(params - 1)
        return totals

    async with harness(app, database=database) as h:
        run = await app.workflows.start(count, 0)
        await h.advance(minutes=1)
        assert await run.result() == [[1, 2], [3, 4]]
        assert len(attempts) == 3
        await run.restart(from_step="two")
        await h.drain()
        assert await run.result() == [[1, 2], [5, 6]]
        again = await app.workflows.start(count, 1)
        await h.drain()
        assert await again.result() == [[11, 12], [13, 14]]
        assert [(await handle.status()).generation for handle in (run, again)] == [1, 1]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("kind", ["run", "call", "message"])
async def test_what_is_handled_leaves_no_cycles_of_objects_behind(
    app: Tickwork, database: str | None, kind: str
) -> None:
    """Cycles stay in memory until a garbage collection finds them, which takes a fifth of the
    processor time of runs that wake together."""
    app.entities.register(Counter)

    async def one() -> int:
        return 1

    @app.workflow()
    async def several(step: Step) -> None:
        for _ in range(3):
            await step.do("one", one)

    jobs = app.queue("jobs")

    @app.on("jobs")
    async def handle(_message: Message[Any]) -> None:
        await one()

    async def do(count: int) -> None:
        if kind == "run":
            await app.workflows.start_many(several, [None] * count)
        elif kind == "call":
            for _ in range(count):
                await app.entity(Counter, "a").add(1)
        else:
            await jobs.send_batch([{"n": 1}] * count)
        await h.drain()

    async with harness(app, database=database) as h:
        await do(1)
        found = []
        gc.disable()
        gc.freeze()  # What is there already takes long to visit, and is not asked about.
        try:
            for _ in range(3):  # The node does other things, too, which may leave some.
                gc.collect()
                await do(100)
                found.append(gc.collect())
        finally:
            gc.unfreeze()
            gc.enable()
        assert min(found) < 100


async def test_a_body_that_calls_an_entity_outside_a_step_is_refused(
    app: Tickwork, database: str | None
) -> None:
    app.entities.register(Counter)

    @app.workflow()
    async def count(_step: Step) -> Any:
        return await app.entity(Counter, "a").add(1)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(count)
        await h.drain()
        with pytest.raises(RunFailed, match="calls an entity outside a step"):
            await run.result()
        assert await app.entity(Counter, "a").add(1) == 1


async def test_what_a_step_does_to_runs_and_entities_is_done_for_the_tenant_of_its_run(
    app: Tickwork, database: str | None
) -> None:
    app.entities.register(Counter)
    counted: list[int] = []

    @app.workflow()
    async def child(step: Step) -> Any:
        return await step.wait_for_event("go", type="go")

    async def work() -> None:
        run = await app.workflows.start(child, id="child")
        await run.send_event("go", 7)
        await app.entity(Counter, "a").add(5)
        counted.append(len(await app.entities.list("Counter")))

    @app.workflow()
    async def parent(step: Step) -> None:
        await step.do("work", work)

    ann = Scope("ann")
    async with harness(app, database=database) as h:
        await h.store.tenants.put(SYSTEM, Tenant(id="ann"))
        await start_runs(Context(h.store, ann), [RunStart(workflow="parent", id="parent")])
        await h.drain()
        assert (await h.store.workflows.get(ann, "child")).result == b"7"
        with pytest.raises(NotFound):
            await h.store.workflows.get(DEFAULT, "child")
        assert await app.workflows.list() == ()
    assert counted == [1]
