"""Reads runs with their steps and events, those of many runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tickwork.core.workflow.model import (
    EVENT_BYTES,
    STEP_BYTES,
    Control,
    Doing,
    Run,
    RunActivity,
    RunEvent,
    RunHistory,
    RunPage,
    RunStatus,
    RunStep,
    RunWindow,
    StepKind,
    StepState,
)
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import NOW, Row, Statement, Steps

_GET = Statement("get_run", Run)
_FIND = Statement("find_runs", Run, now=Kind.TIME)
_STEPS = Statement("run_steps", RunStep, uid=Kind.ID)
_EVENTS = Statement("run_events", RunEvent, uid=Kind.ID)
_STEPS_WINDOW = Statement("run_steps_window", RunStep)
_EVENTS_WINDOW = Statement("run_events_window", RunEvent)
_OPEN_STEPS = Statement("open_run_steps", RunStep)
_COUNT_STEPS = Statement("count_run_steps")
_COUNT_EVENTS = Statement("count_run_events")

_KINDS = {str(kind): kind for kind in StepKind}
_STATES = {str(state): state for state in StepState}
_STEP_FIELDS, _EVENT_FIELDS = RunStep.__struct_fields__, RunEvent.__struct_fields__


class AskedRun(NamedTuple):
    """A run to read, and what of it."""

    tenant: str
    run_id: str
    with_steps: bool = False
    with_events: bool = False


def find_run(tenant: str, run_id: str) -> Steps[Run | None]:
    """A run; None if there is none."""
    row = yield from _GET.fetch_row(tenant, run_id)
    return None if row is None else read_run(row)


def read_histories(asked: Sequence[AskedRun]) -> Steps[list[RunHistory | None]]:
    """Runs with what is asked of them; None for one that does not exist."""
    rows = yield from _FIND.fetch_each([*{request[:2]: None for request in asked}], NOW)
    times = {row["uid"]: row["now"] for row in rows}
    runs = {(run.tenant, run.id): run for run in map(read_run, rows)}
    found = [(request, run) for request in asked if (run := runs.get(request[:2]))]
    steps = yield from _steps({run.uid for request, run in found if request.with_steps})
    events = yield from _events(
        {run.uid for request, run in found if request.with_events and run.signals}
    )
    return [
        None
        if (run := runs.get(request[:2])) is None
        else RunHistory(
            run,
            tuple(steps.get(run.uid, ())) if request.with_steps else (),
            tuple(events.get(run.uid, ())) if request.with_events else (),
            times[run.uid],
        )
        for request in asked
    ]


def read_page(tenant: str, run_id: str, window: RunWindow) -> Steps[RunPage | None]:
    """A run with a window of its steps; None if there is none."""
    (history,) = yield from read_histories([AskedRun(tenant, run_id)])
    if history is None:
        return None
    uid, steps = history.run.uid, tuple[RunStep, ...]()
    if window.limit:
        asked = (window.offset, window.limit, window.bytes_max, STEP_BYTES)
        steps = tuple(map(_step, (yield from _STEPS_WINDOW.fetch(uid, *asked))))
    open_steps = yield from _OPEN_STEPS.fetch(uid, history.now)
    total = yield from _COUNT_STEPS.fetch_value(uid)
    left = (window.events_offset, window.bytes_left(steps), EVENT_BYTES, not steps)
    events = yield from _EVENTS_WINDOW.fetch(uid, *left)
    return RunPage(
        history.run,
        steps,
        total,
        tuple(map(_step, open_steps)),
        tuple(map(_event, events)),
        history.now,
        (yield from _COUNT_EVENTS.fetch_value(uid)),
    )


def read_activity(row: Row) -> RunActivity:
    """A row with the fields of `RunActivity`."""
    wait = row["wait"]
    return RunActivity(row["holder"], None if wait is None else Doing(wait))


def read_run(row: Row) -> Run:
    """A row with the fields of `Run`."""
    fields = {name: row[name] for name in Run.__struct_fields__}
    control = fields["control"]
    fields["status"] = RunStatus(fields["status"])
    fields["control"] = None if control is None else Control(control)
    return Run(**fields)


def _steps(uids: set[UUID]) -> Steps[dict[UUID, list[RunStep]]]:
    steps: dict[UUID, list[RunStep]] = {}
    for row in (yield from _STEPS.fetch_each([(uid,) for uid in uids])):
        steps.setdefault(row["uid"], []).append(_step(row))
    return steps


def _step(row: Row) -> RunStep:
    fields = {name: row[name] for name in _STEP_FIELDS}
    fields["kind"] = _KINDS[fields["kind"]]
    fields["state"] = _STATES[fields["state"]]
    return RunStep(**fields)


def _events(uids: set[UUID]) -> Steps[dict[UUID, list[RunEvent]]]:
    events: dict[UUID, list[RunEvent]] = {}
    for row in (yield from _EVENTS.fetch_each([(uid,) for uid in uids])):
        events.setdefault(row["uid"], []).append(_event(row))
    return events


def _event(row: Row) -> RunEvent:
    return RunEvent(**{name: row[name] for name in _EVENT_FIELDS})
