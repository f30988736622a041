"""`tickwork workflows`: lists, shows, starts and controls runs of workflows, and replays them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import click

from tickwork.cli.command import Group
from tickwork.cli.options import (
    OPTION_OF_FIELD,
    Argument,
    Database,
    Json,
    LimitText,
    Option,
    Tenant,
    Watch,
    Yes,
)
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    fail,
    field_lines,
    print_json,
    print_lines,
    print_table,
    shortened,
)
from tickwork.cli.session import ask
from tickwork.cli.store_session import (
    confirm,
    number,
    required,
    whole_number,
)
from tickwork.cli.watch import watched
from tickwork.cli.workflow_plans import print_restart, replay, restart_plan

if TYPE_CHECKING:
    from tickwork.client.call import Async
    from tickwork.client.client import Client
    from tickwork.client.run_answers import RunView
    from tickwork.client.runs import Run

app = Group(
    help="Runs of workflows: list, show, events, start, send, pause, resume, cancel, terminate, "
    "restart, accept, check, replay.",
)

LISTED = 100

RunId = Annotated[str | None, Argument(metavar="RUN", help="Id of the run.")]
WorkflowName = Annotated[str | None, Argument(metavar="WORKFLOW", help="Name of the workflow.")]
OfWorkflow = Annotated[
    str | None, Option(name="--workflow", metavar="NAME", help="Only runs of this workflow.")
]
OfParent = Annotated[
    str | None, Option(name="--parent", metavar="RUN", help="Only the items of this run's maps.")
]
Status = Annotated[
    str | None,
    Option(
        metavar="STATUS",
        help="Only runs with this status: running, diverged, completed, failed, cancelled or "
        "terminated.",
    ),
]
NewId = Annotated[
    str | None, Option(name="--id", metavar="ID", help="Id of the run; default a new one.")
]
Params = Annotated[str | None, Option(metavar="JSON", help="Params of the run; default null.")]
Data = Annotated[
    str | None, Argument(metavar="DATA", help="The event's data as JSON; default null.")
]
OnConflict = Annotated[
    str | None,
    Option(
        metavar="POLICY",
        help="If the id exists: error (default), use_existing, restart_if_finished.",
    ),
]
Deadline = Annotated[
    str | None,
    Option(
        name="--deadline-seconds",
        metavar="SECONDS",
        help="Seconds after which the run fails if it has not ended.",
    ),
]
EventType = Annotated[str | None, Argument(metavar="TYPE", help="Type of the event.")]
Compensate = Annotated[bool, Option(name="--compensate", help="Undo the steps first.")]
DryRun = Annotated[bool, Option(name="--dry-run", help="Only say what would run again.")]
FromStep = Annotated[
    str | None,
    Option(metavar="STEP", help="Step to start from; default the beginning."),
]

_OPTIONS = OPTION_OF_FIELD | {
    "id": "--id",
    "params": "--params",
    "data": "DATA",
    "on_conflict": "--on-conflict",
    "deadline_seconds": "--deadline-seconds",
    "status": "--status",
    "from_step": "--from-step",
    "type": "TYPE",
}


@app.plain_command("list")
def list_command(
    workflow: OfWorkflow = None,
    status: Status = None,
    parent: OfParent = None,
    limit: LimitText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List the latest runs, newest first."""
    most = whole_number(limit, "--limit", LISTED)
    shown = ask(
        database,
        tenant,
        lambda client: client.workflows.list(workflow, status=status, parent=parent, limit=most),
        names=_OPTIONS,
    )
    if as_json:
        print_json(shown)
        return
    rows = [
        (run.id, run.workflow, run.version, run.status, run.created_at, run.finished_at,
         shortened(run.error))
        for run in shown
    ]  # fmt: skip
    heading = ("run", "workflow", "version", "status", "created_at", "finished_at", "error")
    print_table(heading, rows, none="there are no runs")


@app.plain_command("show")
def show_command(
    run: RunId = None,
    watch: Watch = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show a run, its steps, and what it waits for."""
    which = required(run, "RUN")
    watched(lambda: _show(database, tenant, which, as_json=as_json), watch)


def _show(database: str | None, tenant: str | None, which: str, *, as_json: bool) -> None:
    from msgspec import structs

    found = ask(database, tenant, lambda client: client.workflows.get(which).status())
    if as_json:
        print_json(found)
        return
    print_lines(field_lines(structs.replace(found, steps=None, events=None)))
    rows = [
        (step.key, step.kind, step.state, step.attempts, step.started_at, step.finished_at,
         step.wake_at, shortened(step.error))
        for step in found.steps
    ]  # fmt: skip
    heading = ("step", "kind", "state", "attempts", "started_at", "finished_at", "until", "error")
    print_table(heading, rows, none="it has recorded no steps")


@app.plain_command("events")
def events_command(
    run: RunId = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """List the events of a run, and the steps that received them."""
    which = required(run, "RUN")
    found = ask(
        database, tenant, lambda client: client.workflows.get(which).status(steps_limit=0)
    ).events
    if as_json:
        print_json(found)
        return
    rows = [(event.type, event.id, event.sent_at, event.consumed_by) for event in found]
    print_table(("type", "id", "sent_at", "step"), rows, none="it has no events")


@app.plain_command("start")
def start_command(
    workflow: WorkflowName = None,
    run_id: NewId = None,
    params: Params = None,
    on_conflict: OnConflict = None,
    deadline: Deadline = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Start a run, and print its id."""
    name, given = required(workflow, "WORKFLOW"), _json(params, "--params")
    seconds = None if deadline is None else number(deadline, "--deadline-seconds")
    policy: Any = on_conflict or "error"

    async def start(client: Client) -> RunView:
        made = await client.workflows.start(
            name, given, id=run_id, on_conflict=policy, deadline_seconds=seconds
        )
        return await client.workflows.get(made.id).status()

    made = ask(database, tenant, start, names=_OPTIONS)
    if as_json:
        print_json(made)
    else:
        print_lines([made.id])


@app.plain_command("send")
def send_command(
    run: RunId = None,
    type_: EventType = None,
    data: Data = None,
    event_id: Annotated[
        str | None,
        Option(name="--id", metavar="ID", help="Id of the event; the run takes it once."),
    ] = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Send an event to a run."""
    kind, value = required(type_, "TYPE"), _json(data, "DATA")
    _change(
        lambda handle: handle.send_event(kind, value, id=event_id),
        run,
        database,
        tenant,
        said="has the event",
        as_json=as_json,
    )


@app.plain_command("pause")
def pause_command(
    run: RunId = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Let a run start no step until it is resumed."""
    _change(lambda handle: handle.pause(), run, database, tenant, said="is paused", as_json=as_json)


@app.plain_command("resume")
def resume_command(
    run: RunId = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Let a paused run go on."""
    _change(lambda handle: handle.resume(), run, database, tenant, said="goes on", as_json=as_json)


@app.plain_command("cancel")
def cancel_command(
    run: RunId = None,
    compensate: Compensate = False,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """End a run at its next checkpoint; with --compensate its steps are undone first."""
    confirm(f"cancel run {required(run, 'RUN')}?", yes=yes)
    _change(
        lambda handle: handle.cancel(compensate=compensate),
        run,
        database,
        tenant,
        said="is being cancelled",
        as_json=as_json,
    )


@app.plain_command("terminate")
def terminate_command(
    run: RunId = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """End a run at once. Nothing is undone."""
    confirm(f"terminate run {required(run, 'RUN')}? Nothing is undone.", yes=yes)
    _change(
        lambda handle: handle.terminate(),
        run,
        database,
        tenant,
        said="is terminated",
        as_json=as_json,
    )


@app.plain_command("restart")
def restart_command(
    run: RunId = None,
    from_step: FromStep = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Start a run again: from its beginning and without its events, or from a step.

    Says first which steps run again, and which effects happen again; with --dry-run only that.
    Steps that were undone count as not done.
    """
    which = required(run, "RUN")
    position = "its beginning" if from_step is None else f"step {from_step}"

    plan = restart_plan(database, tenant, which, from_step)
    if not (as_json and not dry_run):
        print_restart(plan, as_json=as_json)
    if dry_run:
        return
    confirm(f"restart run {which} from {position}?", yes=yes)

    async def restart(handle: Run[Async]) -> None:
        await handle.restart(from_step=from_step)

    _change(restart, run, database, tenant, said="starts again", as_json=as_json)


@app.plain_command("accept")
def accept_command(
    run: RunId = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Let a diverged run go on with today's code from here.

    Its recorded steps are kept, and need not be asked for by the code any more. A step that has
    another name than its record runs again.
    """
    which = required(run, "RUN")
    if not yes:
        found = ask(database, tenant, lambda client: client.workflows.get(which).status())
        click.echo(f"run {which}: {found.divergence or 'has not diverged'}", err=True)
    confirm(f"accept today's code for run {which}? What is not recorded runs.", yes=yes)
    _change(
        lambda handle: handle.accept(),
        run,
        database,
        tenant,
        said="goes on with today's code",
        as_json=as_json,
    )


@app.plain_command("check")
def check_command(
    workflow: OfWorkflow = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Check whether all running runs agree with the code of an app (--app), before a deploy.

    Replays them, runs no step and changes nothing. Exits with 1 if a run would diverge. With
    --database the runs are those of that database, not of the app's own.
    """
    replay(database, tenant, as_json=as_json, workflow=workflow, is_running=True)


@app.plain_command("replay")
def replay_command(
    run: RunId = None,
    workflow: OfWorkflow = None,
    limit: LimitText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Replay stored runs against the code of an app (--app), and report where they diverge.

    Runs no step and changes nothing. Exits with 1 if a run diverges. With --database the runs are
    those of that database, not of the app's own.
    """
    most = whole_number(limit, "--limit", LISTED)
    replay(database, tenant, as_json=as_json, workflow=workflow, run_id=run, limit=most)


def _change(
    verb: Callable[[Run[Async]], Awaitable[None]],
    run: str | None,
    database: str | None,
    tenant: str | None,
    *,
    said: str,
    as_json: bool,
) -> None:
    which = required(run, "RUN")

    async def change(client: Client) -> RunView:
        handle = client.workflows.get(which)
        await verb(handle)
        return await handle.status()

    changed = ask(database, tenant, change, names=_OPTIONS)
    if as_json:
        print_json(changed)
    else:
        print_lines([f"{which} {said}"])


def _json(text: str | None, option: str) -> Any:
    import msgspec

    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        fail(f"{option}: is not JSON: {error}", code=EXIT_BAD_USAGE)
