"""Imports schedules of other systems.

An import has a name and owns the schedules whose metadata has it. To import again makes them equal
to what was read: new entries are created, all or none; the same ones are left alone; what is gone
is deleted. `undo_import` deletes them all.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import msgspec
from msgspec import Struct

from tickwork.core import when
from tickwork.core.imports import (
    Difference,
    Entry,
    Read,
    Refused,
    differences,
    identity_of,
    schedule_body,
)
from tickwork.core.limits import LIST_LIMIT_MAX
from tickwork.core.model import QueueSettings
from tickwork.core.queue.fields import check_queue
from tickwork.core.schedule.model import SCHEDULES_AT_ONCE_MAX, Schedule, ScheduleSelection
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.queues import put_queue
from tickwork.ops.quotas import check_queue_room
from tickwork.ops.schedules.change import delete
from tickwork.ops.schedules.create import check_many, create_many
from tickwork.ops.schedules.lookup import has_queue, metadata_filter

NAME_LENGTH_MAX = 100
"""Maximum characters of the name of an import."""


class ImportedSchedule(Struct, frozen=True):
    """A schedule of an import: its name, and the entry that it stands for."""

    name: str
    entry: str
    timing: str


class ImportResult(Struct, frozen=True, kw_only=True):
    """What an import did, or would do as a dry run."""

    name: str
    queue: str
    created: tuple[ImportedSchedule, ...]
    kept: tuple[ImportedSchedule, ...]
    deleted: tuple[ImportedSchedule, ...]
    refused: tuple[Refused, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    is_done: bool


async def import_entries(
    context: Context,
    read: Read,
    *,
    system: str,
    name: str,
    queue: str,
    is_dry_run: bool = False,
    skips_refused: bool = False,
) -> ImportResult:
    """Creates a schedule for each entry, which sends to the queue; creates the queue if there is
    none. If an entry was refused, nothing changes unless `skips_refused`."""
    _check(name, queue, read)
    now = await context.store.now()
    bodies = _bodies(read.entries, system=system, name=name, queue=queue)
    known = {str(schedule.name): schedule for schedule in await _owned(context, name)}
    new = [body for body in bodies if body["name"] not in known]
    wanted = {str(body["name"]): body for body in bodies}
    gone = [schedule_name for schedule_name in known if schedule_name not in wanted]
    is_done = not is_dry_run and (skips_refused or not read.refused)
    try:
        await check_many(context, new, new_queues={queue})
    except InvalidInput as error:
        raise _by_entry(error, new) from None
    needs_queue = bool(new) and not await has_queue(context, queue)
    if needs_queue:
        await check_queue_room(context)
    if is_done:
        if needs_queue:
            await put_queue(context, queue, {})
        await create_many(context, new)
        for schedule_name in gone:
            await delete(context, known[schedule_name].id)
    return ImportResult(
        name=name,
        queue=queue,
        created=tuple(_shown(body) for body in new),
        kept=tuple(
            _shown(wanted[schedule_name]) for schedule_name in wanted if schedule_name in known
        ),
        deleted=tuple(_stored(known[schedule_name]) for schedule_name in gone),
        refused=read.refused,
        differences=_differences(read.entries, now),
        notes=read.notes,
        is_done=is_done,
    )


async def undo_import(context: Context, name: str) -> tuple[ImportedSchedule, ...]:
    """Deletes the schedules of an import and returns them. Its queue stays."""
    found = await _owned(context, name)
    for schedule in found:
        await delete(context, schedule.id)
    return tuple(map(_stored, found))


async def _owned(context: Context, name: str) -> tuple[Schedule, ...]:
    selection = ScheduleSelection(metadata=metadata_filter({"import": name}))
    return await context.store.schedules.list(context.scope, selection, LIST_LIMIT_MAX)


def _check(name: str, queue: str, read: Read) -> None:
    faults: list[FieldError] = []
    if not 1 <= len(name) <= NAME_LENGTH_MAX:
        faults.append(FieldError("name", f"must have 1 to {NAME_LENGTH_MAX} characters"))
    if len(read.entries) > SCHEDULES_AT_ONCE_MAX:
        fault = f"has {len(read.entries)} entries; at most {SCHEDULES_AT_ONCE_MAX} in one import"
        faults.append(FieldError("entries", fault))
    if faults:
        raise InvalidInput(faults)
    check_queue(queue, QueueSettings())


def _differences(entries: tuple[Entry, ...], now: datetime) -> tuple[Difference, ...]:
    found = [differences(entry, now) for entry in entries]
    return tuple(difference for difference in found if difference is not None)


def _bodies(
    entries: tuple[Entry, ...], *, system: str, name: str, queue: str
) -> list[dict[str, object]]:
    seen: Counter[bytes] = Counter()
    bodies: list[dict[str, object]] = []
    for entry in entries:
        key = msgspec.json.encode(identity_of(entry), order="sorted")
        bodies.append(schedule_body(entry, seen[key], system=system, name=name, queue=queue))
        seen[key] += 1
    return bodies


def _by_entry(error: InvalidInput, bodies: list[dict[str, object]]) -> InvalidInput:
    """The error with the entries that its fields belong to."""
    faults = []
    for fault in error.errors:
        index, _, field = fault.field.removeprefix("[").partition("].")
        is_of_body = field != "" and index.isdigit()
        text = _shown(bodies[int(index)]).entry if is_of_body else fault.field
        faults.append(
            FieldError(text, f"{field}: {fault.message}" if is_of_body else fault.message)
        )
    return InvalidInput(faults)


def _shown(body: dict[str, object]) -> ImportedSchedule:
    metadata, timing = (
        body["metadata"],
        [body[field] for field in when.TIMING_FIELDS if field in body],
    )
    assert isinstance(metadata, dict)
    return ImportedSchedule(str(body["name"]), str(metadata["entry"]), str(timing[0]))


def _stored(schedule: Schedule) -> ImportedSchedule:
    metadata = msgspec.json.decode(schedule.definition.metadata)
    return ImportedSchedule(
        str(schedule.name), str(metadata.get("entry")), when.describe(schedule.definition.rule)
    )
