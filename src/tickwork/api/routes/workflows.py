"""Routes for workflows: start runs, look at them, send them events, and control them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from litestar import Request, Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, FromQuery, QueryParameter
from msgspec import Meta, Struct, structs

from tickwork.api.bodies import DocumentedMany
from tickwork.api.once import IdempotencyKey, once
from tickwork.api.operation import Routes
from tickwork.api.pages import (
    PAGE_BYTES_MAX,
    PAGE_LIMIT,
    Cursor,
    Limit,
    Page,
    read_cursor,
    read_page,
)
from tickwork.api.query import body_reader, finished, flag
from tickwork.core.access import Caller, Permission
from tickwork.core.answers.run import RunView
from tickwork.core.workflow.control import Restart
from tickwork.core.workflow.model import STEPS_MAX, Run
from tickwork.ops import workflows
from tickwork.ops.context import Context
from tickwork.ops.workflow_views import restart_plan

ANY_WORKFLOW = "-"

EVENTS_FROM_MAX = 2**31 - 1

routes = Routes("workflows")

_RUNS = "/v1/workflows/{workflow:str}/runs"
_RUN = f"{_RUNS}/{{run:str}}"
_START = [Example(summary="One run", value={"id": "brand-7", "params": {"keyword": "tax"}})]
_EVENT = [Example(summary="An approval", value={"type": "content.approved", "data": {"by": "ann"}})]


StepsFrom = Annotated[
    int, QueryParameter(ge=0, le=STEPS_MAX, description="How many steps to leave out at first.")
]
StepsLimit = Annotated[
    int, QueryParameter(ge=0, le=STEPS_MAX, description="Maximum number of steps; by default all.")
]
EventsFrom = Annotated[
    int, QueryParameter(ge=0, le=EVENTS_FROM_MAX, description="How many events to leave out.")
]


RunListStatus = Literal[
    "running",
    "sleeping",
    "waiting",
    "paused",
    "diverged",
    "completed",
    "failed",
    "cancelled",
    "terminated",
]


class RunRequest(Struct, frozen=True, kw_only=True):
    """A run to start."""

    id: Annotated[str | None, Meta(description="Unique in the tenant; by default a new one.")] = (
        None
    )
    params: Any = None
    on_conflict: Annotated[
        Literal["error", "use_existing", "restart_if_finished"],
        Meta(description="What to do if there is a run with the id."),
    ] = "error"
    deadline_seconds: Annotated[
        float | None, Meta(description="A run that has not ended by then fails.")
    ] = None
    correlation_id: str | None = None


class CancelRequest(Struct, frozen=True):
    """How to cancel."""

    compensate: Annotated[bool, Meta(description="Undo the steps first.")] = False


class RestartRequest(Struct, frozen=True):
    """From where to start again."""

    from_step: Annotated[str | None, Meta(description="Key of a step; null: the beginning.")] = None
    dry_run: Annotated[bool, Meta(description="Only say what would run again.")] = False


class RunEventRequest(Struct, frozen=True, kw_only=True):
    """An event for a run."""

    type: str
    data: Any = None
    id: Annotated[str | None, Meta(description="The run takes an event with an id once.")] = None


class WorkflowNames(Struct, frozen=True):
    """The workflows that apps have declared."""

    items: tuple[str, ...]


class StartedRuns(Struct, frozen=True):
    """The runs that were started, in order."""

    items: tuple[RunView, ...]


@routes.get("/v1/workflows", "List workflows", needs=Permission.READ)
async def list_workflows(context: NamedDependency[Context]) -> WorkflowNames:
    """Returns the names of the workflows that apps on this database have declared."""
    return WorkflowNames(await workflows.list_workflows(context.store))


@routes.post(
    _RUNS,
    "Start runs",
    needs=Permission.SEND,
    status=201,
    body=DocumentedMany[RunRequest],
    problems=(409, 429),
)
async def start_runs(
    workflow: FromPath[str],
    data: Annotated[Any, Body(examples=_START)],
    request: Request[Any, Any, Any],
    context: NamedDependency[Context],
    caller: NamedDependency[Caller],
    idempotency_key: IdempotencyKey = None,
) -> Response[RunView | StartedRuns]:
    """Starts a run; or of a list up to 1,000, all or none."""

    async def make(seed: UUID) -> RunView | StartedRuns:
        objects = data if isinstance(data, list) else [data]
        starts, on_conflict = workflows.read_starts(context, workflow, objects, seed)
        made = await workflows.start_runs(context, starts, on_conflict)
        shown = await workflows.summaries(context, made)
        return StartedRuns(shown) if isinstance(data, list) else shown[0]

    return await once(make, context=context, caller=caller, request=request, key=idempotency_key)


@routes.get(_RUNS, "List runs", needs=Permission.READ)
async def list_runs(
    workflow: FromPath[str],
    context: NamedDependency[Context],
    status: FromQuery[
        Annotated[
            RunListStatus | None, Meta(description="`running` are all runs that have not ended.")
        ]
    ] = None,
    parent: FromQuery[
        Annotated[str | None, Meta(description="Id of a run: list the items of its maps.")]
    ] = None,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[RunView]:
    """Returns the runs of a workflow without their steps, newest first; of all with `-`."""
    before: tuple[datetime, UUID] | None = read_cursor(cursor, tuple[datetime, UUID])

    async def read(
        count: int, before: tuple[datetime, UUID] | None
    ) -> Sequence[tuple[Run, RunView]]:
        runs = await workflows.list_runs(
            context,
            workflow=named_workflow(workflow),
            status=status,
            parent=parent,
            limit=count,
            before=before,
        )
        return [*zip(runs, await workflows.summaries(context, runs), strict=True)]

    def position(listed: tuple[Run, RunView]) -> tuple[datetime, UUID]:
        run, _ = listed
        return run.created_at, run.uid

    return await read_page(read, limit, before, position, lambda listed: listed[1])


@routes.get(_RUN, "Get a run", needs=Permission.READ)
async def get_run(
    workflow: FromPath[str],
    run: FromPath[str],
    context: NamedDependency[Context],
    steps_from: StepsFrom = 0,
    steps_limit: StepsLimit = STEPS_MAX,
    events_from: EventsFrom = 0,
) -> RunView:
    """Returns a run with its steps, its events, and what it waits for. Steps and events end after
    4 MB: `steps_next` and `events_next` say where to read on, and are null at the end."""
    return await workflows.get_run(
        context,
        run,
        workflow=named_workflow(workflow),
        steps_from=steps_from,
        steps_limit=steps_limit,
        events_from=events_from,
        bytes_max=PAGE_BYTES_MAX,
    )


@routes.post(
    f"{_RUN}/events",
    "Send an event to a run",
    needs=Permission.SEND,
    status=201,
    body=RunEventRequest,
    problems=(409, 429),
)
async def send_run_event(
    workflow: FromPath[str],
    run: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_EVENT)],
    context: NamedDependency[Context],
) -> RunView:
    """Sends an event. It is kept until the run waits for its type; 409 if the run has ended.
    Returns the run without its steps, as all these verbs do."""
    reader = body_reader(data, *RunEventRequest.__struct_fields__)
    type_ = reader.text("type")
    event_id = reader.text("id") if reader.has("id") else None
    finished(reader)
    assert type_ is not None
    send = partial(workflows.send_event, type_=type_, data=data.get("data"), event_id=event_id)
    return await _changed(context, workflow, run, send)


@routes.post(f"{_RUN}/pause", "Pause a run", needs=Permission.MANAGE, problems=(409,))
async def pause_run(
    workflow: FromPath[str], run: FromPath[str], context: NamedDependency[Context]
) -> RunView:
    """Lets a run start no step until it is resumed."""
    return await _changed(context, workflow, run, workflows.pause_run)


@routes.post(f"{_RUN}/resume", "Resume a run", needs=Permission.MANAGE, problems=(409,))
async def resume_run(
    workflow: FromPath[str], run: FromPath[str], context: NamedDependency[Context]
) -> RunView:
    """Lets a paused run go on. Times that have passed meanwhile are over."""
    return await _changed(context, workflow, run, workflows.resume_run)


@routes.post(
    f"{_RUN}/cancel", "Cancel a run", needs=Permission.MANAGE, body=CancelRequest, problems=(409,)
)
async def cancel_run(
    workflow: FromPath[str],
    run: FromPath[str],
    data: Annotated[dict[str, Any], Body()],
    context: NamedDependency[Context],
) -> RunView:
    """Ends a run at its next checkpoint; with `compensate`, its steps are undone first."""
    reader = body_reader(data, "compensate")
    compensate = flag(reader, data, "compensate")
    finished(reader)
    cancel = partial(workflows.cancel_run, compensate=compensate)
    return await _changed(context, workflow, run, cancel)


@routes.post(f"{_RUN}/terminate", "Terminate a run", needs=Permission.MANAGE, problems=(409,))
async def terminate_run(
    workflow: FromPath[str], run: FromPath[str], context: NamedDependency[Context]
) -> RunView:
    """Ends a run at once. Nothing is compensated."""
    return await _changed(context, workflow, run, workflows.terminate_run)


@routes.post(
    f"{_RUN}/restart",
    "Restart a run",
    needs=Permission.MANAGE,
    body=RestartRequest,
    problems=(409,),
)
async def restart_run(
    workflow: FromPath[str],
    run: FromPath[str],
    data: Annotated[dict[str, Any], Body()],
    context: NamedDependency[Context],
) -> RunView:
    """Starts a run again: from its beginning and without its events, or from a step with the
    results of the steps before it, except for those that were undone. `restart` in the answer says
    which steps run again, and which effects happen again; with `dry_run` nothing else happens."""
    reader = body_reader(data, *RestartRequest.__struct_fields__)
    from_step = reader.text("from_step") if reader.has("from_step") else None
    is_dry = reader.boolean("dry_run") if reader.has("dry_run") else False
    finished(reader)
    plans: list[Restart] = []

    async def restart(*run_of: Any) -> None:
        verb = workflows.plan_restart if is_dry else workflows.restart_run
        plans.append(await verb(*run_of, from_step=from_step))

    changed = await _changed(context, workflow, run, restart)
    return structs.replace(changed, restart=restart_plan(plans[0]))


@routes.post(f"{_RUN}/accept", "Accept a diverged run", needs=Permission.MANAGE, problems=(409,))
async def accept_run(
    workflow: FromPath[str], run: FromPath[str], context: NamedDependency[Context]
) -> RunView:
    """Lets a diverged run go on with today's code from here; 409 if it has not diverged. Recorded
    steps are kept, and need not be asked for by the code any more."""
    return await _changed(context, workflow, run, workflows.accept_run)


async def _changed(
    context: Context,
    workflow: str,
    run: str,
    change: Callable[..., Awaitable[object]],
) -> RunView:
    """Changes a run and returns it without its steps; `NotFound` if it belongs to another
    workflow."""
    name = named_workflow(workflow)
    if name is not None:
        await workflows.get_run(context, run, workflow=name, steps_limit=0, bytes_max=0)
    await change(context, run)
    return await workflows.get_run(context, run, steps_limit=0, bytes_max=PAGE_BYTES_MAX)


def named_workflow(workflow: str) -> str | None:
    """The workflow in a path; None for `-`, which is any: the id of a run is unique."""
    return None if workflow == ANY_WORKFLOW else workflow
