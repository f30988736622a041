"""`tickwork audit`: who changed what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwork.cli.command import Group
from tickwork.cli.options import Limit
from tickwork.cli.output import columns

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.audit import AuditRecord

top = Group("Who changed what.")

LISTED = 50


@top.client_command(
    "audit",
    show=columns(
        "at", ("who", "actor"), "action", ("what", "subject"), none="there are no changes"
    ),
)
async def list_changes(client: Client, limit: Limit = LISTED) -> tuple[AuditRecord, ...]:
    """List changes by the API and the command line, newest first."""
    return await client.audit.list(limit=limit)
