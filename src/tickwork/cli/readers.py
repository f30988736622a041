"""`tickwork readers`: roles of the database that may read the rows of one tenant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Option
from tickwork.cli.output import Report, columns

if TYPE_CHECKING:
    from tickwork.ops.context import Context

readers = Group("Roles of PostgreSQL that read one tenant, for reports: list, grant, revoke.")

RoleName = Annotated[str, Argument("Name of a role of the PostgreSQL server.", "ROLE")]
OfTenant = Annotated[str, Option('Tenant to act for; default "default".', "TENANT")]


@readers.database_command(
    "list", show=columns("role", "tenant", none="there are no readers"), tenant=False
)
async def list_roles(context: Context) -> Sequence[object]:
    """List the roles, and the tenant that each may read."""
    from tickwork.ops.readers import list_readers

    return await list_readers(context.store)


@readers.database_command("grant", tenant=False)
async def grant(context: Context, role: RoleName, tenant: OfTenant) -> Report:
    """Let a role read the rows of a tenant, and of no other."""
    from tickwork.ops.readers import grant_reader

    made = await grant_reader(context.store, role, tenant)
    return Report(made, f"{role} may read tenant {tenant}")


@readers.database_command("revoke", tenant=False)
async def revoke(context: Context, role: RoleName) -> Report:
    """Take from a role what it may read."""
    from tickwork.ops.readers import revoke_reader

    await revoke_reader(context.store, role)
    return Report({"role": role, "revoked": True}, f"{role} may read nothing")
