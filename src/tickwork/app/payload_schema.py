"""The JSON Schema of a declared type, for those who do not have the code that declares it.

It never refuses what the type takes: where a type decides in code, such as a validator that runs
before the fields are read, the schema of that part says nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import Enum
from types import ModuleType
from typing import Any

import msgspec
from msgspec import structs
from msgspec.inspect import EnumType, Field, StructType, Type, type_info

from tickwork.app.payloads import Payload, ReadAs, has_models
from tickwork.core.types.schema import LAX

ANYTHING: dict[str, Any] = {}
"""The schema of what takes any value."""

_BY_CODE = ("function-before", "function-wrap", "function-plain")
"""Kinds of Pydantic's core schemas that decide in code what they take."""


def schema_of(payload: Payload[Any]) -> dict[str, Any]:
    """The schema of a payload; of one that two types have to take, that of both."""
    parts = [_schema(part) for part in _types_of(payload)]
    parts = [part for part in parts if part]
    if len(parts) < 2:
        return parts[0] if parts else ANYTHING
    # Definitions of two types may have one name, so those of the second get another.
    second = _renamed(parts[1], "Read")
    definitions = {**parts[0].pop("$defs", {}), **second.pop("$defs", {})}
    both: dict[str, Any] = {"allOf": [parts[0], second], "$defs": definitions}
    return both | ({LAX: True} if any(part.pop(LAX, False) for part in (parts[0], second)) else {})


def _types_of(payload: Payload[Any]) -> list[Any]:
    if isinstance(payload, ReadAs):
        return [payload.declared, payload.reader.declared]
    return [] if payload.is_plain else [payload.declared]


def _schema(declared: Any) -> dict[str, Any]:
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and has_models(declared):
        return _of_models(declared, pydantic)
    tags: set[str] = set()
    if _decides_in_code(type_info(declared), set(), tags):
        return ANYTHING
    try:
        schema = msgspec.json.schema(declared)
    except (TypeError, KeyError):  # A type that JSON Schema cannot describe.
        return ANYTHING
    for part in (schema, *schema.get("$defs", {}).values()):
        if required := part.get("required"):
            part["required"] = [name for name in required if not _is_tag(part, name, tags)]
    return schema


def _is_tag(schema: Mapping[str, Any], name: str, tags: set[str]) -> bool:
    """Whether a field is a tag: outside a union a body may leave it out."""
    return name in tags and len(schema["properties"][name].get("enum", ())) == 1


def _decides_in_code(node: Any, seen: set[int], tags: set[str]) -> bool:
    """Whether an enum in a type takes values that are none of its own. Adds the fields that are
    tags."""
    if id(node) in seen or not isinstance(node, tuple | Type | Field):
        return False
    seen.add(id(node))
    if isinstance(node, EnumType):
        return getattr(node.cls._missing_, "__func__", None) is not Enum._missing_.__func__  # type: ignore[attr-defined]
    if isinstance(node, StructType) and node.tag_field is not None:
        tags.add(node.tag_field)
    inner = node if isinstance(node, tuple) else structs.astuple(node)
    return any(_decides_in_code(part, seen, tags) for part in inner)


def _of_models(declared: Any, pydantic: ModuleType) -> dict[str, Any]:
    from pydantic.json_schema import GenerateJsonSchema

    class Accepting(GenerateJsonSchema):
        """Says nothing of what is decided in code."""

    def nothing(_self: Any, _schema: Any) -> dict[str, Any]:
        return {}

    for kind in _BY_CODE:
        setattr(Accepting, f"{kind.replace('-', '_')}_schema", nothing)
    try:
        adapter = pydantic.TypeAdapter(declared)
        if _has_paths(adapter.core_schema, set()):
            return ANYTHING
        by_alias, by_name = [
            adapter.json_schema(by_alias=is_by_alias, schema_generator=Accepting)
            for is_by_alias in (True, False)
        ]
    except pydantic.errors.PydanticUserError:  # A type that JSON Schema cannot describe.
        return ANYTHING
    return {**_either(by_alias, by_name), LAX: True}


def _has_paths(node: Any, seen: set[int]) -> bool:
    """Whether a field of a model is read from one of several places."""
    if id(node) in seen:
        return False
    seen.add(id(node))
    if isinstance(node, Mapping):
        if isinstance(node.get("validation_alias"), list):
            return True
        return any(_has_paths(part, seen) for part in node.values())
    return isinstance(node, list | tuple) and any(_has_paths(part, seen) for part in node)


def _either(by_alias: Any, by_name: Any) -> Any:
    """A schema with the fields of both: a body may have the name of a field or its alias."""
    if isinstance(by_alias, list) and isinstance(by_name, list):
        return [_either(*pair) for pair in zip(by_alias, by_name, strict=True)]
    if not isinstance(by_alias, dict) or not isinstance(by_name, dict):
        return by_alias
    merged = {
        word: _either(part, by_name[word]) if word in by_name else part
        for word, part in (by_name | by_alias).items()
        if word in by_alias
    }
    if "properties" in by_alias and by_alias.get("type") == "object":
        merged["properties"] = by_name["properties"] | merged["properties"]
        names = {*by_name.get("required", ())}
        required = [name for name in by_alias.get("required", ()) if name in names]
        merged.pop("required", None)
        merged |= {"required": required} if required else {}
    return merged


def _renamed(schema: Any, prefix: str) -> Any:
    if isinstance(schema, list):
        return [_renamed(part, prefix) for part in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {word: _renamed(part, prefix) for word, part in schema.items()}
    if isinstance(reference := schema.get("$ref"), str):
        start, _, name = reference.rpartition("/")
        renamed["$ref"] = f"{start}/{prefix}{name}"
    if isinstance(definitions := renamed.get("$defs"), dict):
        renamed["$defs"] = {f"{prefix}{name}": part for name, part in definitions.items()}
    return renamed
