"""`tickwork services`: the services that are called by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwork.cli.command import Group
from tickwork.cli.output import columns
from tickwork.cli.topology import App, File, topology_of

if TYPE_CHECKING:
    from tickwork.core.topology import ServiceEntry

services = Group("Services: list.")


def _url(service: ServiceEntry) -> str:
    return service.url or "in code"


def _callers(service: ServiceEntry) -> str:
    return ", ".join(service.callers)


@services.plain_command(
    "list",
    show=columns(
        ("service", "name"), ("url", _url), ("callers", _callers), none="there are no services"
    ),
)
def list_services(file: File | None = None, target: App | None = None) -> tuple[ServiceEntry, ...]:
    """List the services of a topology file, or those that an app is bound to."""
    return topology_of(file, target).services
