"""`tickwork dead`: lists, groups, edits, replays and discards dead letters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tickwork.cli.options import (
    After,
    Database,
    Json,
    LetterId,
    Limit,
    QueueName,
    Shared,
    Tenant,
    Yes,
)
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    EXIT_FAILED,
    fail,
    print_error,
    print_json,
    print_lines,
    print_table,
    progress,
    shortened,
)
from tickwork.cli.store_session import (
    confirm,
    identity,
    number,
    required,
    scope_of,
    whole_number,
    with_store,
)
from tickwork.cli.typer_commands import Command, Group

if TYPE_CHECKING:
    from uuid import UUID

    from tickwork.core.message.dead_letter import DeadLetter, Selection
    from tickwork.core.model import ContentType, Scope
    from tickwork.ops.dead_letters import ReplaySummary
    from tickwork.ops.stores import Store

app = typer.Typer(cls=Group, help="Dead letters: list, group, show, edit, replay, discard.")

LISTED = 100

Reason = Annotated[
    str | None, typer.Option(metavar="REASON", help="Only with this reason, such as max_retries.")
]
Fingerprint = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Only of this group of errors.")
]
Type = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Only of this message type.")
]
Ids = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only the one with this id; repeatable."),
]
Canary = Annotated[
    str | None,
    typer.Option(metavar="N", help="Replay N first, and the rest only after they were handled."),
]
CanaryTimeout = Annotated[
    str | None,
    typer.Option(metavar="SECONDS", help="Seconds to wait for the canaries; default 300."),
]
Rate = Annotated[str | None, typer.Option(metavar="N", help="Number of messages per second.")]
Body = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="New body (bytes as base64); @FILE reads a file, @- stdin."),
]
Content = Annotated[
    str | None,
    typer.Option(
        "--content-type", metavar="json|text|bytes", help="New content type; default unchanged."
    ),
]

_STOPPED = {
    "canary_died": "a canary died again; the rest was not replayed",
    "canary_timeout": "the canaries were not handled in time; the rest was not replayed",
    "backlog_full": "the backlog of the queue is full; the rest was not replayed",
}


@app.command("list", cls=Command)
def list_command(
    name: QueueName = None,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    kind: Type = None,
    limit: Limit = None,
    after: After = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """List the open dead letters of a queue, oldest first."""
    from tickwork.ops.dead_letters import list_dead_letters

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    most = whole_number(limit, "--limit", LISTED)
    which = _selection(None, reason, fingerprint, kind, database, scope, limit=most)
    begin = None if after is None else identity(after, "--after", "dead letter", database, scope)
    letters = with_store(
        database,
        scope,
        lambda store: list_dead_letters(store, scope, queue, which, after=begin),
    )
    if as_json:
        print_json([_shown(letter) for letter in letters])
        return
    heading = ("id", "failed_at", "reason", "attempts", "type", "error")
    print_table(heading, _rows(letters), none="there are no dead letters")


@app.command("groups", cls=Command)
def groups_command(
    name: QueueName = None,
    limit: Limit = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Group the open dead letters of a queue by reason, type and error."""
    from tickwork.ops.dead_letters import group_dead_letters

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    most = whole_number(limit, "--limit", LISTED)
    groups = with_store(
        database, scope, lambda store: group_dead_letters(store, scope, queue, limit=most)
    )
    if as_json:
        print_json(groups)
        return
    heading = ("dead_letters", "reason", "type", "last_failed_at", "fingerprint")
    rows = [(g.dead_letters, g.reason, g.type, g.last_failed_at, g.fingerprint) for g in groups]
    print_table(heading, rows, none="there are no dead letters")


@app.command("show", cls=Command)
def show_command(
    letter: LetterId = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Show one dead letter with its body and error."""
    from tickwork.ops.dead_letters import get_dead_letter
    from tickwork.ops.queues import queue_names

    scope = scope_of(tenant)
    dead_letter_id = identity(letter, "ID", "dead letter", database, scope)

    async def find(store: Store) -> dict[str, object]:
        found = await get_dead_letter(store, scope, dead_letter_id)
        names = await queue_names(store, scope)
        return {"queue": names.get(found.queue_id), **_shown(found)}

    shown = with_store(database, scope, find)
    if as_json:
        print_json(shown)
    else:
        print_lines(_lines(shown))


@app.command("edit", cls=Command)
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
    from tickwork.ops.dead_letters import edit_dead_letter, get_dead_letter

    scope = scope_of(tenant)
    dead_letter_id = identity(letter, "ID", "dead letter", database, scope)
    text, wanted = required(body, "--body"), _content_type(content_type)
    given = _read(text)

    async def edit(store: Store) -> DeadLetter:
        kind = wanted or (await get_dead_letter(store, scope, dead_letter_id)).content_type
        new = _checked(given, kind, is_word=not text.startswith("@"))
        return await edit_dead_letter(store, scope, dead_letter_id, new, kind)

    edited = with_store(database, scope, edit)
    if as_json:
        print_json(_shown(edited))
    else:
        typer.echo(f"{edited.id} has a new body; `tickwork dead replay` sends it")


@app.command("replay", cls=Command)
def replay_command(
    name: QueueName = None,
    ids: Ids = None,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    kind: Type = None,
    limit: Limit = None,
    canary: Canary = None,
    canary_timeout: CanaryTimeout = None,
    rate: Rate = None,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Send dead letters of a queue again: all, or those that match every option."""
    from tickwork.ops.dead_letters import CANARY_TIMEOUT_SECONDS, replay

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    which = _selection(ids, reason, fingerprint, kind, database, scope)
    most = None if limit is None else whole_number(limit, "--limit", 0)
    canaries = whole_number(canary, "--canary", 0)
    per_second = None if rate is None else number(rate, "--rate")
    timeout = CANARY_TIMEOUT_SECONDS
    if canary_timeout is not None:
        timeout = number(canary_timeout, "--canary-timeout")
    with progress(f"replaying {queue}") as on_progress:
        summary = with_store(
            database,
            scope,
            lambda store: replay(
                store,
                scope,
                queue,
                which,
                limit=most,
                canary=canaries,
                canary_timeout_seconds=timeout,
                rate_per_second=per_second,
                on_progress=on_progress,
            ),
        )
    _print_summary(summary, as_json=as_json)


@app.command("discard", cls=Command)
def discard_command(
    name: QueueName = None,
    ids: Ids = None,
    reason: Reason = None,
    fingerprint: Fingerprint = None,
    kind: Type = None,
    limit: Limit = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    shared: Shared = False,
    as_json: Json = False,
) -> None:
    """Resolve dead letters of a queue without sending them: all, or those that match."""
    from tickwork.ops.dead_letters import discard, select_dead_letters

    queue, scope = required(name, "QUEUE"), scope_of(tenant, shared=shared)
    which = _selection(ids, reason, fingerprint, kind, database, scope)
    most = None if limit is None else whole_number(limit, "--limit", 0)
    selected = with_store(
        database, scope, lambda store: select_dead_letters(store, scope, queue, which, limit=most)
    )
    if selected.letters:
        letters = "dead letter" if selected.letters == 1 else "dead letters"
        confirm(f"Permanently discard {selected.letters} {letters} of {queue}?", yes=yes)
    with progress(f"discarding from {queue}") as on_progress:
        discarded = with_store(
            database,
            scope,
            lambda store: discard(
                store, scope, queue, selected.which, limit=most, on_progress=on_progress
            ),
        )
    if as_json:
        print_json({"discarded": discarded})
    else:
        typer.echo(f"{discarded} discarded")


def _selection(
    ids: Sequence[str] | None,
    reason: str | None,
    fingerprint: str | None,
    kind: str | None,
    database: str | None,
    scope: Scope,
    *,
    limit: int = LISTED,
) -> Selection:
    from tickwork.core.message.dead_letter import Selection

    selected = tuple(_letter_id(each, database, scope) for each in ids) if ids else None
    return Selection(ids=selected, reason=reason, fingerprint=fingerprint, type=kind, limit=limit)


def _letter_id(given: str, database: str | None, scope: Scope) -> UUID:
    return identity(given, "--id", "dead letter", database, scope)


def _print_summary(summary: ReplaySummary, *, as_json: bool) -> None:
    if as_json:
        print_json(summary)
    else:
        typer.echo(f"{summary.replayed} replayed")
    if summary.stopped is not None:
        print_error(_STOPPED[summary.stopped])
        raise typer.Exit(EXIT_FAILED)


def _rows(letters: Iterable[DeadLetter]) -> Iterator[Sequence[object]]:
    from tickwork.core.message.error_summary import summary_line

    for each in letters:
        error = shortened(summary_line(each.error))
        yield (each.id, each.failed_at, each.reason, each.attempts, each.type, error)


def _shown(letter: DeadLetter) -> dict[str, object]:
    """Returns a dead letter with its body decoded; JSON encodes bytes as base64."""
    from msgspec import structs

    from tickwork.core.message.body import decode_body

    shown = structs.asdict(letter)
    del shown["idempotency_base"], shown["death"]
    body = decode_body(letter.body, letter.content_type)
    return shown | {"idempotency_key": letter.idempotency_key, "died": letter.died, "body": body}


def _lines(shown: dict[str, object]) -> Iterator[str]:
    import msgspec

    width = max(map(len, shown))
    for name, value in msgspec.to_builtins(shown).items():
        if value is not None:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            first, *others = text.removesuffix("\n").replace("\r\n", "\n").split("\n")
            if isinstance(shown[name], bytes):
                name = f"{name} (base64)"
            yield f"{name:{width}}  {first}".rstrip()
            yield from (f"{'':{width}}  {line}".rstrip() for line in others)


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
