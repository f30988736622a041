"""Refuses null for a field of a body that has a default and is not documented as nullable: it is
left out instead. A null that a client did not mean would otherwise count as the default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from msgspec import Struct, inspect

from tickwork.core.fields import FAULTS_MAX, ITEMS_MAX
from tickwork.errors import FieldError, InvalidInput

_FAULT = "must not be null; leave it out, or give a value"


class _Shape(Struct, frozen=True):
    """The fields of an object that may not be null, and the others; the shapes of objects in its
    fields."""

    not_null: tuple[str, ...]
    others: frozenset[str]
    inner: Mapping[str, _Shape]


def refuse_null_in(raw: bytes, value: object, model: Any) -> None:
    """Raises `InvalidInput` for the first hundred fields of a parsed body that may not be null."""
    if b"null" in raw:
        faults = [
            FieldError(name, _FAULT)
            for name in islice(_nulls(value, _shape_of(model), ""), FAULTS_MAX)
        ]
        if faults:
            raise InvalidInput(faults)


def _nulls(value: object, shape: _Shape, name: str) -> Iterator[str]:
    """The names of the nulls in an object, or in the items of a list that a reader would take."""
    if isinstance(value, list):
        for index, item in enumerate(value[:ITEMS_MAX]):
            yield from _nulls(item, shape, f"{name}[{index}]")
    elif isinstance(value, dict):
        prefix = f"{name}." if name else ""
        for field in shape.not_null:
            if value.get(field, field) is None:
                yield f"{prefix}{field}"
        for field, inner in shape.inner.items():
            if field in value:
                yield from _nulls(value[field], inner, f"{prefix}{field}")


@cache
def _shape_of(model: Any) -> _Shape:
    shape = _shape(inspect.type_info(model))
    assert shape is not None, model
    return shape


def _shape(kind: inspect.Type) -> _Shape | None:
    """The shape of the objects in values of a type; of several kinds of objects what all
    refuse that have it."""
    if isinstance(kind, inspect.StructType):
        return _shape_of_fields(kind)
    shapes = [shape for inner in _inner_types(kind) if (shape := _shape(inner)) is not None]
    if not shapes:
        return None
    others = frozenset(name for shape in shapes for name in shape.others)
    named = dict.fromkeys(name for shape in shapes for name in shape.not_null)
    not_null = tuple(name for name in named if name not in others)
    return _Shape(not_null, others, shapes[0].inner if len(shapes) == 1 else {})


def _shape_of_fields(kind: inspect.StructType) -> _Shape:
    inner: dict[str, _Shape] = {}
    for field in kind.fields:
        shape = _shape(field.type)
        if shape is not None:
            inner[field.encode_name] = shape
    not_null = tuple(
        field.encode_name
        for field in kind.fields
        if not field.required and not _takes_null(field.type)
    )
    others = {field.encode_name for field in kind.fields}.difference(not_null)
    return _Shape(not_null, frozenset(others), inner)


def _inner_types(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    if isinstance(kind, inspect.UnionType):
        return kind.types
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        return (kind.item_type,)
    return (kind.type,) if isinstance(kind, inspect.Metadata) else ()


def _takes_null(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.AnyType | inspect.NoneType):
        return True
    if isinstance(kind, inspect.LiteralType):
        return None in kind.values
    kinds = _inner_types(kind) if isinstance(kind, inspect.UnionType | inspect.Metadata) else ()
    return any(map(_takes_null, kinds))
