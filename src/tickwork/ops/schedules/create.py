"""Making schedules: one, up to a thousand at once, or any number in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b

import msgspec
from msgspec import structs

from tickwork.core import when
from tickwork.core.fields import shown
from tickwork.core.model import Scope
from tickwork.core.schedule.fields import (
    SCHEDULE_FIELDS,
    read_definition,
    read_name,
    read_new_name,
    read_payload_and_metadata,
)
from tickwork.core.schedule.model import (
    SCHEDULES_AT_ONCE_MAX,
    NewSchedule,
    Schedule,
    ScheduleStatus,
    depends_on_id,
)
from tickwork.core.schedule.next_slot import first_slot_or_excluded, slot_times
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops.schedules.lookup import (
    Holidays,
    all_holidays,
    check_targets,
    holidays_among,
    limits_of,
    no_queue,
    of_one,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

PROGRESS_SCHEDULES = 1_000

Progress = Callable[[int], None]


async def create(
    store: Store,
    scope: Scope,
    fields: Mapping[str, object],
    *,
    limits: when.Limits,
    may_be_over: bool = False,
) -> Schedule:
    """Makes a schedule; a repeat with the same `idempotency_key` and fields is the first one. One
    that has no slot any more is refused, unless it `may_be_over`."""
    try:
        (made,) = await create_many(store, scope, [fields], limits=limits, may_be_over=may_be_over)
    except InvalidInput as error:
        raise of_one(error) from None
    return made


async def create_many(
    store: Store,
    scope: Scope,
    bodies: Sequence[Mapping[str, object]],
    *,
    limits: when.Limits,
    may_be_over: bool = False,
) -> tuple[Schedule, ...]:
    """Makes up to 1,000 schedules, all or none."""
    _check_list(bodies, Sequence)
    if len(bodies) > SCHEDULES_AT_ONCE_MAX:
        fault = f"has {len(bodies)}; at most {SCHEDULES_AT_ONCE_MAX} at once"
        raise InvalidInput([FieldError("schedules", fault)])
    given: Sequence[object] = bodies
    unlike = [(place, each) for place, each in enumerate(given) if not isinstance(each, Mapping)]
    if unlike:
        raise InvalidInput(_no_body(f"[{place}]", each) for place, each in unlike)
    limits, wanted = await limits_of(store, scope, limits), dict(enumerate(bodies))
    known: dict[int, Schedule] = {}
    try:
        new = await _read_all(store, scope, wanted, limits, may_be_over=may_be_over)
    except InvalidInput:
        # What was accepted once may be over by now, or its queue gone: it is accepted all the same.
        known = await _repeats(store, scope, wanted)
        if not known:
            raise
        wanted = {index: fields for index, fields in wanted.items() if index not in known}
        new = await _read_all(store, scope, wanted, limits, may_be_over=may_be_over)
    made = await store.schedules.create(scope, new) if new else ()
    by_place = {**known, **dict(zip(wanted, made, strict=True))}
    return tuple(by_place[index] for index in range(len(bodies)))


async def _read_all(
    store: Store,
    scope: Scope,
    bodies: Mapping[int, Mapping[str, object]],
    limits: when.Limits,
    *,
    may_be_over: bool,
) -> list[NewSchedule]:
    """The schedules that the bodies describe; `InvalidInput` with all that is wrong with them, each
    by its place."""
    now = await store.now()
    holidays = await holidays_among(store, scope, [*bodies.values()])
    faults: list[FieldError] = []
    new: list[NewSchedule] = []
    for index, fields in bodies.items():
        try:
            new.append(_new(fields, now, holidays, limits, may_be_over=may_be_over))
        except InvalidInput as error:
            faults += [FieldError(f"[{index}].{each.field}", each.message) for each in error.errors]
    try:
        await check_targets(store, scope, bodies)
    except InvalidInput as error:
        told = {each.field for each in faults}
        faults += [each for each in error.errors if each.field not in told]
    if faults:
        raise InvalidInput(faults)
    return new


async def _repeats(
    store: Store, scope: Scope, bodies: Mapping[int, Mapping[str, object]]
) -> dict[int, Schedule]:
    """The schedules that were made already with these keys and fields, by the place of the body."""
    keys = {
        index: key
        for index, fields in bodies.items()
        if isinstance(key := fields.get("idempotency_key"), str)
    }
    if not keys:
        return {}
    made = await store.schedules.of_keys(scope, [*keys.values()])
    firsts = {each.idempotency_key: each for each in made}
    return {
        index: firsts[key]
        for index, key in keys.items()
        if key in firsts
        and firsts[key].status is not ScheduleStatus.DELETED
        and firsts[key].fingerprint == _fingerprint_of_any(bodies[index])
    }


async def create_bulk(
    store: Store,
    scope: Scope,
    bodies: Iterable[Mapping[str, object]],
    *,
    limits: when.Limits,
    on_progress: Progress | None = None,
) -> int:
    """Makes any number of schedules, in pieces that are each all or none, and says how many.

    A body that cannot be is refused as `[7].field`, a queue that is not there as `target.queue`;
    the pieces before it stay.
    """
    _check_list(bodies, Iterable)
    limits = await limits_of(store, scope, limits)
    reading = _BulkReading(await store.now(), limits, await all_holidays(store, scope))
    try:
        return await store.schedules.create_bulk(scope, reading.schedules(bodies, on_progress))
    except NotFound as error:
        if error.kind != "queue":
            raise
        raise InvalidInput([no_queue("target.queue", str(error.name))]) from None


def _new(
    fields: Mapping[str, object],
    now: datetime,
    holidays: Holidays,
    limits: when.Limits,
    *,
    may_be_over: bool = False,
) -> NewSchedule:
    schedule_id = new_id()
    faults: list[FieldError] = []
    name = read_new_name(fields, faults)
    key = read_name(fields, "idempotency_key", faults)
    try:
        definition, rule = read_definition(
            fields, schedule_id=schedule_id, created_at=now, calendars=holidays, limits=limits
        )
    except InvalidInput as error:
        raise InvalidInput([*faults, *error.errors]) from None
    slot = first_slot_or_excluded(rule, now)
    if slot is None and not may_be_over:
        faults.append(_over(rule))
    if faults:
        raise InvalidInput(faults)
    soon = None if slot is None else slot_times(rule, definition.overlap, slot)
    return NewSchedule(
        id=schedule_id,
        definition=definition,
        next_slot=slot,
        due_at=None if soon is None else soon.due_at,
        look_at=None if soon is None else max(soon.look_at, now),
        name=name,
        status=ScheduleStatus.COMPLETED if slot is None else ScheduleStatus.ACTIVE,
        idempotency_key=key,
        fingerprint=None if key is None else _fingerprint(fields),
    )


def _over(rule: when.Rule) -> FieldError:
    """What is said of a rule that had slots, and has none to come."""
    fault = "leaves no slot from now on: it would never fire; give a later one"
    return FieldError("rrule" if rule.end_at is None else "end_at", fault)


def _check_list(bodies: object, kind: type) -> None:
    if not isinstance(bodies, kind) or isinstance(bodies, str | bytes | Mapping):
        fault = f"must be a list of schedules, each with its fields, not {shown(bodies)}"
        raise InvalidInput([FieldError("schedules", fault)])


def _no_body(place: str, given: object) -> FieldError:
    fault = f"must be an object with the fields of a schedule, not {shown(given)}"
    return FieldError(place, fault)


class _BulkReading:
    """Reads many bodies: what their rules have in common is read once."""

    def __init__(self, now: datetime, limits: when.Limits, holidays: Holidays) -> None:
        self._now, self._limits, self._holidays = now, limits, holidays
        self._templates: dict[bytes, NewSchedule] = {}

    def schedules(
        self, bodies: Iterable[Mapping[str, object]], on_progress: Progress | None
    ) -> Iterator[NewSchedule]:
        number = 0
        for number, fields in enumerate(bodies, start=1):
            place = f"[{number - 1}]"
            if not isinstance(fields, Mapping):
                raise InvalidInput([_no_body(place, fields)])
            try:
                yield self._schedule(fields)
            except InvalidInput as error:
                raise InvalidInput(
                    FieldError(f"{place}.{each.field}", each.message) for each in error.errors
                ) from None
            if on_progress is not None and number % PROGRESS_SCHEDULES == 0:
                on_progress(number)
        if on_progress is not None and number % PROGRESS_SCHEDULES:
            on_progress(number)

    def _schedule(self, fields: Mapping[str, object]) -> NewSchedule:
        if fields.get("idempotency_key") is not None:
            raise InvalidInput(
                [FieldError("idempotency_key", "is for single schedules; give names instead")]
            )
        try:
            key = _template_key(fields)
        except (TypeError, ValueError, OverflowError, RecursionError):
            # What JSON cannot say is no field of a rule: the reading tells which one it is.
            return _new(fields, self._now, self._holidays, self._limits)
        template = self._templates.get(key)
        if template is None:
            template = _new(_without_own(fields), self._now, self._holidays, self._limits)
            if depends_on_id(template.definition.rule):
                return _new(fields, self._now, self._holidays, self._limits)
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
    return msgspec.json.encode(_without_own(fields), order="sorted")


def _fingerprint(fields: Mapping[str, object]) -> bytes:
    """The same for the same fields, in whatever order; the key itself is not part of it."""
    known = {name: fields[name] for name in fields if name in SCHEDULE_FIELDS - {"idempotency_key"}}
    return blake2b(msgspec.json.encode(known, order="sorted"), digest_size=16).digest()


def _fingerprint_of_any(fields: Mapping[str, object]) -> bytes | None:
    """The same for fields that may be faulty: what JSON cannot say was never accepted."""
    try:
        return _fingerprint(fields)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
