"""Decides what a call changes of its entity, and what its alarm may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.entity.call import (
    SCHEDULE_NAME_LENGTH_MAX,
    SCHEDULES_MAX,
    Call,
    call_message,
    entity_id,
)
from tickwork.core.entity.model import Alarm, CallResult, EntityChange, EntityState
from tickwork.core.entity.overlay import Overlay
from tickwork.core.fields import shown
from tickwork.core.limits import DELAY_SECONDS_MAX
from tickwork.core.model import NewMessage
from tickwork.errors import FieldError, InvalidInput, OlderCode


class Effects(Struct, frozen=True, kw_only=True):
    """What a call did besides its storage: the alarm and the schedules that its entity has
    afterwards."""

    alarm: Alarm | None
    schedules: tuple[str, ...] = ()
    dead_alarm: UUID | None = None


def effects_before(state: EntityState | None, *, is_alarm: bool = False) -> Effects:
    """What an entity has before a call. The handler of an alarm begins without it."""
    if state is None:
        return Effects(alarm=None)
    alarm = None if is_alarm else state.alarm
    dead_alarm = None if is_alarm else state.dead_alarm
    return Effects(alarm=alarm, schedules=state.schedules, dead_alarm=dead_alarm)


def change_of(
    call: Call,
    before: EntityState | None,
    *,
    overlay: Overlay,
    effects: Effects,
    message_id: UUID,
    schema_version: int,
    result: CallResult | None = None,
) -> EntityChange | None:
    """What a call changes; None if nothing."""
    id_, named = entity_id(call.entity, call.key), (call.entity, call.key)
    is_same = (
        not overlay
        and effects == effects_before(before)
        and (before is None or before.schema_version == schema_version)
    )
    if is_same:
        if result is None:
            return None
        return EntityChange(id=id_, type=named[0], key=named[1], keeps_state=True, result=result)
    is_gone = overlay.is_cleared and not overlay.puts
    is_gone = is_gone and effects == Effects(alarm=None)
    state = EntityState(
        changed_by=message_id,
        schema_version=schema_version,
        alarm=effects.alarm,
        dead_alarm=effects.dead_alarm,
        schedules=effects.schedules,
    )
    old = None if before is None or before.alarm is None else before.alarm.id
    is_kept = effects.alarm is not None and effects.alarm.id == old
    return EntityChange(
        id=id_,
        type=named[0],
        key=named[1],
        state=None if is_gone else state,
        clears=overlay.is_cleared,
        puts=overlay.puts,
        deletes=overlay.deletes,
        old_alarm=None if is_kept else old,
        result=result,
    )


def own_messages(
    call: Call,
    before: EntityState | None,
    effects: Effects,
    put: Mapping[str, Mapping[str, Any]],
    *,
    now: datetime,
    make_id: Callable[[], UUID],
) -> list[NewMessage]:
    """The messages of an entity to itself after a call that `put` schedules: those change its
    schedules, and the last one is a new alarm."""
    calls = _schedule_calls(call, before, effects, put)
    messages = [call_message(own_call, make_id()) for own_call in calls]
    if has_new_alarm(before, effects) and (alarm := effects.alarm) is not None:
        ahead = max((alarm.at - now).total_seconds(), 0.0)
        fired = Call(entity=call.entity, key=call.key, alarm=alarm.id, alarm_at=alarm.at)
        messages.append(call_message(fired, alarm.id, delay_seconds=ahead))
    return messages


def has_new_alarm(before: EntityState | None, effects: Effects) -> bool:
    """Whether a call has set an alarm."""
    return effects.alarm is not None and (before is None or before.alarm != effects.alarm)


def _schedule_calls(
    call: Call,
    before: EntityState | None,
    effects: Effects,
    put: Mapping[str, Mapping[str, Any]],
) -> list[Call]:
    """What to do to the schedules of an entity."""
    old = () if before is None else before.schedules
    named = Call(entity=call.entity, key=call.key)
    gone = [name for name in old if name not in effects.schedules]
    return [
        *(structs.replace(named, schedule=name) for name in gone),
        *(
            structs.replace(named, schedule=name, schedule_fields=dict(fields))
            for name, fields in put.items()
            if name in effects.schedules
        ),
    ]


def schedule_fields(
    call: Call,
    method: str,
    given: Mapping[str, Any],
    *,
    at: object,
    every: object,
    cron: str | None,
) -> dict[str, Any]:
    """The fields of a schedule that calls a method of the entity. Its timing is one of the short
    forms, or among the given fields."""
    short = [timing for timing in (at, every, cron) if timing is not None]
    if len(short) > 1:
        raise InvalidInput([FieldError("schedule", "takes only one of at, every and cron")])
    if "target" in given or "target_url" in given:
        raise InvalidInput([FieldError("target", "is this entity; leave it out")])
    target = {"type": "entity", "entity": call.entity, "key": call.key, "method": method}
    fields: dict[str, Any] = {"timezone": "UTC", "payload": None, **given, "target": target}
    if at is not None:
        if not isinstance(at, datetime) or at.tzinfo is None:
            raise InvalidInput([FieldError("at", "must be a datetime with a time zone")])
        return fields | {"once_at": at.isoformat()}
    if every is not None:
        seconds = every.total_seconds() if isinstance(every, timedelta) else every
        if isinstance(seconds, float) and seconds.is_integer():
            seconds = int(seconds)
        return fields | {"interval_seconds": seconds}
    return fields if cron is None else fields | {"cron_expr": cron}


def with_schedule(effects: Effects, name: object) -> Effects:
    """The effects of a call that sets a schedule."""
    if not isinstance(name, str) or not 1 <= len(name) <= SCHEDULE_NAME_LENGTH_MAX:
        fault = f"must be a text of 1 to {SCHEDULE_NAME_LENGTH_MAX} characters"
        raise InvalidInput([FieldError("name", fault)])
    if name in effects.schedules:
        return effects
    if len(effects.schedules) >= SCHEDULES_MAX:
        fault = f"an entity may have at most {SCHEDULES_MAX} schedules"
        raise InvalidInput([FieldError("schedule", fault)])
    return structs.replace(effects, schedules=(*effects.schedules, name))


def is_alarm_due(state: EntityState | None, alarm: UUID) -> bool:
    """Whether an alarm's message is still that of its entity, or the replay of a dead one."""
    if state is None:
        return False
    return (state.alarm is not None and state.alarm.id == alarm) or state.dead_alarm == alarm


def alarm_time(at: object, now: datetime) -> datetime:
    """The time of an alarm: one in the past is now. Raises `InvalidInput` for what is no time."""
    if not isinstance(at, datetime):
        raise InvalidInput([FieldError("at", f"must be a datetime, not {shown(at)}")])
    if at.tzinfo is None:
        raise InvalidInput([FieldError("at", "must have a time zone, such as datetime.now(UTC)")])
    if at - now > timedelta(seconds=DELAY_SECONDS_MAX):
        fault = f"must be at most {DELAY_SECONDS_MAX // 86_400} days ahead"
        raise InvalidInput([FieldError("at", fault)])
    return max(at, now)


def version_to_migrate(state: EntityState | None, schema_version: int, call: Call) -> int | None:
    """The stored version, if the class has a newer one. Raises `OlderCode` if the class is
    older than what is stored."""
    if state is None or state.schema_version == schema_version:
        return None
    if state.schema_version > schema_version:
        raise OlderCode(
            f"{call.entity} {call.key!r} has schema_version {state.schema_version}, this process "
            f"knows {schema_version}; update this process"
        )
    return state.schema_version
