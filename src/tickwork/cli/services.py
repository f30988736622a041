"""`tickwork services`: the services that are called by name."""

from __future__ import annotations

from tickwork.cli.command import Group
from tickwork.cli.options import Json
from tickwork.cli.output import print_json, print_table
from tickwork.cli.topology import App, File, topology_of

app = Group(help="Services: list.")


@app.plain_command("list")
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
