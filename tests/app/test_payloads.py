"""Payloads: what fits a declared type comes out as it went in; what does not is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, wraps
from types import FunctionType
from typing import Annotated, Any, Protocol, TypedDict, TypeVar

import msgspec
import pytest
from pydantic import BaseModel

from tickwork.app.message import Message, MessageBatch
from tickwork.app.payloads import Payload, PayloadInvalid, declared_payload
from tickwork.core.model import ContentType
from tickwork.errors import InvalidInput

T = TypeVar("T")


class Struct(msgspec.Struct):
    """A msgspec struct."""

    name: str
    size: int = 0


@dataclass
class Data:
    """A dataclass."""

    name: str
    at: datetime


class Typed(TypedDict):
    """A typed dict."""

    name: str


class Model(BaseModel):
    """A Pydantic model."""

    name: str
    size: int = 0


class Nothing:
    """What JSON has no word for."""


@dataclass
class HasNothing:
    """A dataclass with it."""

    nothing: Nothing | None = None


@dataclass
class HasData:
    """A dataclass in a dataclass."""

    data: Data


class HasModel(msgspec.Struct):
    """A struct with a model: one library reads the one, another the other."""

    model: Model


class HasBody(Protocol):
    """What a message has, among others."""

    body: Any


class OurMessage(Message[Struct]):
    """A message as nobody makes one."""


Structs = Message[Struct]

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)

GOOD: list[tuple[Any, Any]] = [
    (Struct, Struct("a", 7)),
    (Data, Data("a", NOON)),
    (Typed, {"name": "a"}),
    (Model, Model(name="a", size=7)),
    (list[int], [1, 2]),
    (bytes, b"\x00\xff"),
    (dict[str, list[float]], {"a": [1.5]}),
    (Any, {"a": [1, None, "b"]}),
    (int | None, None),
]

BAD: list[tuple[Any, Any]] = [
    (Struct, Struct(name=7)),  # type: ignore[arg-type]
    (Struct, {"size": 1}),
    (Data, Data("a", at="noon")),  # type: ignore[arg-type]
    (Typed, {}),
    (Model, {"name": "a", "size": "many"}),
    (list[int], ["a"]),
    (int | None, 1.5),
]


@pytest.mark.parametrize(("declared", "value"), GOOD)
def test_what_fits_comes_out_as_it_went_in(declared: Any, value: Any) -> None:
    payload: Payload[Any] = Payload(declared)
    read = payload.decode(payload.encode(value), ContentType.JSON)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(("declared", "value"), BAD)
def test_what_does_not_fit_is_not_sent(declared: Any, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        Payload(declared).encode(value)
    (fault,) = refused.value.errors
    assert fault.field == "body"
    assert "does not fit" in fault.message


@pytest.mark.parametrize("declared", [Struct, Data, Typed, Model, list[int]])
@pytest.mark.parametrize("body", [b'{"name": 1}', b"{}", b"[null]", b"{", b"\xff", b""])
def test_what_does_not_fit_is_not_read(declared: Any, body: bytes) -> None:
    with pytest.raises(PayloadInvalid):
        Payload(declared).decode(body, ContentType.JSON)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", ContentType.JSON),
        (b"", ContentType.JSON),
        (b"\xff", ContentType.TEXT),
        (b"[" * 100_000 + b"]" * 100_000, ContentType.JSON),
    ],
)
def test_what_is_not_what_it_says_is_not_read(body: bytes, content_type: ContentType) -> None:
    with pytest.raises(PayloadInvalid):
        Payload().decode(body, content_type)


@pytest.mark.parametrize(
    ("declared", "value", "content_type"),
    [
        (str, "plain", ContentType.TEXT),
        (Struct | str, "plain", ContentType.TEXT),
        (Model | str, "plain", ContentType.TEXT),
        (bytes, b"\x00\xff", ContentType.BYTES),
        (Model | bytes, b"\x00\xff", ContentType.BYTES),
    ],
)
def test_texts_and_bytes_are_what_they_are_where_they_are_declared(
    declared: Any, value: str | bytes, content_type: ContentType
) -> None:
    payload: Payload[Any] = Payload(declared)
    encoded = payload.encode(value, content_type)
    assert encoded == (value if isinstance(value, bytes) else value.encode())
    assert payload.decode(encoded, content_type) == value


@pytest.mark.parametrize("declared", [Struct, Data, Typed, Model, list[int], list[Model]])
@pytest.mark.parametrize(
    ("value", "content_type"), [("{}", ContentType.TEXT), (b"{}", ContentType.BYTES)]
)
def test_texts_and_bytes_are_no_way_around_a_type(
    declared: Any, value: str | bytes, content_type: ContentType
) -> None:
    payload: Payload[Any] = Payload(declared)
    with pytest.raises(InvalidInput, match="body: does not fit"):
        payload.encode(value, content_type)
    with pytest.raises(PayloadInvalid, match="does not fit"):
        payload.decode(b"{}", content_type)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (Nothing, "cannot be Nothing: Nothing cannot be decoded from JSON"),
        (list[Nothing], "Nothing cannot be decoded from JSON; make it a dataclass"),
        (HasNothing, "cannot be HasNothing: Nothing cannot be decoded from JSON"),
        (HasModel, "cannot be HasModel: .*use only Pydantic models and dataclasses in it"),
        (Data | HasData, "more than one dataclass"),
    ],
)
def test_a_type_that_no_body_fits_is_refused_when_it_is_declared(declared: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=f"payload: .*{said}"):
        Payload(declared)


def test_the_error_of_a_body_that_does_not_fit_names_its_field() -> None:
    with pytest.raises(PayloadInvalid, match=r"does not fit Struct: .*\$\.name"):
        Payload(Struct).decode(b'{"name": 1}', ContentType.JSON)
    with pytest.raises(PayloadInvalid, match=r"(?s)does not fit Model: .*\bname\b"):
        Payload(Model).decode(b'{"name": 1}', ContentType.JSON)


def _typed(message: Message[Struct]) -> None: ...
def _untyped(message): ...  # type: ignore[no-untyped-def]
def _bare(message: Message) -> None: ...
def _constrained(message: Message[Annotated[int, msgspec.Meta(gt=0)]]) -> None: ...
def _of_batches(batch: MessageBatch[list[int]]) -> None: ...
def _hidden(message: Message[OnlyForCheckers]) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _hidden_batch(batch: MessageBatch[list[OnlyForCheckers]]) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _of_something_else(message: OnlyForCheckers) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _beside(message: Message[Struct], *, hidden: OnlyForCheckers = 1) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _after_another(extra: int, message: Message[Struct]) -> None: ...
def _nothing() -> None: ...
def _annotated(message: Annotated[Message[Struct], "of ours"]) -> None: ...
def _maybe(message: Message[Struct] | None = None) -> None: ...
def _aliased(message: Structs) -> None: ...
def _anything(message: Any) -> None: ...
def _any_object(batch: object) -> None: ...
def _of_any_type(message: Message[T]) -> T | None: ...
def _of_a_shape(message: HasBody) -> None: ...
def _the_payload(message: Struct) -> None: ...
def _maybe_the_payload(message: Struct | None) -> None: ...
def _of_two(message: Message[Struct] | Message[Data]) -> None: ...
def _of_our_own(message: OurMessage) -> None: ...
def _a_dict(message: dict[str, int]) -> None: ...
def _any_batch(batch: MessageBatch) -> None: ...
def _hidden_inside(message: Annotated[Message[OnlyForCheckers], 1] | None) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@wraps(_the_payload)
def _decorated(message: Message[Struct]) -> None:
    _the_payload(message.body)


@wraps(_typed)
def _around(*args: object) -> None: ...
@wraps(_typed)
def _around_by_another_name(m: Message[int]) -> None: ...  # What is wrapped has the last word.
@wraps(_after_another)
def _around_the_second(message: object) -> None: ...
@wraps(_typed, assigned=("__name__",))
def _around_with_its_own_type(message: Message[int]) -> None: ...
@wraps(_typed, assigned=("__name__",))
def _around_anything(*args: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "generic", "declared"),
    [
        (_around, Message, Struct),
        (_around_by_another_name, Message, Struct),
        (_around_the_second, Message, Struct),
        (_around_with_its_own_type, Message, int),
        (_around_anything, Message, Struct),
        (_typed, Message, Struct),
        (_untyped, Message, Any),
        (_bare, Message, Any),
        (_constrained, Message, Annotated[int, msgspec.Meta(gt=0)]),
        (_of_batches, MessageBatch, list[int]),
        (_annotated, Message, Struct),
        (_maybe, Message, Struct),
        (_aliased, Message, Struct),
        (_anything, Message, Any),
        (_any_object, MessageBatch, Any),
        (_of_any_type, Message, Any),
        (_of_a_shape, Message, Any),
        (_decorated, Message, Any),
        (partial(_decorated), Message, Any),
        (_of_something_else, Message, Any),
        (_beside, Message, Struct),
        (_nothing, Message, Any),
    ],
)
def test_a_handlers_annotation_says_what_it_is_given(
    handler: Callable[..., Any], generic: type, declared: Any
) -> None:
    assert declared_payload(handler, generic) == declared


@pytest.mark.parametrize(
    ("handler", "generic", "said"),
    [
        (_the_payload, Message, "receives a Message, not a Struct; .* Write Message[Struct]"),
        (_the_payload, MessageBatch, "Write MessageBatch[Struct]"),
        (_maybe_the_payload, Message, "Write Message[Struct]"),
        (_typed, MessageBatch, "receives a MessageBatch, .* Write MessageBatch[Struct]"),
        (_of_batches, Message, "receives a Message, .* Write Message[list[int]]"),
        (_of_our_own, Message, "not a OurMessage; .* Write Message[Struct]"),
        (_a_dict, Message, "Write Message[dict[str, int]]"),
        (_of_two, Message, "Write Message[…] with the type of the body"),
        (_any_batch, Message, "not a MessageBatch; .* Write Message[…]"),
    ],
)
def test_a_handler_annotated_with_another_type_is_refused(
    handler: Callable[..., Any], generic: type, said: str
) -> None:
    """Its messages would not be validated."""
    said = re.escape(said).replace(r"\.\*", ".*")
    with pytest.raises(InvalidInput, match=said) as refused:
        declared_payload(handler, generic)
    assert [error.field for error in refused.value.errors] == [handler.__qualname__]


@pytest.mark.parametrize(
    ("handler", "generic"),
    [(_hidden, Message), (_hidden_batch, MessageBatch), (_hidden_inside, Message)],
)
def test_a_type_that_only_a_type_checker_sees_is_refused_by_name(
    handler: Callable[..., Any], generic: type
) -> None:
    """Its messages would not be validated."""
    with pytest.raises(InvalidInput, match=r"no 'OnlyForCheckers' .*TYPE_CHECKING"):
        declared_payload(handler, generic)


def test_the_message_itself_may_be_imported_for_type_checkers_only() -> None:
    elsewhere = FunctionType(_typed.__code__, {})  # A module that has not imported it.
    elsewhere.__annotations__ = {"message": "Message[int]"}
    assert declared_payload(elsewhere, Message) is int
