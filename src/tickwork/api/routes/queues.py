"""Routes for queues: create, list, change, pause, purge, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from litestar import Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, QueryParameter

from tickwork.api.operation import Routes
from tickwork.api.pages import PAGE_LIMIT, Cursor, Limit, Page, page_of, read_cursor
from tickwork.api.versions import (
    IfMatch,
    IfNoneMatch,
    check_match,
    check_none_match,
    etag_of,
    with_etag,
)
from tickwork.core.access import Permission
from tickwork.core.answers.queue import Purged, QueueAnswer
from tickwork.core.model import QueuePosition, QueueSettings, StoredQueue
from tickwork.core.options.queue import QueueOptions
from tickwork.ops import queues
from tickwork.ops.context import Context

routes = Routes("queues")

_EXAMPLES = [
    Example(summary="A queue with the usual settings", value={}),
    Example(
        summary="A queue for slow work",
        value={"max_retries": 5, "visibility_timeout_seconds": 600, "retention_seconds": 604800},
    ),
]
_CHANGE = [Example(summary="More retries", value={"max_retries": 5})]


def _matching(if_match: str | None, name: str) -> Callable[[StoredQueue | None], None] | None:
    """A check that the queue is the version that the caller has read."""
    if if_match is None:
        return None

    def check(known: StoredQueue | None) -> None:
        etag = "" if known is None else _etag(QueueAnswer.of(known))
        check_match(if_match, etag, "queue", name)

    return check


def _fitting(
    if_match: str | None, if_none_match: str | None, name: str
) -> Callable[[StoredQueue | None], None]:
    """A check that the queue is the version that the caller has read, or that there is none."""
    matches = _matching(if_match, name)

    def check(known: StoredQueue | None) -> None:
        if matches is not None:
            matches(known)
        etag = None if known is None else _etag(QueueAnswer.of(known))
        check_none_match(if_none_match, etag, "queue", name)

    return check


def _etag(queue: QueueAnswer) -> str:
    settings = [getattr(queue, name) for name in QueueSettings.__struct_fields__]
    return etag_of(queue.name, queue.shared, settings, queue.paused)


def _shown(queue: QueueAnswer, status_code: int = 200) -> Response[QueueAnswer]:
    return with_etag(queue, _etag(queue), status_code)


@routes.get("/v1/queues", "List queues", needs=Permission.READ)
async def list_queues(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[QueueAnswer]:
    """Returns the queues by name, shared ones too, and those of Tickwork itself that have messages
    or dead letters. `/v1/stats` takes the same cursors."""
    after: QueuePosition | None = read_cursor(cursor, QueuePosition)
    found = await queues.list_queues_in_use(context, limit=limit + 1, after=after)
    return page_of(found, limit, lambda queue: queue.position, QueueAnswer.of)


@routes.get("/v1/queues/{queue:str}", "Get a queue", needs=Permission.READ)
async def get_queue(
    queue: FromPath[str],
    context: NamedDependency[Context],
    counts: Annotated[
        bool, QueryParameter(description="Whether to count its messages, as `/v1/stats` does too.")
    ] = True,
) -> Response[QueueAnswer]:
    """Returns one queue with its settings and how many messages are in each state."""
    await queues.check_readable(context, queue)
    return _shown(await queues.get_queue(context, queue, is_counted=counts))


@routes.put(
    "/v1/queues/{queue:str}",
    "Create or change a queue",
    needs=Permission.MANAGE,
    body=QueueOptions,
    problems=(409, 412),
    created=QueueAnswer,
)
async def put_queue(
    queue: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_EXAMPLES)],
    context: NamedDependency[Context],
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response[QueueAnswer]:
    """Creates a queue for consumers that pull (201), or replaces all its settings (200).

    A queue that an app declares has its settings there: 409.
    """

    check = _fitting(if_match, if_none_match, queue)
    stored, is_new = await queues.put_queue(context, queue, data, check=check)
    return _shown(stored, 201 if is_new else 200)


@routes.patch(
    "/v1/queues/{queue:str}",
    "Change settings of a queue",
    needs=Permission.MANAGE,
    body=QueueOptions,
    problems=(409, 412),
)
async def update_queue(
    queue: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_CHANGE)],
    context: NamedDependency[Context],
    if_match: IfMatch = None,
) -> Response[QueueAnswer]:
    """Changes the given settings; null means the default again, and the others stay.

    An app that declares settings for the queue sets them again when it starts.
    """
    queues.check_visible(queue)
    check = _matching(if_match, queue)
    return _shown(await queues.update_queue(context, queue, data, check=check))


@routes.delete(
    "/v1/queues/{queue:str}",
    "Delete a queue",
    needs=Permission.MANAGE,
    status=204,
    problems=(409, 412),
)
async def delete_queue(
    queue: FromPath[str], context: NamedDependency[Context], if_match: IfMatch = None
) -> None:
    """Deletes a queue without messages and dead letters; purge it first."""
    queues.check_visible(queue)
    await queues.delete_queue(context, queue, check=_matching(if_match, queue))


@routes.post(
    "/v1/queues/{queue:str}/pause", "Pause a queue", needs=Permission.MANAGE, problems=(409,)
)
async def pause_queue(
    queue: FromPath[str], context: NamedDependency[Context]
) -> Response[QueueAnswer]:
    """Hands out no more messages. Sends still work; what is claimed goes on."""
    queues.check_visible(queue)
    await queues.pause_queue(context, queue)
    return _shown(await queues.get_queue(context, queue, is_counted=False))


@routes.post(
    "/v1/queues/{queue:str}/resume", "Resume a queue", needs=Permission.MANAGE, problems=(409,)
)
async def resume_queue(
    queue: FromPath[str], context: NamedDependency[Context]
) -> Response[QueueAnswer]:
    """Hands out messages again."""
    queues.check_visible(queue)
    await queues.resume_queue(context, queue)
    return _shown(await queues.get_queue(context, queue, is_counted=False))


@routes.post("/v1/queues/{queue:str}/purge", "Purge a queue", needs=Permission.MANAGE)
async def purge_queue(queue: FromPath[str], context: NamedDependency[Context]) -> Purged:
    """Deletes every message that is not claimed. Items of batches count as failed."""
    queues.check_visible(queue)
    return Purged(await queues.purge_queue(context, queue))
