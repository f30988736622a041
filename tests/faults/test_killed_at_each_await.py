"""Processes killed or frozen at any await of a workflow's step or an entity's call: no recorded
step runs again, no effect happens twice, no call is lost, and what is frozen changes nothing."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.faults import entity_history, run_history, tables
from tests.faults.open_store import opened
from tests.faults.programs import awaits, entities, order_runs
from tests.faults.test_killed_entities import answers, entries_of
from tests.kit.process import Arm, Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import DEFAULT
from tickwork.ops.context import Context
from tickwork.ops.entities import ensure_entity_type, new_call, send_call
from tickwork.ops.workflows import RunStart, ensure_workflow, send_event, start_runs
from tickwork.store.contract import Store

WAIT_SECONDS = 120.0
TOGETHER_MAX = 6
"""Number of processes that run, and die, at the same time."""

RUN_AWAITS, CALL_AWAITS = 330, 50
"""About as many awaits as a run and three calls have; a later one is that of the next run."""

RUNS_A_PROCESS = 2
"""So that there is a next run. On a busy machine writes share their commits, and a run has fewer
awaits."""

QUICK_RUN_AWAITS = (3, 17, 48, 120)
QUICK_CALL_AWAITS = (1, 3, 6, 10)
RESULT = ["first", "left", "right", "saved", "1", "2", "3", 7]


def in_groups(numbers: range) -> list[Sequence[int]]:
    return [numbers[at : at + TOGETHER_MAX] for at in range(0, len(numbers), TOGETHER_MAX)]


# Runs


async def start(store: Store, runs: Sequence[str]) -> None:
    await ensure_workflow(store, "orders")
    await start_runs(Context(store, DEFAULT), [RunStart(workflow="orders", id=run) for run in runs])
    for run in runs:
        await send_event(Context(store, DEFAULT), run, "go", 7)


async def have_ended(store: Store, runs: Sequence[str]) -> bool:
    found = [await store.workflows.get(DEFAULT, run) for run in runs]
    return all(run.status.is_final for run in found)


def lines_of(log: Path) -> list[list[str]]:
    return [line.split() for line in log.read_text().splitlines()]


async def history_of(store: Store, url: str, log: Path, runs: Sequence[str]) -> run_history.History:
    found = [await store.workflows.get(DEFAULT, run) for run in runs]
    ran = lines_of(log)
    return run_history.History(
        results={run.id: msgspec.json.decode(run.result or b"null") for run in found},
        ran=[(run, step) for run, step, *_ in ran],
        ran_again=[(run, step) for run, step, *again in ran if again],
        sent=[(run, step) for run, step in await order_runs.sent_by_steps(url)],
        rows=await tables.effects_of(url),
        runs=runs,
        steps=order_runs.STEPS,
        result=RESULT,
    )


async def kill_runs(home: Home, children: Children, log: Path, after: Sequence[int]) -> None:
    runs = [f"run-{number}" for number in range(RUNS_A_PROCESS * len(after))]
    async with opened(home.url) as store:
        await tables.fetch(home.url, tables.EFFECTS)
        await start(store, runs)
        dying = [
            children.spawn(
                order_runs.PROGRAM, home.url, log, arms=[Arm(awaits.POINT, "kill", after=n)]
            )
            for n in after
        ]

        async def are_over() -> bool:
            return all(child.returncode is not None for child in dying) or await have_ended(
                store, runs
            )

        await eventually(are_over, timeout_seconds=WAIT_SECONDS, what="the kills")
        assert any(child.returncode is not None for child in dying)
        children.spawn(order_runs.PROGRAM, home.url, log)
        await eventually(
            lambda: have_ended(store, runs), timeout_seconds=WAIT_SECONDS, what="the runs"
        )
        assert run_history.faults_of(await history_of(store, home.url, log, runs)) == []


async def test_a_run_that_is_killed_at_any_await_has_each_effect_once(
    home: Home, children: Children, tmp_path: Path
) -> None:
    await kill_runs(home, children, tmp_path / "log", QUICK_RUN_AWAITS)


@pytest.mark.soak
@pytest.mark.parametrize(
    "after", in_groups(range(RUN_AWAITS)), ids=lambda group: f"from {group[0]}"
)
async def test_runs_killed_at_every_await_have_each_effect_once(
    home: Home, children: Children, tmp_path: Path, after: Sequence[int]
) -> None:
    await kill_runs(home, children, tmp_path / "log", after)


@pytest.mark.parametrize(
    "passes",
    [0, *(pytest.param(number, marks=pytest.mark.soak) for number in range(1, 6))],
)
async def test_a_node_frozen_in_the_middle_of_a_step_changes_nothing_when_it_thaws(
    home: Home, children: Children, tmp_path: Path, passes: int
) -> None:
    log = tmp_path / "log"
    async with opened(home.url) as store:
        await tables.fetch(home.url, tables.EFFECTS)
        await start(store, ["run"])
        arm = Arm("worked", "stop", after=passes)
        frozen = children.spawn(order_runs.PROGRAM, home.url, log, arms=[arm])
        for _ in range(passes + 1):
            await frozen.reached("worked", WAIT_SECONDS)
        children.spawn(order_runs.PROGRAM, home.url, log)
        await eventually(
            lambda: have_ended(store, ["run"]), timeout_seconds=WAIT_SECONDS, what="the run"
        )
        before = await store.workflows.history(DEFAULT, "run")
        claims = len(frozen.events("claiming"))
        frozen.cont()
        # It has let go of the run, and looks for other work.
        await eventually(
            lambda: len(frozen.events("claiming")) > claims + 2,
            timeout_seconds=WAIT_SECONDS,
            what="the frozen node to go on",
        )
        after = await store.workflows.history(DEFAULT, "run")
        assert (after.run, after.steps, after.events) == (before.run, before.steps, before.events)
        history = await history_of(store, home.url, log, ["run"])
        assert run_history.faults_of(history) == []


# Entities


async def ledger_of(
    store: Store, url: str, key: str, callers: Sequence[Child]
) -> entity_history.History:
    entries, stored = await entries_of(store, key)
    sent = [
        (name, at) for name, at in await order_runs.sent_by_steps(url) if name.startswith(f"{key}-")
    ]
    told = [
        answer
        for caller in callers
        for answer in answers(caller)
        if answer[0].startswith(f"{key}-")
    ]
    return entity_history.History(entries, stored, sent, told, [f"{key}-sent"])


async def kill_calls(home: Home, children: Children, after: Sequence[int]) -> None:
    keys = [f"key{number}" for number in after]
    async with opened(home.url) as store:
        await ensure_entity_type(store, "Ledger")
        for key in keys:
            await send_call(
                Context(store, DEFAULT), new_call("Ledger", key, "add", [f"{key}-sent"], {})
            )
        arms = [[Arm(awaits.POINT, "kill", after=number)] for number in after]
        callers = [
            children.spawn(entities.PROGRAM, home.url, f"{key}-dying", "3", key, arms=arm)
            for key, arm in zip(keys, arms, strict=True)
        ]
        workers = [
            children.spawn(entities.PROGRAM, home.url, "worker", arms=arm) for arm in arms[:2]
        ]
        children.spawn(entities.PROGRAM, home.url, "worker")
        for caller in callers:
            await caller.wait(WAIT_SECONDS)
        living = [
            children.spawn(entities.PROGRAM, home.url, f"{key}-living", "2", key) for key in keys
        ]
        for child in living:
            await child.succeeded(WAIT_SECONDS)

        async def are_handled() -> bool:
            found = [(await entries_of(store, key))[0] for key in keys]
            return all(f"{key}-sent" in entries for key, entries in zip(keys, found, strict=True))

        await eventually(are_handled, timeout_seconds=WAIT_SECONDS, what="the sends")
        for key in keys:
            history = await ledger_of(store, home.url, key, [*callers, *living])
            assert entity_history.faults_of(history) == []
        # On a busy machine a living one may lose its lease, and is told so.
        assert all(len(child.lines()) == 2 for child in living)
        for worker in workers:
            worker.kill9()


async def test_a_call_that_is_killed_at_any_await_is_whole_or_gone(
    home: Home, children: Children
) -> None:
    await kill_calls(home, children, QUICK_CALL_AWAITS)


@pytest.mark.soak
@pytest.mark.parametrize(
    "after", in_groups(range(CALL_AWAITS)), ids=lambda group: f"from {group[0]}"
)
async def test_calls_killed_at_every_await_are_whole_or_gone(
    home: Home, children: Children, after: Sequence[int]
) -> None:
    await kill_calls(home, children, after)


# The checker


GOOD = run_history.History(
    results={"x": 7, "y": 7},
    ran=[("x", "a"), ("y", "a"), ("x", "a")],
    ran_again=[],
    sent=[("x", "a"), ("y", "a")],
    rows=["y", "x"],
    runs=["x", "y"],
    steps=["a"],
    result=7,
)


def test_the_checker_of_runs_finds_every_mutant() -> None:
    assert run_history.faults_of(GOOD) == []
    mutants = {
        "a lost run": GOOD._replace(results={"x": 7}),
        "a run that failed": GOOD._replace(results={"x": 7, "y": None}),
        "a recorded step that ran again": GOOD._replace(ran_again=[("x", "a")]),
        "a step that never ran": GOOD._replace(ran=[("x", "a")]),
        "an effect twice": GOOD._replace(sent=[*GOOD.sent, ("x", "a")]),
        "an effect lost": GOOD._replace(sent=[("x", "a")]),
        "an effect of another run": GOOD._replace(sent=[*GOOD.sent, ("z", "a")]),
        "a row twice": GOOD._replace(rows=["x", "y", "x"]),
        "a row lost": GOOD._replace(rows=["x"]),
    }
    assert [name for name, mutant in mutants.items() if not run_history.faults_of(mutant)] == []
