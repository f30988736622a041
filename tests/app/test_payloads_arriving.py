"""What was accepted arrives equal; what cannot is refused where it is sent, with the field."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    PrivateAttr,
    RootModel,
    SecretStr,
    computed_field,
)
from pydantic.dataclasses import dataclass as checked_dataclass

from tests.kit.soak import examples
from tickwork.app.payloads import Payload
from tickwork.core.model import ContentType
from tickwork.errors import InvalidInput

T = TypeVar("T")

TWICE = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
"""An hour that is there twice: `==` says that no other zone has it."""


class Aliased(BaseModel):
    user_id: int = Field(alias="userId")


class ReadAliased(BaseModel):
    size: int = Field(3, validation_alias="Size")


class OneOf(BaseModel):
    size: int = Field(validation_alias=AliasChoices("Size", "SIZE"))


class Deep(BaseModel):
    size: int = Field(validation_alias=AliasPath("sizes", 0))


class WrittenAliased(BaseModel):
    size: int = Field(3, serialization_alias="Size")


class Renamed(BaseModel):
    size: int = Field(validation_alias="in", serialization_alias="out")


class Swapped(BaseModel):
    a: int = Field(alias="b")
    b: int = Field(alias="a")


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    inner: Aliased = Field(alias="Inner")
    more: list[WrittenAliased] = []


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    number: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.number


class Excluded(BaseModel):
    kept: int
    left: int = Field(exclude=True)


class ExcludedDefault(BaseModel):
    left: int = Field(7, exclude=True)


class Secret(BaseModel):
    token: SecretStr


class Private(BaseModel):
    number: int
    _own: object = PrivateAttr(default_factory=object)


class Marked(BaseModel):
    number: int
    _mark: int = 0


def marked(mark: int) -> Marked:
    made = Marked(number=1)
    made._mark = mark
    return made


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    number: int


class Times(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime
    took: timedelta
    price: Decimal
    id: UUID
    days: dict[int, date] = {}
    listed: Json[list[int]] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str = Field(alias="Name")


class Lion(Cat):
    mane: int = 1


class Home(BaseModel):
    cat: Cat


class Box(BaseModel, Generic[T]):
    content: T


@checked_dataclass
class Checked:
    number: Annotated[int, Field(gt=0)]


@dataclass
class Mixed:
    number: Annotated[int, Field(gt=0)]
    cat: Cat | None = None


class Raw(BaseModel):
    data: bytes


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
Named = NewType("Named", Cat)
ID = UUID(int=7)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Place:
    name: str
    level: Level = Level.LOW


@dataclass
class Order:
    number: int
    at: datetime
    price: Decimal
    id: UUID | None = None
    colour: Colour = Colour.RED
    places: list[Place] = field(default_factory=list)
    ratio: float | None = None
    meta: Any = None
    noted: list[str] = field(default_factory=list, compare=False)

    @cached_property
    def asked(self) -> int:
        return self.number


@dataclass
class Special(Order):
    why: str = "it is"


@dataclass(slots=True)
class Slotted:
    number: int


@dataclass(eq=False)
class Own:
    number: int
    at: datetime


class Camel(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    user_id: int
    sent_at: datetime | None = None


class Circle(msgspec.Struct, tag=True, eq=False):
    radius: float


class Square(msgspec.Struct, tag="sq"):
    side: int
    inner: Camel | None = None


class Row(msgspec.Struct, array_like=True):
    number: int
    name: str


class Wide(Camel):
    width: int = 1


class Point(NamedTuple):
    x: int
    y: float


NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
ASKED = Order(1, NOON, Decimal("1.10"))
assert ASKED.asked  # What it keeps of that is not sent.

EQUAL: list[tuple[Any, Any]] = [
    (Aliased, Aliased(userId=1)),
    (ReadAliased, ReadAliased.model_validate({"Size": 4})),
    (OneOf, OneOf.model_validate({"SIZE": 4})),
    (Deep, Deep.model_validate({"sizes": [4]})),
    (WrittenAliased, WrittenAliased(size=4)),
    (Renamed, Renamed.model_validate({"in": 4})),
    (Swapped, Swapped(a=1, b=2)),
    (Outer, Outer(Inner=Aliased(userId=1), more=[WrittenAliased(size=4)])),
    (Computed, Computed(number=1)),
    (ExcludedDefault, ExcludedDefault(left=7)),
    (Open, Open.model_validate({"number": 1, "other": [2]})),
    (Times, Times(at=NOON, took=timedelta(1, 2, 3), price=Decimal("1.10"), id=ID)),
    (list[Cat], [Cat(), Cat(lives=1)]),
    (list[Cat | None], [Cat(), None]),
    (dict[str, Aliased], {"a": Aliased(userId=1)}),
    (Cat | Dog, Dog(Name="a")),
    (Pet, Cat()),
    (list[Pet], [Cat(), Dog(Name="a")]),
    (RootModel[list[Cat]], RootModel[list[Cat]]([Cat()])),
    (Box[Cat], Box[Cat](content=Cat())),
    (Named, Cat()),
    (Checked, Checked(1)),
    (Mixed, Mixed(1, Cat())),
    (Raw, Raw(data=b"abc")),
    (Order, ASKED),
    (Order, Order(1, NOON, Decimal(1), ID, places=[Place("a")], meta={"a": [1]})),
    (Slotted, Slotted(1)),
    (Camel, Camel(1, NOON)),
    (Circle | Square, Square(3, Camel(1))),
    (Row, Row(1, "a")),
    (list[Point], [Point(1, 2.5)]),
    (dict[date, set[int]], {NOON.date(): {1, 2}}),
    (dict[int, time | None], {1: time(1, 2, 3, 4), 2: None}),
]


@pytest.mark.parametrize(("declared", "value"), EQUAL)
def test_what_is_accepted_arrives_equal(declared: Any, value: Any) -> None:
    payload: Payload[Any] = Payload(declared)
    came = payload.decode(payload.encode(value), ContentType.JSON)
    assert came == value
    assert type(came) is type(value)


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Private, Private(number=1)),
        (Marked, marked(0)),
        (Box[datetime], Box[datetime](content=TWICE)),
        (Own, Own(1, TWICE)),
        (Circle | Square, Circle(1.5)),
        (datetime, TWICE),
        (dict[str, datetime], {"a": TWICE}),
        (Decimal, Decimal("NaN")),
    ],
)
def test_what_is_not_even_equal_to_its_like_arrives(declared: Any, value: Any) -> None:
    payload: Payload[Any] = Payload(declared)
    encoded = payload.encode(value)
    assert payload.encode(payload.decode(encoded, ContentType.JSON)) == encoded


@pytest.mark.parametrize(
    ("declared", "value", "meant"),
    [
        (Camel, {"userId": 1}, Camel(1)),
        (Camel, {"userId": 1, "sentAt": NOON}, Camel(1, NOON)),
        (list[Place], [{"name": "a"}, Place("b")], [Place("a"), Place("b")]),
        (dict[int, Place], {"1": {"name": "a"}}, {1: Place("a")}),
        (dict[int, Place], {"1": Place("a")}, {1: Place("a")}),
        (datetime, NOON.isoformat(), NOON),
        (set[int], [1, 2], {1, 2}),
        (Aliased, {"userId": 1}, Aliased(userId=1)),
        (list[Pet], [{"kind": "cat"}], [Cat()]),
        (Mixed, {"number": 1, "cat": {}}, Mixed(1, Cat())),
    ],
)
def test_plain_values_may_stand_for_a_type(declared: Any, value: Any, meant: Any) -> None:
    payload: Payload[Any] = Payload(declared)
    assert payload.decode(payload.encode(value), ContentType.JSON) == meant


@pytest.mark.parametrize(
    ("declared", "value", "said"),
    [
        (Secret, Secret(token=SecretStr("hush")), r"another SecretStr .* `\$\.token`"),
        (Excluded, Excluded(kept=1, left=2), r"Field required - at `\$\.left`"),
        (ExcludedDefault, ExcludedDefault(left=2), r"another int .* `\$\.left`"),
        (Cat, Lion(), r"a Lion would come back as Cat - at `\$`"),
        (Home, Home(cat=Lion()), r"a Lion would come back as Cat - at `\$\.cat`"),
        (Marked, marked(7), r"another int .* `\$\.__pydantic_private__\['_mark'\]`"),
        (list[Home], [Home(cat=Lion())], r"as Cat - at `\$\[0\]\.cat`"),
        (Open, Open.model_validate({"number": 1, "day": NOON.date()}), r"a date .* as str"),
        (Cat, Cat.model_construct(lives="many"), r"valid integer.* `\$\.lives`"),
        (Mixed, Mixed(-1), r"greater than 0 - at `\$\.number`"),
        (Checked, {"number": -1}, r"greater than 0 - at `\$\.number`"),
        (Raw, Raw(data=b"\xff"), "cannot be encoded as JSON"),
        (Order, Special(1, NOON, Decimal(1)), "does not fit Order"),
        (list[Order], [Special(1, NOON, Decimal(1))], "does not fit list"),
        (Order, Order(1, NOON, Decimal(1), meta=NOON), r"a datetime .* as str - at `\$\.meta`"),
        (Order, Order(1, NOON, Decimal(1), meta={1: 2}), r"another dict .* `\$\.meta`"),
        (Order, Order(1, NOON, Decimal(1), ratio=2**60 + 1), r"an? int .* as float .*ratio`"),
        (
            Order,
            Order(1, NOON, Decimal(1), places=[{"name": "a"}]),  # type: ignore[list-item]
            r"a dict would come back as Place - at `\$\.places\[0\]`",
        ),
        (dict[str, Any], {"a": {"b": (1, 2)}}, r"a tuple .* as list - at `\$\['a'\]\['b'\]`"),
        (dict[str, int], Slotted(1), "does not fit dict"),
        (Camel, Wide(1), "does not fit Camel"),
        (Camel, {"user_id": 1}, "does not fit Camel"),
    ],
)
def test_what_would_not_arrive_as_it_is_is_refused_with_the_field(
    declared: Any, value: Any, said: str
) -> None:
    with pytest.raises(InvalidInput, match=f"^body: .*{said}") as refused:
        Payload(declared).encode(value)
    assert "hush" not in str(refused.value)


def test_only_some_faults_of_many_are_shown() -> None:
    with pytest.raises(InvalidInput, match=r"at `\$\[4\]\.lives`; and 95 more$"):
        Payload[Any](list[Cat]).encode([{"lives": "many"}] * 100)


orders = st.builds(
    Order,
    number=st.integers(-(2**63), 2**64 - 1),
    at=st.datetimes(timezones=st.none() | st.timezones()),
    price=st.decimals(allow_nan=False, allow_infinity=False),
    id=st.none() | st.uuids(),
    places=st.lists(st.builds(Place, st.text()), max_size=3),
    ratio=st.none() | st.floats() | st.integers(),
    meta=st.none() | st.text() | st.dates() | st.lists(st.integers()) | st.binary(),
)
models = st.builds(
    Times,
    at=orders.map(lambda order: order.at),
    took=st.timedeltas(),
    price=st.decimals(allow_nan=False, allow_infinity=False),
    id=st.uuids(),
    days=st.dictionaries(st.integers(), st.dates(), max_size=3),
    listed=st.lists(st.integers(), max_size=3).map(str),
)
payloads: dict[Any, Payload[Any]] = {model: Payload(model) for model in (Order, Times)}


@settings(max_examples=examples(150), deadline=None)
@given(st.tuples(st.just(Order), orders) | st.tuples(st.just(Times), models))
def test_whatever_is_sent_arrives_equal_or_is_refused(sent: tuple[Any, Any]) -> None:
    declared, value = sent
    try:
        encoded = payloads[declared].encode(value)
    except InvalidInput:
        return
    came = payloads[declared].decode(encoded, ContentType.JSON)
    assert (came.at - value.at, came.price) == (timedelta(0), value.price)
    came.at = value.at  # Two zones may have the same moment, and not say so.
    assert came == value
