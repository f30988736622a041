"""Runs of workflows as a user sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from tickwork.core.workflow.model import StepKind, StepState


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


class RestartPlan(Struct, frozen=True, kw_only=True):
    """What a restart does: the steps that run again, in order, those of them whose effects happen
    again, because they were done and not undone, and those whose results are kept."""

    runs: tuple[str, ...]
    repeats: tuple[str, ...]
    keeps: tuple[str, ...]


class RunView(Struct, frozen=True, kw_only=True):
    """A run, as people see it. While it runs, `status` is also `sleeping`, `waiting` (for an event,
    the items of a map, or another attempt), `diverged` (its code does not agree with its record,
    see `divergence`), `paused`, `pausing` until its running step has ended, and `cancelling` until
    a worker has ended it. `waits_for` says what a run waits for, and `wake_at` until when. An item
    of a map has a `parent_id`, and is named `parent_step` there. `steps_total` is the number of
    steps, of which `steps` may be a part. If there are more, `steps_next` and `events_next` are the
    `steps_from` and `events_from` with which to read on. `restart` is what a restart did, or would
    do."""

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
    steps_next: int | None = None
    events: tuple[EventView, ...] = ()
    events_next: int | None = None
    restart: RestartPlan | None = None
