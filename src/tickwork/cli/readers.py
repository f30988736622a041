"""`tickwork readers`: roles of the database that may read the rows of one tenant."""

from __future__ import annotations

from typing import Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import OPTION_OF_FIELD, Argument, Database, Json, Tenant
from tickwork.cli.output import print_json, print_lines, print_table
from tickwork.cli.store_session import required, with_context

app = Group(help="Roles of PostgreSQL that read one tenant, for reports: list, grant, revoke.")

RoleName = Annotated[
    str | None, Argument(metavar="ROLE", help="Name of a role of the PostgreSQL server.")
]

_OPTIONS = OPTION_OF_FIELD | {"role": "ROLE", "tenant": "--tenant"}


@app.plain_command("list")
def list_command(database: Database = None, as_json: Json = False) -> None:
    """List the roles, and the tenant that each may read."""
    from tickwork.core.model import SYSTEM
    from tickwork.ops.readers import list_readers

    found = with_context(
        database, SYSTEM, lambda context: list_readers(context.store), names=_OPTIONS
    )
    if as_json:
        print_json(found)
    else:
        rows = [(reader.role, reader.tenant) for reader in found]
        print_table(("role", "tenant"), rows, none="there are no readers")


@app.plain_command("grant")
def grant_command(
    role: RoleName = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Let a role read the rows of a tenant, and of no other."""
    from tickwork.core.model import SYSTEM
    from tickwork.ops.readers import grant_reader

    which, whose = required(role, "ROLE"), required(tenant, "--tenant")
    made = with_context(
        database, SYSTEM, lambda context: grant_reader(context.store, which, whose), names=_OPTIONS
    )
    if as_json:
        print_json(made)
    else:
        print_lines([f"{which} may read tenant {whose}"])


@app.plain_command("revoke")
def revoke_command(role: RoleName = None, database: Database = None, as_json: Json = False) -> None:
    """Take from a role what it may read."""
    from tickwork.core.model import SYSTEM
    from tickwork.ops.readers import revoke_reader

    which = required(role, "ROLE")
    with_context(
        database, SYSTEM, lambda context: revoke_reader(context.store, which), names=_OPTIONS
    )
    if as_json:
        print_json({"role": which, "revoked": True})
    else:
        print_lines([f"{which} may read nothing"])
