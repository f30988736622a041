"""`tickwork services`: the services that are called by name."""

from __future__ import annotations

import typer

from tickwork.cli.options import Json
from tickwork.cli.output import print_json, print_table
from tickwork.cli.topology import App, File, topology_of
from tickwork.cli.typer_commands import Command, Group

app = typer.Typer(cls=Group, help="Services: list.")


@app.callback()
def _services() -> None:
    """Services: list."""


@app.command("list", cls=Command)
def list_command(file: File = None, target: App = None, as_json: Json = False) -> None:
    """List the services of a topology file, or those that an app is bound to."""
    services = topology_of(file, target).services
    if as_json:
        print_json(services)
        return
    rows = [
        (service.name, service.url or "in code", ", ".join(service.callers)) for service in services
    ]
    print_table(("service", "url", "callers"), rows, none="there are no services")
