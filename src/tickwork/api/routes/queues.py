"""Routes for queues: create, list, change, pause, purge, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, QueryParameter
from msgspec import UNSET, Meta, Struct, UnsetType

from tickwork.api.operation import operation
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
from tickwork.core.message.backoff import Backoff
from tickwork.core.model import Counts, QueuePosition, StoredQueue
from tickwork.ops import pull, queues
from tickwork.ops.context import Context

_EXAMPLES = [
    Example(summary="A queue with the usual settings", value={}),
    Example(
        summary="A queue for slow work",
        value={"max_retries": 5, "visibility_timeout_seconds": 600, "retention_seconds": 604800},
    ),
]
_CHANGE = [Example(summary="More retries", value={"max_retries": 5})]


class QueueRequest(Struct, frozen=True, kw_only=True):
    """Settings of a queue; a setting that is left out has its default."""

    max_batch_size: Annotated[int, Meta(ge=1, le=100)] = 10
    max_batch_timeout: Annotated[float, Meta(ge=0, le=60, description="Seconds.")] = 5.0
    max_retries: Annotated[int, Meta(ge=0, le=100)] = 3
    dead_letter_queue: Annotated[
        str | None, Meta(description="Another queue, which also gets dead messages.")
    ] = None
    retention_seconds: Annotated[int, Meta(ge=60, le=1_209_600)] = 345_600
    visibility_timeout_seconds: Annotated[
        int, Meta(ge=0, le=43_200, description="How long a pulled message is leased.")
    ] = 30
    timeout_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 900
    backoff: Annotated[
        dict[str, Any] | None, Meta(description='Such as {"kind": "fixed", "seconds": 60}.')
    ] = None
    tenant_claimed_max: int | None = None
    rate_per_second: float | None = None
    backlog_bytes_max: int | None = None
    push_to: Annotated[
        str | None, Meta(description="Name of an endpoint that consumes the queue.")
    ] = None
    limit: Annotated[
        str | None, Meta(description="Name of a limit that it shares with others.")
    ] = None


AtLeast = Annotated[
    tuple[str, ...],
    Meta(description="States of which there may be more messages: counting stops at 50,000."),
]


class QueueAnswer(Struct, frozen=True, kw_only=True):
    """A queue. `mode` says who processes its messages: consumers that `pull`, or the endpoint
    `push_to` or the handlers of the app `declared_by` (`push`). Numbers of messages
    are only in the answer for one queue."""

    name: str
    mode: Annotated[str, Meta(description="pull or push")]
    declared_by: str | None
    shared: Annotated[bool, Meta(description="Whether all tenants use it.")]
    paused: bool
    max_batch_size: int
    max_batch_timeout: float
    max_retries: int
    dead_letter_queue: str | None
    retention_seconds: int
    visibility_timeout_seconds: int
    timeout_seconds: int
    backoff: Backoff
    tenant_claimed_max: int | None
    rate_per_second: float | None
    backlog_bytes_max: int | None
    push_to: str | None
    limit: str | None
    counts: Counts | UnsetType = UNSET
    at_least: AtLeast = ()

    @classmethod
    def of(
        cls,
        queue: StoredQueue,
        counts: Counts | UnsetType = UNSET,
        at_least: tuple[str, ...] = (),
    ) -> QueueAnswer:
        """The answer for a stored queue."""
        fields = queue.settings.__struct_fields__
        settings = {
            name: getattr(queue.settings, name) for name in fields if name in cls.__struct_fields__
        }
        return cls(
            name=queue.name,
            mode="pull" if pull.is_pulled(queue) else "push",
            declared_by=queue.declared_by,
            shared=queue.tenant is None,
            paused=queue.paused,
            counts=counts,
            at_least=at_least,
            **settings,
        )


class Purged(Struct, frozen=True):
    """How many messages were deleted."""

    purged: int


def _matching(if_match: str | None, name: str) -> Callable[[StoredQueue | None], None] | None:
    """A check that the queue is the version that the caller has read."""
    if if_match is None:
        return None
    return lambda known: check_match(if_match, "" if known is None else _etag(known), "queue", name)


def _fitting(
    if_match: str | None, if_none_match: str | None, name: str
) -> Callable[[StoredQueue | None], None]:
    """A check that the queue is the version that the caller has read, or that there is none."""
    matches = _matching(if_match, name)

    def check(known: StoredQueue | None) -> None:
        if matches is not None:
            matches(known)
        check_none_match(if_none_match, None if known is None else _etag(known), "queue", name)

    return check


def _etag(queue: StoredQueue) -> str:
    return etag_of(queue.id, msgspec.to_builtins(queue.settings), queue.paused)


@operation("GET", "/v1/queues", needs=Permission.READ, tag="queues", summary="List queues")
async def list_queues(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[QueueAnswer]:
    """Returns the queues by name, shared ones too, and those of Tickwork itself that have messages
    or dead letters. `/v1/stats` takes the same cursors."""
    after: QueuePosition | None = read_cursor(cursor, QueuePosition)
    found = await queues.list_queues_in_use(context, limit=limit + 1, after=after)
    return page_of(found, limit, lambda queue: queue.position, QueueAnswer.of)


@operation(
    "GET", "/v1/queues/{queue:str}", needs=Permission.READ, tag="queues", summary="Get a queue"
)
async def get_queue(
    queue: FromPath[str],
    context: NamedDependency[Context],
    counts: Annotated[
        bool, QueryParameter(description="Whether to count its messages, as `/v1/stats` does too.")
    ] = True,
) -> Response[QueueAnswer]:
    """Returns one queue with its settings and how many messages are in each state."""
    await queues.check_readable(context, queue)
    stored = await queues.get_queue(context, queue)
    answer = QueueAnswer.of(stored)
    if counts:
        answer = QueueAnswer.of(stored, *await queues.count_messages(context, queue))
    return with_etag(answer, _etag(stored))


@operation(
    "PUT",
    "/v1/queues/{queue:str}",
    needs=Permission.MANAGE,
    tag="queues",
    summary="Create or change a queue",
    body=QueueRequest,
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
    return with_etag(QueueAnswer.of(stored), _etag(stored), 201 if is_new else 200)


@operation(
    "PATCH",
    "/v1/queues/{queue:str}",
    needs=Permission.MANAGE,
    tag="queues",
    summary="Change settings of a queue",
    body=QueueRequest,
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
    stored = await queues.update_queue(context, queue, data, check=check)
    return with_etag(QueueAnswer.of(stored), _etag(stored))


@operation(
    "DELETE",
    "/v1/queues/{queue:str}",
    needs=Permission.MANAGE,
    tag="queues",
    summary="Delete a queue",
    status=204,
    problems=(409, 412),
)
async def delete_queue(
    queue: FromPath[str], context: NamedDependency[Context], if_match: IfMatch = None
) -> None:
    """Deletes a queue without messages and dead letters; purge it first."""
    queues.check_visible(queue)
    await queues.delete_queue(context, queue, check=_matching(if_match, queue))


@operation(
    "POST",
    "/v1/queues/{queue:str}/pause",
    needs=Permission.MANAGE,
    tag="queues",
    summary="Pause a queue",
    problems=(409,),
)
async def pause_queue(
    queue: FromPath[str], context: NamedDependency[Context]
) -> Response[QueueAnswer]:
    """Hands out no more messages. Sends still work; what is claimed goes on."""
    queues.check_visible(queue)
    await queues.pause_queue(context, queue)
    return await _shown(context, queue)


@operation(
    "POST",
    "/v1/queues/{queue:str}/resume",
    needs=Permission.MANAGE,
    tag="queues",
    summary="Resume a queue",
    problems=(409,),
)
async def resume_queue(
    queue: FromPath[str], context: NamedDependency[Context]
) -> Response[QueueAnswer]:
    """Hands out messages again."""
    queues.check_visible(queue)
    await queues.resume_queue(context, queue)
    return await _shown(context, queue)


@operation(
    "POST",
    "/v1/queues/{queue:str}/purge",
    needs=Permission.MANAGE,
    tag="queues",
    summary="Purge a queue",
)
async def purge_queue(queue: FromPath[str], context: NamedDependency[Context]) -> Purged:
    """Deletes every message that is not claimed. Items of batches count as failed."""
    queues.check_visible(queue)
    return Purged(await queues.purge_queue(context, queue))


async def _shown(context: Context, queue: str) -> Response[QueueAnswer]:
    stored = await queues.get_queue(context, queue)
    return with_etag(QueueAnswer.of(stored), _etag(stored))


QUEUE_ROUTES = (
    list_queues,
    get_queue,
    put_queue,
    update_queue,
    delete_queue,
    pause_queue,
    resume_queue,
    purge_queue,
)
