"""Replays stored runs against today's code, and reports where they diverge. Nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, NamedTuple, cast
from uuid import UUID

from msgspec import Struct

from tickwork.app.invocation import enter, leave
from tickwork.app.workflows import WorkflowDeclaration
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.workflow.model import Run, RunHistory, RunSelection, RunStatus
from tickwork.core.workflow.queue import workflow_of_queue
from tickwork.ops.context import Context
from tickwork.ops.workflows import summaries
from tickwork.store.contract import Store
from tickwork.workflow.body_calls import BodyCalls
from tickwork.workflow.execution import DROP_SECONDS_MAX, Diverged, how_ended, read_params
from tickwork.workflow.record import RunRecord
from tickwork.workflow.step import ContinueAs, Step
from tickwork.workflow.work import BodyHandling, Work, carry_out

PAGE_RUNS = 100
"""Number of runs that are read at once."""

Declared = Mapping[str, Mapping[str | None, WorkflowDeclaration]]
"""The workflows of an app with their versions."""


class ReplayedRun(Struct, frozen=True):
    """A run that was replayed, and how it diverges from its record; None if it does not."""

    id: str
    workflow: str
    status: str
    steps: int
    divergence: str | None


class FoundMap(NamedTuple):
    """What the items of a map call; None if the code does not get to it. `divergence` says how the
    run of the map diverges from its record on this code."""

    work: Work | None
    divergence: str | None


class _ReadRecord(RunRecord):
    """A record that is only read."""

    def __init__(self, store: Store, history: RunHistory) -> None:
        self._store = store
        self._read(history, lambda: 0.0)


async def replay_runs(
    store: Store,
    scope: Scope,
    declared: Declared,
    *,
    workflow: str | None = None,
    run_id: str | None = None,
    limit: int = 100,
    is_running: bool = False,
) -> list[ReplayedRun]:
    """Replays one run, or the newest ones of a workflow or of all that are declared; with
    `is_running` all that have not ended. Each is replayed by the code that would execute it."""
    if run_id is not None:
        runs = [await store.workflows.get(scope, run_id)]
    else:
        names = [workflow] if workflow is not None else [*declared]
        runs = []
        for name in names:
            if is_running:
                runs += [run async for run in _running_runs(store, scope, name)]
            else:
                runs += await store.workflows.list(scope, RunSelection(workflow=name), limit)
    views = await summaries(Context(store, scope), runs)
    return [
        await _replay_run(store, scope, declared, run, view.status)
        for run, view in zip(runs, views, strict=True)
    ]


async def undeclared_workflows(store: Store, scope: Scope, declared: Declared) -> list[str]:
    """The workflows with running runs that an app does not declare. Another app may."""
    stored = [workflow_of_queue(queue.name) for queue in await store.queues.list(SYSTEM)]
    names = sorted({name for name in stored if name is not None} - declared.keys())
    running = RunStatus.RUNNING
    return [
        name
        for name in names
        if await store.workflows.list(scope, RunSelection(workflow=name, status=running), 1)
    ]


async def _running_runs(store: Store, scope: Scope, workflow: str) -> AsyncIterator[Run]:
    selection = RunSelection(workflow=workflow, status=RunStatus.RUNNING)
    before: tuple[datetime, UUID] | None = None
    while runs := await store.workflows.list(scope, selection, PAGE_RUNS, before=before):
        for run in runs:
            yield run
        before = runs[-1].created_at, runs[-1].uid


async def _replay_run(
    store: Store, scope: Scope, declared: Declared, run: Run, status: str
) -> ReplayedRun:
    history = await store.workflows.history(scope, run.id)
    versions = declared.get(run.workflow)
    divergence: str | None = f"the workflow {run.workflow} is not declared by this app"
    if run.parent_id is not None:
        divergence = f"it is an item of run {run.parent_id}; replay that one"
    elif versions:
        newest = [*versions.values()][-1]
        divergence = await replay(store, history, versions.get(run.version, newest))
    return ReplayedRun(run.id, run.workflow, status, len(history.steps), divergence)


async def replay(store: Store, history: RunHistory, declared: WorkflowDeclaration) -> str | None:
    """How a run diverges from its record on this code; None if it does not."""
    try:
        async with _replayed(store, history, declared) as (calls, task):
            return _divergence(history, declared, calls, task)
    except Diverged as misfit:
        return str(misfit)


async def find_map(
    store: Store, history: RunHistory, declared: WorkflowDeclaration, step: str
) -> FoundMap:
    """What the items of a map call on this code."""
    try:
        async with _replayed(store, history, declared) as (calls, _):
            return FoundMap(calls.steps.maps.works.get(step), calls.divergence())
    except Diverged as misfit:
        return FoundMap(None, str(misfit))


@asynccontextmanager
async def _replayed(
    store: Store, history: RunHistory, declared: WorkflowDeclaration
) -> AsyncIterator[tuple[BodyCalls, asyncio.Future[Any]]]:
    """Calls the body, which goes as far as the record does. Raises `Diverged` for params that the
    code cannot read."""
    params, record = read_params(declared, history.run), _ReadRecord(store, history)
    await record.load_maps()
    calls = BodyCalls(record, cast(Any, None), carry_out)
    steps = calls.steps
    steps.is_stopping = True  # So that no step starts.
    before = enter(BodyHandling())
    try:
        task = steps.loop.start(_call(declared, Step(calls), params))
    finally:
        leave(before)
    try:
        await steps.changed.wait()
        while steps.loop.is_busy:
            steps.changed.clear()
            await steps.changed.wait()
        yield calls, task
    finally:
        calls.drop()
        await steps.loop.end(DROP_SECONDS_MAX)


async def _call(declared: WorkflowDeclaration, step: Step, params: tuple[Any, ...]) -> Any:
    """Calls the function of a workflow, which may return anything to await."""
    return await declared.function(step, *params)


def _divergence(
    history: RunHistory, declared: WorkflowDeclaration, calls: BodyCalls, task: asyncio.Future[Any]
) -> str | None:
    divergence = calls.divergence()
    found = [] if divergence is None else [str(Diverged(divergence, how_ended(task)))]
    if not found and history.run.status is RunStatus.COMPLETED:
        found += _end_divergence(history, declared, task)
    return "; ".join(found) or None


def _end_divergence(
    history: RunHistory, declared: WorkflowDeclaration, task: asyncio.Future[Any]
) -> list[str]:
    if not task.done():
        return ["the run completed, and this code waits for a step that is not recorded"]
    error = task.exception()
    if error is not None:
        is_other = not isinstance(error, ContinueAs)
        return [f"the run completed, and this code raises {error!r}"] if is_other else []
    if declared.result.encode(task.result()) != history.run.result:
        return ["the run completed with another result"]
    return []
