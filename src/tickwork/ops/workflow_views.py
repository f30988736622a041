"""Runs of workflows, as people see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from tickwork.core.workflow.children import read_map
from tickwork.core.workflow.model import (
    Run,
    RunEvent,
    RunPage,
    RunStatus,
    RunStep,
    StepError,
    StepKind,
    StepState,
)


class StepView(Struct, frozen=True, kw_only=True):
    """A step of a run, as people see it."""

    key: str
    kind: StepKind
    state: StepState
    attempts: int
    started_at: datetime
    finished_at: datetime | None
    wake_at: datetime | None
    output: Any
    error: str | None


class EventView(Struct, frozen=True, kw_only=True):
    """An event of a run. `consumed_by` is the step that received it."""

    type: str
    id: str | None
    data: Any
    sent_at: datetime
    consumed_by: str | None


class RunView(Struct, frozen=True, kw_only=True):
    """A run, as people see it. `status` is also `paused`, or `cancelling` until a worker has ended
    it. `waits_for` says what a run waits for, and `wake_at` until when. An item of a map has a
    `parent_id`, and is named `parent_step` there. `steps_total` is the number of steps, of which
    `steps` may be a part."""

    id: str
    workflow: str
    version: str | None
    status: str
    params: Any
    result: Any
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    deadline_at: datetime | None
    generation: int
    divergence: str | None
    correlation_id: str | None
    parent_id: str | None = None
    parent_step: str | None = None
    waits_for: tuple[str, ...] = ()
    wake_at: datetime | None = None
    steps: tuple[StepView, ...] = ()
    steps_total: int = 0
    events: tuple[EventView, ...] = ()


def view(page: RunPage) -> RunView:
    """A run with some of its steps, and its events, as people see it."""
    run = page.run
    waiting = page.open_steps if run.status is RunStatus.RUNNING else ()
    times = [each.wake_at for each in waiting if each.wake_at is not None]
    return msgspec.structs.replace(
        summary(run),
        waits_for=tuple(map(_waits_for, waiting)),
        wake_at=min(times, default=None),
        steps=tuple(_step_view(step_at(each, page.now)) for each in page.steps),
        steps_total=page.steps_total,
        events=tuple(map(_event_view, page.events)),
    )


def summary(run: Run) -> RunView:
    """A run without its steps and events."""
    status = str(run.status)
    if run.status is RunStatus.RUNNING and (run.paused or run.control is not None):
        status = "paused" if run.paused else "cancelling"
    return RunView(
        id=run.id,
        workflow=run.workflow,
        version=run.version,
        status=status,
        params=msgspec.json.decode(run.params),
        result=None if run.result is None else msgspec.json.decode(run.result),
        error=run.error,
        created_at=run.created_at,
        finished_at=run.finished_at,
        deadline_at=run.deadline_at,
        generation=run.generation,
        divergence=run.divergence,
        correlation_id=run.correlation_id,
        parent_id=run.parent_id,
        parent_step=run.parent_step,
    )


def step_at(step: RunStep, now: datetime) -> RunStep:
    """A step at a time: a sleep that is over is done."""
    if step.state.is_final or step.is_open(now):
        return step
    return msgspec.structs.replace(step, state=StepState.DONE, finished_at=step.wake_at)


def _waits_for(step: RunStep) -> str:
    if step.state is StepState.RETRYING:
        return f"step {step.key}: attempt {step.attempts + 1}"
    if step.kind is StepKind.SLEEP:
        return f"step {step.key}: it sleeps"
    if step.kind is StepKind.EVENT:
        return f"step {step.key}: an event"
    if (record := read_map(step)) is not None:
        return f"step {step.key}: {record.items} items; batch {record.batch_id} counts them"
    return f"step {step.key}: it has started"


def _step_view(step: RunStep) -> StepView:
    error = None if step.error is None else msgspec.json.decode(step.error, type=StepError)
    return StepView(
        key=step.key,
        kind=step.kind,
        state=step.state,
        attempts=step.attempts,
        started_at=step.started_at,
        finished_at=step.finished_at,
        wake_at=step.wake_at,
        output=None if step.output is None else msgspec.json.decode(step.output),
        error=None if error is None else f"{error.type}: {error.message}",
    )


def _event_view(event: RunEvent) -> EventView:
    return EventView(
        type=event.type,
        id=event.id,
        data=msgspec.json.decode(event.data),
        sent_at=event.sent_at,
        consumed_by=event.consumed_by,
    )
