"""`tickwork import`: schedules of crontab files, Celery beat and APScheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Database, Json, Option, Tenant
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    EXIT_FAILED,
    fail,
    print_error,
    print_json,
    print_lines,
)
from tickwork.cli.store_session import load_settings, required, scope_of, with_context
from tickwork.ops.context import Context

if TYPE_CHECKING:
    from tickwork.core.imports import Read
    from tickwork.ops.imports import ImportResult

app = Group(help="Import schedules: crontab, celery-beat, apscheduler; undo.")

_SYSTEM_PLACES = ("/etc/crontab", "/etc/cron.d/")

File = Annotated[str | None, Argument(metavar="FILE", help='Crontab; "-" reads stdin.')]
CelerySource = Annotated[
    str | None,
    Argument(
        metavar="SOURCE", help="MODULE:APP, the file of beat, or the URL of a Django database."
    ),
]
JobSource = Annotated[
    str | None,
    Argument(metavar="SOURCE", help="MODULE:SCHEDULER, or the URL of its job store."),
]
ImportName = Annotated[
    str | None, Option(name="--name", metavar="NAME", help="Name of the import.")
]
UndoName = Annotated[str | None, Argument(metavar="NAME", help="Name of the import.")]
Queue = Annotated[
    str | None, Option(name="--queue", metavar="QUEUE", help="Queue of the messages.")
]
Zone = Annotated[
    str | None, Option(name="--timezone", metavar="ZONE", help="Zone of the file; default UTC.")
]
System = Annotated[
    bool, Option(name="--system", help="Lines have a user, as in /etc/crontab and /etc/cron.d.")
]
DryRun = Annotated[bool, Option(name="--dry-run", help="Change nothing; show what would happen.")]
Skip = Annotated[
    bool, Option(name="--skip-refused", help="Import the rest if entries are refused.")
]


@app.plain_command("crontab")
def crontab_command(
    file: File = None,
    timezone: Zone = None,
    system: System = False,
    name: ImportName = None,
    queue: Queue = None,
    dry_run: DryRun = False,
    skip_refused: Skip = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create a schedule for each line of a crontab; compare the next 100 fires."""
    from tickwork.core.imports.crontab import read_crontab

    path = required(file, "FILE")
    text, is_system = _text(path), system or path.startswith(_SYSTEM_PLACES)
    _run(
        "crontab",
        lambda now: read_crontab(text, timezone=timezone or "UTC", is_system=is_system, start=now),
        name=name or ("crontab" if path == "-" else Path(path).name),
        queue=queue or "crontab",
        options=(dry_run, skip_refused, as_json),
        database=database,
        tenant=tenant,
    )


@app.plain_command("celery-beat")
def celery_command(
    source: CelerySource = None,
    name: ImportName = None,
    queue: Queue = None,
    dry_run: DryRun = False,
    skip_refused: Skip = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create a schedule for each periodic task of Celery; compare the next 100 fires."""
    from tickwork.cli.import_celery import read_celery

    given = required(source, "SOURCE")
    _run(
        "celery-beat",
        lambda now: read_celery(given, now),
        name=name or "celery-beat",
        queue=queue or "celery",
        options=(dry_run, skip_refused, as_json),
        database=database,
        tenant=tenant,
    )


@app.plain_command("apscheduler")
def apscheduler_command(
    source: JobSource = None,
    name: ImportName = None,
    queue: Queue = None,
    dry_run: DryRun = False,
    skip_refused: Skip = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create a schedule for each job of APScheduler 3; compare the next 100 fires."""
    from tickwork.cli.import_apscheduler import read_apscheduler

    given = required(source, "SOURCE")
    _run(
        "apscheduler",
        lambda now: read_apscheduler(given, now),
        name=name or "apscheduler",
        queue=queue or "apscheduler",
        options=(dry_run, skip_refused, as_json),
        database=database,
        tenant=tenant,
    )


@app.plain_command("undo")
def undo_command(
    name: UndoName = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """Delete the schedules of an import."""
    from tickwork.ops.imports import undo_import

    wanted, scope = required(name, "NAME"), scope_of(tenant)
    found = with_context(database, scope, lambda context: undo_import(context, wanted))
    if as_json:
        print_json(found)
    elif not found:
        fail(f"there is no import {wanted}")
    else:
        print_lines([f"deleted {len(found)} schedules of {wanted}"])


def _run(
    system: str,
    read: Callable[[datetime], Read],
    *,
    name: str,
    queue: str,
    options: tuple[bool, bool, bool],
    database: str | None,
    tenant: str | None,
) -> None:
    """Reads with the time of this machine, imports, prints the result; exits with 1 if entries were
    refused."""
    from tickwork import clock
    from tickwork.cli.store_session import report_errors
    from tickwork.ops.imports import import_entries

    is_dry_run, skips_refused, as_json = options
    scope = scope_of(tenant)
    load_settings(database)  # Refuses a server before the source is read.
    # Before the store is opened: a source may start an event loop of its own.
    found = report_errors(lambda: read(clock.now()), names={"timezone": "--timezone"})

    async def work(context: Context) -> ImportResult:
        return await import_entries(
            context,
            found,
            system=system,
            name=name,
            queue=queue,
            is_dry_run=is_dry_run,
            skips_refused=skips_refused,
        )

    result = with_context(database, scope, work, create=True)
    if as_json:
        print_json(result)
    else:
        print_lines(_lines(result))
    if result.refused and not skips_refused:
        if not is_dry_run:
            advice = "change these entries, or pass --skip-refused"
            print_error(f"nothing was imported: {len(result.refused)} refused; {advice}")
        raise click.exceptions.Exit(EXIT_FAILED)


def _text(path: str) -> str:
    import sys

    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        fail(f"there is no file {path}", code=EXIT_BAD_USAGE)
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}", code=EXIT_BAD_USAGE)
    except UnicodeDecodeError:
        fail(f"{path} is not valid UTF-8", code=EXIT_BAD_USAGE)


def _lines(result: ImportResult) -> Iterator[str]:
    for action, schedules in (
        ("create", result.created),
        ("keep", result.kept),
        ("delete", result.deleted),
    ):
        for schedule in schedules:
            yield f"{action:6}  {schedule.name}  {schedule.timing}  {schedule.entry}"
    for refused in result.refused:
        yield f"refuse  {refused.label}: {refused.reason}"
    for difference in result.differences:
        yield f"differs {difference.label}: {difference.text}: {difference.reason}"
        for word, fires in (("old", difference.only_old), ("new", difference.only_new)):
            if fires:
                times = ", ".join(f"{at:%Y-%m-%d %H:%M:%SZ}" for at in fires)
                yield f"          only {word}: {times}"
    for note in result.notes:
        yield f"note    {note}"
    verb = "imported" if result.is_done else "would import"
    yield (
        f"{verb} {result.name} to queue {result.queue}: {len(result.created)} new, "
        f"{len(result.kept)} kept, {len(result.deleted)} deleted, {len(result.refused)} refused"
    )
