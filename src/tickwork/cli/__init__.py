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
    "next": "next:top.next",
    "explain": "next:top.explain",
    "init": "init:top.init",
    "config": "config:config",
    "up": "up:top.up",
    "run": "run:top.run",
    "migrate": "database:top.migrate",
    "doctor": "database:top.doctor",
    "why": "why:top.why",
    "trace": "why:top.trace",
    "find": "why:top.find",
    "status": "cluster:top.status",
    "stats": "cluster:top.stats",
    "performance": "performance:top.performance",
    "usage": "cluster:top.usage",
    "top": "top:top.top",
    "late": "cluster:top.late",
    "forecast": "forecast:top.forecast",
    "capacity": "capacity:top.capacity",
    "what-if": "capacity:top.what-if",
    "copy": "copy:top.copy",
    "import": "imports:imports",
    "upcoming": "firings:top.upcoming",
    "nodes": "cluster:top.nodes",
    "cluster": "cluster:cluster",
    "audit": "audit:top.audit",
    "listen": "webhooks:top.listen",
    "schedules": "firings:schedules",  # It adds commands to that group.
    "firings": "firings:firings",
    "calendars": "calendars:calendars",
    "topology": "topology:topology",
    "queues": "queues:queues",
    "messages": "messages:messages",
    "history": "history:history",
    "subscriptions": "subscriptions:subscriptions",
    "types": "types:types",
    "dead": "dead:dead",
    "operations": "operations:operations",
    "batches": "batches:batches",
    "workflows": "workflows:workflows",
    "webhooks": "webhooks:webhooks",
    "events": "deliveries:events",
    "endpoints": "endpoints:endpoints",
    "deliveries": "deliveries:deliveries",
    "alerts": "alerts:alerts",
    "limits": "limits:limits",
    "entities": "entities:entities",
    "services": "services:services",
    "keys": "keys:keys",
    "readers": "readers:readers",
    "tenants": "tenants:tenants",
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
