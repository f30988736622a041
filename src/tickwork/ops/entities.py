"""Verbs of entities: send a call, list, look inside, change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.clock import monotonic
from tickwork.core.entity.call import (
    CALL_WAIT_SECONDS_MAX,
    ENTITY_SETTINGS,
    WAITING_CALLS_MAX,
    Call,
    call_message,
    check_idempotency_key,
    check_key,
    check_storage_key,
    check_type_name,
    entity_id,
    error_of,
    fingerprint,
    is_type_name,
    queue_of,
    schedule_name,
    too_many_waiting,
)
from tickwork.core.entity.model import CallResult, CountedType, EntityRecord, StorageSelection
from tickwork.core.limits import ENTITIES_PREFIX
from tickwork.core.model import SYSTEM, NewMessage
from tickwork.core.near_names import nearest
from tickwork.core.schedule.model import ScheduleStatus
from tickwork.errors import Conflict, NotFound
from tickwork.ops.context import Context
from tickwork.ops.schedules.change import delete, replace
from tickwork.ops.schedules.create import create
from tickwork.ops.schedules.lookup import ensure_hidden_queue, get_schedule, has_queue
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

LIST_LIMIT = 100
"""Number of entities, or keys, that a list returns unless the caller gives a limit."""

ANSWER_POLL_SECONDS_MIN = 0.01
"""Seconds until the first look for the answer of a call."""

ANSWER_POLL_SECONDS_MAX = 0.25
"""Maximum number of seconds between two looks."""


async def ensure_entity_type(store: Store, name: str) -> None:
    """Creates the hidden queue of a type, if there is none."""
    await ensure_hidden_queue(store, queue_of(name), ENTITY_SETTINGS)


def new_call(
    entity: str,
    key: str,
    method: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    idempotency_key: str | None = None,
) -> Call:
    """A call whose names are valid; its arguments are not checked yet."""
    check_type_name(entity)
    check_key(key)
    if idempotency_key is not None:
        check_idempotency_key(idempotency_key)
    return Call(
        entity=entity,
        key=key,
        method=method,
        args=[*args],
        kwargs={**kwargs},
        idempotency_key=idempotency_key,
    )


def new_call_message(call: Call) -> NewMessage:
    """The message that carries a call."""
    return call_message(call, new_id())


async def send_call(context: Context, call: Call) -> UUID:
    """Sends a call: a worker runs it, after the calls that were sent before. Returns its id. Raises
    `TooMany` if too many calls wait for the entity."""
    message = new_call_message(call)
    waiting = await context.store.entities.count_waiting(
        context.scope, queue_of(call.entity), str(message.key)
    )
    if waiting >= WAITING_CALLS_MAX:
        raise too_many_waiting(message)
    await context.store.messages.send(context.scope, queue_of(call.entity), message)
    return message.id


async def put_entity_schedule(context: Context, call: Call) -> None:
    """Creates, replaces or deletes a schedule of an entity."""
    name, fields = schedule_name(call), call.schedule_fields
    if fields is None:
        with suppress(NotFound):
            await delete(context, name)
        return
    try:
        known = await get_schedule(context, name)
    except NotFound:
        known = None
    own = {"entity": call.entity, "key": call.key, "schedule": call.schedule}
    metadata = {**(fields.get("metadata") or {}), **own}
    body = {**fields, "name": name, "metadata": metadata}
    if known is not None and known.status is ScheduleStatus.ACTIVE:
        await replace(context, known, body, is_anew=True)
        return
    if known is not None:  # It has completed, or was paused: begin anew.
        await delete(context, known.id)
    await create(context, body)


# Looking inside


ENTITIES_COUNTED_MAX = 1_000
"""Up to how many entities of a type are counted."""


async def list_types(
    context: Context, *, limit: int = LIST_LIMIT, after: str = ""
) -> tuple[CountedType, ...]:
    """Returns the types of entities by name, after a given one."""
    names = [name for name in await type_names(context.store) if name > after]
    count = context.store.entities.count
    return tuple(
        [
            CountedType(name, await count(context.scope, name, ENTITIES_COUNTED_MAX))
            for name in names[:limit]
        ]
    )


async def type_names(store: Store) -> tuple[str, ...]:
    """The names of all types of entities that apps have registered."""
    names = [queue.name for queue in await store.queues.list(SYSTEM)]
    return tuple(
        sorted(
            name.removeprefix(ENTITIES_PREFIX) for name in names if name.startswith(ENTITIES_PREFIX)
        )
    )


async def check_names(store: Store, type_name: str, key: str | None = None) -> None:
    """Raises `NotFound` for a type that no app has registered, `InvalidInput` for a wrong key."""
    if not is_type_name(type_name) or not await has_queue(
        Context(store, SYSTEM), queue_of(type_name)
    ):
        near = nearest(type_name, await type_names(store))
        raise NotFound("entity", type_name, None if near is None else f"did you mean {near}?")
    if key is not None:
        check_key(key)


async def list_entities(
    context: Context,
    type_name: str,
    *,
    prefix: str = "",
    limit: int = LIST_LIMIT,
    after: str = "",
) -> tuple[EntityRecord, ...]:
    """Returns the entities of a type by key, after a given key."""
    await check_names(context.store, type_name)
    for text in (prefix, after):
        if text:
            check_key(text)
    return await context.store.entities.list(
        context.scope, type_name, limit, prefix=prefix, after=after
    )


async def get_entity(context: Context, type_name: str, key: str) -> EntityRecord:
    """Returns one entity; `NotFound` if nothing is stored of it."""
    await check_names(context.store, type_name, key)
    found = await context.store.entities.list(context.scope, type_name, 1, prefix=key)
    if not found or found[0].key != key:
        raise NotFound(type_name, repr(key))
    return found[0]


async def list_storage(
    context: Context,
    type_name: str,
    key: str,
    *,
    prefix: str = "",
    limit: int = LIST_LIMIT,
    after: str | None = None,
) -> dict[str, Any]:
    """Returns keys and values of an entity's storage, in the order of the keys' bytes."""
    await get_entity(context, type_name, key)
    for text in (prefix, after):
        if text:
            check_storage_key(text)
    selection = StorageSelection(prefix=prefix, start_after=after or None, limit=limit)
    found = await context.store.entities.listed(context.scope, entity_id(type_name, key), selection)
    return {name: msgspec.json.decode(value) for name, value in found.values.items()}


async def get_value(context: Context, type_name: str, key: str, name: str) -> Any:
    """Returns a value of an entity's storage; `NotFound` if there is none."""
    await check_names(context.store, type_name, key)
    check_storage_key(name)
    found = await context.store.entities.values(context.scope, entity_id(type_name, key), [name])
    if name not in found.values:
        raise NotFound(f"key in the storage of {type_name} {key!r}", name)
    return msgspec.json.decode(found.values[name])


# Calling from outside


async def request_call(
    context: Context, call: Call, *, wait_seconds: float = CALL_WAIT_SECONDS_MAX
) -> bytes | None:
    """Calls an exposed method on any worker and returns its result as JSON; None if there is none
    yet after `wait_seconds`. Raises what the method raised; `EntityCallFailed` for an error of its
    own. A repeat with the same idempotency key gets the same answer."""
    await check_names(context.store, call.entity, call.key)
    id_, key = entity_id(call.entity, call.key), call.idempotency_key or str(new_id())
    asked = structs.replace(call, idempotency_key=key, answers=True)
    known = await context.store.entities.result(context.scope, id_, key)
    if known is None:
        await send_call(context, asked)
        known = await _answer(context, id_, key, wait_seconds)
    if known is None:
        return None
    if known.fingerprint != fingerprint(asked):
        raise Conflict(f"idempotency key {key!r} was used for another call; use a new one")
    if known.error is not None:
        raise error_of(call, known.error)
    return known.value or b"null"


async def _answer(context: Context, id_: UUID, key: str, seconds: float) -> CallResult | None:
    until, pause = monotonic() + seconds, ANSWER_POLL_SECONDS_MIN
    while monotonic() < until:
        await asyncio.sleep(pause)
        known = await context.store.entities.result(context.scope, id_, key)
        if known is not None:
            return known
        pause = min(pause * 1.5, ANSWER_POLL_SECONDS_MAX)
    return None
