"""Schedules that code declares: made or brought up to date by name, never deleted unasked."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.app.declarations import ScheduleDeclaration
from tickwork.core import when
from tickwork.core.model import Scope
from tickwork.core.schedule.fields import read_definition
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
from tickwork.ops.schedules import change as schedules
from tickwork.ops.schedules.create import create
from tickwork.ops.schedules.lookup import holidays_among, limits_of
from tickwork.store.contract import Store

_log = logging.getLogger("tickwork")

DECLARED = "declared"
"""In the metadata of a schedule that code declared."""

TRIES_MAX = 10
"""So often a declaration is compared anew with what another process made of it meanwhile."""

PAGE = 1_000
LOOKED_AT_MAX = 20_000
"""Named schedules among which those are looked for that no code declares any more: there may be
millions, and every start looks."""


class Declared(Struct, frozen=True):
    """What became of declarations, by name; `removed` are there, not over,
    and no longer declared."""

    created: tuple[str, ...]
    updated: tuple[str, ...]
    removed: tuple[str, ...]


class _Done(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    NOTHING = "nothing"


async def declare_schedules(
    store: Store,
    scope: Scope,
    declarations: Iterable[ScheduleDeclaration],
    *,
    limits: when.Limits,
) -> Declared:
    """Makes what is not there, and changes what differs; what an operator paused stays paused. What
    is there and no longer declared is told."""
    done: dict[str, _Done] = {}
    for each in declarations:
        try:
            done[each.name] = await _declare(store, scope, each.name, _fields(each), limits)
        except InvalidInput as error:
            raise InvalidInput(
                FieldError(f"{each.name}.{fault.field}", fault.message) for fault in error.errors
            ) from None
    removed = await _removed(store, scope, done.keys())
    if removed:
        told = "schedules that the code no longer declares go on (`tickwork schedules delete`): %s"
        _log.warning(told, ", ".join(removed))
    return Declared(
        tuple(name for name, what in done.items() if what is _Done.CREATED),
        tuple(name for name, what in done.items() if what is _Done.UPDATED),
        removed,
    )


def _fields(declaration: ScheduleDeclaration) -> dict[str, Any]:
    metadata = declaration.fields.get("metadata")
    if metadata is None or isinstance(metadata, Mapping):
        metadata = {**(metadata or {}), DECLARED: True}
    return {**declaration.fields, "metadata": metadata}


async def _declare(
    store: Store, scope: Scope, name: str, fields: Mapping[str, Any], limits: when.Limits
) -> _Done:
    for tries_left in reversed(range(TRIES_MAX)):
        known = await store.schedules.find(scope, name)
        try:
            if known is None:
                await create(store, scope, fields, limits=limits, may_be_over=True)
                return _Done.CREATED
            return await _bring_up_to_date(store, scope, known, fields, limits)
        except (Conflict, NotFound):
            # Another process made it, changed it or deleted it since we looked.
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")


async def _bring_up_to_date(
    store: Store, scope: Scope, known: Schedule, fields: Mapping[str, Any], limits: when.Limits
) -> _Done:
    wanted = await _wanted(store, scope, known, fields, limits)
    if wanted == known.definition:
        return _Done.NOTHING
    # The same timing again would begin a new count of its intervals.
    is_anew = wanted.rule.timing != known.definition.rule.timing
    changed = {field: value for field, value in fields.items() if field != "idempotency_key"}
    await schedules.replace(store, scope, known, changed, is_anew=is_anew, limits=limits)
    return _Done.UPDATED


async def _wanted(
    store: Store, scope: Scope, known: Schedule, fields: Mapping[str, Any], limits: when.Limits
) -> Definition:
    """The definition that the fields describe, anchored as the one that is there, and with its rule
    as it would be read again."""
    definition, _ = read_definition(
        {field: value for field, value in fields.items() if field != "name"},
        schedule_id=known.id,
        created_at=known.definition.rule.anchor,
        calendars=await holidays_among(store, scope, [fields]),
        limits=await limits_of(store, scope, limits),
    )
    rule, timing = read_rule(rule_text(definition.rule), known.id), known.definition.rule
    if rule.timing == timing.timing and rule.start_at in (None, timing.start_at):
        rule = structs.replace(rule, anchor=timing.anchor)
    return structs.replace(definition, rule=rule)


async def _removed(store: Store, scope: Scope, names: AbstractSet[str]) -> tuple[str, ...]:
    removed: list[str] = []
    after: UUID | None = None
    for _ in range(LOOKED_AT_MAX // PAGE):
        selection = ScheduleSelection(order=ScheduleOrder.NAME, after=after)
        try:
            found = await store.schedules.list(scope, selection, PAGE)
        except NotFound:
            return tuple(removed)  # What the page begins behind was pruned just now.
        # By name, those without one come last.
        named = {each.name: each for each in found if each.name is not None}
        removed += [
            name for name, each in named.items() if name not in names and _is_declared(each)
        ]
        if len(named) < PAGE:
            return tuple(removed)
        after = found[-1].id
    told = "only the first %d named schedules were searched for those no longer declared"
    _log.info(told, LOOKED_AT_MAX)
    return tuple(removed)


def _is_declared(schedule: Schedule) -> bool:
    """Whether code declared it, and it may fire yet: what is over needs nobody's attention."""
    if schedule.status is ScheduleStatus.COMPLETED:
        return False
    return bool(msgspec.json.decode(schedule.definition.metadata).get(DECLARED))
