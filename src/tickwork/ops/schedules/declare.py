"""Creates and updates the schedules that code declares, by name; never deletes one.

A schedule's metadata names the app that declared it. Two apps may declare the same name: the second
one's schedule is stored as `app.name`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.app.app_name import qualified_schedule_name
from tickwork.app.declarations import ScheduleDeclaration
from tickwork.app.payloads import Payload
from tickwork.core import when
from tickwork.core.fields import Reader
from tickwork.core.schedule.fields import SCHEDULE_FIELDS, read_definition, read_new_name
from tickwork.core.schedule.model import (
    Definition,
    Schedule,
    ScheduleOrder,
    ScheduleSelection,
    ScheduleStatus,
    read_rule,
    rule_text,
)
from tickwork.errors import Conflict, FieldError, InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.schedules.change import replace
from tickwork.ops.schedules.create import create
from tickwork.ops.schedules.lookup import as_typed, holidays_among, limits_of

_log = logging.getLogger("tickwork")

DECLARED = "declared"
"""Metadata field of a schedule that code declared: the name of the app. It was `true` before apps
had names; the first app that declares such a schedule takes it over."""

NAME_TAKEN = (
    "another app has a schedule named %r, so the one of this app is named %r; if this app was "
    "renamed, delete the old one (`tickwork schedules delete`) or give the app its old name"
)

TAKEN_OVER = (
    "schedule %r was declared before apps had names: its slots went to the queue %r and go to %r "
    "now; messages that wait in the old queue are handled by @app.schedule(queue=…) only"
)

TRIES_MAX = 10
"""Number of attempts to apply a declaration while other processes change the schedule."""

PAGE = 1_000
"""Number of schedules listed at a time."""

SEARCHED_MAX = 20_000
"""Maximum number of named schedules to search for ones that are no longer declared: there may be
millions, and every process start searches."""


class Declared(Struct, frozen=True):
    """The result of declaring schedules, by name. `removed` are stored and not completed, but no
    longer declared."""

    created: tuple[str, ...]
    updated: tuple[str, ...]
    removed: tuple[str, ...]


class _Done(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    NOTHING = "nothing"


async def declare_schedules(
    context: Context, declarations: Iterable[ScheduleDeclaration], *, app: str
) -> Declared:
    """Creates declared schedules that do not exist and updates those that differ.

    A schedule that an operator paused stays paused. Schedules that this app no longer declares are
    logged and kept; those of other apps are not its business.
    """
    done: dict[str, _Done] = {}
    for declaration in declarations:
        try:
            name, what = await _declare(context, app, declaration)
            done[name] = what
        except InvalidInput as error:
            raise InvalidInput(
                FieldError(f"{declaration.name}.{fault.field}", fault.message)
                for fault in error.errors
            ) from None
    removed = await _removed(context, app, done.keys())
    if removed:
        warning = "no longer declared but still firing (`tickwork schedules delete`): %s"
        _log.warning(warning, ", ".join(removed))
    return Declared(
        tuple(name for name, what in done.items() if what is _Done.CREATED),
        tuple(name for name, what in done.items() if what is _Done.UPDATED),
        removed,
    )


def checked_declaration(fields: Mapping[str, Any], payload: Payload[Any]) -> dict[str, Any]:
    """Returns the fields of a schedule in code, with its payload as JSON values of this type.

    Raises `InvalidInput` with every fault that shows without a database. Limits and calendars are
    checked when the schedule is stored.
    """
    faults: list[FieldError] = []
    Reader(fields, faults).refuse_unknown(SCHEDULE_FIELDS | _OF_FUNCTIONS)
    read_new_name(fields, faults)
    try:
        fields = as_typed(fields, payload)
    except InvalidInput as error:
        faults += error.errors
        fields = {**fields, "payload": None}
    calendar = fields.get("calendar")
    try:
        read_definition(
            {field: value for field, value in fields.items() if field in SCHEDULE_FIELDS},
            schedule_id=UUID(int=0),
            created_at=when.EPOCH,
            calendars={calendar: frozenset()} if isinstance(calendar, str) else {},
            limits=when.Limits(min_interval_seconds=1),
        )
    except InvalidInput as error:
        faults += error.errors
    if faults:
        raise InvalidInput(faults)
    return {**fields}


_OF_FUNCTIONS = frozenset({"queue", "isolation", "max_concurrency", "cpu_seconds", "memory_bytes"})
"""Arguments of `@app.schedule` that are not fields of its schedule."""


async def stored_name(context: Context, app: str, name: str) -> str:
    """The name under which the schedule is stored that this app declares by this name."""
    return (await _find(context, app, name))[0]


async def _find(context: Context, app: str, name: str) -> tuple[str, Schedule | None]:
    """Returns the stored name of a declared schedule, and the schedule if there is one.

    Each name is read once: what shows whose schedule it is, is what the caller goes on with.
    """
    qualified = qualified_schedule_name(app, name)
    own = await context.store.schedules.find(context.scope, qualified)
    if own is not None:
        return qualified, own
    known = await context.store.schedules.find(context.scope, name)
    if known is None or _declared_by(known) in (None, True, app):
        return name, known
    return qualified, None


def _fields(declaration: ScheduleDeclaration, app: str, name: str) -> dict[str, Any]:
    metadata = declaration.fields.get("metadata")
    if metadata is None or isinstance(metadata, Mapping):
        metadata = {**(metadata or {}), DECLARED: app}
    return {**declaration.fields, "name": name, "metadata": metadata}


async def _declare(
    context: Context, app: str, declaration: ScheduleDeclaration
) -> tuple[str, _Done]:
    """Creates or updates one schedule; returns its stored name and what was done."""
    for tries_left in reversed(range(TRIES_MAX)):
        name, known = await _find(context, app, declaration.name)
        fields = _fields(declaration, app, name)
        try:
            if known is None:
                await create(context, fields, may_be_over=True)
                if name != declaration.name:
                    _log.warning(NAME_TAKEN, declaration.name, name)
                return name, _Done.CREATED
            done = await _update_if_different(context, known, fields)
            if _declared_by(known) is True:
                _log.warning(TAKEN_OVER, name, known.definition.queue, fields["target"]["queue"])
            return name, done
        except (Conflict, NotFound):
            # Another process created, changed or deleted it concurrently.
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


async def _update_if_different(
    context: Context, known: Schedule, fields: Mapping[str, Any]
) -> _Done:
    wanted = await _wanted(context, known, fields)
    if wanted == known.definition:
        return _Done.NOTHING
    # Passing the same timing as new would restart its intervals.
    is_anew = wanted.rule.timing != known.definition.rule.timing
    changed = {field: value for field, value in fields.items() if field != "idempotency_key"}
    await replace(context, known, changed, is_anew=is_anew)
    return _Done.UPDATED


async def _wanted(context: Context, known: Schedule, fields: Mapping[str, Any]) -> Definition:
    """Returns the definition that the fields describe, with the stored anchor and with its rule as
    it would be read back from the database."""
    definition, _ = read_definition(
        {field: value for field, value in fields.items() if field != "name"},
        schedule_id=known.id,
        created_at=known.definition.rule.anchor,
        calendars=await holidays_among(context, [fields]),
        limits=(await limits_of(context)).for_owner(known.owner),
    )
    rule, timing = read_rule(rule_text(definition.rule), known.id), known.definition.rule
    if rule.timing == timing.timing and rule.start_at in (None, timing.start_at):
        rule = structs.replace(rule, anchor=timing.anchor)
    return structs.replace(definition, rule=rule)


async def _removed(context: Context, app: str, names: AbstractSet[str]) -> tuple[str, ...]:
    removed: list[str] = []
    after: UUID | None = None
    for _ in range(SEARCHED_MAX // PAGE):
        selection = ScheduleSelection(order=ScheduleOrder.NAME, after=after)
        try:
            found = await context.store.schedules.list(context.scope, selection, PAGE)
        except NotFound:
            return tuple(removed)  # The last schedule of the previous page was pruned.
        # In the order by name, schedules without a name are last.
        named = {schedule.name: schedule for schedule in found if schedule.name is not None}
        removed += [
            name
            for name, value in named.items()
            if name not in names and _is_firing(value) and _declared_by(value) == app
        ]
        if len(named) < PAGE:
            return tuple(removed)
        after = found[-1].id
    note = "searched only the first %d named schedules for ones that are no longer declared"
    _log.info(note, SEARCHED_MAX)
    return tuple(removed)


def _is_firing(schedule: Schedule) -> bool:
    return schedule.status is not ScheduleStatus.COMPLETED


def _declared_by(schedule: Schedule) -> str | bool | None:
    """The app that declared the schedule; None if code did not declare it."""
    found: str | bool | None = msgspec.json.decode(schedule.definition.metadata).get(DECLARED)
    return found
