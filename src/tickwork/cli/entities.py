"""`tickwork entities`: list entities, call them, explain what they wait for, look into their
storage, change it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import OPTION_OF_FIELD, Argument, Database, Json, Option, Tenant
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    fail,
    json_text,
    print_json,
    print_lines,
    print_table,
)
from tickwork.cli.session import ask
from tickwork.cli.store_session import required, whole_number
from tickwork.cli.why import wait_lines

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.entity.model import EntityRecord

LISTED = 100

app = Group(help="Entities: list, show, why, call, put, delete-value, alarm, delete.")

Type = Annotated[str | None, Argument(metavar="TYPE", help="Type of the entity: its class.")]
Key = Annotated[str | None, Argument(metavar="KEY", help="Key of the entity.")]
Name = Annotated[str | None, Argument(metavar="NAME", help="Key in the storage.")]
Value = Annotated[str | None, Argument(metavar="VALUE", help="The value, as JSON.")]
Prefix = Annotated[str, Option(metavar="TEXT", help="Only keys that begin with it.")]
LimitText = Annotated[str | None, Option(metavar="N", help="Maximum number; default 100.")]
At = Annotated[
    str | None, Option(metavar="TIME", help="Set it to this time, such as 2027-01-01T09:00Z.")
]
Method = Annotated[str | None, Argument(metavar="METHOD", help="Method with @exposed.")]
Arguments = Annotated[
    str | None,
    Option(name="--args", metavar="JSON", help="Arguments: a list by position, an object by name."),
]
IdempotencyKey = Annotated[
    str | None,
    Option(metavar="TEXT", help="A repeat with the same key returns the same result."),
]
Delete = Annotated[bool, Option(name="--delete", help="Delete it.")]

_OPTIONS = OPTION_OF_FIELD | {
    "entity": "TYPE",
    "key": "KEY",
    "storage key": "NAME",
    "limit": "--limit",
    "at": "--at",
    "args": "--args",
    "idempotency_key": "--idempotency-key",
}


@app.plain_command("list")
def list_command(
    type_name: Type = None,
    prefix: Prefix = "",
    limit: LimitText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List the entities of a type by key; without a type the types."""
    count = whole_number(limit, "--limit", LISTED)
    if type_name is None:
        types = ask(database, tenant, lambda client: client.entities.types(limit=count))
        if as_json:
            print_json(types)
        else:
            counted = [(type_.type, type_.entities) for type_ in types]
            print_table(("type", "entities"), counted, none="no app has registered entities")
        return
    found = ask(
        database,
        tenant,
        lambda client: client.entities.list(type_name, prefix=prefix, limit=count),
        names=_OPTIONS,
    )
    if as_json:
        print_json(found)
        return
    rows = [
        (entity.key, entity.storage_bytes, entity.alarm_at, entity.updated_at) for entity in found
    ]
    print_table(("key", "bytes", "alarm_at", "updated_at"), rows, none="there are none")


@app.plain_command("show")
def show_command(
    type_name: Type = None,
    key: Key = None,
    prefix: Prefix = "",
    limit: LimitText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show an entity: its alarm, its schedules and its storage."""
    which, whose = required(type_name, "TYPE"), required(key, "KEY")
    count = whole_number(limit, "--limit", LISTED)

    async def look(client: Client) -> tuple[EntityRecord, dict[str, Any]]:
        entity = await client.entities.get(which, whose)
        found = await client.entities.storage(which, whose, prefix=prefix, limit=count + 1)
        return entity, {entry.name: entry.value for entry in found}

    entity, found = ask(database, tenant, look, names=_OPTIONS)
    values = dict([*found.items()][:count])
    has_more = len(found) > count
    if as_json:
        print_json({"entity": entity, "storage": values, "has_more": has_more})
        return
    schedules = ", ".join(entity.schedules) or "none"
    print_lines(
        [
            f"{which} {whose}: {entity.storage_bytes} bytes, version {entity.schema_version}",
            f"alarm: {entity.alarm_at or 'none'}",
            f"schedules: {schedules}",
        ]
    )
    rows = [(name, _text(value)) for name, value in values.items()]
    print_table(("name", "value"), rows, none="the storage is empty")
    if has_more:
        print_lines([f"and more keys than these {count}: --limit shows more, --prefix others"])


@app.plain_command("call")
def call_command(
    type_name: Type = None,
    key: Key = None,
    method: Method = None,
    arguments: Arguments = None,
    idempotency_key: IdempotencyKey = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Call a method of an entity and print its result. A running worker executes it."""
    which, whose = required(type_name, "TYPE"), required(key, "KEY")
    called = required(method, "METHOD")
    given = _parsed(
        "[]" if arguments is None else arguments, "--args", "'[5]' or '{\"amount\": 5}'"
    )
    if not isinstance(given, list | dict):
        fail("--args: must be a JSON list or object", code=EXIT_BAD_USAGE)
    result = ask(
        database,
        tenant,
        lambda client: client.entities.call(
            which, whose, called, given, idempotency_key=idempotency_key
        ),
        names=_OPTIONS,
    )
    if as_json:
        print_json({"result": result})
    else:
        print_lines([json_text(result)])


@app.plain_command("put")
def put_command(
    type_name: Type = None,
    key: Key = None,
    name: Name = None,
    value: Value = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Store a value in an entity's storage, between its calls."""
    which, whose = required(type_name, "TYPE"), required(key, "KEY")
    stored = required(name, "NAME")
    parsed = _parsed(required(value, "VALUE"), "VALUE", "7 or '\"text\"'")
    ask(
        database,
        tenant,
        lambda client: client.entities.put_value(which, whose, stored, parsed),
        names=_OPTIONS,
    )
    _say(f"{stored} is stored", {"name": stored, "value": parsed}, as_json=as_json)


@app.plain_command("delete-value")
def delete_value_command(
    type_name: Type = None,
    key: Key = None,
    name: Name = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Delete a key of an entity's storage, between its calls."""
    which, whose = required(type_name, "TYPE"), required(key, "KEY")
    gone = required(name, "NAME")
    ask(
        database,
        tenant,
        lambda client: client.entities.delete_value(which, whose, gone),
        names=_OPTIONS,
    )
    _say(f"{gone} is deleted", {"name": gone, "deleted": True}, as_json=as_json)


@app.plain_command("alarm")
def alarm_command(
    type_name: Type = None,
    key: Key = None,
    at: At = None,
    delete: Delete = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show the alarm of an entity, set it with --at, or delete it."""
    which, whose = required(type_name, "TYPE"), required(key, "KEY")
    if at is not None and delete:
        fail("--at: cannot be combined with --delete", code=EXIT_BAD_USAGE)

    async def change(client: Client) -> datetime | None:
        if at is not None:
            await client.entities.set_alarm(which, whose, at)
        elif delete:
            await client.entities.delete_alarm(which, whose)
        return (await client.entities.get(which, whose)).alarm_at

    alarm_at = ask(database, tenant, change, names=_OPTIONS)
    _say(f"alarm: {alarm_at or 'none'}", {"alarm_at": alarm_at}, as_json=as_json)


@app.plain_command("why")
def why_command(
    type_name: Type = None,
    key: Key = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Explain what the alarm and the calls of an entity wait for, the first ones first."""
    which, whose = required(type_name, "TYPE"), required(key, "KEY")
    found = ask(database, tenant, lambda client: client.entities.why(which, whose), names=_OPTIONS)
    if as_json:
        print_json(found)
        return
    for number, wait in enumerate(found):
        print_lines([*([""] if number else []), *wait_lines(wait)])
    if not found:
        print_lines([f"{which} {whose} is free: no alarm is set, and no call runs or waits"])


@app.plain_command("delete")
def delete_command(
    type_name: Type = None,
    key: Key = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Delete an entity: its storage, its alarm and its schedules."""
    which, whose = required(type_name, "TYPE"), required(key, "KEY")
    ask(database, tenant, lambda client: client.entities.delete(which, whose), names=_OPTIONS)
    _say(f"{which} {whose} is deleted", {"key": whose, "deleted": True}, as_json=as_json)


def _parsed(text: str, name: str, example: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError as error:
        fail(f"{name}: must be JSON, such as {example}: {error}", code=EXIT_BAD_USAGE)


def _say(line: str, answer: object, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        print_lines([line])


def _text(value: object) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
