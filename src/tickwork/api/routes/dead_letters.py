"""Routes for dead letters: list, group, look, edit, replay, discard."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, FromQuery, QueryParameter
from msgspec import Meta, Struct, structs

from tickwork.api.operation import Routes
from tickwork.api.pages import (
    PAGE_LIMIT,
    Cursor,
    Limit,
    Listed,
    Page,
    read_cursor,
    read_filtered,
)
from tickwork.api.query import body_reader, finished
from tickwork.core.access import Permission
from tickwork.core.answers.dead_letter import DeadGroups, DeadLetter, Discarded, ReplaySummary
from tickwork.core.answers.ids import Prefix, read_path_id
from tickwork.core.fields import read_instant
from tickwork.core.message.dead_letter import MatchingDeadLetters, Selection
from tickwork.core.message.dead_letter_fields import read_selection
from tickwork.core.operation import CANARIES_MAX
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN
from tickwork.errors import NotFound
from tickwork.ops import dead_letters
from tickwork.ops.context import Context
from tickwork.ops.dead_letter_edits import edit_with_encoded
from tickwork.ops.queues import queue_names
from tickwork.ops.read_message import read_body

CANARY_SECONDS_MAX = 60.0
"""Maximum number of seconds that a request waits for canaries."""

routes = Routes("dead letters")

_REPLAY = [
    Example(summary="All of them", value={}),
    Example(summary="One first, then 10 a second", value={"canary": 1, "rate_per_second": 10}),
]
_EDIT = [Example(summary="Another body", value={"body": {"to": "ada@example.com"}})]


class EditRequest(Struct, frozen=True, kw_only=True):
    """The body that a replay sends."""

    body: Any
    content_type: Literal["json", "text", "bytes"] = "json"


class ReplayRequest(Struct, frozen=True, kw_only=True):
    """Which dead letters to send again, and how."""

    ids: list[str] | None = None
    reason: str | None = None
    fingerprint: str | None = None
    type: str | None = None
    no_type: Annotated[bool, Meta(description="Only those without a type.")] = False
    failed_before: Annotated[datetime | None, Meta(description="Or at that time.")] = None
    limit: int | None = None
    canary: Annotated[int, Meta(ge=0, description="So many first; the rest if they succeed.")] = 0
    rate_per_second: Annotated[float | None, Meta(description="Messages a second.")] = None
    canary_timeout_seconds: float = 30.0


class DiscardRequest(Struct, frozen=True, kw_only=True):
    """Which dead letters to discard."""

    ids: list[str] | None = None
    reason: str | None = None
    fingerprint: str | None = None
    type: str | None = None
    no_type: Annotated[bool, Meta(description="Only those without a type.")] = False
    failed_before: Annotated[datetime | None, Meta(description="Or at that time.")] = None
    limit: int | None = None


@routes.get("/v1/queues/{queue:str}/dead", "List dead letters", needs=Permission.READ)
async def list_dead_letters(
    queue: FromPath[str],
    context: NamedDependency[Context],
    reason: FromQuery[str | None] = None,
    fingerprint: FromQuery[str | None] = None,
    of_type: Annotated[str | None, QueryParameter(name="type")] = None,
    no_type: FromQuery[bool] = False,
    failed_before: FromQuery[str | None] = None,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[DeadLetter]:
    """Returns the open dead letters of a queue, oldest first. `no_type` selects those without a
    type.

    A page looks at 10,000 dead letters for each 64 that it shows. Where few match it is short or
    empty, and its `next_cursor` goes on behind them: the last page is the one without a
    `next_cursor`.
    """
    selection = Selection(
        reason=reason,
        fingerprint=fingerprint,
        type=of_type,
        no_type=no_type,
        failed_before=read_instant("failed_before", failed_before),
    )
    after: UUID | None = read_cursor(cursor, UUID)

    async def read(count: int, after: UUID | None) -> Listed[DeadLetter, UUID]:
        found = await dead_letters.list_dead_letters(
            context,
            queue,
            structs.replace(selection, limit=count),
            after=after,
        )
        shown = await dead_letters.show_dead_letters(context, found.letters, as_json=True)
        return Listed(shown, found.next)

    return await read_filtered(read, limit, after)


@routes.get("/v1/dead", "List the dead letters of all queues", needs=Permission.READ)
async def list_all_dead_letters(
    context: NamedDependency[Context],
    reason: FromQuery[str | None] = None,
    fingerprint: FromQuery[str | None] = None,
    of_type: Annotated[str | None, QueryParameter(name="type")] = None,
    failed_before: FromQuery[str | None] = None,
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[DeadLetter]:
    """Returns the open dead letters of all queues, newest first, those of runs and entities too.

    Pages are as those of one queue: where few dead letters match a filter, a page may be short or
    empty and have a `next_cursor`.
    """
    selection = Selection(
        reason=reason,
        fingerprint=fingerprint,
        type=of_type,
        failed_before=read_instant("failed_before", failed_before),
        limit=limit,
    )
    after: UUID | None = read_cursor(cursor, UUID)

    async def read(count: int, after: UUID | None) -> Listed[DeadLetter, UUID]:
        found = await dead_letters.list_dead_letters(
            context, None, structs.replace(selection, limit=count), after=after
        )
        shown = await dead_letters.show_dead_letters(context, found.letters, as_json=True)
        return Listed(shown, found.next)

    return await read_filtered(read, limit, after)


@routes.get("/v1/queues/{queue:str}/dead/groups", "Group dead letters", needs=Permission.READ)
async def group_dead_letters(
    queue: FromPath[str], context: NamedDependency[Context], limit: Limit = PAGE_LIMIT
) -> DeadGroups:
    """Groups the open dead letters of a queue by reason, error and type."""
    return DeadGroups(await dead_letters.group_dead_letters(context, queue, limit=limit))


@routes.get("/v1/queues/{queue:str}/dead/count", "Count dead letters", needs=Permission.READ)
async def count_dead_letters(
    queue: FromPath[str],
    context: NamedDependency[Context],
    reason: FromQuery[str | None] = None,
    fingerprint: FromQuery[str | None] = None,
    of_type: Annotated[str | None, QueryParameter(name="type")] = None,
    no_type: FromQuery[bool] = False,
    failed_before: FromQuery[str | None] = None,
) -> MatchingDeadLetters:
    """Counts the open dead letters that match. A replay or discard with the `failed_before` of this
    answer takes none that failed later."""
    which = Selection(
        reason=reason,
        fingerprint=fingerprint,
        type=of_type,
        no_type=no_type,
        failed_before=read_instant("failed_before", failed_before),
    )
    return await dead_letters.count_dead_letters(context, queue, which)


@routes.get("/v1/dead/{dead_letter:str}", "Get a dead letter", needs=Permission.READ)
async def get_dead_letter(
    dead_letter: FromPath[str], context: NamedDependency[Context]
) -> DeadLetter:
    """Returns one dead letter, open or resolved."""
    return await _shown(context, _id(dead_letter))


@routes.patch(
    "/v1/dead/{dead_letter:str}",
    "Edit a dead letter",
    needs=Permission.MANAGE,
    body=EditRequest,
    problems=(409,),
)
async def edit_dead_letter(
    dead_letter: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_EDIT)],
    context: NamedDependency[Context],
) -> DeadLetter:
    """Replaces the body of an open dead letter; a replay sends the new one."""
    wanted = _id(dead_letter)
    body, content_type = read_body(data)
    await edit_with_encoded(context, wanted, body, content_type)
    return await _shown(context, wanted)


@routes.post(
    "/v1/dead/{dead_letter:str}/replay",
    "Replay a dead letter",
    needs=Permission.MANAGE,
    problems=(409, 429),
)
async def replay_dead_letter(
    dead_letter: FromPath[str], context: NamedDependency[Context]
) -> DeadLetter:
    """Sends a dead letter again, as a new message at the end of its queue."""
    wanted = _id(dead_letter)
    queue = await _queue_of(context, wanted)
    which = Selection(ids=(wanted,))
    await dead_letters.replay(context, queue, which)
    return await _shown(context, wanted)


@routes.post("/v1/dead/{dead_letter:str}/discard", "Discard a dead letter", needs=Permission.MANAGE)
async def discard_dead_letter(
    dead_letter: FromPath[str], context: NamedDependency[Context]
) -> DeadLetter:
    """Resolves a dead letter without sending it."""
    wanted = _id(dead_letter)
    queue = await _queue_of(context, wanted)
    await dead_letters.discard(context, queue, Selection(ids=(wanted,)))
    return await _shown(context, wanted)


@routes.post(
    "/v1/queues/{queue:str}/dead/replay",
    "Replay dead letters of a queue",
    needs=Permission.MANAGE,
    body=ReplayRequest,
    problems=(429,),
)
async def replay_dead_letters(
    queue: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_REPLAY)],
    context: NamedDependency[Context],
) -> ReplaySummary:
    """Sends dead letters again, oldest first. With `canary` so many go first, and the rest only if
    they were handled in time: a consumer must be running."""
    reader = body_reader(data, *ReplayRequest.__struct_fields__)
    which, limit = read_selection(reader)
    canary = reader.integer("canary", 0, CANARIES_MAX, 0)
    rate = None
    if reader.has("rate_per_second"):
        kind = "a number of messages a second"
        rate = reader.number_between("rate_per_second", RATE_MIN, RATE_MAX, kind)
    timeout: float | None = 30.0
    if reader.has("canary_timeout_seconds"):
        timeout = reader.number_between(
            "canary_timeout_seconds", 1, CANARY_SECONDS_MAX, "a number of seconds"
        )
    finished(reader)
    return await dead_letters.replay(
        context,
        queue,
        which,
        limit=limit,
        canary=canary or 0,
        rate_per_second=rate,
        canary_timeout_seconds=timeout or 1.0,
    )


@routes.post(
    "/v1/queues/{queue:str}/dead/discard",
    "Discard dead letters of a queue",
    needs=Permission.MANAGE,
    body=DiscardRequest,
)
async def discard_dead_letters(
    queue: FromPath[str], data: Annotated[dict[str, Any], Body()], context: NamedDependency[Context]
) -> Discarded:
    """Resolves dead letters without sending them."""
    reader = body_reader(data, *DiscardRequest.__struct_fields__)
    which, limit = read_selection(reader)
    finished(reader)
    return Discarded(await dead_letters.discard(context, queue, which, limit=limit))


def _id(text: str) -> UUID:
    return read_path_id(Prefix.DEAD_LETTER, text, "dead letter")


async def _queue_of(context: Context, wanted: UUID) -> str:
    letter = await dead_letters.find_dead_letter(context, wanted)
    queue = (await queue_names(context)).get(letter.queue_id)
    if queue is None:
        raise NotFound("queue", letter.queue_id)
    return queue


async def _shown(context: Context, wanted: UUID) -> DeadLetter:
    return await dead_letters.get_dead_letter(context, wanted, as_json=True)
