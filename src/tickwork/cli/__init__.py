"""The command line `tickwork`, one module per group of commands.

Contract: a command's result goes to stdout, everything else to stderr. Bad usage prints one line
per fault and exits with 2, any other failure prints one line and exits with 1; a traceback is a
bug. To start fast, commands import what they need when they run.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from tickwork import __version__
from tickwork.cli.command import Group, LateCommands
from tickwork.cli.output import EXIT_BAD_USAGE

__all__ = ["app", "main"]


COMMANDS = {
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
    "queues": "queues:queues",
    "messages": "messages:app",
    "subscriptions": "subscriptions:app",
    "dead": "dead:app",
    "batches": "batches:app",
    "workflows": "workflows:app",
    "webhooks": "webhooks:app",
    "events": "deliveries:events",
    "endpoints": "endpoints:endpoints",
    "deliveries": "deliveries:app",
    "alerts": "alerts:app",
    "limits": "limits:app",
    "entities": "entities:app",
    "services": "services:app",
    "keys": "keys:app",
    "readers": "readers:app",
    "tenants": "tenants:app",
}
"""Where each command or group of commands is; it is imported when it is used."""


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        click.echo(f"tickwork {__version__}")
        context.exit()


def _show_completion(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from tickwork.cli.completion import completion_script

        click.echo(completion_script(app))
        context.exit()


def _install_completion(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from tickwork.cli.completion import install_completion

        click.echo(install_completion())
        context.exit()


def _option(name: str, callback: Callable[..., None], text: str) -> click.Option:
    return click.Option(
        [name], is_flag=True, is_eager=True, expose_value=False, callback=callback, help=text
    )


@click.pass_context
def _help(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(EXIT_BAD_USAGE)


app = Group(
    "Manage Tickwork schedules, queues and workers.",
    name="tickwork",
    invoke_without_command=True,
    callback=_help,
    params=[
        _option("--version", _show_version, "Show the version and exit."),
        _option(
            "--install-completion", _install_completion, "Install completion for the current shell."
        ),
        _option(
            "--show-completion",
            _show_completion,
            "Show completion for the current shell, to copy it or customize the installation.",
        ),
    ],
)
app.commands = LateCommands(COMMANDS)  # type: ignore[assignment]  # click only reads it.


def main() -> None:
    """Runs the command line."""
    app()
