"""`tickwork dead`: lists, groups, edits, replays and discards dead letters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct, structs

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Limit, Option, QueueName, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    EXIT_FAILED,
    Report,
    columns,
    counted,
    fail,
    field_lines,
    progress,
    shortened,
)
from tickwork.cli.session import local_context
from tickwork.cli.store_session import confirm
from tickwork.cli.values import choice, given

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.dead_letter import DeadLetter
    from tickwork.core.message.dead_letter import DeadGroup
    from tickwork.core.model import ContentType

dead = Group("Dead letters: list, group, show, edit, replay, discard.")

LISTED = 100

LetterId = Annotated[str, Argument("Id of the dead letter.", "ID", id_of="dead letter")]
Reason = Annotated[str | None, Option("Only with this reason, such as max_retries.", "REASON")]
Fingerprint = Annotated[str | None, Option("Only of this group of errors.", "TEXT")]
Type = Annotated[str | None, Option("Only of this message type.", "TYPE")]
NoType = Annotated[bool, Option("Only those without a message type.")]
FailedBefore = Annotated[
    str | None, Option("Only those that failed at this time or before.", "TIME")
]
Ids = Annotated[
    list[str],
    Option("Only the one with this id; repeatable.", "ID", name="--id", id_of="dead letter"),
]
After = Annotated[
    str,
    Option(
        "Start after this id.",
        "ID",
        id_of="dead letter",
        database_only="; with --server give a larger --limit",
    ),
]
Canary = Annotated[int, Option("Replay N first, and the rest only after they were handled.", "N")]
CanaryTimeout = Annotated[
    float, Option("Seconds to wait for the canaries; default 300.", "SECONDS")
]
Rate = Annotated[float, Option("Number of messages per second.", "N")]
Body = Annotated[str, Option("New body (bytes as base64); @FILE reads a file, @- stdin.", "TEXT")]
Content = Annotated[str, Option("New content type; default unchanged.", "json|text|bytes")]


class Filters(Struct, frozen=True):
    """Which dead letters, by the fields of the verbs."""

    reason: Reason = None
    fingerprint: Fingerprint = None
    type: Type = None
    no_type: NoType = False
    failed_before: FailedBefore = None


_STOPPED = {
    "canary_died": "a canary died again; the rest was not replayed",
    "canary_timeout": "the canaries were not handled in time; the rest was not replayed",
    "backlog_full": "the backlog of the queue is full; the rest was not replayed",
}


def _error(letter: DeadLetter) -> str:
    return shortened(letter.summary or "")


def _example(group: DeadGroup) -> str:
    return shortened(group.example or "")


@dead.client_command(
    "list",
    show=columns(
        *("id", "queue", "failed_at", "reason", "attempts", "type", ("error", _error)),
        none="there are no dead letters",
    ),
    shared=True,
)
async def list_letters(
    client: Client,
    filters: Filters,
    queue: QueueName | None = None,
    limit: Limit = LISTED,
    after: After | None = None,
) -> Sequence[DeadLetter]:
    """List the open dead letters of a queue, oldest first; without one of all, newest first."""
    which = structs.asdict(filters)
    return await client.dead_letters.list(queue, **which, limit=limit, **given(after=after))


@dead.client_command(
    "groups",
    show=columns(
        *("dead_letters", "reason", "type", "last_failed_at", "fingerprint"),
        ("example", _example),
        none="there are no dead letters",
    ),
    shared=True,
    watch=True,
)
async def list_groups(
    client: Client, queue: QueueName, limit: Limit = LISTED
) -> Sequence[DeadGroup]:
    """Group the open dead letters of a queue by reason, type and error."""
    return await client.dead_letters.groups(queue, limit=limit)


@dead.client_command("show", show=field_lines)
async def show_letter(client: Client, letter: LetterId) -> DeadLetter:
    """Show one dead letter with its body and error."""
    return await client.dead_letters.get(letter)


@dead.client_command("edit")
async def edit_letter(
    client: Client, letter: LetterId, body: Body, content_type: Content | None = None
) -> Report:
    """Replace the body of a dead letter; a replay sends the new one.

    Give bytes as base64; the bytes of a file or of stdin are used unchanged.
    """
    from tickwork.core.model import ContentType

    wanted = choice(ContentType, content_type, "--content-type")
    read = _read(body)
    kind = wanted or (await client.dead_letters.get(letter)).content_type
    new = _decoded(_checked(read, kind, is_word=not body.startswith("@")), kind)
    edited = await client.dead_letters.edit(letter, new, content_type=kind)
    return Report(edited, f"{edited.id} has a new body; `tickwork dead replay` sends it")


@dead.client_command("replay", shared=True)
async def replay(
    client: Client,
    queue: QueueName,
    filters: Filters,
    ids: Ids | None = None,
    limit: Limit | None = None,
    canary: Canary = 0,
    canary_timeout_seconds: CanaryTimeout | None = None,
    rate_per_second: Rate | None = None,
) -> Report:
    """Send dead letters of a queue again: all, or those that match every option."""
    waits = given(canary_timeout_seconds=canary_timeout_seconds)
    with progress(f"replaying {queue}") as on_progress:
        # A server replays in one request and reports no progress.
        reports = {} if local_context() is None else {"on_progress": on_progress}
        more: dict[str, Any] = waits | reports
        summary = await client.dead_letters.replay(
            queue,
            **structs.asdict(filters),
            ids=ids,
            limit=limit,
            canary=canary,
            rate_per_second=rate_per_second,
            **more,
        )
    line = f"{summary.replayed} replayed"
    if summary.stopped is None:
        return Report(summary, line)
    return Report(summary, line, exit_code=EXIT_FAILED, notes=[_STOPPED[summary.stopped]])


@dead.client_command("discard", shared=True)
async def discard(
    client: Client,
    queue: QueueName,
    filters: Filters,
    ids: Ids | None = None,
    limit: Limit | None = None,
    yes: Yes = False,
) -> Report:
    """Resolve dead letters of a queue without sending them: all, or those that match."""
    which = structs.asdict(filters)
    if ids is None:
        matching = await client.dead_letters.count(queue, **which)
        count = matching.dead_letters
        which["failed_before"] = matching.failed_before
    else:
        await _check_open(client, queue, ids)
        count = len(ids)
    count = count if limit is None else min(count, limit)
    if count:
        confirm(f"Permanently discard {counted(count, 'dead letter')} of {queue}?", yes=yes)
    discarded = await client.dead_letters.discard(queue, **which, ids=ids, limit=limit)
    return Report({"discarded": discarded}, f"{discarded} discarded")


async def _check_open(client: Client, queue: str, ids: Sequence[str]) -> None:
    """Raises `NotFound` unless all of them are open dead letters of the queue."""
    from tickwork.errors import NotFound

    for id_ in ids:
        missing = NotFound("open dead letter", f"{id_} in queue {queue}", "nothing was done")
        try:
            found = await client.dead_letters.get(id_)
        except NotFound:
            raise missing from None
        if found.resolution is not None or found.queue != queue:
            raise missing


def _read(body: str) -> bytes:
    if body == "@-":
        return sys.stdin.buffer.read()
    if not body.startswith("@"):
        return body.encode(errors="surrogateescape")
    try:
        return Path(body[1:]).read_bytes()
    except OSError as error:
        fail(f"--body: {body[1:]} cannot be read: {error.strerror}", code=EXIT_BAD_USAGE)


def _checked(body: bytes, kind: ContentType, *, is_word: bool) -> bytes:
    """Returns the body; raises `InvalidInput` if it does not match its content type."""
    import base64

    from tickwork.core.message.body import check_json
    from tickwork.core.model import ContentType
    from tickwork.errors import FieldError, InvalidInput

    if kind is ContentType.JSON:
        check_json(body)
    elif kind is ContentType.TEXT:
        try:
            body.decode()
        except UnicodeDecodeError:
            raise InvalidInput([FieldError("body", "must be valid UTF-8")]) from None
    elif is_word:
        try:
            return base64.b64decode(body, validate=True)
        except ValueError:
            fault = "bytes must be base64; to use a file unchanged, pass @FILE"
            raise InvalidInput([FieldError("body", fault)]) from None
    return body


def _decoded(body: bytes, kind: ContentType) -> Any:
    """A body as the verb takes it."""
    from tickwork.core.message.body import decode_body

    return decode_body(body, kind)
