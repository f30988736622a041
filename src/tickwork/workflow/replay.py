"""Replays stored runs against today's code, and reports where they diverge. Nothing is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from msgspec import Struct

from tickwork.app.invocation import enter, leave
from tickwork.app.workflows import WorkflowDeclaration
from tickwork.core.model import ContentType, Scope
from tickwork.core.workflow.model import RunHistory, RunSelection, RunStatus
from tickwork.store.contract import Store
from tickwork.workflow.execution import IDLE_TURNS
from tickwork.workflow.record import RunRecord
from tickwork.workflow.step import ContinueAs, Step
from tickwork.workflow.steps import Steps
from tickwork.workflow.work import BodyHandling, Work, carry_out


class ReplayedRun(Struct, frozen=True):
    """A run that was replayed, and how it diverges from its record; None if it does not."""

    id: str
    workflow: str
    status: str
    steps: int
    divergence: str | None


class _ReadRecord(RunRecord):
    """A record that is only read."""

    def __init__(self, store: Store, history: RunHistory) -> None:
        self._store = store
        self._read(history, lambda: 0.0)


async def replay_runs(
    store: Store,
    scope: Scope,
    declared: Mapping[str, Mapping[str | None, WorkflowDeclaration]],
    *,
    workflow: str | None = None,
    run_id: str | None = None,
    limit: int = 100,
) -> list[ReplayedRun]:
    """Replays one run, or the newest ones of a workflow or of all that are declared, each on the
    newest version of its code."""
    if run_id is not None:
        runs = [await store.workflows.get(scope, run_id)]
    else:
        names = [workflow] if workflow is not None else [*declared]
        runs = [
            run
            for name in names
            for run in await store.workflows.list(scope, RunSelection(workflow=name), limit)
        ]
    replayed: list[ReplayedRun] = []
    for run in runs:
        history = await store.workflows.history(scope, run.id)
        versions = declared.get(run.workflow)
        divergence: str | None = f"the workflow {run.workflow} is not declared by this app"
        if run.parent_id is not None:
            divergence = f"it is an item of run {run.parent_id}; replay that one"
        elif versions:
            divergence = await replay(store, history, [*versions.values()][-1])
        replayed.append(
            ReplayedRun(run.id, run.workflow, str(run.status), len(history.steps), divergence)
        )
    return replayed


async def replay(store: Store, history: RunHistory, declared: WorkflowDeclaration) -> str | None:
    """How a run diverges from its record on this code; None if it does not."""
    async with _replayed(store, history, declared) as (steps, task):
        return _divergence(history, declared, steps, task)


async def find_map(
    store: Store, history: RunHistory, declared: WorkflowDeclaration, step: str
) -> Work | None:
    """What the items of a map call; None if this code does not get to it."""
    async with _replayed(store, history, declared) as (steps, _):
        return steps.maps.works.get(step)


@asynccontextmanager
async def _replayed(
    store: Store, history: RunHistory, declared: WorkflowDeclaration
) -> AsyncIterator[tuple[Steps, asyncio.Future[Any]]]:
    """Calls the body, which goes as far as the record does."""
    record = _ReadRecord(store, history)
    await record.load_maps()
    steps = Steps(record, cast(Any, None), carry_out)
    steps.is_stopping = True  # So that no step starts.
    given: tuple[Any, ...] = (Step(steps),)
    if declared.takes_params:
        given += (declared.params.decode(history.run.params, ContentType.JSON),)
    before = enter(BodyHandling())
    try:
        task = asyncio.ensure_future(declared.function(*given))
    finally:
        leave(before)
    seen, turns = 0, 0
    while not task.done() and turns < IDLE_TURNS:
        await asyncio.sleep(0)
        turns = 0 if steps.called != seen else turns + 1
        seen = steps.called
    try:
        yield steps, task
    finally:
        steps.drop()
        task.cancel()
        await asyncio.wait([task])


def _divergence(
    history: RunHistory, declared: WorkflowDeclaration, steps: Steps, task: asyncio.Future[Any]
) -> str | None:
    # Compensations are called after a body has failed.
    recorded = [each.key for each in history.steps if not each.key.startswith("compensate ")]
    unknown = [key for key in recorded if key not in steps.calls]
    found = [*steps.mismatches]
    if unknown:
        found.append(f"recorded, but not called by this code: {', '.join(unknown)}")
    if history.run.status is RunStatus.COMPLETED:
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
