"""`tickwork import`: schedules of crontab files, Celery beat and APScheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Json, Option
from tickwork.cli.output import EXIT_BAD_USAGE, EXIT_FAILED, Report, fail
from tickwork.cli.store_session import load_settings, with_context

if TYPE_CHECKING:
    from tickwork.core.imports import Read
    from tickwork.ops.context import Context
    from tickwork.ops.imports import ImportResult

imports = Group("Import schedules: crontab, celery-beat, apscheduler; undo.")

_SYSTEM_PLACES = ("/etc/crontab", "/etc/cron.d/")

File = Annotated[str, Argument('Crontab; "-" reads stdin.', "FILE")]
CelerySource = Annotated[
    str, Argument("MODULE:APP, the file of beat, or the URL of a Django database.", "SOURCE")
]
JobSource = Annotated[str, Argument("MODULE:SCHEDULER, or the URL of its job store.", "SOURCE")]
UndoName = Annotated[str, Argument("Name of the import.", "NAME")]
Zone = Annotated[str, Option("Zone of the file; default UTC.", "ZONE")]
System = Annotated[bool, Option("Lines have a user, as in /etc/crontab and /etc/cron.d.")]
Name = Annotated[str | None, Option("Name of the import.", "NAME")]
Queue = Annotated[str | None, Option("Queue of the messages.", "QUEUE")]
DryRun = Annotated[bool, Option("Change nothing; show what would happen.")]
Skip = Annotated[bool, Option("Import the rest if entries are refused.")]


class ImportOptions(Struct, frozen=True):
    """What every import has."""

    name: Name = None
    queue: Queue = None
    dry_run: DryRun = False
    skip_refused: Skip = False


@imports.plain_command("crontab", on_database=True)
def import_crontab(
    file: File, options: ImportOptions, timezone: Zone = "UTC", system: System = False
) -> Report:
    """Create a schedule for each line of a crontab; compare the next 100 fires."""
    from tickwork.core.imports.crontab import read_crontab

    text, is_system = _text(file), system or file.startswith(_SYSTEM_PLACES)
    return _import(
        "crontab",
        lambda now: read_crontab(text, timezone=timezone, is_system=is_system, start=now),
        options,
        name="crontab" if file == "-" else Path(file).name,
        queue="crontab",
    )


@imports.plain_command("celery-beat", on_database=True)
def import_celery(source: CelerySource, options: ImportOptions) -> Report:
    """Create a schedule for each periodic task of Celery; compare the next 100 fires."""
    from tickwork.cli.import_celery import read_celery

    return _import(
        "celery-beat",
        partial(read_celery, source),
        options,
        name="celery-beat",
        queue="celery",
    )


@imports.plain_command("apscheduler", on_database=True)
def import_apscheduler(source: JobSource, options: ImportOptions) -> Report:
    """Create a schedule for each job of APScheduler 3; compare the next 100 fires."""
    from tickwork.cli.import_apscheduler import read_apscheduler

    return _import(
        "apscheduler",
        partial(read_apscheduler, source),
        options,
        name="apscheduler",
        queue="apscheduler",
    )


@imports.database_command("undo")
async def undo(context: Context, name: UndoName, as_json: Json = False) -> Report:
    """Delete the schedules of an import."""
    from tickwork.ops.imports import undo_import

    deleted = await undo_import(context, name)
    if not deleted and not as_json:
        fail(f"there is no import {name}")
    return Report(deleted, f"deleted {len(deleted)} schedules of {name}")


def _import(
    system: str, read: Callable[[datetime], Read], options: ImportOptions, *, name: str, queue: str
) -> Report:
    """Reads with the time of this machine and imports; `name` and `queue` are used without options
    of that name. Exits with 1 if entries were refused."""
    from tickwork import clock
    from tickwork.ops.imports import import_entries

    load_settings()  # Refuses a server before the source is read.
    # Before the store is opened: a source may start an event loop of its own.
    found = read(clock.now())

    async def work(context: Context) -> ImportResult:
        return await import_entries(
            context,
            found,
            system=system,
            name=options.name or name,
            queue=options.queue or queue,
            is_dry_run=options.dry_run,
            skips_refused=options.skip_refused,
        )

    result = with_context(work, create=True)
    if not result.refused or options.skip_refused:
        return Report(result, *_lines(result))
    advice = "change these entries, or pass --skip-refused"
    note = f"nothing was imported: {len(result.refused)} refused; {advice}"
    notes = [] if options.dry_run else [note]
    return Report(result, *_lines(result), exit_code=EXIT_FAILED, notes=notes)


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
