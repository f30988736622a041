"""Schedules that code declares: made or brought up to date by name, never deleted unasked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from tickwork.app.declarations import ScheduleDeclaration
from tickwork.core import when
from tickwork.core.model import Scope
from tickwork.core.schedule import Definition, Order, Schedule, ScheduleSelection
from tickwork.core.schedule_reading import read_definition
from tickwork.errors import Conflict, FieldError, InvalidInput
from tickwork.ops import schedules
from tickwork.ops.schedule_facts import holidays_among, limits_of
from tickwork.ops.schedule_making import create
from tickwork.store.contract import Store

_log = logging.getLogger("tickwork")

DECLARED = "declared"
"""In the metadata of a schedule that code declared."""

LOOKED_AT_MAX = 1_000
"""Named schedules among which those are looked for that no code declares any more."""


class Declared(Struct, frozen=True):
    """What became of declarations, by name; `removed` are there, and no longer declared."""

    created: tuple[str, ...]
    updated: tuple[str, ...]
    removed: tuple[str, ...]


async def declare_schedules(
    store: Store,
    scope: Scope,
    declarations: Iterable[ScheduleDeclaration],
    *,
    limits: when.Limits,
) -> Declared:
    """Makes what is not there, and changes what differs; what an operator paused stays paused. What
    is there and no longer declared is told."""
    created: list[str] = []
    updated: list[str] = []
    names: set[str] = set()
    for each in declarations:
        names.add(each.name)
        fields = {**each.fields, "metadata": {**each.fields.get("metadata", {}), DECLARED: True}}
        try:
            if await _declare(store, scope, each.name, fields, limits):
                created.append(each.name)
            elif await _bring_up_to_date(store, scope, each.name, fields, limits):
                updated.append(each.name)
        except InvalidInput as error:
            raise InvalidInput(
                FieldError(f"{each.name}.{fault.field}", fault.message) for fault in error.errors
            ) from None
    removed = await _removed(store, scope, names) if names else ()
    if removed:
        told = "schedules that the code no longer declares go on (`tickwork schedules delete`): %s"
        _log.warning(told, ", ".join(removed))
    return Declared(tuple(created), tuple(updated), removed)


async def _declare(
    store: Store, scope: Scope, name: str, fields: Mapping[str, Any], limits: when.Limits
) -> bool:
    if await store.schedules.find(scope, name) is not None:
        return False
    try:
        await create(store, scope, fields, limits=limits)
    except Conflict:
        return False  # Another process of the app was first.
    return True


async def _bring_up_to_date(
    store: Store, scope: Scope, name: str, fields: Mapping[str, Any], limits: when.Limits
) -> bool:
    known = await store.schedules.find(scope, name)
    if known is None:
        return False
    wanted = await _wanted(store, scope, known, fields, limits)
    if wanted == known.definition:
        return False
    gone = {field: None for field in schedules.fields_of(known) if field not in fields}
    if wanted.rule.timing == known.definition.rule.timing:
        # The same timing again would begin a new count of its intervals.
        fields = {field: value for field, value in fields.items() if field not in _TIMINGS}
        gone = {field: None for field in gone if field not in _TIMINGS}
    await schedules.update(store, scope, known.id, {**gone, **fields}, limits=limits)
    return True


_TIMINGS = frozenset({*when.TIMING_FIELDS, "interval_mode"})


async def _wanted(
    store: Store, scope: Scope, known: Schedule, fields: Mapping[str, Any], limits: when.Limits
) -> Definition:
    """The definition that the fields describe, anchored as the one that is there."""
    definition, _ = read_definition(
        {field: value for field, value in fields.items() if field != "name"},
        schedule_id=known.id,
        created_at=known.definition.rule.anchor,
        calendars=await holidays_among(store, scope, [fields]),
        limits=await limits_of(store, scope, limits),
    )
    timing = known.definition.rule
    is_same = definition.rule.timing == timing.timing
    if is_same and definition.rule.start_at in (None, timing.start_at):
        return structs.replace(
            definition, rule=structs.replace(definition.rule, anchor=timing.anchor)
        )
    return definition


async def _removed(store: Store, scope: Scope, names: set[str]) -> tuple[str, ...]:
    selection = ScheduleSelection(order=Order.NAME)
    found = await store.schedules.list(scope, selection, LOOKED_AT_MAX)
    return tuple(
        each.name
        for each in found
        if each.name is not None and each.name not in names and _is_declared(each)
    )


def _is_declared(schedule: Schedule) -> bool:
    return bool(msgspec.json.decode(schedule.definition.metadata).get(DECLARED))
