"""Schemas of types: what a handler accepts, the schema of its type accepts, too."""

from __future__ import annotations

import json
from dataclasses import make_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import count
from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Union
from uuid import UUID

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from tickwork.app.payload_schema import schema_of
from tickwork.app.payloads import Payload
from tickwork.core.model import ContentType
from tickwork.core.types.schema import Schema
from tickwork.errors import InvalidInput


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Number(Enum):
    SEVEN = 7


class Lenient(Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, _value: object) -> Lenient:
        return cls.RED


class Pair(NamedTuple):
    x: int
    y: str = ""


class Line(TypedDict, total=False):
    x: int


class Leaf(msgspec.Struct, tag=True):
    x: int


class Branch(msgspec.Struct, tag="branch", forbid_unknown_fields=True):
    y: list[Leaf | Branch] = []


class Row(msgspec.Struct, array_like=True, tag=True):
    x: int
    y: str = ""


class Renamed(msgspec.Struct, rename="camel"):
    the_x: int
    y: str | msgspec.UnsetType = msgspec.UNSET


class Model(BaseModel):
    x: int = Field(alias="theX", ge=0)
    y: str = Field(default="", max_length=2)
    at: datetime | None = None
    model_config = ConfigDict(str_strip_whitespace=True)


class Guessing(BaseModel):
    x: int

    @field_validator("x", mode="before")
    @classmethod
    def guess(cls, value: object) -> object:
        return len(value) if isinstance(value, str | list) else value


class Square(BaseModel):
    kind: Literal["square"]
    x: float


class Circle(BaseModel):
    kind: Literal["circle"] = Field(alias="type")
    x: bool = True
    model_config = ConfigDict(extra="forbid")


EXACT: tuple[Any, ...] = (
    int,
    str,
    bool,
    None,
    float,
    Literal["a", 1, None],
    Color,
    Number,
    Leaf,
    Line,
    Pair,
)
"""Types whose schema says all that they ask for."""

LOOSE: tuple[Any, ...] = (
    datetime, date, time, timedelta, Decimal, UUID, bytes, Lenient, Row, Leaf | Branch, Renamed,
    Any, msgspec.Raw, Annotated[int, msgspec.Meta(gt=1, le=5)], tuple[int, str], dict[int, bool],
    Annotated[str, msgspec.Meta(min_length=1, max_length=3, pattern="^a")], frozenset[int],
    Annotated[list[int], msgspec.Meta(max_length=1)], Annotated[bytes, msgspec.Meta(max_length=2)],
    Model, Guessing, Square | Circle, Annotated[Square | Circle, Field(discriminator="kind")],
    Model | None,
)  # fmt: skip


numbers = count()


def made(kinds: tuple[Any, Any]) -> type:
    return make_dataclass(f"Made{next(numbers)}", [("x", kinds[0]), ("y", kinds[1], None)])


def optional(kind: Any) -> Any:
    return kind if kind is None else Union[kind, None]  # noqa: UP007  not all of them have `|`


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        inner.map(lambda kind: GenericAlias(list, kind)),
        inner.map(lambda kind: GenericAlias(dict, (str, kind))),
        inner.map(optional),
        pairs.map(lambda kinds: GenericAlias(tuple, kinds)),
        pairs.map(made),
    )


texts = st.sampled_from(
    ["", "a", "red", "7", "true", " ab ", "aGk=", "2026-01-02T03:04:05Z", "2026-01-02", "03:04:05",
     "P1DT2S", "00000000-0000-4000-8000-000000000000", "1.5", "Leaf", "branch", "square", "Row"]
)  # fmt: skip
names = st.sampled_from(["x", "y", "theX", "the_x", "type", "kind", "at", "1"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 7) | st.sampled_from([1.0, 1.5, 1e300]) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=6,
)


def is_accepted(payload: Payload[Any], value: object) -> bool:
    try:
        payload.check(json.dumps(value).encode(), ContentType.JSON)
    except InvalidInput:
        return False
    return True


def types(leaves: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    return st.recursive(st.sampled_from(leaves), containers, max_leaves=3)


@settings(max_examples=100)
@example(Leaf, [{"x": 1}])  # Without its tag.
@example(Model, [{"x": "7", "y": " ab "}])  # By name, converted and stripped.
@example(Guessing, [{"x": [1]}])
@example(Lenient, ["blue"])
@example(Decimal, [1.5])
@given(types(EXACT + LOOSE), st.lists(values, min_size=20, max_size=20))
def test_what_a_type_accepts_its_schema_accepts(declared: Any, bodies: list[object]) -> None:
    try:
        payload = Payload[Any](declared)
    except InvalidInput:  # A union of two models that msgspec cannot tell apart.
        return
    schema = Schema(schema_of(payload))
    for body in bodies:
        if is_accepted(payload, body):
            assert schema.fault(body) is None, (declared, body)


@settings(max_examples=100)
@given(types(EXACT), st.lists(values, min_size=20, max_size=20))
def test_what_a_plain_type_refuses_its_schema_refuses(declared: Any, bodies: list[object]) -> None:
    payload = Payload[Any](declared)
    schema = Schema(schema_of(payload))
    for body in bodies:
        if not is_accepted(payload, body):
            assert schema.fault(body) is not None, (declared, body)
