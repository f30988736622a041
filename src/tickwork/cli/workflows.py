"""`tickwork workflows`: lists, shows, starts and controls runs of workflows, and replays them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import click
from msgspec import structs

from tickwork.cli.command import Group
from tickwork.cli.options import CONNECTION, Argument, Json, Limit, Option, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    EXIT_FAILED,
    Report,
    Shown,
    columns,
    fail,
    field_lines,
    print_lines,
    shortened,
)
from tickwork.cli.store_session import confirm, scope_of, with_context
from tickwork.cli.values import json_value

if TYPE_CHECKING:
    from tickwork.client.call import Async
    from tickwork.client.client import Client
    from tickwork.client.runs import Run
    from tickwork.core.answers.run import RestartPlan, RunView
    from tickwork.ops.context import Context
    from tickwork.workflow.replay import ReplayedRun

workflows = Group(
    "Runs of workflows: list, show, events, start, send, pause, resume, cancel, terminate, "
    "restart, accept, check, replay."
)

LISTED = 100

RunId = Annotated[str, Argument("Id of the run.", "RUN")]
WorkflowName = Annotated[str, Argument("Name of the workflow.", "WORKFLOW")]
OfWorkflow = Annotated[str, Option("Only runs of this workflow.", "NAME")]
OfParent = Annotated[str, Option("Only the items of this run's maps.", "RUN")]
Status = Annotated[
    str,
    Option(
        "Only runs with this status: running (all that have not ended), sleeping, waiting, paused, "
        "diverged, completed, failed, cancelled or terminated.",
        "STATUS",
    ),
]
NewId = Annotated[
    str, Option("Id of the run; default a new one.", "ID", name="--id", fields=("id",))
]
EventId = Annotated[
    str, Option("Id of the event; the run takes it once.", "ID", name="--id", fields=("id",))
]
Params = Annotated[Any, Option("Params of the run; default null.", "JSON", read=json_value)]
Data = Annotated[Any, Argument("The event's data as JSON; default null.", "DATA", read=json_value)]
OnConflict = Annotated[
    Any, Option("If the id exists: error (default), use_existing, restart_if_finished.", "POLICY")
]
Deadline = Annotated[
    float, Option("Seconds after which the run fails if it has not ended.", "SECONDS")
]
EventType = Annotated[str, Argument("Type of the event.", "TYPE", fields=("type",))]
Compensate = Annotated[bool, Option("Undo the steps first.")]
DryRun = Annotated[bool, Option("Only say what would run again.")]
FromStep = Annotated[str, Option("Step to start from; default the beginning.", "STEP")]


def _error(record: Any) -> str:
    return shortened(record.error)


_steps = columns(
    *(("step", "key"), "kind", "state", "attempts", "started_at", "finished_at"),
    *(("until", "wake_at"), ("error", _error)),
    none="it has recorded no steps",
)


def _run_lines(run: RunView) -> Shown:
    from msgspec import structs

    return [*field_lines(structs.replace(run, steps=None, events=None)), *_steps(run.steps)]


@workflows.client_command(
    "list",
    show=columns(
        *(("run", "id"), "workflow", "version", "status", "created_at", "finished_at"),
        ("error", _error),
        none="there are no runs",
    ),
)
async def list_runs(
    client: Client,
    workflow: OfWorkflow | None = None,
    status: Status | None = None,
    parent: OfParent | None = None,
    limit: Limit = LISTED,
) -> Sequence[RunView]:
    """List the latest runs, newest first."""
    return await client.workflows.list(workflow, status=status, parent=parent, limit=limit)


@workflows.client_command("show", show=_run_lines, watch=True)
async def show_run(client: Client, run: RunId) -> RunView:
    """Show a run, its steps, and what it waits for."""
    return await client.workflows.get(run).status()


@workflows.client_command(
    "events",
    show=columns("type", "id", "sent_at", ("step", "consumed_by"), none="it has no events"),
)
async def list_events(client: Client, run: RunId) -> Sequence[object]:
    """List the events of a run, and the steps that received them."""
    return (await client.workflows.get(run).status(steps_limit=0)).events


@workflows.client_command("start")
async def start_run(
    client: Client,
    workflow: WorkflowName,
    run_id: NewId | None = None,
    params: Params = None,
    on_conflict: OnConflict = "error",
    deadline_seconds: Deadline | None = None,
) -> Report:
    """Start a run, and print its id."""
    started = await client.workflows.start(
        workflow, params, id=run_id, on_conflict=on_conflict, deadline_seconds=deadline_seconds
    )
    made = await client.workflows.get(started.id).status()
    return Report(made, made.id)


async def _change(
    client: Client, run: str, verb: Callable[[Run[Async]], Awaitable[object]], sentence: str
) -> Report:
    handle = client.workflows.get(run)
    await verb(handle)
    return Report(await handle.status(), f"{run} {sentence}")


@workflows.client_command("send")
async def send_event(
    client: Client, run: RunId, kind: EventType, data: Data = None, event_id: EventId | None = None
) -> Report:
    """Send an event to a run."""
    return await _change(
        client, run, lambda handle: handle.send_event(kind, data, id=event_id), "has the event"
    )


@workflows.client_command("pause")
async def pause_run(client: Client, run: RunId) -> Report:
    """Let a run start no step until it is resumed."""
    return await _change(client, run, lambda handle: handle.pause(), "is paused")


@workflows.client_command("resume")
async def resume_run(client: Client, run: RunId) -> Report:
    """Let a paused run go on."""
    return await _change(client, run, lambda handle: handle.resume(), "goes on")


@workflows.client_command("cancel")
async def cancel_run(
    client: Client, run: RunId, compensate: Compensate = False, yes: Yes = False
) -> Report:
    """End a run at its next checkpoint; with --compensate its steps are undone first."""
    confirm(f"cancel run {run}?", yes=yes)
    return await _change(
        client, run, lambda handle: handle.cancel(compensate=compensate), "is being cancelled"
    )


@workflows.client_command("terminate")
async def terminate_run(client: Client, run: RunId, yes: Yes = False) -> Report:
    """End a run at once. Nothing is undone."""
    confirm(f"terminate run {run}? Nothing is undone.", yes=yes)
    return await _change(client, run, lambda handle: handle.terminate(), "is terminated")


def _plan_lines(plan: RestartPlan) -> list[str]:
    """Which steps run again, and which effects happen again."""
    return [
        f"run again: {', '.join(plan.runs) or 'what its code calls'}",
        f"effects happen again: {', '.join(plan.repeats) or 'none'}",
        f"results are kept: {', '.join(plan.keeps) or 'none'}",
    ]


@workflows.client_command("restart")
async def restart_run(
    client: Client,
    run: RunId,
    from_step: FromStep | None = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> Report:
    """Start a run again: from its beginning and without its events, or from a step.

    Says first which steps run again, and which effects happen again; with --dry-run only that.
    Steps that were undone count as not done.
    """
    handle = client.workflows.get(run)
    plan = await handle.restart(from_step=from_step, dry_run=True)
    assert plan is not None
    lines = _plan_lines(plan)
    if dry_run:
        return Report(plan, *lines)
    if not as_json:
        print_lines(lines)
    position = "its beginning" if from_step is None else f"step {from_step}"
    confirm(f"restart run {run} from {position}?", yes=yes)
    plan = await handle.restart(from_step=from_step)
    answer = structs.replace(await handle.status(), restart=plan)
    return Report(answer, f"{run} starts again")


@workflows.client_command("accept")
async def accept_run(client: Client, run: RunId, yes: Yes = False) -> Report:
    """Let a diverged run go on with today's code from here.

    Its recorded steps are kept, and need not be asked for by the code any more. A step that has
    another name than its record runs again.
    """
    if not yes:
        found = await client.workflows.get(run).status()
        if found.divergence is None:
            fail(f"run {run} has not diverged; there is nothing to accept")
        click.echo(f"run {run}: {found.divergence}", err=True)
    confirm(f"accept today's code for run {run}? What is not recorded runs.", yes=yes)
    return await _change(client, run, lambda handle: handle.accept(), "goes on with today's code")


def _replay(**which: Any) -> Report:
    """Replays stored runs against the code of the chosen app, and reports where they diverge. The
    runs are those of --database, or else of the app's own."""
    from tickwork.cli.run import load_app
    from tickwork.facade.app import engine_of
    from tickwork.workflow.replay import replay_runs, undeclared_workflows

    at = CONNECTION.get()
    target = at.app
    if target is None:
        fail("--app is missing; give the app whose code replays the runs", code=EXIT_BAD_USAGE)
    declared = engine_of(load_app(target)).registry.workflows
    scope = scope_of()
    if at.database is not None:
        CONNECTION.set(
            at._replace(app=None)
        )  # It has given its code and its tenant; the runs are elsewhere.

    async def look(context: Context) -> tuple[list[ReplayedRun], list[str]]:
        found = await replay_runs(context.store, context.scope, declared, **which)
        return found, await undeclared_workflows(context.store, context.scope, declared)

    found, others = with_context(look, scope=scope)
    missing = f"which {target} does not declare: they wait until an app that declares it runs"
    notes = [f"warning: there are running runs of workflow {name}, {missing}" for name in others]
    has_diverged = any(run.divergence is not None for run in found)
    code = EXIT_FAILED if has_diverged else 0
    return Report(found, *_replayed(found), exit_code=code, notes=notes)


def _divergence(run: ReplayedRun) -> str:
    return run.divergence or "none"


_replayed = columns(
    *(("run", "id"), "workflow", "status", "steps", ("divergence", _divergence)),
    none="there are no runs",
)


@workflows.plain_command("check", on_database=True)
def check_runs(workflow: OfWorkflow | None = None) -> Report:
    """Check whether all running runs agree with the code of an app (--app), before a deploy.

    Replays them, runs no step and changes nothing. Exits with 1 if a run would diverge. With
    --database the runs are those of that database, not of the app's own.
    """
    return _replay(workflow=workflow, is_running=True)


@workflows.plain_command("replay", on_database=True)
def replay_stored(
    run: RunId | None = None, workflow: OfWorkflow | None = None, limit: Limit = LISTED
) -> Report:
    """Replay stored runs against the code of an app (--app), and report where they diverge.

    Runs no step and changes nothing. Exits with 1 if a run diverges. With --database the runs are
    those of that database, not of the app's own.
    """
    return _replay(workflow=workflow, run_id=run, limit=limit)
