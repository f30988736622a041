"""What would happen to runs: the plan of a restart, and replays against the code of an app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tickwork.cli.options import CHOSEN_APP
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    fail,
    print_error,
    print_json,
    print_lines,
    print_table,
)
from tickwork.cli.session import ask
from tickwork.cli.store_session import scope_of, with_context
from tickwork.ops.context import Context

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.client.run_answers import RestartPlan
    from tickwork.workflow.replay import ReplayedRun

RESTART_OPTIONS = {"from_step": "--from-step"}


def restart_plan(
    database: str | None, tenant: str | None, run: str, from_step: str | None
) -> RestartPlan:
    """What a restart of a run would do."""

    async def look(client: Client) -> RestartPlan:
        plan = await client.workflows.get(run).restart(from_step=from_step, dry_run=True)
        assert plan is not None
        return plan

    return ask(database, tenant, look, names=RESTART_OPTIONS)


def print_restart(plan: RestartPlan, *, as_json: bool) -> None:
    """Prints which steps run again, and which effects happen again."""
    if as_json:
        print_json(plan)
        return
    print_lines(
        [
            f"run again: {', '.join(plan.runs) or 'what its code calls'}",
            f"effects happen again: {', '.join(plan.repeats) or 'none'}",
            f"results are kept: {', '.join(plan.keeps) or 'none'}",
        ]
    )


def replay(database: str | None, tenant: str | None, *, as_json: bool, **which: Any) -> None:
    """Replays stored runs against the code of the chosen app, and prints where they diverge. Exits
    with 1 if one does. The runs are those of `database`, or else of the app's own."""
    from tickwork.cli.run import load_app
    from tickwork.facade.app import engine_of
    from tickwork.workflow.replay import replay_runs, undeclared_workflows

    target = CHOSEN_APP.get()
    if target is None:
        fail("--app is missing; give the app whose code replays the runs", code=EXIT_BAD_USAGE)
    declared = engine_of(load_app(target)).registry.workflows
    scope = scope_of(tenant)
    if database is not None:
        CHOSEN_APP.set(None)  # It has given its code and its tenant; the runs are elsewhere.

    async def look(context: Context) -> tuple[list[ReplayedRun], list[str]]:
        found = await replay_runs(context.store, context.scope, declared, **which)
        return found, await undeclared_workflows(context.store, context.scope, declared)

    found, others = with_context(database, scope, look)
    if as_json:
        print_json(found)
    else:
        rows = [
            (run.id, run.workflow, run.status, run.steps, run.divergence or "none") for run in found
        ]
        heading = ("run", "workflow", "status", "steps", "divergence")
        print_table(heading, rows, none="there are no runs")
    for name in others:
        text = f"there are running runs of workflow {name}, which {target} does not declare"
        print_error(f"warning: {text}: they wait until an app that declares it runs")
    if any(run.divergence is not None for run in found):
        raise click.exceptions.Exit(1)
