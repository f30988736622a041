"""The verbs of workflows: start runs, look at them, send them events, and control them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any
from uuid import UUID

from msgspec import Struct, structs

from tickwork.clock import monotonic
from tickwork.core.answers.ids import Prefix, plain_text, public_id
from tickwork.core.answers.run import RunView
from tickwork.core.fields import (
    FAULTS_MAX,
    TEXT_LENGTH_MAX,
    FieldReader,
    Reader,
    choice_error,
    reader_of,
    shown,
    text_faults,
    type_faults,
)
from tickwork.core.limits import DELAY_SECONDS_MAX
from tickwork.core.message.body import encode_json
from tickwork.core.model import SYSTEM, ContentType
from tickwork.core.stable_hash import derived_id
from tickwork.core.workflow import control
from tickwork.core.workflow.model import (
    OUTPUT_BYTES_MAX,
    RUN_ID_LENGTH_MAX,
    STARTS_MAX,
    STEPS_MAX,
    ConflictPolicy,
    Doing,
    NewEvent,
    NewRun,
    Run,
    RunActivity,
    RunSelection,
    RunStatus,
    RunWindow,
)
from tickwork.core.workflow.queue import (
    RUNS_SETTINGS,
    pin_mark,
    runs_queue,
    workflow_of_queue,
)
from tickwork.errors import Conflict, FieldError, InvalidInput, NotFound, RunFailed
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import ensure_hidden_queue, has_queue
from tickwork.ops.workflow_views import DIVERGED, NO_ACTIVITY, is_stopping, summary, view
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

if TYPE_CHECKING:
    from tickwork.app.payloads import Payload

RUNS_LISTED = 100
"""Number of runs that a list returns unless the caller gives a limit."""

RESTART_PLANS_MAX = 5
"""Number of times that a restart is planned while the run is being undone."""

WAIT_SECONDS_MIN = 0.01
WAIT_SECONDS_MAX = 0.5
"""Seconds between two looks at a run whose result somebody waits for."""


class RunStart(Struct, frozen=True, kw_only=True):
    """A run to start: its params as JSON, and what the caller chose."""

    workflow: str
    params: bytes = b"null"
    id: str | None = None
    version: str | None = None
    deadline_seconds: float | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    event: NewEvent | None = None
    uid: UUID | None = None


_START_FIELDS: dict[str, FieldReader] = {
    "id": reader_of(str | None),
    "on_conflict": Reader.string,
    "deadline_seconds": reader_of(float | None),
    "correlation_id": reader_of(str | None),
}


def read_starts(
    context: Context, workflow: str, objects: Sequence[object], seed: UUID
) -> tuple[list[RunStart], str]:
    """Runs to start from JSON objects, and their common conflict policy. Their uids come from the
    seed, so that a repeat starts the same runs. Raises `InvalidInput`, also for params that do not
    fit the type of the workflow, if the app of this process declares it."""
    payload = context.types(runs_queue(workflow), None)
    if len(objects) > STARTS_MAX:
        raise InvalidInput([_wrong_count(objects)])
    faults = list[FieldError]()
    starts = list[RunStart]()
    policies = set[str]()
    for index, object_ in enumerate(objects):
        if len(faults) >= FAULTS_MAX:
            break
        prefix = f"[{index}]." if len(objects) > 1 else ""
        if not isinstance(object_, dict):
            faults.append(FieldError(f"[{index}]", f"must be an object, not {shown(object_)}"))
            continue
        reader = Reader(object_, faults, prefix)
        reader.refuse_unknown({*_START_FIELDS, "params"})
        read = reader.read(_START_FIELDS)
        known = {name: value for name, value in read.items() if value is not None}
        policies.add(known.pop("on_conflict", ConflictPolicy.ERROR))
        uid = derived_id(seed, f"run {index}")
        params = _encoded("params", object_.get("params"))
        if payload is not None:
            faults += _params_faults(payload, f"{prefix}params", params)
        starts.append(RunStart(workflow=workflow, params=params, uid=uid, **known))
    if len(policies) > 1:
        faults.append(FieldError("on_conflict", "must be the same for all runs of one request"))
    if faults:
        raise InvalidInput(faults)
    return starts, policies.pop() if policies else ConflictPolicy.ERROR


def _params_faults(payload: Payload[Any], field: str, params: bytes) -> list[FieldError]:
    try:
        payload.check(params, ContentType.JSON)
    except InvalidInput as error:
        return [FieldError(field, fault.message) for fault in error.errors]
    return []


def _wrong_count(runs: Sequence[object]) -> FieldError:
    return FieldError("runs", f"must be 1 to {STARTS_MAX} runs, not {len(runs)}")


async def ensure_workflow(
    store: Store, workflow: str, version: str | None = None, *, pin: bool = False
) -> None:
    """Creates the hidden queue of a workflow, or of one of its versions, if there is none; and
    notes whether the runs of the version wait for its code."""
    queue = runs_queue(workflow, version)
    await ensure_hidden_queue(store, queue, RUNS_SETTINGS)
    if version is None:
        return
    mark = pin_mark(queue)
    if pin:
        await ensure_hidden_queue(store, mark, RUNS_SETTINGS)
    elif await has_queue(Context(store, SYSTEM), mark):
        with suppress(NotFound):  # Another node was quicker.
            await store.queues.delete(SYSTEM, mark)


async def list_workflows(store: Store) -> tuple[str, ...]:
    """Returns the names of the workflows that an app has declared, in order."""
    names = {workflow_of_queue(queue.name) for queue in await store.queues.list(SYSTEM)}
    return tuple(sorted(name for name in names if name is not None))


async def start_runs(
    context: Context, starts: Sequence[RunStart], on_conflict: str = "error"
) -> tuple[Run, ...]:
    """Starts up to 1,000 runs, all or none. `NotFound` for a workflow that nobody has declared."""
    faults = [fault for start in starts for fault in _start_faults(start)]
    if not 1 <= len(starts) <= STARTS_MAX:
        faults.append(_wrong_count(starts))
    if (message := choice_error(on_conflict, ConflictPolicy)) is not None:
        faults.append(FieldError("on_conflict", message))
    ids = [start.id for start in starts if start.id is not None]
    if len({*ids}) < len(ids):
        faults.append(FieldError("id", "is the same for two runs; give each its own"))
    if faults:
        raise InvalidInput(faults)
    new = [_new_run(start) for start in starts]
    try:
        return await context.store.workflows.start(context.scope, new, ConflictPolicy(on_conflict))
    except NotFound as error:
        workflow = workflow_of_queue(str(error.name))
        if error.kind != "queue" or workflow is None:
            raise
        raise _not_declared(workflow) from None


def _new_run(start: RunStart) -> NewRun:
    uid = start.uid or new_id()
    return NewRun(
        id=plain_text(start.id or public_id(Prefix.RUN, uid)),
        uid=uid,
        message_id=derived_id(uid, "message"),
        workflow=start.workflow,
        version=start.version,
        params=start.params,
        deadline_seconds=start.deadline_seconds,
        correlation_id=plain_text(start.correlation_id),
        causation_id=start.causation_id,
        event=start.event,
    )


def _start_faults(start: RunStart) -> list[FieldError]:
    faults = text_faults("workflow", start.workflow, TEXT_LENGTH_MAX)
    given: object = start.id
    if given is not None and not isinstance(given, str):
        faults.append(FieldError("id", f"must be a text, not {shown(given)}"))
    elif start.id is not None:
        faults += text_faults("id", start.id, RUN_ID_LENGTH_MAX)
    if len(start.params) > OUTPUT_BYTES_MAX:
        fault = f"have {len(start.params)} bytes; at most {OUTPUT_BYTES_MAX}; send a reference"
        faults.append(FieldError("params", fault))
    seconds = start.deadline_seconds
    if seconds is not None and not 0 < seconds <= 100 * DELAY_SECONDS_MAX:
        faults.append(FieldError("deadline_seconds", f"must be above 0, not {shown(seconds)}"))
    if start.correlation_id is not None:
        faults += text_faults("correlation_id", start.correlation_id, TEXT_LENGTH_MAX)
    return faults


async def get_run(
    context: Context,
    run_id: str,
    *,
    workflow: str | None = None,
    steps_from: int = 0,
    steps_limit: int = STEPS_MAX,
    events_from: int = 0,
    bytes_max: int | None = None,
) -> RunView:
    """Returns a run, of a workflow if one is given, with its steps, or some of them, and events;
    raises `NotFound`. With `bytes_max`, steps and events end where they would have more bytes."""
    window = RunWindow(
        _checked_steps("steps_from", steps_from),
        _checked_steps("steps_limit", steps_limit),
        max(events_from, 0),
        bytes_max,
    )
    page = await context.store.workflows.page(context.scope, _checked_id(run_id), window)
    if workflow not in (None, page.run.workflow):
        raise NotFound("run", run_id)
    activity = (await _activities(context, [page.run])).get(page.run.uid, NO_ACTIVITY)
    node = None
    if is_stopping(page.run) and activity.holder is not None:
        names = {found.id: found.name for found in await context.store.nodes.list(SYSTEM)}
        node = names.get(activity.holder, "a node that is gone")
    return view(page, window, activity, node)


def _checked_steps(name: str, number: int) -> int:
    if not 0 <= number <= STEPS_MAX:
        raise InvalidInput([FieldError(name, f"must be from 0 to {STEPS_MAX}, not {number}")])
    return number


async def list_runs(
    context: Context,
    *,
    workflow: str | None = None,
    status: str | None = None,
    parent: str | None = None,
    limit: int = RUNS_LISTED,
    before: tuple[datetime, UUID] | None = None,
) -> tuple[Run, ...]:
    """Returns runs, newest first; those of one workflow, or with one status: `running` are all that
    have not ended, of which some may be `sleeping`, `waiting`, `paused` or `diverged`. Items of
    maps are listed by the id of their `parent`. `NotFound` for a workflow that nobody has
    declared."""
    choices = [*map(str, RunStatus), *map(str, Doing), DIVERGED]
    if status is not None and (message := choice_error(status, choices)) is not None:
        raise InvalidInput([FieldError("status", message)])
    stored = {str(stored): stored for stored in RunStatus}
    doing = {str(doing): doing for doing in Doing}
    selection = RunSelection(
        workflow=workflow,
        status=None if status is None else stored.get(status, RunStatus.RUNNING),
        parent_id=parent,
        is_diverged=status == DIVERGED,
        doing=None if status is None else doing.get(status),
    )
    found = await context.store.workflows.list(context.scope, selection, limit, before=before)
    if not found and workflow is not None and not await _is_declared(context.store, workflow):
        raise _not_declared(workflow)
    return found


async def summaries(context: Context, runs: Sequence[Run]) -> tuple[RunView, ...]:
    """Runs without their steps, as people see them."""
    found = await _activities(context, runs)
    return tuple(summary(run, found.get(run.uid, NO_ACTIVITY)) for run in runs)


async def _activities(context: Context, runs: Sequence[Run]) -> dict[UUID, RunActivity]:
    """What happens to those of the runs that have not ended."""
    running = [run.uid for run in runs if not run.status.is_final]
    return await context.store.workflows.activities(context.scope, running) if running else {}


async def _is_declared(store: Store, workflow: str) -> bool:
    return await has_queue(Context(store, SYSTEM), runs_queue(workflow))


def _not_declared(workflow: str) -> NotFound:
    return NotFound("workflow", workflow, "an app declares it with @app.workflow()")


async def send_event(
    context: Context,
    run_id: str,
    type_: str,
    data: Any = None,
    *,
    event_id: str | None = None,
) -> Run:
    """Sends an event to a run; it is kept until the run waits for it. `NotFound` for an unknown
    run, `Conflict` for one that has ended. A repeat with the same `event_id` has no effect."""
    event = read_event(type_, data, event_id)
    return await context.store.workflows.change(
        context.scope, _checked_id(run_id), control.send_event(event)
    )


async def send_event_or_start(context: Context, start: RunStart) -> Run:
    """Sends the event of a start to its run, or starts the run with it if there is none."""
    assert start.id is not None
    assert start.event is not None
    decide, uid = control.send_event(start.event), start.uid or new_id()
    try:
        return await context.store.workflows.change(context.scope, _checked_id(start.id), decide)
    except NotFound:
        new = structs.replace(start, uid=uid)
        (run,) = await start_runs(context, [new], ConflictPolicy.USE_EXISTING)
        if run.uid == uid:
            return run
        # Another caller has started it meanwhile, without this event.
        return await context.store.workflows.change(context.scope, start.id, decide)


def read_event(type_: object, data: Any, event_id: object = None) -> NewEvent:
    """An event as it is stored. Raises `InvalidInput`."""
    faults = type_faults("type", type_, str) + type_faults("id", event_id, str | None)
    for name, text in (("type", type_), ("id", event_id)):
        if isinstance(text, str):
            faults += text_faults(name, text, TEXT_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)
    encoded = _encoded("data", data)
    if len(encoded) > OUTPUT_BYTES_MAX:
        fault = f"has {len(encoded)} bytes; at most {OUTPUT_BYTES_MAX}; send a reference"
        raise InvalidInput([FieldError("data", fault)])
    assert isinstance(type_, str)
    return NewEvent(type=type_, data=encoded, id=event_id if isinstance(event_id, str) else None)


async def pause_run(context: Context, run_id: str) -> Run:
    """Pauses a run: it starts no step until it is resumed."""
    return await _change(context, run_id, "run.pause", control.pause)


async def resume_run(context: Context, run_id: str) -> Run:
    """Resumes a run. Times that have passed meanwhile are over."""
    return await _change(context, run_id, "run.resume", control.resume)


async def cancel_run(context: Context, run_id: str, *, compensate: bool = False) -> Run:
    """Cancels a run at its next checkpoint; with `compensate`, its steps are undone first."""
    decide = control.cancel(compensates=compensate)
    return await _change(context, run_id, "run.cancel", decide)


async def terminate_run(context: Context, run_id: str) -> Run:
    """Ends a run at once. Nothing is compensated."""
    return await _change(context, run_id, "run.terminate", control.terminate)


async def accept_run(context: Context, run_id: str) -> Run:
    """Lets a diverged run go on with today's code, whatever it has recorded; `Conflict` if it has
    not diverged."""
    return await _change(context, run_id, "run.accept", control.accept)


async def plan_restart(
    context: Context, run_id: str, *, from_step: str | None = None
) -> control.Restart:
    """What a restart of a run would do. Nothing is changed."""
    steps = (await context.store.workflows.history(context.scope, _checked_id(run_id))).steps
    return control.plan_restart(steps, from_step)


async def restart_run(
    context: Context, run_id: str, *, from_step: str | None = None
) -> control.Restart:
    """Starts a run again: from the beginning and without its events, or from a step with the
    results of the steps before it, except for those that were undone. Returns what it does."""
    message_id = new_id()
    for plans_left in reversed(range(RESTART_PLANS_MAX)):
        plan = await plan_restart(context, run_id, from_step=from_step)
        try:
            decide = control.restart(message_id, plan=plan)
            await _change(context, run_id, "run.restart", decide)
        except control.RecordMoved as moved:
            if not plans_left:
                raise Conflict(str(moved)) from None
        else:
            return plan
    raise AssertionError("the last plan is carried out or raises")


async def wait_for_result(
    context: Context,
    run_id: str,
    *,
    timeout_seconds: float | None = None,
    on_wait: Callable[[], None] = lambda: None,
) -> Run:
    """Waits until a run has completed, and returns it. Raises `RunFailed` if it ended otherwise,
    and `TimeoutError` after some seconds. `on_wait` is called before each wait."""
    pause, until = WAIT_SECONDS_MIN, inf
    if timeout_seconds is not None:
        until = monotonic() + timeout_seconds
    while not (
        run := await context.store.workflows.get(context.scope, _checked_id(run_id))
    ).status.is_final:
        left = until - monotonic()
        if left <= 0:
            raise TimeoutError(f"run {run_id} has not ended within {timeout_seconds:g} s")
        on_wait()
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 2, WAIT_SECONDS_MAX)
    if run.status is not RunStatus.COMPLETED:
        raise RunFailed(run.id, str(run.status), run.error)
    return run


async def _change(context: Context, run_id: str, action: str, decide: control.Decision) -> Run:
    async with recorded(context, action, run_id):
        return await context.store.workflows.change(context.scope, _checked_id(run_id), decide)


def _encoded(field: str, value: object) -> bytes:
    try:
        return encode_json(value)
    except InvalidInput as error:
        raise InvalidInput([FieldError(field, fault.message) for fault in error.errors]) from None


def _checked_id(run_id: object) -> str:
    if not isinstance(run_id, str) or text_faults("id", run_id, RUN_ID_LENGTH_MAX):
        raise NotFound("run", shown(run_id))
    return run_id
