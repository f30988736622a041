"""Payloads: bodies as the types an app declares, checked on the way out and on the way in.

A type is anything msgspec knows (a struct, a dataclass, a TypedDict, `list[int]` …) or a
Pydantic model; without one a body is plain JSON values, a text or bytes, as it was sent.
"""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import msgspec

from tickwork.core.body import decode_body, encode_body
from tickwork.core.model import ContentType
from tickwork.errors import FieldError, InvalidInput

T = TypeVar("T")


class PayloadInvalid(Exception):
    """A body does not fit its declared type; the text says where and how."""


class Payload(Generic[T]):
    """How bodies of a type are written and read."""

    def __init__(self, declared: Any = Any) -> None:
        self.declared = declared
        self.is_plain = declared is Any
        self._read, self._write = _codec(declared)

    def encode(self, value: T, content_type: ContentType = ContentType.JSON) -> bytes:
        """The bytes of a body; `InvalidInput` if it does not fit."""
        if self.is_plain or content_type is not ContentType.JSON:
            return encode_body(value, content_type)
        try:
            return self._write(value)
        except PayloadInvalid as error:
            raise InvalidInput([FieldError("body", str(error))]) from None

    def decode(self, body: bytes, content_type: ContentType) -> T:
        """The payload of a body; `PayloadInvalid` if it does not fit."""
        if self.is_plain or content_type is not ContentType.JSON:
            try:
                plain: T = decode_body(body, content_type)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise PayloadInvalid(f"is not {content_type}: {error}") from None
            return plain
        payload: T = self._read(body)
        return payload


def declared_payload(handler: Callable[..., Any], generic: type) -> Any:
    """The `T` of a handler whose first parameter is annotated `generic[T]`; `Any` if it is not.

    `InvalidInput` if it is, and there is no such `T` when the program runs: messages would come in
    as whatever they are, and nobody would have checked them.
    """
    parameters = list(inspect.signature(handler).parameters.values())
    if not parameters or parameters[0].annotation is inspect.Parameter.empty:
        return Any
    annotation = parameters[0].annotation
    function = inspect.unwrap(handler)
    names = {generic.__name__: generic} | getattr(function, "__globals__", {})
    alone = SimpleNamespace(__annotations__={"first": annotation})
    try:
        annotation = typing.get_type_hints(alone, globalns=names)["first"]
    except NameError as error:  # An annotation that only a type checker can see.
        if not re.match(rf"([\w.]+\.)?{generic.__name__}\s*\[", str(annotation)):
            return Any
        fault = (
            f"is given a {annotation}, but there is no {error.name!r} when it is declared; import "
            "it at the top of the module, not only for type checkers (TYPE_CHECKING), and not "
            "inside a function"
        )
        raise InvalidInput([FieldError(function.__qualname__, fault)]) from None
    if typing.get_origin(annotation) is generic:
        (payload,) = typing.get_args(annotation)
        return Any if isinstance(payload, TypeVar) else payload
    return Any


def _codec(declared: Any) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    if _is_pydantic(declared):
        return _pydantic_codec(declared)
    if declared is Any:
        return msgspec.json.decode, msgspec.json.encode
    return _msgspec_codec(declared)


def _msgspec_codec(declared: Any) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    decoder = msgspec.json.Decoder(declared)

    def read(body: bytes) -> Any:
        try:
            return decoder.decode(body)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise PayloadInvalid(f"does not fit {_name(declared)}: {error}") from None

    def write(value: Any) -> bytes:
        encoded = encode_body(value)
        read(encoded)  # A struct is not checked when it is made; what is sent is.
        return encoded

    return read, write


def _pydantic_codec(model: Any) -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    invalid = sys.modules["pydantic"].ValidationError

    def read(body: bytes) -> Any:
        try:
            return model.model_validate_json(body)
        except invalid as error:
            raise PayloadInvalid(f"does not fit {_name(model)}: {error}") from None

    def write(value: Any) -> bytes:
        try:
            checked = model.model_validate(value)
        except invalid as error:
            raise PayloadInvalid(f"does not fit {_name(model)}: {error}") from None
        return encode_body(checked.model_dump(mode="json"))

    return read, write


def _is_pydantic(declared: Any) -> bool:
    """Whether it is a Pydantic model; whoever has one has imported the library."""
    pydantic = sys.modules.get("pydantic")
    return (
        pydantic is not None
        and isinstance(declared, type)
        and issubclass(declared, pydantic.BaseModel)
    )


def _name(declared: Any) -> str:
    return getattr(declared, "__name__", str(declared))
