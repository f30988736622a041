"""Creates schedules: one, up to 1,000 in one transaction, or any number in chunks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.core import when
from tickwork.core.answers.ids import plain_id
from tickwork.core.fields import shown
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.fields import (
    read_new_name,
    read_payload_and_metadata,
    receiver_names,
)
from tickwork.core.schedule.model import (
    SCHEDULES_AT_ONCE_MAX,
    Definition,
    NewSchedule,
    Schedule,
    ScheduleStatus,
    depends_on_id,
)
from tickwork.core.tenant_limits import check_schedule_count
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.quotas import payload_check
from tickwork.ops.schedules.lookup import (
    Holidays,
    all_holidays,
    check_owner_target,
    check_targets,
    holidays_among,
    known_names,
    limits_of,
    missing_queue,
    owned,
    queues_named,
    store_bulk,
    store_new,
    with_typed_payload,
    without_index,
)
from tickwork.ops.schedules.new_bodies import (
    fingerprint_of_any,
    indexed,
    new_schedule,
    read_beside,
    read_bodies,
)
from tickwork.ops.schedules.outside import (
    check_outside,
    emails_allowed,
    ensure_deliveries,
    seal_secrets,
)
from tickwork.ops.types import KnownTypes, all_known_types, known_types
from tickwork.store.ids import new_id

PROGRESS_SCHEDULES = 1_000
"""Number of schedules between two calls of `on_progress`."""

Progress = Callable[[int], None]


async def create(
    context: Context,
    fields: Mapping[str, object],
    *,
    may_be_over: bool = False,
    ids: Sequence[UUID] = (),
) -> Schedule:
    """Creates a schedule.

    A repeated call with the same `idempotency_key` and fields returns the first schedule. A
    schedule without a future slot raises `InvalidInput`, unless it `may_be_over`.
    """
    try:
        (made,) = await create_many(context, [fields], may_be_over=may_be_over, ids=ids)
    except InvalidInput as error:
        raise without_index(error) from None
    return made


async def create_many(
    context: Context,
    bodies: Sequence[Mapping[str, object]],
    *,
    may_be_over: bool = False,
    ids: Sequence[UUID] = (),
) -> tuple[Schedule, ...]:
    """Creates up to 1,000 schedules, all or none. With `ids` they have
    these: a schedule whose id exists is not stored again."""
    _check_list(bodies, Sequence)
    check_count(bodies)
    given: Sequence[object] = bodies
    wrong = [(index, body) for index, body in enumerate(given) if not isinstance(body, Mapping)]
    if wrong:
        raise InvalidInput(_no_body(f"[{index}]", body) for index, body in wrong)
    limits = await limits_of(context)
    own = [*owned(bodies, context.scope)]
    wanted, misfits = _typed(own, await known_types(context, queues_named(own)))
    known: dict[int, Schedule] = {}
    try:
        new = await _read_all(context, limits, wanted, misfits, may_be_over=may_be_over, ids=ids)
    except InvalidInput:
        # A repeat is accepted even if its end has passed or its queue was deleted since.
        known = await _repeats(context, wanted)
        if not known:
            raise
        wanted = {index: fields for index, fields in wanted.items() if index not in known}
        new = await _read_all(context, limits, wanted, misfits, may_be_over=may_be_over, ids=ids)
    await _check_allowed(context, new)
    await ensure_deliveries(context.store, [schedule.definition for schedule in new])
    sealing = context.with_one_box()
    new = [_sealed(sealing, schedule) for schedule in new]
    made = await store_new(context, new)
    by_index = {**known, **dict(zip(wanted, made, strict=True))}
    return tuple(by_index[index] for index in range(len(bodies)))


def check_count(bodies: Sequence[object]) -> None:
    """Raises `InvalidInput` for more schedules than may be created at once."""
    if len(bodies) > SCHEDULES_AT_ONCE_MAX:
        fault = f"has {len(bodies)}; at most {SCHEDULES_AT_ONCE_MAX} at once"
        raise InvalidInput([FieldError("schedules", fault)])


async def check_many(
    context: Context,
    bodies: Sequence[Mapping[str, object]],
    *,
    new_queues: Collection[str] = (),
    schedules_deleted: int = 0,
) -> None:
    """Raises what `create_many` would raise for schedules that are new, and stores nothing.
    `new_queues` are created before, and so many schedules deleted after."""
    wanted, misfits = _typed([*owned(bodies, context.scope)], KnownTypes())
    new = await _read_all(
        context,
        await limits_of(context),
        wanted,
        misfits,
        may_be_over=False,
        ids=(),
        new_queues=new_queues,
    )
    await _check_allowed(context, new)
    tenant = await context.store.tenants.get(SYSTEM, str(context.scope.tenant))
    if tenant.schedules_max is not None and new:
        number = await context.store.schedules.count(context.scope) + len(new) - schedules_deleted
        check_schedule_count(tenant.id, number, tenant.schedules_max)


async def _check_allowed(context: Context, new: Sequence[NewSchedule]) -> None:
    """Raises an error for schedules that the process or the tenant does not allow."""
    check_outside(context, new, await emails_allowed(context))
    check = await payload_check(context)
    for schedule in new:
        check(schedule.definition)
        await check_owner_target(context, schedule.definition)


def _sealed(context: Context, new: NewSchedule) -> NewSchedule:
    return structs.replace(new, definition=seal_secrets(context, new.id, new.definition))


def _typed(
    bodies: Sequence[Mapping[str, object]], types: KnownTypes
) -> tuple[dict[int, Mapping[str, object]], list[FieldError]]:
    """Returns the bodies with typed payloads, by index, and the faults of those that do not fit."""
    typed: dict[int, Mapping[str, object]] = {}
    faults: list[FieldError] = []
    for index, fields in enumerate(bodies):
        try:
            typed[index] = with_typed_payload(fields, types)
        except InvalidInput as error:
            typed[index] = {**fields, "payload": None}
            faults += indexed(index, error)
    return typed, faults


async def _read_all(
    context: Context,
    limits: when.Limits,
    bodies: Mapping[int, Mapping[str, object]],
    misfits: Sequence[FieldError],
    *,
    may_be_over: bool,
    ids: Sequence[UUID],
    new_queues: Collection[str] = (),
) -> list[NewSchedule]:
    """Returns the schedules that the bodies describe; raises `InvalidInput` with every fault of
    every body, by index. `misfits` are the faults of payloads."""
    now = await context.store.now()
    holidays = await holidays_among(context, [*bodies.values()])
    read = partial(read_bodies, bodies, now, holidays, limits, ids, may_be_over=may_be_over)
    new, found = await read_beside(bodies.values(), read)
    faults = [*misfits, *found]
    try:
        await check_targets(context, bodies, new_queues)
    except InvalidInput as error:
        reported = {fault.field for fault in faults}
        faults += [fault for fault in error.errors if fault.field not in reported]
    if faults:
        raise InvalidInput(faults)
    return new


async def _repeats(
    context: Context, bodies: Mapping[int, Mapping[str, object]]
) -> dict[int, Schedule]:
    """Returns the schedules that exist with these keys and fields, by index of the body."""
    keys = {
        index: key
        for index, fields in bodies.items()
        if isinstance(key := fields.get("idempotency_key"), str)
    }
    if not keys:
        return {}
    made = await context.store.schedules.of_keys(context.scope, [*keys.values()])
    firsts = {(schedule.owner, schedule.idempotency_key): schedule for schedule in made}
    named = {
        index: (owner, key)
        for index, key in keys.items()
        if isinstance(owner := bodies[index].get("owner"), str | None)
    }
    return {
        index: first
        for index, name in named.items()
        if (first := firsts.get(name)) is not None
        and first.status is not ScheduleStatus.DELETED
        and first.fingerprint == fingerprint_of_any(bodies[index])
    }


async def create_bulk(
    context: Context, bodies: Iterable[Mapping[str, object]], *, on_progress: Progress | None = None
) -> int:
    """Creates any number of schedules in chunks, each all or none, and returns how many.

    Raises `InvalidInput` for `[7].field` if a body is invalid, and for `target.queue` if a queue
    does not exist; the chunks before it stay stored.
    """
    _check_list(bodies, Iterable)
    limits, holidays = await limits_of(context), await all_holidays(context)
    known, now = await known_names(context), await context.store.now()
    emails, types = await emails_allowed(context), await all_known_types(context)
    reading = _BulkReading(context, now, limits, holidays, emails, known, types)
    await ensure_deliveries(context.store)
    try:
        own = owned(bodies, context.scope)
        new = reading.schedules(own, on_progress, await payload_check(context))
        return await store_bulk(context, new)
    except NotFound as error:
        if error.kind != "queue":
            raise
        fault = await missing_queue(context, "target.queue", str(error.name))
        raise InvalidInput([fault]) from None


def _check_list(bodies: object, kind: type) -> None:
    if not isinstance(bodies, kind) or isinstance(bodies, str | bytes | Mapping):
        fault = f"must be a list of objects with the fields of a schedule, not {shown(bodies)}"
        raise InvalidInput([FieldError("schedules", fault)])


def _no_body(field: str, given: object) -> FieldError:
    fault = f"must be an object with the fields of a schedule, not {shown(given)}"
    return FieldError(field, fault)


class _BulkReading:
    """Reads many bodies and parses fields that they share only once."""

    def __init__(
        self,
        context: Context,
        now: datetime,
        limits: when.Limits,
        holidays: Holidays,
        emails_per_day: int | None,
        known: Mapping[str, Collection[str]],
        types: KnownTypes,
    ) -> None:
        self._context, self._types = context.with_one_box(), types
        self._now = now
        self._limits = limits
        self._holidays = holidays
        self._emails_per_day = emails_per_day
        self._known = known
        self._templates: dict[bytes, NewSchedule] = {}

    def schedules(
        self,
        bodies: Iterable[Mapping[str, object]],
        on_progress: Progress | None,
        check: Callable[[Definition], None],
    ) -> Iterator[NewSchedule]:
        number = 0
        for number, fields in enumerate(bodies, start=1):
            index = f"[{number - 1}]"
            if not isinstance(fields, Mapping):
                raise InvalidInput([_no_body(index, fields)])
            try:
                made = self._schedule(with_typed_payload(fields, self._types))
                check_outside(self._context, [made], self._emails_per_day)
                check(made.definition)
                yield _sealed(self._context, made)
            except InvalidInput as error:
                raise InvalidInput(
                    FieldError(f"{index}.{fault.field}", fault.message) for fault in error.errors
                ) from None
            if on_progress is not None and number % PROGRESS_SCHEDULES == 0:
                on_progress(number)
        if on_progress is not None and number % PROGRESS_SCHEDULES:
            on_progress(number)

    def _check_receivers(self, definition: Definition) -> None:
        """Raises `InvalidInput` for endpoints that do not exist, and for missing receivers of
        results."""
        faults = [
            FieldError(f"{field}.{kind}", f"there is no {kind} {shown(name)}")
            for field, kind, name in receiver_names(definition)
            if name not in self._known[kind]
        ]
        if faults:
            raise InvalidInput(faults)

    def _schedule(self, fields: Mapping[str, object]) -> NewSchedule:
        if fields.get("idempotency_key") is not None:
            fault = "is not supported in bulk; give each schedule a name instead"
            raise InvalidInput([FieldError("idempotency_key", fault)])
        try:
            key = _template_key(fields)
        except (TypeError, ValueError, OverflowError, RecursionError):
            # A value that JSON cannot encode is invalid: parsing names its field.
            return new_schedule(fields, self._now, self._holidays, self._limits, new_id())
        template = self._templates.get(key)
        if template is None:
            plain = _without_own(fields)
            template = new_schedule(plain, self._now, self._holidays, self._limits, new_id())
            self._check_receivers(template.definition)
            if depends_on_id(template.definition.rule):
                return new_schedule(fields, self._now, self._holidays, self._limits, new_id())
            self._templates[key] = template
        faults: list[FieldError] = []
        own = read_payload_and_metadata(fields, faults)
        name = read_new_name(fields, faults) if "name" in fields else None
        if faults:
            raise InvalidInput(faults)
        definition = structs.replace(template.definition, **own)
        return structs.replace(template, id=new_id(), name=name, definition=definition)


_OWN_FIELDS = frozenset({"name", "payload", "metadata"})


def _without_own(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in _OWN_FIELDS}


def _template_key(fields: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(_without_own(fields), enc_hook=plain_id, order="sorted")
