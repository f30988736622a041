"""`tickwork entities`: list entities, call them, explain what they wait for, look into their
storage, change it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Option, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    Report,
    Shown,
    Table,
    columns,
    fail,
    json_text,
    local_time,
)
from tickwork.cli.store_session import confirm
from tickwork.cli.why import wait_lines

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.wait import Wait

LISTED = 100

entities = Group("Entities: list, show, why, call, put, delete-value, alarm, delete.")


def _value(text: str, name: str) -> Any:
    return _parsed(text, name, "7 or '\"text\"'")


def _arguments(text: str, name: str) -> Any:
    value = _parsed(text, name, "'[5]' or '{\"amount\": 5}'")
    if not isinstance(value, list | dict):
        fail(f"{name}: must be a JSON list or object", code=EXIT_BAD_USAGE)
    return value


def _parsed(text: str, name: str, example: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError as error:
        fail(f"{name}: must be JSON, such as {example}: {error}", code=EXIT_BAD_USAGE)


Type = Annotated[str, Argument("Type of the entity: its class.", "TYPE", fields=("entity",))]
Key = Annotated[str, Argument("Key of the entity.", "KEY")]
Name = Annotated[str, Argument("Key in the storage.", "NAME", fields=("storage key",))]
Value = Annotated[Any, Argument("The value, as JSON.", "VALUE", read=_value)]
Prefix = Annotated[str, Option("Only keys that begin with it.", "TEXT")]
Limit = Annotated[int, Option("Maximum number; default 100.", "N")]
At = Annotated[str, Option("Set it to this time, such as 2027-01-01T09:00Z.", "TIME")]
Method = Annotated[str, Argument("Method with @exposed.", "METHOD")]
Arguments = Annotated[
    Any,
    Option("Arguments: a list by position, an object by name.", "JSON", read=_arguments),
]
IdempotencyKey = Annotated[
    str, Option("A repeat with the same key returns the same result.", "TEXT")
]
Delete = Annotated[bool, Option("Delete it.")]


@entities.client_command("list")
async def list_entities(
    client: Client, type_name: Type | None = None, prefix: Prefix = "", limit: Limit = LISTED
) -> Report:
    """List the entities of a type by key; without a type the types."""
    if type_name is None:
        types = await client.entities.types(limit=limit)
        shown = columns("type", "entities", none="no app has registered entities")
        return Report(types, *shown(types))
    found = await client.entities.list(type_name, prefix=prefix, limit=limit)
    shown = columns(
        "key", ("bytes", "storage_bytes"), "alarm_at", "updated_at", none="there are none"
    )
    return Report(found, *shown(found))


def _alarm_line(alarm_at: datetime | None) -> str:
    return f"alarm: {'none' if alarm_at is None else local_time(alarm_at)}"


@entities.client_command("show")
async def show_entity(
    client: Client, type_name: Type, key: Key, prefix: Prefix = "", limit: Limit = LISTED
) -> Report:
    """Show an entity: its alarm, its schedules and its storage."""
    entity = await client.entities.get(type_name, key)
    found = await client.entities.storage(type_name, key, prefix=prefix, limit=limit + 1)
    values = {entry.name: entry.value for entry in found[:limit]}
    has_more = len(found) > limit
    more = f"and more keys than these {limit}: --limit shows more, --prefix others"
    return Report(
        {"entity": entity, "storage": values, "has_more": has_more},
        f"{type_name} {key}: {entity.storage_bytes} bytes, version {entity.schema_version}",
        _alarm_line(entity.alarm_at),
        f"schedules: {', '.join(entity.schedules) or 'none'}",
        Table(
            ("name", "value"),
            [(name, _text(value)) for name, value in values.items()],
            "the storage is empty",
        ),
        *([more] if has_more else ()),
    )


def _text(value: object) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


@entities.client_command("call")
async def call_entity(
    client: Client,
    type_name: Type,
    key: Key,
    method: Method,
    args: Arguments = (),
    idempotency_key: IdempotencyKey | None = None,
) -> Report:
    """Call a method of an entity and print its result. A running worker executes it."""
    result = await client.entities.call(
        type_name, key, method, args or [], idempotency_key=idempotency_key
    )
    return Report({"result": result}, json_text(result))


@entities.client_command("put")
async def put_value(client: Client, type_name: Type, key: Key, name: Name, value: Value) -> Report:
    """Store a value in an entity's storage, between its calls."""
    await client.entities.put_value(type_name, key, name, value)
    return Report({"name": name, "value": value}, f"{name} is stored")


@entities.client_command("delete-value")
async def delete_value(client: Client, type_name: Type, key: Key, name: Name) -> Report:
    """Delete a key of an entity's storage, between its calls."""
    await client.entities.delete_value(type_name, key, name)
    return Report({"name": name, "deleted": True}, f"{name} is deleted")


@entities.client_command("alarm")
async def change_alarm(
    client: Client, type_name: Type, key: Key, at: At | None = None, delete: Delete = False
) -> Report:
    """Show the alarm of an entity, set it with --at, or delete it."""
    if at is not None and delete:
        fail("--at: cannot be combined with --delete", code=EXIT_BAD_USAGE)
    if at is not None:
        await client.entities.set_alarm(type_name, key, at)
    elif delete:
        await client.entities.delete_alarm(type_name, key)
    alarm_at = (await client.entities.get(type_name, key)).alarm_at
    return Report({"alarm_at": alarm_at}, _alarm_line(alarm_at))


@entities.client_command("why")
async def explain_entity(client: Client, type_name: Type, key: Key) -> Report:
    """Explain what the alarm and the calls of an entity wait for, the first ones first."""
    found = await client.entities.why(type_name, key)
    free = f"{type_name} {key} is free: no alarm is set, and no call runs or waits"
    return Report(found, *([*_waits(found)] or [free]))


def _waits(found: Iterable[Wait]) -> Shown:
    for number, wait in enumerate(found):
        if number:
            yield ""
        yield from wait_lines(wait)


@entities.client_command("delete")
async def delete_entity(client: Client, type_name: Type, key: Key, yes: Yes = False) -> Report:
    """Delete an entity: its storage, its alarm and its schedules."""
    await client.entities.get(type_name, key)
    confirm(f"Permanently delete {type_name} {key} with all that it stores?", yes=yes)
    await client.entities.delete(type_name, key)
    return Report({"key": key, "deleted": True}, f"{type_name} {key} is deleted")
