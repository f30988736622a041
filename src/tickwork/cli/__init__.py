"""The command line `tickwork`, one module per group of commands.

Contract: a command's result goes to stdout, everything else to stderr. Bad usage prints one line
per fault and exits with 2, any other failure prints one line and exits with 1; a traceback is a
bug. To start fast, commands import what they need when they run.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tickwork import __version__
from tickwork.cli import (
    alerts,
    batches,
    calendars,
    dead,
    deliveries,
    endpoints,
    keys,
    messages,
    queues,
    schedules,
    tenants,
    topology,
    webhooks,
)
from tickwork.cli.cluster import late_command, nodes_command
from tickwork.cli.database import doctor_command, migrate_command
from tickwork.cli.firings import firings, upcoming_all_command, why_command
from tickwork.cli.next import explain_command, next_command
from tickwork.cli.output import EXIT_BAD_USAGE
from tickwork.cli.run import run_command
from tickwork.cli.typer_commands import Command, Group
from tickwork.cli.up import up_command

__all__ = ["app", "main"]

app = typer.Typer(
    name="tickwork",
    cls=Group,
    help="Manage Tickwork schedules, queues and workers.",
    add_completion=False,
    # Plain help and errors: importing rich takes longer than most commands.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("next", cls=Command)(next_command)
app.command("explain", cls=Command)(explain_command)
app.command("up", cls=Command)(up_command)
app.command("run", cls=Command)(run_command)
app.command("migrate", cls=Command)(migrate_command)
app.command("doctor", cls=Command)(doctor_command)
app.command("why", cls=Command)(why_command)
app.command("late", cls=Command)(late_command)
app.command("upcoming", cls=Command)(upcoming_all_command)
app.command("nodes", cls=Command)(nodes_command)
app.command("listen", cls=Command)(webhooks.listen_command)
app.add_typer(schedules.app, name="schedules")
app.add_typer(firings, name="firings")
app.add_typer(calendars.app, name="calendars")
app.add_typer(topology.app, name="topology")
app.add_typer(queues.app, name="queues")
app.add_typer(messages.app, name="messages")
app.add_typer(dead.app, name="dead")
app.add_typer(batches.app, name="batches")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(deliveries.events, name="events")
app.add_typer(endpoints.app, name="endpoints")
app.add_typer(deliveries.app, name="deliveries")
app.add_typer(alerts.app, name="alerts")
app.add_typer(keys.app, name="keys")
app.add_typer(tenants.app, name="tenants")


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
