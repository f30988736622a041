"""Routes for named limits, which queues and endpoints share."""

from __future__ import annotations

from typing import Annotated, Any

from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath
from msgspec import Meta, Struct

from tickwork.api.operation import Routes
from tickwork.api.pages import PAGE_LIMIT, Cursor, Limit, Page, page_of, read_cursor
from tickwork.core.access import Permission
from tickwork.core.queue.named_limit import NamedLimit
from tickwork.ops import limits
from tickwork.ops.context import Context

routes = Routes("limits")

_PUT = [
    Example(
        summary="100 a minute, at most 5 at a time",
        value={"rate": 100, "period_seconds": 60, "concurrency": 5},
    )
]


class LimitRequest(Struct, frozen=True, kw_only=True):
    """A limit; null means any number."""

    rate: Annotated[float | None, Meta(description="Messages in `period_seconds`.")] = None
    period_seconds: float = 1.0
    concurrency: Annotated[int | None, Meta(description="Messages at a time.")] = None


@routes.get("/v1/limits", "List limits", needs=Permission.READ)
async def list_limits(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[NamedLimit]:
    """Returns the tenant's limits by name."""
    after: str | None = read_cursor(cursor, str)
    every = await limits.list_limits(context)
    found = [named for named in every if after is None or named.name > after]
    return page_of(found, limit, lambda named: named.name, lambda named: named)


@routes.put(
    "/v1/limits/{limit_name:str}",
    "Set a limit",
    needs=Permission.MANAGE,
    body=LimitRequest,
    problems=(429,),
)
async def put_limit(
    limit_name: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_PUT)],
    context: NamedDependency[Context],
) -> NamedLimit:
    """Creates a limit or replaces its numbers. Queues and endpoints name it in `limit`."""
    return await limits.put_limit(context, limit_name, data)


@routes.get("/v1/limits/{limit_name:str}", "Get a limit", needs=Permission.READ)
async def get_limit(limit_name: FromPath[str], context: NamedDependency[Context]) -> NamedLimit:
    """Returns one limit."""
    return await limits.get_limit(context, limit_name)


@routes.delete("/v1/limits/{limit_name:str}", "Delete a limit", needs=Permission.MANAGE, status=204)
async def delete_limit(limit_name: FromPath[str], context: NamedDependency[Context]) -> None:
    """Deletes a limit. What names it is not limited any more."""
    await limits.delete_limit(context, limit_name)
