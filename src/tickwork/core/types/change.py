"""What a new version of a type changes for those who send messages of the one before.

A change is breaking if a body that fits the old schema may not fit the new one: a field that is
newly required, a type that takes less. A field that is new and optional, or one that nobody reads
any more, is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tickwork.core.types.schema import named_kind

Definitions = Mapping[str, Any]

_LOWER = {
    "minimum": "the minimum",
    "exclusiveMinimum": "the minimum",
    "minLength": "the shortest length",
    "minItems": "the smallest number of items",
    "minProperties": "the smallest number of fields",
}
_UPPER = {
    "maximum": "the maximum",
    "exclusiveMaximum": "the maximum",
    "maxLength": "the longest length",
    "maxItems": "the largest number of items",
    "maxProperties": "the largest number of fields",
}


class SchemaChange(Struct, frozen=True):
    """One difference between two schemas."""

    path: str
    says: str
    breaking: bool


def schema_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[SchemaChange, ...]:
    """The differences between two schemas, the breaking ones first."""
    comparison = _Comparison(before.get("$defs", {}), after.get("$defs", {}))
    found = dict.fromkeys(comparison.compare(before, after, "$"))
    return tuple(sorted(found, key=lambda change: not change.breaking))


class _Comparison:
    def __init__(self, before: Definitions, after: Definitions) -> None:
        self._before, self._after = before, after
        self._compared: set[tuple[str, str]] = set()

    def compare(self, before: Any, after: Any, path: str) -> Iterator[SchemaChange]:
        pair = (_text(before), _text(after))
        if pair in self._compared:
            return
        self._compared.add(pair)
        olds, news = _kinds(before, self._before), _kinds(after, self._after)
        if not news:
            if olds:
                yield SchemaChange(path, "takes anything now", breaking=False)
            return
        if not olds:
            yield SchemaChange(path, f"takes only {_all_named(news)} now", breaking=True)
            return
        for name, old in olds.items():
            new = news.get(name, news.get("number") if name == "integer" else None)
            if new is None:
                yield SchemaChange(path, f"does not take {_named(name)} any more", breaking=True)
            else:
                yield from self._compare_kind(old, new, path)
        for name in news.keys() - olds.keys():
            yield SchemaChange(path, f"takes {_named(name)}, too", breaking=False)

    def _compare_kind(
        self, old: Mapping[str, Any], new: Mapping[str, Any], path: str
    ) -> Iterator[SchemaChange]:
        yield from _bounds(old, new, path)
        yield from self._fields(old, new, path)
        if "items" in old or "items" in new:
            yield from self.compare(old.get("items", {}), new.get("items", {}), f"{path}[]")
        firsts = zip(old.get("prefixItems", ()), new.get("prefixItems", ()), strict=False)
        for number, (first, other) in enumerate(firsts):
            yield from self.compare(first, other, f"{path}[{number}]")

    def _fields(
        self, old: Mapping[str, Any], new: Mapping[str, Any], path: str
    ) -> Iterator[SchemaChange]:
        olds, news = old.get("properties", {}), new.get("properties", {})
        was_required, required = {*old.get("required", ())}, {*new.get("required", ())}
        is_closed = new.get("additionalProperties") is False
        for name, schema in news.items():
            at = f"{path}.{name}"
            if name in required and name not in was_required:
                says = "is required now" if name in olds else "is new and required"
                yield SchemaChange(at, says, breaking=True)
            elif name not in olds:
                yield SchemaChange(at, "is new and optional", breaking=False)
            elif name in was_required and name not in required:
                yield SchemaChange(at, "is optional now", breaking=False)
            if name in olds:
                yield from self.compare(olds[name], schema, at)
        for name in olds.keys() - news.keys():
            says = "is removed and refused" if is_closed else "is removed; it is ignored"
            yield SchemaChange(f"{path}.{name}", says, breaking=is_closed)
        others, new_others = old.get("additionalProperties"), new.get("additionalProperties")
        if is_closed and others is not False:
            yield SchemaChange(path, "refuses unknown fields now", breaking=True)
        elif isinstance(new_others, Mapping):
            kept = others if isinstance(others, Mapping) else {}
            yield from self.compare(kept, new_others, f"{path}.*")


def _kinds(schema: Any, definitions: Definitions, depth: int = 0) -> dict[str, Mapping[str, Any]]:
    """What a schema takes, by name: types, objects of a union, single values. Empty: anything."""
    if not isinstance(schema, Mapping) or depth > len(definitions) + 8:
        return {}
    if isinstance(reference := schema.get("$ref"), str):
        return _kinds(definitions.get(reference.rpartition("/")[2]), definitions, depth + 1)
    parts = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(parts, Sequence):
        of_parts = [_kinds(part, definitions, depth + 1) for part in parts]
        return (
            {} if {} in of_parts else {name: one for part in of_parts for name, one in part.items()}
        )
    if isinstance(parts := schema.get("allOf"), Sequence):
        # Of a queue and its handler, which takes less of what both take.
        return _merged(_kinds(part, definitions, depth + 1) for part in parts)
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return {f"={_text(value)}": {} for value in values}
    types = schema.get("type", ())
    types = [types] if isinstance(types, str) else types
    return {_kind(type_, schema): schema for type_ in types}


def _merged(parts: Iterable[dict[str, Mapping[str, Any]]]) -> dict[str, Mapping[str, Any]]:
    return {name: schema for part in parts for name, schema in part.items()}


def _kind(type_: str, schema: Mapping[str, Any]) -> str:
    """The name of a type; of an object or array with a tag also the tag, which distinguishes those
    of a union."""
    parts = [*schema.get("properties", {}).values(), *schema.get("prefixItems", ())[:1]]
    for part in parts:
        values = part.get("enum", [part["const"]] if "const" in part else [])
        if len(values) == 1:
            return f"{type_} {_text(values[0])}"
    return type_


def _bounds(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    for word, what in (_LOWER | _UPPER).items():
        was, now = old.get(word), new.get(word)
        if was == now:
            continue
        is_lower = word in _LOWER
        narrows = now is not None and (was is None or (now > was if is_lower else now < was))
        says = f"{what} is {'none' if now is None else now} now"
        yield SchemaChange(path, says, breaking=narrows)
    was, now = old.get("format"), new.get("format")
    if was != now:
        says = "takes any text now" if now is None else f"must be a {now} now"
        yield SchemaChange(path, says, breaking=now is not None)


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def _named(name: str) -> str:
    if name.startswith("="):
        return name[1:]
    kind, _, tag = name.partition(" ")
    return f"{named_kind(kind)} {tag}".rstrip()


def _all_named(kinds: Mapping[str, object]) -> str:
    return " or ".join(map(_named, kinds))
