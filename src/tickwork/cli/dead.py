"""`tickwork dead`: lists, groups, edits, replays and discards dead letters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from tickwork.cli.command import Group
from tickwork.cli.options import (
    After,
    Database,
    Json,
    LetterId,
    LimitText,
    Option,
    QueueText,
    Shared,
    Tenant,
    Watch,
    Yes,
)
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    EXIT_FAILED,
    fail,
    field_lines,
    print_error,
    print_json,
    print_lines,
    print_table,
    progress,
    shortened,
)
from tickwork.cli.session import after_of, ask, is_remote, reference_of
from tickwork.cli.store_session import confirm, number, required, whole_number
from tickwork.cli.watch import watched

if TYPE_CHECKING:
    from datetime import datetime

    from tickwork.client.answers import DeadLetterAnswer, ReplaySummary
    from tickwork.client.client import Client
    from tickwork.core.model import ContentType

app = Group(help="Dead letters: list, group, show, edit, replay, discard.")

LISTED = 100

Reason = Annotated[
    str | None, Option(metavar="REASON", help="Only with this reason, such as max_retries.")
]
Fingerprint = Annotated[str | None, Option(metavar="TEXT", help="Only of this group of errors.")]
Type = Annotated[
    str | None, Option(name="--type", metavar="TYPE", help="Only of this message type.")
]
NoType = Annotated[bool, Option(name="--no-type", help="Only those without a message type.")]
FailedBefore = Annotated[
    str | None,
    Option(metavar="TIME", help="Only those that failed at this time or before."),
]
Ids = Annotated[
    list[str] | None,
    Option(name="--id", metavar="ID", help="Only the one with this id; repeatable."),
]
Canary = Annotated[
    str | None,
    Option(metavar="N", help="Replay N first, and the rest only after they were handled."),
]
CanaryTimeout = Annotated[
    str | None,
    Option(metavar="SECONDS", help="Seconds to wait for the canaries; default 300."),
]
Rate = Annotated[str | None, Option(metavar="N", help="Number of messages per second.")]
Body = Annotated[
    str | None,
    Option(metavar="TEXT", help="New body (bytes as base64); @FILE reads a file, @- stdin."),
]
Content = Annotated[
    str | None,
    Option(
        name="--content-type",
        metavar="json|text|bytes",
        help="New content type; default unchanged.",
    ),
]

_STOPPED = {
    "canary_died": "a canary died again; the rest was not replayed",
    "canary_timeout": "the canaries were not handled in time; the rest was not replayed",
    "backlog_full": "the backlog of the queue is full; the rest was not replayed",
}


@app.plain_command("list")
def list_command(
    name: QueueText = None,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    kind: Type = None,
    no_type: NoType = False,
    failed_before: FailedBefore = None,
    limit: LimitText = None,
    after: After = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """List the open dead letters of a queue, oldest first; without one of all, newest first."""
    most = whole_number(limit, "--limit", LISTED)
    which = _filters(reason, fingerprint, kind, no_type, failed_before)
    more = after_of(after, "dead letter", database, tenant, shared=shared)
    letters = ask(
        database,
        tenant,
        lambda client: client.dead_letters.list(name, **which, limit=most, **more),
        shared=shared,
    )
    if as_json:
        print_json(letters)
        return
    heading = ("id", "queue", "failed_at", "reason", "attempts", "type", "error")
    print_table(heading, _rows(letters), none="there are no dead letters")


@app.plain_command("groups")
def groups_command(
    name: QueueText = None,
    limit: LimitText = None,
    watch: Watch = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Group the open dead letters of a queue by reason, type and error."""
    queue, most = required(name, "QUEUE"), whole_number(limit, "--limit", LISTED)

    def show() -> None:
        groups = ask(
            database,
            tenant,
            lambda client: client.dead_letters.groups(queue, limit=most),
            shared=shared,
        )
        if as_json:
            print_json(groups)
            return
        heading = ("dead_letters", "reason", "type", "last_failed_at", "fingerprint", "example")
        rows = [
            (
                *(group.dead_letters, group.reason, group.type, group.last_failed_at),
                *(group.fingerprint, shortened(group.example or "")),
            )
            for group in groups
        ]
        print_table(heading, rows, none="there are no dead letters")

    watched(show, watch)


@app.plain_command("show")
def show_command(
    letter: LetterId = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Show one dead letter with its body and error."""
    letter_id = reference_of(letter, "ID", "dead letter", database, tenant)
    shown = ask(database, tenant, lambda client: client.dead_letters.get(letter_id))
    if as_json:
        print_json(shown)
    else:
        print_lines(field_lines(shown))


@app.plain_command("edit")
def edit_command(
    letter: LetterId = None,
    body: Body = None,
    content_type: Content = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Replace the body of a dead letter; a replay sends the new one.

    Give bytes as base64; the bytes of a file or of stdin are used unchanged.
    """
    letter_id = reference_of(letter, "ID", "dead letter", database, tenant)
    text, wanted = required(body, "--body"), _content_type(content_type)
    given = _read(text)

    async def edit(client: Client) -> DeadLetterAnswer:
        kind = wanted or (await client.dead_letters.get(letter_id)).content_type
        new = _decoded(_checked(given, kind, is_word=not text.startswith("@")), kind)
        return await client.dead_letters.edit(letter_id, new, content_type=kind)

    edited = ask(database, tenant, edit)
    if as_json:
        print_json(edited)
    else:
        click.echo(f"{edited.id} has a new body; `tickwork dead replay` sends it")


@app.plain_command("replay")
def replay_command(
    name: QueueText = None,
    ids: Ids = None,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    kind: Type = None,
    no_type: NoType = False,
    failed_before: FailedBefore = None,
    limit: LimitText = None,
    canary: Canary = None,
    canary_timeout_seconds: CanaryTimeout = None,
    rate_per_second: Rate = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Send dead letters of a queue again: all, or those that match every option."""
    queue = required(name, "QUEUE")
    which = _filters(reason, fingerprint, kind, no_type, failed_before)
    which["ids"] = _ids(ids, database, tenant, shared=shared)
    most = None if limit is None else whole_number(limit, "--limit", 0)
    canaries = whole_number(canary, "--canary", 0)
    per_second = None if rate_per_second is None else number(rate_per_second, "--rate-per-second")
    waits = dict[str, Any]()
    if canary_timeout_seconds is not None:
        seconds = number(canary_timeout_seconds, "--canary-timeout-seconds")
        waits["canary_timeout_seconds"] = seconds
    with progress(f"replaying {queue}") as on_progress:
        # A server replays in one request and reports no progress.
        reports: dict[str, Any] = {} if is_remote(database) else {"on_progress": on_progress}
        summary = ask(
            database,
            tenant,
            lambda client: client.dead_letters.replay(
                queue,
                **which,
                limit=most,
                canary=canaries,
                rate_per_second=per_second,
                **waits,
                **reports,
            ),
            shared=shared,
        )
    _print_summary(summary, as_json=as_json)


@app.plain_command("discard")
def discard_command(
    name: QueueText = None,
    ids: Ids = None,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    kind: Type = None,
    no_type: NoType = False,
    failed_before: FailedBefore = None,
    limit: LimitText = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Resolve dead letters of a queue without sending them: all, or those that match."""
    queue = required(name, "QUEUE")
    which = _filters(reason, fingerprint, kind, no_type, failed_before)
    which["ids"] = _ids(ids, database, tenant, shared=shared)
    most = None if limit is None else whole_number(limit, "--limit", 0)
    count, until = ask(database, tenant, lambda client: _count(client, queue, which), shared=shared)
    if most is not None:
        count = min(count, most)
    if count:
        letters = "dead letter" if count == 1 else "dead letters"
        confirm(f"Permanently discard {count} {letters} of {queue}?", yes=yes)
    these = {**which, "failed_before": until}
    discarded = ask(
        database,
        tenant,
        lambda client: client.dead_letters.discard(queue, **these, limit=most),
        shared=shared,
    )
    if as_json:
        print_json({"discarded": discarded})
    else:
        click.echo(f"{discarded} discarded")


async def _count(
    client: Client, queue: str, which: Mapping[str, Any]
) -> tuple[int, datetime | str | None]:
    """How many open dead letters are selected, and until when they failed."""
    if which["ids"] is not None:
        await _check_open(client, queue, which["ids"])
        return len(which["ids"]), which["failed_before"]
    filters = {name: value for name, value in which.items() if name != "ids"}
    matching = await client.dead_letters.count(queue, **filters)
    return matching.dead_letters, matching.failed_before


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


def _ids(
    ids: Sequence[str] | None, database: str | None, tenant: str | None, *, shared: bool
) -> list[str] | None:
    if not ids:
        return None
    return [
        reference_of(letter, "--id", "dead letter", database, tenant, shared=shared)
        for letter in ids
    ]


def _filters(
    reason: str | None,
    fingerprint: str | None,
    kind: str | None,
    no_type: bool,
    failed_before: str | None,
) -> dict[str, Any]:
    return {
        "reason": reason,
        "fingerprint": fingerprint,
        "type": kind,
        "no_type": no_type,
        "failed_before": failed_before,
    }


def _print_summary(summary: ReplaySummary, *, as_json: bool) -> None:
    if as_json:
        print_json(summary)
    else:
        click.echo(f"{summary.replayed} replayed")
    if summary.stopped is not None:
        print_error(_STOPPED[summary.stopped])
        raise click.exceptions.Exit(EXIT_FAILED)


def _rows(letters: Iterable[DeadLetterAnswer]) -> Iterator[Sequence[object]]:
    for letter in letters:
        error = shortened(letter.summary or "")
        yield (
            letter.id,
            letter.queue,
            letter.failed_at,
            letter.reason,
            letter.attempts,
            letter.type,
            error,
        )


def _read(body: str) -> bytes:
    if body == "@-":
        return sys.stdin.buffer.read()
    if not body.startswith("@"):
        return body.encode(errors="surrogateescape")
    try:
        return Path(body[1:]).read_bytes()
    except OSError as error:
        fail(f"--body: {body[1:]} cannot be read: {error.strerror}", code=EXIT_BAD_USAGE)


def _content_type(given: str | None) -> ContentType | None:
    from tickwork.core.fields import choice_error
    from tickwork.core.model import ContentType

    if given is None:
        return None
    if (message := choice_error(given, ContentType)) is not None:
        fail(f"--content-type: {message}", code=EXIT_BAD_USAGE)
    return ContentType(given)


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
