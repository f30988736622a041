"""Shows what tenants use now and what they used, by period."""

from __future__ import annotations

from datetime import datetime

from msgspec import structs

from tickwork.core.answers.queue import Usage
from tickwork.core.answers.usage import UsageAnswer, used_periods
from tickwork.core.limits import LIST_LIMIT_MAX
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.usage import UsageWidth
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.performance import asked_time, roll_up_all
from tickwork.ops.queues import tenant_usage
from tickwork.ops.tenants import get_tenant

ALL_TENANTS = "*"
ROWS_MAX = LIST_LIMIT_MAX
"""Maximum number of amounts that one answer has."""


async def show_usage(
    context: Context,
    *,
    by: UsageWidth | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Usage:
    """Returns what a tenant, or in the system scope all of them, use now; with any of these also
    what they used in that time."""
    if by is None and since is None and until is None:
        return await tenant_usage(context)
    return await tenant_usage(context, await _used(context, by or UsageWidth.DAY, since, until))


async def _used(
    context: Context, by: UsageWidth, since: datetime | None, until: datetime | None
) -> UsageAnswer:
    since, until = await asked_time(context.store, by.width, since, until)
    await roll_up_all(context.store)
    rows = await context.store.usage.list(context.scope, by, since, until, ROWS_MAX)
    if len(rows) == ROWS_MAX:
        fault = f"leaves {ROWS_MAX:,} amounts or more; give a later time, or ask by day"
        raise InvalidInput([FieldError("since", fault)])
    whole = [structs.replace(row, period=since) for row in rows]
    return UsageAnswer(
        by=by,
        since=since,
        until=until,
        totals=used_periods(whole),
        periods=used_periods(rows),
    )


async def within_tenant(context: Context, tenant: str) -> Context:
    """The context of another tenant, or of all for `*`. Raises `NotFound`."""
    if tenant == ALL_TENANTS:
        return context.within(SYSTEM)
    await get_tenant(context.within(SYSTEM), tenant)
    return context.within(Scope(tenant))
