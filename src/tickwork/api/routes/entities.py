"""Routes for entities: call an exposed method, list, look inside, change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar.di import NamedDependency
from litestar.openapi.spec import Example
from litestar.params import Body, FromPath, FromQuery
from msgspec import Meta, Struct

from tickwork.api.once import IdempotencyKey
from tickwork.api.operation import Routes
from tickwork.api.pages import (
    PAGE_LIMIT,
    Cursor,
    Limit,
    Page,
    page_of,
    read_cursor,
    read_page,
)
from tickwork.api.query import body_reader, finished
from tickwork.core.access import Permission
from tickwork.core.answers.entity import AlarmBody, CallAnswer, StorageEntry
from tickwork.core.entity.call import arguments_of
from tickwork.core.entity.model import CountedType, EntityRecord
from tickwork.errors import NotFound
from tickwork.ops import entities, entity_edits
from tickwork.ops.context import Context

routes = Routes("entities")

_CALLS = [
    Example(summary="Arguments by position", value={"args": ["LLC Tax"]}),
    Example(summary="Arguments by name", value={"args": {"name": "LLC Tax"}}),
]
_VALUES = [Example(summary="Any JSON", value={"value": {"posts": 7}})]
_ALARMS = [Example(summary="A time", value={"at": "2027-01-01T09:00:00Z"})]


class CallRequest(Struct, frozen=True):
    """Arguments of a method."""

    args: Annotated[
        list[Any] | dict[str, Any], Meta(description="A list by position, an object by name.")
    ] = []


class ValueRequest(Struct, frozen=True):
    """A value to store, up to 131,072 bytes."""

    value: Any


@routes.post(
    "/v1/entities/{entity_type:str}/{key:str}/{method:str}",
    "Call an entity",
    needs=Permission.SEND,
    body=CallRequest,
    problems=(409, 429, 500),
)
async def call_entity(
    entity_type: FromPath[str],
    key: FromPath[str],
    method: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_CALLS)],
    context: NamedDependency[Context],
    idempotency_key: IdempotencyKey = None,
) -> CallAnswer:
    """Calls a method that the class marks with `@exposed`. A worker runs it, in the order of calls;
    the answer comes after it was committed. After 30 seconds without a result `done` is false:
    repeat the request with the same `Idempotency-Key` to get the result."""
    reader = body_reader(data, "args")
    finished(reader)
    by_position, by_name = arguments_of(data.get("args", []))
    await entities.check_names(context.store, entity_type, key)
    call = entities.new_call(entity_type, key, method, by_position, by_name, idempotency_key)
    value = await entities.request_call(context, call)
    if value is None:
        return CallAnswer(done=False)
    return CallAnswer(done=True, result=msgspec.json.decode(value))


@routes.get("/v1/entities", "List types of entities", needs=Permission.READ)
async def list_entity_types(
    context: NamedDependency[Context], limit: Limit = PAGE_LIMIT, cursor: Cursor = None
) -> Page[CountedType]:
    """Returns the types that apps have registered, by name, and how many entities of each the
    tenant has, counted up to 1,000."""
    after: str | None = read_cursor(cursor, str)
    found = await entities.list_types(context, limit=limit + 1, after=after or "")
    return page_of(found, limit, lambda counted: counted.type, lambda counted: counted)


@routes.get("/v1/entities/{entity_type:str}", "List entities of a type", needs=Permission.READ)
async def list_entities(
    entity_type: FromPath[str],
    context: NamedDependency[Context],
    prefix: FromQuery[str] = "",
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[EntityRecord]:
    """Returns the entities of a type by key, those whose key begins with `prefix`."""
    after: str | None = read_cursor(cursor, str)
    found = await entities.list_entities(
        context,
        entity_type,
        prefix=prefix,
        limit=limit + 1,
        after=after or "",
    )
    return page_of(found, limit, lambda entity: entity.key, lambda entity: entity)


@routes.get("/v1/entities/{entity_type:str}/{key:str}", "Get an entity", needs=Permission.READ)
async def get_entity(
    entity_type: FromPath[str], key: FromPath[str], context: NamedDependency[Context]
) -> EntityRecord:
    """Returns the size, the alarm and the schedules of an entity."""
    return await entities.get_entity(context, entity_type, key)


@routes.delete(
    "/v1/entities/{entity_type:str}/{key:str}",
    "Delete an entity",
    needs=Permission.MANAGE,
    status=204,
    problems=(409, 429),
)
async def delete_entity(
    entity_type: FromPath[str], key: FromPath[str], context: NamedDependency[Context]
) -> None:
    """Deletes the storage, the alarm and the schedules of an entity."""
    await entity_edits.delete_entity(context, entity_type, key)


@routes.get(
    "/v1/entities/{entity_type:str}/{key:str}/storage",
    "List the storage of an entity",
    needs=Permission.READ,
)
async def list_entity_storage(
    entity_type: FromPath[str],
    key: FromPath[str],
    context: NamedDependency[Context],
    prefix: FromQuery[str] = "",
    limit: Limit = PAGE_LIMIT,
    cursor: Cursor = None,
) -> Page[StorageEntry]:
    """Returns keys and values in the order of the keys' bytes."""
    after: str | None = read_cursor(cursor, str)

    async def read(count: int, after: str | None) -> Sequence[StorageEntry]:
        found = await entities.list_storage(
            context,
            entity_type,
            key,
            prefix=prefix,
            limit=count,
            after=after,
        )
        return [StorageEntry(name, value) for name, value in found.items()]

    return await read_page(read, limit, after, lambda entry: entry.name, lambda entry: entry)


@routes.get(
    "/v1/entities/{entity_type:str}/{key:str}/storage/{name:str}",
    "Get a value",
    needs=Permission.READ,
)
async def get_entity_value(
    entity_type: FromPath[str],
    key: FromPath[str],
    name: FromPath[str],
    context: NamedDependency[Context],
) -> StorageEntry:
    """Returns one value of an entity's storage."""
    value = await entities.get_value(context, entity_type, key, name)
    return StorageEntry(name, value)


@routes.put(
    "/v1/entities/{entity_type:str}/{key:str}/storage/{name:str}",
    "Store a value",
    needs=Permission.MANAGE,
    body=ValueRequest,
    problems=(409, 429),
)
async def put_entity_value(
    entity_type: FromPath[str],
    key: FromPath[str],
    name: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_VALUES)],
    context: NamedDependency[Context],
) -> StorageEntry:
    """Stores a value in an entity's storage, between its calls."""
    reader = body_reader(data, "value")
    if "value" not in data:
        reader.fault("value", "is missing")
    finished(reader)
    await entity_edits.put_value(context, entity_type, key, name, data["value"])
    return StorageEntry(name, data["value"])


@routes.delete(
    "/v1/entities/{entity_type:str}/{key:str}/storage/{name:str}",
    "Delete a value",
    needs=Permission.MANAGE,
    status=204,
    problems=(409, 429),
)
async def delete_entity_value(
    entity_type: FromPath[str],
    key: FromPath[str],
    name: FromPath[str],
    context: NamedDependency[Context],
) -> None:
    """Deletes a key of an entity's storage, between its calls."""
    await entity_edits.delete_value(context, entity_type, key, name)


@routes.get(
    "/v1/entities/{entity_type:str}/{key:str}/alarm",
    "Get the alarm of an entity",
    needs=Permission.READ,
)
async def get_entity_alarm(
    entity_type: FromPath[str], key: FromPath[str], context: NamedDependency[Context]
) -> AlarmBody:
    """Returns when the alarm is set to fire; 404 if none is set."""
    found = await entities.get_entity(context, entity_type, key)
    if found.alarm_at is None:
        raise NotFound("alarm of", f"{entity_type} {key!r}")
    return AlarmBody(found.alarm_at)


@routes.put(
    "/v1/entities/{entity_type:str}/{key:str}/alarm",
    "Set the alarm of an entity",
    needs=Permission.MANAGE,
    body=AlarmBody,
    problems=(409, 429),
)
async def put_entity_alarm(
    entity_type: FromPath[str],
    key: FromPath[str],
    data: Annotated[dict[str, Any], Body(examples=_ALARMS)],
    context: NamedDependency[Context],
) -> AlarmBody:
    """Sets the alarm, or replaces it. A time in the past is now."""
    reader = body_reader(data, "at")
    at = reader.moment("at")
    if at is None and not reader.faults:
        reader.fault("at", "is missing; such as 2027-01-01T09:00:00Z")
    finished(reader)
    assert at is not None
    await entity_edits.set_alarm(context, entity_type, key, at)
    return AlarmBody(at)


@routes.delete(
    "/v1/entities/{entity_type:str}/{key:str}/alarm",
    "Delete the alarm of an entity",
    needs=Permission.MANAGE,
    status=204,
    problems=(409, 429),
)
async def delete_entity_alarm(
    entity_type: FromPath[str], key: FromPath[str], context: NamedDependency[Context]
) -> None:
    """Deletes the alarm; 404 if none is set."""
    await entity_edits.delete_alarm(context, entity_type, key)
