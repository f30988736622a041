"""`tickwork audit`: who changed what."""

from __future__ import annotations

from tickwork.cli.options import Database, Json, Limit, Tenant
from tickwork.cli.output import print_json, print_table
from tickwork.cli.store_session import scope_of, whole_number, with_store

LISTED = 50


def audit_command(
    limit: Limit = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """List changes by the API and the command line, newest first."""
    from tickwork.ops.audit import list_audit

    scope, most = scope_of(tenant), whole_number(limit, "--limit", LISTED)
    found = with_store(database, scope, lambda store: list_audit(store, scope, limit=most))
    if as_json:
        print_json(found)
        return
    heading = ("at", "who", "action", "what")
    rows = [(each.at, each.actor, each.action, each.subject) for each in found]
    print_table(heading, rows, none="there are no changes")
