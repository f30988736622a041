"""Reads a request against the `TypedDict` that declares it.

```
class EndpointOptions(TypedDict, total=False):
    concurrency: Annotated[int | None, Between(1, 10_000), "Deliveries at a time on each node."]
```

A field has its type, its range and its description in one place. `readers_of` makes the readers of
a request from them, the API its documentation, and the command line its help (`fields_of`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from tickwork.core.fields import FieldReader, Reader, reader_of, text_faults
from tickwork.errors import FieldError


class Between(Struct, frozen=True):
    """The range of a number. `what` names a number in the error: "a number of seconds"."""

    low: float
    high: float
    what: str = ""


class Length(Struct, frozen=True):
    """The maximum number of characters of a text that is not empty."""

    most: int


class DeclaredField(Struct, frozen=True, kw_only=True):
    """A field of a request. `kind` is its type without None, `choices` are its texts if it takes
    only some."""

    name: str
    kind: Any
    is_required: bool
    takes_none: bool
    choices: tuple[str, ...] = ()
    between: Between | None = None
    length: Length | None = None
    description: str = ""


@cache
def fields_of(options: Any) -> Mapping[str, DeclaredField]:
    """The fields that a `TypedDict` declares, by name."""
    hints = get_type_hints(options, include_extras=True)
    required: frozenset[str] = options.__required_keys__
    return {name: _declared(name, hint, name in required) for name, hint in hints.items()}


def readers_of(
    options: Any, others: Mapping[str, FieldReader] | None = None
) -> Mapping[str, FieldReader]:
    """The readers of a request's fields. `others` read fields that need more than a type and a
    range."""
    own = others or {}
    return {name: own.get(name) or _reader(field) for name, field in fields_of(options).items()}


def faults_of(
    options: Any, record: Struct, highs: Mapping[str, float] | None = None
) -> Iterator[FieldError]:
    """Errors of a record with the fields of a `TypedDict`: numbers out of their range, texts of a
    wrong length. `highs` are other upper ends of ranges."""
    for name, field in fields_of(options).items():
        value = getattr(record, name)
        if value is None:
            continue
        if field.between is not None:
            low, high = field.between.low, (highs or {}).get(name, field.between.high)
            if not low <= value <= high:
                form = "g" if field.takes_none else ""
                fault = f"must be from {low:{form}} to {high:{form}}, not {value:{form}}"
                yield FieldError(name, fault)
        if field.length is not None:
            yield from text_faults(name, value, field.length.most)


def _declared(name: str, hint: Any, is_required: bool) -> DeclaredField:
    said: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        said = tuple(rest)
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = tuple(member for member in members if member is not NoneType)
    if texts := tuple(member for member in kinds if get_origin(member) is Literal):
        kinds = texts  # An enumeration of the same texts adds none.
    kind = kinds[0] if len(kinds) == 1 else Union[kinds]  # noqa: UP007  made at run time
    return DeclaredField(
        name=name,
        kind=kind,
        is_required=is_required,
        takes_none=NoneType in members,
        choices=get_args(kind) if get_origin(kind) is Literal else (),
        between=next((part for part in said if isinstance(part, Between)), None),
        length=next((part for part in said if isinstance(part, Length)), None),
        description=next((part for part in said if isinstance(part, str)), ""),
    )


def _reader(field: DeclaredField) -> FieldReader:
    between, length = field.between, field.length
    choices = field.choices
    if choices:
        return lambda reader, name: reader.one_of(name, choices)
    if between is not None and field.kind is int:
        low, high = int(between.low), int(between.high)
        return lambda reader, name: reader.integer(name, low, high)
    if between is not None and field.kind is float:
        what = between.what or "a number"
        return lambda reader, name: reader.number_between(name, between.low, between.high, what)
    if field.kind is str:
        return lambda reader, name: _read_text(reader, name, length)
    return reader_of(field.kind)


def _read_text(reader: Reader, name: str, length: Length | None) -> str | None:
    text = reader.text(name)
    if text is not None and length is not None:
        reader.faults.extend(text_faults(name, text, length.most))
    return text
