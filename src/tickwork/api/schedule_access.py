"""Which schedules a caller may see: all of the tenant, or those of the owner it is bound to."""

from __future__ import annotations

from litestar import Response
from litestar.params import FromPath

from tickwork.api.context import Context, store_of
from tickwork.api.schedule_schemas import ScheduleAnswer
from tickwork.api.versions import version_etag, with_etag
from tickwork.core.access import Caller
from tickwork.core.schedule.model import Schedule
from tickwork.errors import NotFound
from tickwork.ops.schedules import lookup
from tickwork.ops.schedules.public import show_stored

ScheduleId = FromPath[str]
"""The id or the name of a schedule."""


async def own_schedule(context: Context, caller: Caller, reference: str) -> Schedule:
    """The schedule, if the caller may see it. Raises `NotFound`."""
    return await lookup.get_schedule(store_of(context), caller.scope, reference)


def visible_owner(asked: str | None, caller: Caller) -> str | None:
    """The owner whose schedules are listed. Raises `NotFound` for one that the caller may not
    see."""
    if caller.owner is None:
        return asked
    if asked not in (None, caller.owner):
        raise NotFound("owner", asked)
    return caller.owner


async def shown_schedule(
    context: Context, caller: Caller, found: Schedule
) -> Response[ScheduleAnswer]:
    (shown,) = await show_stored(store_of(context), caller.scope, [found])
    return with_etag(ScheduleAnswer.of(shown), version_etag(found.version))
