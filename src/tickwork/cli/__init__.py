"""The command line `tickwork`, one module per group of commands.

Contract: a command's result goes to stdout, everything else to stderr. Bad usage prints one line
per fault and exits with 2, any other failure prints one line and exits with 1; a traceback is a
bug. To start fast, commands import what they need when they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from tickwork import __version__
from tickwork.cli.output import EXIT_BAD_USAGE
from tickwork.cli.typer_commands import RootGroup

__all__ = ["app", "main"]


class _Commands(RootGroup):
    """Where each command or group of commands is; it is imported when it is used."""

    where: ClassVar[Mapping[str, str]] = {
        "next": "next:next_command",
        "explain": "next:explain_command",
        "init": "init:init_command",
        "config": "config:app",
        "up": "up:up_command",
        "run": "run:run_command",
        "migrate": "database:migrate_command",
        "doctor": "database:doctor_command",
        "why": "why:why_command",
        "trace": "why:trace_command",
        "status": "cluster:status_command",
        "stats": "cluster:stats_command",
        "usage": "cluster:usage_command",
        "top": "top:top_command",
        "late": "cluster:late_command",
        "forecast": "forecast:forecast_command",
        "copy": "copy:copy_command",
        "import": "imports:app",
        "upcoming": "firings:upcoming_all_command",
        "nodes": "cluster:nodes_command",
        "cluster": "cluster:app",
        "audit": "audit:audit_command",
        "listen": "webhooks:listen_command",
        "schedules": "firings:app",  # It adds commands to that group.
        "firings": "firings:firings",
        "calendars": "calendars:app",
        "topology": "topology:app",
        "queues": "queues:app",
        "messages": "messages:app",
        "subscriptions": "subscriptions:app",
        "dead": "dead:app",
        "batches": "batches:app",
        "workflows": "workflows:app",
        "webhooks": "webhooks:app",
        "events": "deliveries:events",
        "endpoints": "endpoints:app",
        "deliveries": "deliveries:app",
        "alerts": "alerts:app",
        "limits": "limits:app",
        "entities": "entities:app",
        "services": "services:app",
        "keys": "keys:app",
        "readers": "readers:app",
        "tenants": "tenants:app",
    }


app = typer.Typer(
    name="tickwork",
    cls=_Commands,
    help="Manage Tickwork schedules, queues and workers.",
    add_completion=True,
    # Plain help and errors: importing rich takes longer than most commands.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tickwork {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    assert not version  # Its callback exits.
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(EXIT_BAD_USAGE)


def main() -> None:
    """Runs the command line."""
    app()
