"""Runs of workflows, as people see them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.answers.run import EventView, RestartPlan, RunView, StepView
from tickwork.core.workflow.children import read_map
from tickwork.core.workflow.control import Restart
from tickwork.core.workflow.model import (
    Doing,
    Run,
    RunActivity,
    RunEvent,
    RunPage,
    RunStatus,
    RunStep,
    RunWindow,
    StepError,
    StepKind,
    StepState,
)

DIVERGED = "diverged"
"""The status of a running run whose code does not agree with its record."""

NO_ACTIVITY = RunActivity()


def view(
    page: RunPage,
    window: RunWindow,
    activity: RunActivity = NO_ACTIVITY,
    node: str | None = None,
) -> RunView:
    """A run with a window of its steps and events, as people see it. `node` executes it now."""
    run = page.run
    waiting = page.open_steps if run.status is RunStatus.RUNNING else ()
    times = [step.wake_at for step in waiting if step.wake_at is not None]
    waits_for = [*map(_waits_for, waiting)]
    if node is not None and is_stopping(run):
        waits_for = [f"the step that runs on {node}"]
    return msgspec.structs.replace(
        summary(run, activity),
        waits_for=tuple(waits_for),
        wake_at=min(times, default=None),
        steps=tuple(_step_view(step_at(step, page.now)) for step in page.steps),
        steps_total=page.steps_total,
        steps_next=_next(window.offset, len(page.steps), page.steps_total)
        if window.limit
        else None,
        events=tuple(map(_event_view, page.events)),
        events_next=_next(window.events_offset, len(page.events), page.events_total),
    )


def _next(offset: int, shown: int, total: int) -> int | None:
    """Where to read on after what is shown; None at the end."""
    return offset + shown if offset + shown < total else None


def is_stopping(run: Run) -> bool:
    """Whether a run was paused or cancelled, which its running step may not know yet."""
    return run.status is RunStatus.RUNNING and (run.paused or run.control is not None)


def restart_plan(restart: Restart) -> RestartPlan:
    """A restart as people see it."""
    return RestartPlan(runs=restart.runs, repeats=restart.repeats, keeps=restart.keeps)


def _status(run: Run, activity: RunActivity) -> str:
    if run.status.is_final:
        return str(run.status)
    if run.paused:
        return Doing.PAUSED if activity.holder is None else "pausing"
    if run.is_diverged:
        return DIVERGED
    if run.control is not None:
        return "cancelling"
    return str(activity.wait or run.status)


def summary(run: Run, activity: RunActivity = NO_ACTIVITY) -> RunView:
    """A run without its steps and events, and what happens to it now."""
    return RunView(
        id=run.id,
        workflow=run.workflow,
        version=run.version,
        status=_status(run, activity),
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
        event = "an event" if step.called is None else f"event {step.called!r}"
        return f"step {step.key}: {event}"
    if (record := read_map(step)) is not None:
        shown = public_id(Prefix.BATCH, record.batch_id)
        return f"step {step.key}: {record.items} items; batch {shown} counts them"
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
