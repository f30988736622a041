"""Finds schedules, their calendars and the limits of their tenant, and checks their targets: the
queue must exist, and the payload must fit its type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from msgspec import structs

from tickwork.core import when
from tickwork.core.access import owner_of_new, visible_owner
from tickwork.core.answers.ids import ENCODER, GivenId, Prefix, parse_public_id, public_id
from tickwork.core.entity.call import queue_of
from tickwork.core.fields import FAULTS_MAX, no_queue, shown
from tickwork.core.limits import ENDPOINTS_MAX, ENTITIES_PREFIX, is_hidden
from tickwork.core.message.body import decode_body
from tickwork.core.model import SYSTEM, ContentType, QueueSettings, Scope
from tickwork.core.near_names import nearest
from tickwork.core.owner_targets import check_target
from tickwork.core.schedule.change import Change
from tickwork.core.schedule.entity_target import entity_named
from tickwork.core.schedule.fields import RESULT_FIELDS, parse_id, render_definition
from tickwork.core.schedule.model import (
    FIRED_TYPE,
    Definition,
    NewSchedule,
    Schedule,
    ScheduleSelection,
)
from tickwork.core.schedule.workflow_target import workflow_named
from tickwork.core.topology import FILE as TOPOLOGY_FILE
from tickwork.core.workflow.queue import runs_queue, workflow_of_queue
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.store.contract import Store

if TYPE_CHECKING:
    from tickwork.app.payloads import Payload  # Slow to import: `next` needs none.
    from tickwork.ops.types import KnownTypes

Holidays = Mapping[str, frozenset[date]]

TARGET_FIELDS = ("target", *RESULT_FIELDS)
"""Fields that may name a queue."""

LIST_LIMIT = 100
"""Number of schedules that a list returns unless the caller gives a limit."""


async def get_schedule(context: Context, reference: GivenId) -> Schedule:
    """Returns the schedule with this id or name; raises `NotFound` if there is none."""
    given: object = reference
    if not isinstance(given, UUID | str):
        fault = f"must be the id or name of a schedule, not {shown(given)}"
        raise InvalidInput([FieldError("schedule", fault)])
    schedule_id = given if isinstance(given, UUID) else parse_id(given)
    if schedule_id is not None:
        return await context.store.schedules.get(context.scope, schedule_id)
    found = await context.store.schedules.find(context.scope, str(given))
    if found is None:
        raise NotFound("schedule", reference)
    return found


async def list_schedules(
    context: Context, selection: ScheduleSelection, *, limit: int = LIST_LIMIT
) -> tuple[Schedule, ...]:
    """Returns the selected schedules in the order that the selection names.

    Without a status it returns all but the deleted ones.
    """
    if selection.owner is not None:
        visible_owner(context.scope, selection.owner)
    return await context.store.schedules.list(context.scope, selection, limit)


def metadata_filter(wanted: object) -> str:
    """Metadata values that schedules must have, as a store takes them."""
    if not isinstance(wanted, Mapping) or not all(
        isinstance(name, str) and isinstance(value, str | int) for name, value in wanted.items()
    ):
        fault = "must be an object whose values are texts, whole numbers, true or false"
        raise InvalidInput([FieldError("metadata", fault)])
    return ENCODER.encode(wanted).decode()


def owned(bodies: Iterable[Mapping[str, object]], scope: Scope) -> Iterable[Mapping[str, object]]:
    """Bodies of new schedules with the owner of the scope. Raises `InvalidInput` if one names
    another."""
    if scope.owner is None:
        return bodies
    given: Iterable[Any] = bodies
    return (
        {**body, "owner": owner_of_new(scope, body.get("owner"), f"[{index}].owner")}
        if isinstance(body, Mapping)
        else body  # Refused where all other faults are.
        for index, body in enumerate(given)
    )


async def check_owner_target(context: Context, definition: Definition) -> None:
    """Raises `Forbidden` if the scope is an owner's, and neither the tenant nor the installation
    lets owners use the target. In an app it is the code that chooses, not the owner."""
    everywhere = context.outside.owner_targets
    if everywhere is not None and context.scope.owner and context.scope.tenant is not None:
        tenant = await context.store.tenants.get(Scope(context.scope.tenant), context.scope.tenant)
        check_target(definition, (*tenant.owner_targets, *everywhere))


async def limits_of(context: Context) -> when.Limits:
    """Returns the limits of a tenant: its own, or else those of the installation. `for_owner` gives
    those of a schedule."""
    tenant = await context.store.tenants.get(context.scope, context.scope.tenant or "default")
    own = {  # The quotas of a tenant have the names of the limits.
        name: seconds
        for name in when.Limits.__struct_fields__
        if (seconds := getattr(tenant, name)) is not None
    }
    return structs.replace(context.limits, **own)


def with_holidays(schedule: Schedule, holidays: Holidays) -> when.Rule:
    """Returns the rule of a schedule with the days of its calendar."""
    return rule_with(schedule.definition.rule, holidays)


def rule_with(rule: when.Rule, holidays: Holidays) -> when.Rule:
    """Returns a rule with the days of its calendar."""
    if rule.calendar is None:
        return rule
    return structs.replace(rule, holidays=holidays.get(rule.calendar, frozenset()))


async def rule_now(context: Context, schedule: Schedule) -> when.Rule:
    """Returns the rule of a schedule with the stored days of its calendar."""
    holidays = await holidays_among(context, [{"calendar": calendar_of(schedule)}])
    return with_holidays(schedule, holidays)


async def holidays_among(
    context: Context, bodies: Sequence[Mapping[str, object]]
) -> dict[str, frozenset[date]]:
    """Returns the days of the calendars that the bodies name; leaves out unknown calendars."""
    names = {name for fields in bodies if isinstance(name := fields.get("calendar"), str)}
    found: dict[str, frozenset[date]] = {}
    for name in names:
        try:
            calendar = await context.store.calendars.get(context.scope, name)
        except NotFound:
            continue
        found[name] = frozenset(map(date.fromisoformat, calendar.days))
    return found


async def all_holidays(context: Context) -> dict[str, frozenset[date]]:
    """Returns the days of every calendar of the scope, by name."""
    calendars = await context.store.calendars.list(context.scope)
    return {
        calendar.name: frozenset(map(date.fromisoformat, calendar.days)) for calendar in calendars
    }


async def check_targets(
    context: Context,
    bodies: Mapping[int, Mapping[str, object]],
    new_queues: Iterable[str] = (),
) -> None:
    """Raises `InvalidInput` for queues, endpoints and workflows that do not exist, of targets and
    of results; the bodies are by index. `new_queues` are about to be created."""
    known = dict.fromkeys(new_queues, True)
    faults: list[FieldError] = []
    for index, fields in bodies.items():
        if len(faults) >= FAULTS_MAX:
            break
        for field in TARGET_FIELDS:
            target = fields.get(field)
            queue = target.get("queue") if isinstance(target, Mapping) else None
            if not isinstance(queue, str) or not queue:
                continue
            if queue not in known:
                known[queue] = await has_queue(context, queue)
            if not known[queue]:
                faults.append(await missing_queue(context, f"[{index}].{field}.queue", queue))
        faults += await _missing_endpoints(context, f"[{index}].", fields)
        faults += await _missing_entity(context, f"[{index}].", fields)
        faults += await _missing_workflows(context, f"[{index}].", fields)
    if faults:
        raise InvalidInput(faults)


async def known_names(context: Context) -> dict[str, frozenset[str]]:
    """The names of all queues and endpoints of the scope and of all workflows, by kind; of
    endpoints also the ids."""
    endpoints = await context.store.endpoints.list(context.scope, ENDPOINTS_MAX)
    ids = (public_id(Prefix.ENDPOINT, endpoint.id) for endpoint in endpoints)
    return {
        "queue": frozenset(queue.name for queue in await context.store.queues.list(context.scope)),
        "endpoint": frozenset({*(endpoint.name for endpoint in endpoints), *ids}),
        "workflow": frozenset(await _workflows(context.store)),
    }


async def _missing_endpoints(
    context: Context, prefix: str, fields: Mapping[str, object]
) -> list[FieldError]:
    """The faults of endpoints that do not exist, of the target and of results."""
    faults: list[FieldError] = []
    for field in TARGET_FIELDS:
        target = fields.get(field)
        name = target.get("endpoint") if isinstance(target, Mapping) else None
        if isinstance(name, str) and name:
            # A target may have an id, too; results go by name.
            endpoint_id = parse_public_id(name) if field == "target" else None
            try:
                await context.store.endpoints.get(context.scope, endpoint_id or name)
            except (NotFound, InvalidInput):
                known = await context.store.endpoints.list(context.scope, ENDPOINTS_MAX)
                near = _nearest(context.scope, name, [endpoint.name for endpoint in known])
                advice = "give the name of one" if near is None else f"did you mean {near!r}?"
                fault = f"there is no endpoint {shown(name)}; {advice}"
                faults.append(FieldError(f"{prefix}{field}.endpoint", fault))
    return faults


async def _missing_entity(
    context: Context, prefix: str, fields: Mapping[str, object]
) -> list[FieldError]:
    """The fault of a target whose type of entities no app has registered."""
    name = entity_named(fields)
    if name is None or await has_queue(context.within(SYSTEM), queue_of(name)):
        return []
    queues = await context.store.queues.list(SYSTEM)
    known = [queue.name.removeprefix(ENTITIES_PREFIX) for queue in queues if is_hidden(queue.name)]
    near = _nearest(context.scope, name, known)
    advice = "register it in an app, and run that" if near is None else f"did you mean {near!r}?"
    return [FieldError(f"{prefix}target.entity", f"there is no entity {shown(name)}; {advice}")]


async def _missing_workflows(
    context: Context, prefix: str, fields: Mapping[str, object]
) -> list[FieldError]:
    """The faults of workflows that no app has declared, of the target and of results."""
    faults: list[FieldError] = []
    for field in TARGET_FIELDS:
        name = workflow_named(fields, field)
        if name is None or await has_queue(context.within(SYSTEM), runs_queue(name)):
            continue
        near = _nearest(context.scope, name, await _workflows(context.store))
        advice = "declare it in an app, and run that" if near is None else f"did you mean {near!r}?"
        fault = f"there is no workflow {shown(name)}; {advice}"
        faults.append(FieldError(f"{prefix}{field}.workflow", fault))
    return faults


async def _workflows(store: Store) -> list[str]:
    """The names of all workflows that apps have declared."""
    names = (workflow_of_queue(queue.name) for queue in await store.queues.list(SYSTEM))
    return [name for name in names if name is not None]


async def missing_queue(context: Context, field: str, queue: str) -> FieldError:
    """Returns the fault of a target queue that does not exist, with the nearest name."""
    known = (
        []
        if context.scope.owner
        else [stored.name for stored in await context.store.queues.list(context.scope)]
    )
    advice = (
        f"create it first: app.queue({queue!r}) in your app, "
        f"or [[queues]] with name = {queue!r} in {TOPOLOGY_FILE}, and tickwork topology apply"
    )
    return FieldError(field, no_queue(queue, known, otherwise=advice))


def _nearest(scope: Scope, name: str, known: Sequence[str]) -> str | None:
    """The nearest known name. There is none for an owner, who does not see what its tenant has."""
    return None if scope.owner is not None else nearest(name, known)


async def target_faults(context: Context, fields: Mapping[str, object]) -> tuple[FieldError, ...]:
    """The faults that `check_targets` raises for one schedule, whose fields have no index."""
    try:
        await check_targets(context, {0: fields})
    except InvalidInput as error:
        return without_index(error).errors
    return ()


def without_index(error: InvalidInput) -> InvalidInput:
    """Returns the error of a list of one schedule with the index removed from its fields."""
    return InvalidInput(
        fault._replace(field=fault.field.removeprefix("[0].")) for fault in error.errors
    )


async def has_queue(context: Context, name: str) -> bool:
    """Whether the scope has a queue of that name; no queue has an invalid one."""
    try:
        await context.store.queues.get(context.scope, name)
    except (NotFound, InvalidInput):
        return False
    return True


async def ensure_hidden_queue(store: Store, name: str, settings: QueueSettings) -> None:
    """Creates a queue that Tickwork itself uses, shared by all tenants, if there is none."""
    if not await has_queue(Context(store, SYSTEM), name):
        await store.queues.put(SYSTEM, name, settings)


def audited_fields(
    schedule: Schedule | NewSchedule | Change, owner: str | None
) -> dict[str, object]:
    """What the audit log shows of a schedule."""
    return {
        **render_definition(schedule.definition),
        "name": schedule.name,
        "owner": owner,
        "status": str(schedule.status),
    }


async def store_new(context: Context, new: Sequence[NewSchedule]) -> tuple[Schedule, ...]:
    """Stores new schedules with a record: of one with its fields, of several by their ids."""
    if not new:
        return ()
    subject: object = new[0].id
    after: object = partial(audited_fields, new[0], new[0].owner)
    if len(new) > 1:
        subject, after = (
            f"{len(new)} schedules",
            {"ids": [public_id(Prefix.SCHEDULE, schedule.id) for schedule in new]},
        )
    async with recorded(context, "schedule.create", subject, after=after):
        return await context.store.schedules.create(context.scope, new)


async def store_bulk(context: Context, new: Iterable[NewSchedule]) -> int:
    """Stores any number of new schedules, with one record in the first transaction."""
    async with recorded(context, "schedule.create", "many schedules"):
        return await context.store.schedules.create_bulk(context.scope, new)


def calendar_of(schedule: Schedule) -> str | None:
    """Returns the name of a schedule's calendar."""
    return schedule.definition.rule.calendar


def queues_named(bodies: Iterable[Mapping[str, object]]) -> set[str]:
    """The queues that the targets of schedules name."""
    targets = [fields.get("target") for fields in bodies]
    queues = [target.get("queue") for target in targets if isinstance(target, Mapping)]
    return {queue for queue in queues if isinstance(queue, str)}


def with_typed_payload(
    fields: Mapping[str, object], types: KnownTypes, *, has_new_target: bool = True
) -> Mapping[str, object]:
    """Returns the fields with the payload as plain JSON values of the declared type.

    Raises `InvalidInput` if the payload does not fit, if nobody handles the `message_type` of a
    target that is new, or an entity has no such method: every firing would become a dead letter.
    """
    target = fields.get("target")
    entity = entity_named(fields)
    if entity is not None and isinstance(target, Mapping):
        if isinstance(method := target.get("method"), str):
            types.payload_of(queue_of(entity), method)
        return fields
    queue = target.get("queue") if isinstance(target, Mapping) else None
    if (workflow := workflow_named(fields, "target")) is not None:
        queue = runs_queue(workflow)
    message_type = target.get("message_type") if isinstance(target, Mapping) else None
    if not isinstance(queue, str) or not isinstance(message_type, str | None):
        return fields  # Reading the fields names this fault.
    if has_new_target and (fault := types.unhandled(queue, message_type or FIRED_TYPE)) is not None:
        if message_type is None:
            fault = types.unhandled(queue, None) or fault
        raise InvalidInput([FieldError("target.message_type", fault)])
    payload = types.payload_of(queue, message_type or FIRED_TYPE)
    return fields if payload is None else as_typed(fields, payload)


def as_typed(fields: Mapping[str, object], payload: Payload[Any]) -> Mapping[str, object]:
    """As `with_typed_payload` for a known type."""
    if payload.is_plain:
        return fields
    given = fields.get("payload")
    try:
        body = payload.encode(given)
    except InvalidInput as error:
        missing = "is missing; without it the body is null, which " if given is None else ""
        raise InvalidInput(
            FieldError("payload", f"{missing}{fault.message}") for fault in error.errors
        ) from None
    return {**fields, "payload": decode_body(body, ContentType.JSON)}
