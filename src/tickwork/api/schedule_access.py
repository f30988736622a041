"""How routes name a schedule and a tenant, and show a schedule."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from litestar.params import FromPath, QueryParameter

from tickwork.api.versions import version_etag, with_etag
from tickwork.core.access import Caller, Permission, acting_for, check_access
from tickwork.core.answers.schedule import ScheduleAnswer
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.schedule.model import Schedule
from tickwork.ops.context import Context
from tickwork.ops.schedules.public import show_stored
from tickwork.ops.tenants import get_tenant

ScheduleId = FromPath[str]
"""The id or the name of a schedule."""


async def shown_schedule(context: Context, found: Schedule) -> Response[ScheduleAnswer]:
    (shown,) = await show_stored(context, [found])
    return with_etag(shown, version_etag(found.version))


NamedTenant = Annotated[
    str | None, QueryParameter(description="For the operator: a tenant, or `*` for all of them.")
]
ALL_TENANTS = "*"


async def named_scope(context: Context, caller: Caller, tenant: str | None) -> Scope:
    """The scope of the tenant that a query names: `*` is all of them. Only the operator may name
    another tenant than its own."""
    if tenant == ALL_TENANTS:
        check_access(caller, Permission.ADMIN)
        return SYSTEM
    scope = acting_for(caller, tenant).scope
    if scope != context.scope:
        await get_tenant(context.within(SYSTEM), str(scope.tenant))
    return scope
