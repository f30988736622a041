"""New code meets runs on the way: every single edit, at every position, wherever a run had stopped.

A workflow is written as a list of operations, so that an edit is a new list. The old code runs
until each of its boundaries in turn: before an attempt, before a record and after it. Then the new
code is deployed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from tests.kit.soak import is_soak
from tickwork import Permanent, Retries, Step, Tickwork
from tickwork.core.workflow.step_key import COMPENSATE
from tickwork.errors import Conflict, StoreUnavailable
from tickwork.testing import harness
from tickwork.workflow import consumer, execution
from tickwork.workflow.execution import Execution


class Op(NamedTuple):
    """One operation of a workflow."""

    kind: str
    name: str
    function: str = "work"
    argument: int = 0


OLD = (
    Op("undo", "charge"),
    Op("both", "left"),
    Op("sleep", "rest"),
    Op("flaky", "flaky"),
    Op("event", "approval"),
    Op("map", "pages"),
    Op("store", "store"),
    Op("undo", "reserve"),
    Op("do", "ship"),
)
WAITS = ("sleep", "event", "map", "flaky")
OTHER_KIND = {
    "undo": "sleep", "both": "sleep", "sleep": "do", "flaky": "sleep", "event": "sleep",
    "map": "do", "store": "sleep", "do": "sleep",
}  # fmt: skip


def edits() -> Iterator[tuple[str, tuple[Op, ...]]]:
    """All single edits of the old code, by name."""
    for at, op in enumerate(OLD):
        before, after = OLD[:at], OLD[at + 1 :]
        yield f"rename {op.name}", (*before, op._replace(name=f"{op.name} now"), *after)
        yield f"remove {op.name}", (*before, *after)
        yield f"insert before {op.name}", (*before, Op("do", "new"), op, *after)
        yield f"kind of {op.name}", (*before, op._replace(kind=OTHER_KIND[op.kind]), *after)
        if op.kind != "sleep":
            yield f"function of {op.name}", (*before, op._replace(function="other"), *after)
        if op.kind not in ("sleep", "event"):
            yield f"argument of {op.name}", (*before, op._replace(argument=7), *after)
        if after:
            yield f"swap {op.name}", (*before, after[0], op, *after[1:])
        wait = next((n for n, later in enumerate(after) if later.kind in WAITS), None)
        if wait is not None:
            moved = (*after[: wait + 1], op, *after[wait + 1 :])
            yield f"move {op.name} across a wait", (*before, *moved)
        wait = next((n for n in reversed(range(at)) if OLD[n].kind in WAITS), None)
        if wait is not None:
            yield f"move {op.name} before a wait", (*OLD[:wait], op, *OLD[wait:at], *after)
    yield "insert at the end", (*OLD, Op("do", "new"))


class Effects:
    """What the steps of each run did outside, and what was undone."""

    def __init__(self) -> None:
        self.done: dict[str, list[str]] = {}
        self.tried: Counter[tuple[str, str]] = Counter()

    def add(self, run: str, what: str) -> None:
        self.done.setdefault(run, []).append(what)


def coded(app: Tickwork, effects: Effects, ops: tuple[Op, ...]) -> Any:
    """The workflow with these operations."""

    async def work(run: str, what: str, argument: int) -> str:
        effects.add(run, what)
        if what == "ship" and run.startswith("failing"):
            raise Permanent("the truck is gone")
        return f"{what} {argument}"

    async def other(run: str, what: str, argument: int) -> str:
        return await work(run, what, argument)

    async def flaky(run: str, what: str, argument: int) -> str:
        effects.tried[run, what] += 1
        if effects.tried[run, what] == 1:
            raise RuntimeError("not now")
        return await work(run, what, argument)

    async def page(item: dict[str, Any]) -> str:
        return await work(item["run"], f"page {item['page']}", item["argument"])

    async def other_page(item: dict[str, Any]) -> str:
        return await page(item)

    async def store(_rows: Any, run: str, what: str, argument: int) -> str:
        return await work(run, what, argument)

    async def other_store(_rows: Any, run: str, what: str, argument: int) -> str:
        return await work(run, what, argument)

    async def undo(output: str | None, run: str, what: str, argument: int) -> None:  # noqa: ARG001
        effects.add(run, f"undo {what}")

    async def execute(step: Step, run: str, op: Op) -> Any:
        is_other = op.function == "other"
        args = (run, op.name, op.argument)
        match op.kind:
            case "do":
                return await step.do(op.name, other if is_other else work, *args)
            case "undo":
                return await step.do(op.name, other if is_other else work, *args, compensate=undo)
            case "both":
                return await step.gather(
                    step.do(op.name, other if is_other else work, *args, compensate=undo),
                    step.do("right", work, run, "right", 0),
                )
            case "flaky":
                again = Retries(3, delay_seconds=60)
                return await step.do(op.name, other if is_other else flaky, *args, retries=again)
            case "sleep":
                return await step.sleep(op.name, 60 + op.argument)
            case "event":
                type_ = "other" if is_other else "go"
                return await step.wait_for_event(op.name, type=type_)
            case "map":
                items = [
                    {"run": run, "page": number, "argument": op.argument} for number in range(2)
                ]
                return await step.map(op.name, other_page if is_other else page, items)
        return await step.transaction(op.name, other_store if is_other else store, *args)

    @app.workflow(name="order")
    async def order(step: Step, params: str) -> list[Any]:
        return [await execute(step, params, op) for op in ops]

    return order


class Stops:
    """Stops each run at its own boundary, as a crash there would. Those of the items of its map
    count as its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at: dict[str, int] = {}
        self.passed: dict[str, list[tuple[str, str]]] = {}
        stops = self

        class StoppingExecution(Execution):
            def __init__(self, *given: Any, **options: Any) -> None:
                run_id = given[2].run.parent_id or given[2].run.id
                options["at_boundary"] = lambda *boundary: stops.pass_(run_id, boundary)
                super().__init__(*given, **options)

        monkeypatch.setattr(consumer, "Execution", StoppingExecution)
        # A run that has stopped does not go on by itself.
        monkeypatch.setattr(execution, "AGAIN_SECONDS", 1e6)
        monkeypatch.setattr(consumer, "DIVERGED_SECONDS_MIN", 100)

    def pass_(self, run_id: str, boundary: tuple[str, str]) -> None:
        """Raises if the run stops here."""
        passed = self.passed.setdefault(run_id, [])
        passed.append(boundary)
        if len(passed) >= self.at.get(run_id, len(passed) + 1):
            raise StoreUnavailable("it stops here")


NAMES = {"both": ("left", "right"), "map": ("page 0", "page 1")}


def effects_of(ops: tuple[Op, ...]) -> list[str]:
    """What a run does that nothing stops."""
    silent = ("sleep", "event")
    return [name for op in ops if op.kind not in silent for name in NAMES.get(op.kind, (op.name,))]


def keys_of(op: Op) -> tuple[str, ...]:
    """The keys of the steps of an operation."""
    return (op.name, "right") if op.kind == "both" else (op.name,)


class Stopped(NamedTuple):
    """A run where the old code stopped: what it had recorded and done, and the effects that may be
    repeated, because they were done and not recorded."""

    id: str
    keys: frozenset[str]
    effects: tuple[str, ...]
    in_flight: frozenset[str]


BOUNDARIES = 52
"""More boundaries than a run passes."""

SHORT_DIVISOR = 3
"""Of how many boundaries `make test` stops a run at one, for each edit. The next edit stops runs at
the next ones."""


def boundaries_of(edit: int) -> list[int]:
    """The boundaries at which runs stop before this edit, and one that no run passes."""
    if is_soak():
        return [*range(1, BOUNDARIES)]
    return [*range(1 + edit % SHORT_DIVISOR, BOUNDARIES - 1, SHORT_DIVISOR), BOUNDARIES - 1]


async def stop_at(
    boundaries: list[int], h: Any, app: Tickwork, order: Any, effects: Effects, stops: Stops
) -> list[Stopped]:
    """Runs of the old code that stop at each of these boundaries, and where it waits."""
    for kind in ("ending", "failing"):
        for number in boundaries:
            run_id = f"{kind}-{number}"
            stops.at[run_id] = number
            await app.workflows.start(order, run_id, id=run_id)
    for _ in range(3):
        await h.advance(minutes=3)
        for run_id, number in stops.at.items():
            if len(stops.passed.get(run_id, ())) < number:
                await send_event(app, run_id)
    await h.advance(minutes=3)
    found = []
    for run_id, number in stops.at.items():
        status = await app.workflows.get(run_id).status()
        passed = stops.passed[run_id]
        stopped_at = passed[number - 1 :]  # Those in parallel stop there, too.
        assert number < BOUNDARIES - 1 or not stopped_at, "it passes more boundaries"
        if status.finished_at is not None:
            continue
        found.append(
            Stopped(
                run_id,
                frozenset(step.key for step in status.steps),
                tuple(effects.done.get(run_id, ())),
                frozenset(effect_of(key) for boundary, key in stopped_at if boundary == "done"),
            )
        )
    return found


def effect_of(key: str) -> str:
    """What a step does, or an item of the map, or a compensation."""
    if key.startswith(COMPENSATE):
        return f"undo {key.removeprefix(COMPENSATE)}"
    name, _, item = key.partition("[")
    return f"page {item.removesuffix(']')}" if item else name


async def send_event(app: Tickwork, run_id: str) -> None:
    with suppress(Conflict):  # It has ended.
        for type_ in ("go", "other"):
            await app.workflows.get(run_id).send_event(type_, {"by": "ann"}, id=type_)


async def go_on(h: Any, app: Tickwork, stopped: list[Stopped]) -> dict[str, Any]:
    """Lets all runs go on as far as they can; and their states."""
    for run in stopped:
        items = [item.id for item in await app.workflows.list(parent=run.id)]
        for run_id in (run.id, *items):
            with suppress(Conflict):  # It has ended.
                await app.workflows.get(run_id).resume()
    for _ in range(3):
        await h.advance(minutes=3)
        for run in stopped:
            await send_event(app, run.id)
    await h.advance(minutes=3)
    return {run.id: await app.workflows.get(run.id).status() for run in stopped}


def check(run: Stopped, status: Any, done: list[str], new: tuple[Op, ...]) -> None:
    """What must hold for a run after a deploy."""
    repeated = [what for what, times in Counter(done).items() if times > 1]
    assert set(repeated) <= run.in_flight, (run, repeated)
    recorded = [op for op in OLD if run.keys & {*keys_of(op)}]
    agrees = new[: len(recorded)] == tuple(recorded)
    if status.status == "diverged":
        assert done == [*run.effects], "a diverged run did something"
        assert status.divergence
        assert not agrees, f"it agrees: {status.divergence}"
        return
    assert status.status in ("completed", "failed"), status
    assert all(op in new for op in recorded), "it went on without a recorded step"
    if status.status == "failed":
        undone = {what.removeprefix("undo ") for what in done if what.startswith("undo ")}
        can_be = {op.name for op in (*new, *recorded) if op.kind in ("undo", "both")}
        assert undone == can_be & {*done}, "a step was not undone"


SOME = [*enumerate([*edits()][:: 1 if is_soak() else 9])]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("number", "new"), [pytest.param(number, new, id=name) for number, (name, new) in SOME]
)
async def test_no_edit_repeats_or_forgets_an_effect_wherever_a_run_had_stopped(
    database: str | None, number: int, new: tuple[Op, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    effects, stops = Effects(), Stops(monkeypatch)
    old_app, new_app, back = Tickwork(), Tickwork(), Tickwork()
    order = coded(old_app, effects, OLD)
    async with harness(old_app, database=database) as h:
        stopped = await stop_at(boundaries_of(number), h, old_app, order, effects, stops)
        stops.at.clear()
        coded(new_app, effects, new)
        async with h.deploy(new_app) as h2:
            states = await go_on(h2, new_app, stopped)
        for run in stopped:
            check(run, states[run.id], effects.done.get(run.id, []), new)
        diverged = [run for run in stopped if states[run.id].status == "diverged"]
        # The old code agrees with what it recorded: it goes on as if nothing had been.
        coded(back, effects, OLD)
        async with h.deploy(back) as h3:
            states = await go_on(h3, back, diverged)
        for run in diverged:
            assert states[run.id].status in ("completed", "failed"), states[run.id]
            assert states[run.id].divergence is None
            done = [what for what in effects.done[run.id] if not what.startswith("undo ")]
            assert set(done) == {*effects_of(OLD)}
