"""`tickwork audit`: who changed what."""

from __future__ import annotations

from tickwork.cli.options import Database, Json, LimitText, Tenant
from tickwork.cli.output import print_json, print_table
from tickwork.cli.session import ask
from tickwork.cli.store_session import whole_number

LISTED = 50


def audit_command(
    limit: LimitText = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """List changes by the API and the command line, newest first."""
    most = whole_number(limit, "--limit", LISTED)
    found = ask(database, tenant, lambda client: client.audit.list(limit=most))
    if as_json:
        print_json(found)
        return
    heading = ("at", "who", "action", "what")
    rows = [(record.at, record.actor, record.action, record.subject) for record in found]
    print_table(heading, rows, none="there are no changes")
