"""Checks values against the JSON Schemas that annotations of Python become.

It knows the words that msgspec and Pydantic write. A word that it does not know says nothing, and
where a type takes more than its schema says, it is lenient: what a handler accepts is never
refused. A schema with `LAX` is of a type that converts simple values, such as "7" to 7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tickwork.core.near_names import nearest

LAX = "x-lax"
"""Marks the schema of a type that converts texts, numbers and booleans to each other."""

STEPS_MAX = 1_000_000
"""Maximum number of values that one check looks at. A body with more of them is accepted."""

_SIMPLE = frozenset({"string", "integer", "number", "boolean"})
_FORMATS = {
    "date-time": re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "time": re.compile(r"\d\d:\d\d"),
    "uuid": re.compile(r"[0-9a-fA-F-]{32,36}$"),
    "duration": re.compile(r"[+-]?[Pp]"),
}
"""How a text of a format begins."""


class Fault(NamedTuple):
    """Where a value does not fit its schema, and how."""

    path: tuple[int | str, ...]
    says: str

    def __str__(self) -> str:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return f"{self.says} - at `${''.join(steps)}`"


class _TooMuch(Exception):
    """The value is too large to be checked."""


class _Walk:
    """One check on its way."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = STEPS_MAX

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooMuch


_Check = Callable[[Any, _Walk], Fault | None]


class Schema:
    """A compiled schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._definitions: Mapping[str, Any] = schema.get("$defs", {})
        self._is_lax = bool(schema.get(LAX))
        self._compiled: dict[str, _Check] = {}
        self.accepts_all = not (schema.keys() - {"$defs", "title", "description", LAX})
        self._check = self._compile(schema)

    def fault(self, value: Any) -> Fault | None:
        """The first fault of a decoded JSON value; None if it fits."""
        try:
            return self._check(value, _Walk())
        except (_TooMuch, RecursionError):
            return None

    def _compile(self, schema: Any) -> _Check:
        if schema is False:
            return lambda _value, _walk: Fault((), "must not be there")
        if not isinstance(schema, Mapping):
            return _anything
        checks = [*self._checks(schema)]
        if len(checks) == 1:
            return checks[0]

        def check(value: Any, walk: _Walk) -> Fault | None:
            for part in checks:
                if (fault := part(value, walk)) is not None:
                    return fault
            return None

        return check

    def _checks(self, schema: Mapping[str, Any]) -> Iterator[_Check]:
        if isinstance(reference := schema.get("$ref"), str):
            yield self._reference(reference)
        if "enum" in schema or "const" in schema:
            yield self._one_of([*schema.get("enum", ()), *_only(schema, "const")])
        for word in ("anyOf", "oneOf"):
            if isinstance(parts := schema.get(word), Sequence):
                yield _any_of([self._compile(part) for part in parts])
        if isinstance(parts := schema.get("allOf"), Sequence):
            yield from (self._compile(part) for part in parts)
        if isinstance(tagged := schema.get("discriminator"), Mapping) and not self._is_lax:
            yield _required([str(tagged.get("propertyName"))])
        kinds = schema.get("type")
        if kinds is not None:
            yield self._of_type((kinds,) if isinstance(kinds, str) else tuple(kinds), schema)
        yield from self._texts(schema)
        yield from _numbers(schema)
        yield from self._objects(schema)
        yield from self._arrays(schema)

    def _reference(self, reference: str) -> _Check:
        name = reference.rpartition("/")[2].replace("~1", "/").replace("~0", "~")

        def check(value: Any, walk: _Walk) -> Fault | None:
            known = self._compiled.get(name)
            if known is None:
                known = self._compiled[name] = self._compile(self._definitions.get(name))
            walk.step()
            return known(value, walk)

        return check

    def _one_of(self, values: Sequence[Any]) -> _Check:
        kinds = {_kind_of(value) for value in values}
        if self._is_lax and kinds & _SIMPLE:  # "1" may become 1.
            kinds |= _SIMPLE
            return lambda value, _walk: None if _kind_of(value) in kinds else _no_type(value, kinds)
        shown = ", ".join(map(_json, values))
        says = f"must be {shown}" if len(values) == 1 else f"must be one of {shown}"

        def check(value: Any, _walk: _Walk) -> Fault | None:
            is_known = any(_is_same(value, known) for known in values)
            return None if is_known else Fault((), says)

        return check

    def _of_type(self, kinds: Sequence[str], schema: Mapping[str, Any]) -> _Check:
        wanted = set(kinds)
        if "number" in wanted or schema.get("format") == "decimal":
            wanted |= {"integer", "number"}
        if self._is_lax and wanted & _SIMPLE:
            wanted |= _SIMPLE

        def check(value: Any, walk: _Walk) -> Fault | None:
            walk.step()
            return None if _kind_of(value) in wanted else _no_type(value, kinds)

        return check

    def _texts(self, schema: Mapping[str, Any]) -> Iterator[_Check]:
        if isinstance(at_least := schema.get("minLength"), int):
            says = f"must have at least {at_least} characters"
            yield (
                lambda value, _walk: (
                    Fault((), says) if isinstance(value, str) and len(value) < at_least else None
                )
            )
        if self._is_lax:  # It may strip a text, and take a number for a time.
            return
        if isinstance(at_most := schema.get("maxLength"), int):
            too_long = f"must have at most {at_most} characters"
            yield (
                lambda value, _walk: (
                    Fault((), too_long) if isinstance(value, str) and len(value) > at_most else None
                )
            )
        if (pattern := _FORMATS.get(str(schema.get("format")))) is not None:
            format_ = schema["format"]
            no_match = f"must be a {format_}"
            yield (
                lambda value, _walk: (
                    Fault((), no_match)
                    if isinstance(value, str) and not pattern.match(value)
                    else None
                )
            )

    def _objects(self, schema: Mapping[str, Any]) -> Iterator[_Check]:
        if isinstance(required := schema.get("required"), Sequence) and required:
            yield _required(required)
        known = schema.get("properties")
        properties = {
            name: self._compile(part)
            for name, part in (known if isinstance(known, Mapping) else {}).items()
        }
        more = schema.get("additionalProperties", True)
        others = None if more is True else self._compile(more)
        is_closed = more is False
        if properties or others is not None:

            def check(value: Any, walk: _Walk) -> Fault | None:
                if not isinstance(value, dict):
                    return None
                walk.step()
                for name, item in value.items():
                    part = properties.get(name)
                    if part is None:
                        if is_closed:
                            return Fault((name,), _unknown(name, properties))
                        part = others
                    if part is not None and (fault := part(item, walk)) is not None:
                        return fault._replace(path=(name, *fault.path))
                return None

            yield check
        yield from _bounded(schema, dict, "Properties", "fields")

    def _arrays(self, schema: Mapping[str, Any]) -> Iterator[_Check]:
        first = schema.get("prefixItems", ())
        firsts = [self._compile(part) for part in first] if isinstance(first, Sequence) else []
        items = schema.get("items", True)
        rest = self._compile(items)
        if firsts or items is not True:

            def check(value: Any, walk: _Walk) -> Fault | None:
                if not isinstance(value, list):
                    return None
                walk.step()
                for number, item in enumerate(value):
                    part = firsts[number] if number < len(firsts) else rest
                    if (fault := part(item, walk)) is not None:
                        return fault._replace(path=(number, *fault.path))
                return None

            yield check
        yield from _bounded(schema, list, "Items", "items")


def _anything(_value: Any, _walk: _Walk) -> None:
    return None


def _only(schema: Mapping[str, Any], word: str) -> Iterator[Any]:
    if word in schema:
        yield schema[word]


def _any_of(parts: Sequence[_Check]) -> _Check:
    def check(value: Any, walk: _Walk) -> Fault | None:
        walk.step()
        deepest: Fault | None = None
        for part in parts:
            fault = part(value, walk)
            if fault is None:
                return None
            if deepest is None or len(fault.path) > len(deepest.path):
                deepest = fault
        return deepest

    return check


def _required(names: Sequence[str]) -> _Check:
    def check(value: Any, _walk: _Walk) -> Fault | None:
        if isinstance(value, dict):
            for name in names:
                if name not in value:
                    return Fault((), f"misses the field {name!r}{_meant(name, value)}")
        return None

    return check


def _meant(name: str, value: dict[str, Any]) -> str:
    near = nearest(name, value)
    return "" if near is None else f"; it has {near!r}"


def _unknown(name: str, properties: Mapping[str, object]) -> str:
    near = nearest(name, properties)
    return "is no field of the type" if near is None else f"is no field; did you mean {near!r}?"


def _bounded(
    schema: Mapping[str, Any], kind: type[dict[str, Any]] | type[list[Any]], word: str, what: str
) -> Iterator[_Check]:
    at_least, at_most = schema.get(f"min{word}"), schema.get(f"max{word}")
    if isinstance(at_least, int) and at_least > 0:
        too_few = f"must have at least {at_least} {what}"
        yield (
            lambda value, _walk: (
                Fault((), too_few) if isinstance(value, kind) and len(value) < at_least else None
            )
        )
    if isinstance(at_most, int):
        too_many = f"must have at most {at_most} {what}"
        yield (
            lambda value, _walk: (
                Fault((), too_many) if isinstance(value, kind) and len(value) > at_most else None
            )
        )


_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least", lambda value, bound: value >= bound),
    "exclusiveMinimum": ("more than", lambda value, bound: value > bound),
    "maximum": ("at most", lambda value, bound: value <= bound),
    "exclusiveMaximum": ("less than", lambda value, bound: value < bound),
}


def _numbers(schema: Mapping[str, Any]) -> Iterator[_Check]:
    for word, (says, is_within) in _BOUNDS.items():
        bound = schema.get(word)
        if _kind_of(bound) in ("integer", "number"):
            yield _bound(f"must be {says} {bound}", bound, is_within)


def _bound(says: str, bound: Any, is_within: Callable[[Any, Any], bool]) -> _Check:
    def check(value: Any, _walk: _Walk) -> Fault | None:
        is_number = _kind_of(value) in ("integer", "number")
        return Fault((), says) if is_number and not is_within(value, bound) else None

    return check


_KINDS: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def _kind_of(value: Any) -> str:
    return _KINDS.get(type(value), "object")


def _is_same(value: Any, known: Any) -> bool:
    """In Python 1 equals True and 1.0."""
    return bool(value == known) and (type(value) is type(known) or type(known) is float)


_ARTICLES = {"null": "null", "integer": "an integer", "array": "an array", "object": "an object"}


def named_kind(kind: str) -> str:
    """A kind of JSON values with its article."""
    return _ARTICLES.get(kind, f"a {kind}")


def _no_type(value: Any, kinds: Sequence[str] | set[str]) -> Fault:
    wanted = " or ".join(named_kind(kind) for kind in sorted(kinds))
    return Fault((), f"must be {wanted}, not {named_kind(_kind_of(value))}")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
