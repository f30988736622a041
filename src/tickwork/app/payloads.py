"""Payloads: message bodies as the types an app declares, validated when sent and when received.

A type is anything msgspec supports (a struct, a dataclass, a TypedDict, `list[int]` …) or a type
made of Pydantic models. Without a type a body is plain JSON values, a text or bytes.

A typed body is decoded again before it is sent. If the result differs, the send is refused and the
error names the field. `==` decides the common case. If it says no, `lost` finds the field and
handles the cases in which `==` is wrong: types compared by identity, local times that occur twice,
and NaN.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime
from types import ModuleType, NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Generic, Protocol, TypeVar, Union

import msgspec
from msgspec import structs
from msgspec.inspect import CustomType, Field, Type, type_info

from tickwork.app.handlers import written
from tickwork.core.message.body import decode_body, encode_body, encode_json
from tickwork.core.model import ContentType
from tickwork.errors import FieldError, InvalidInput

_ABSENT = object()


def lost(sent: Any, came: Any, at: str = "$") -> str | None:
    """The part of a value that would not arrive as sent; None if all of it does. The text does not
    contain the value, which may be secret."""
    if sent == came:
        return None
    kind = type(sent)
    if kind is not type(came):
        return f"a {kind.__name__} would come back as {type(came).__name__} - at `{at}`"
    if (names := _fields(sent)) is not None:
        parts = ((f"{at}.{name}", *(_field(side, name) for side in (sent, came))) for name in names)
        return _first_lost(parts)
    if isinstance(sent, Mapping) and sent.keys() == came.keys():
        return _first_lost((f"{at}[{key!r}]", value, came[key]) for key, value in sent.items())
    if isinstance(sent, list | tuple) and len(sent) == len(came):
        pairs = enumerate(zip(sent, came, strict=True))
        return _first_lost((f"{at}[{number}]", *pair) for number, pair in pairs)
    return None if _is_same(sent, came) else f"another {kind.__name__} would come back - at `{at}`"


def _first_lost(parts: Iterable[tuple[str, Any, Any]]) -> str | None:
    return next((found for at, sent, came in parts if (found := lost(sent, came, at))), None)


def _fields(value: Any) -> Iterable[str] | None:
    """The field names of a struct, a dataclass or a model; None for other values."""
    kind = type(value)
    if (names := getattr(kind, "__struct_fields__", None)) is not None:
        return tuple(names)
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if field.compare]
    if (names := getattr(kind, "model_fields", None)) is not None:
        return [*names, "model_extra", "__pydantic_private__"]
    return None


def _field(value: Any, name: str) -> Any:
    return getattr(value, name, _ABSENT)


def _is_same(sent: Any, came: Any) -> bool:
    if isinstance(sent, datetime) and sent.tzinfo and came.tzinfo:
        # A local time that occurs twice never equals a time in another zone.
        return bool(sent.astimezone(UTC) == came.astimezone(UTC))
    if sent != sent and came != came:
        return True  # Both are NaN.
    compares: object = type(sent).__eq__
    return compares is object.__eq__  # Compared by identity: nothing more can be compared.


T = TypeVar("T")

FAULTS_SHOWN_MAX = 5
"""Maximum number of field errors shown for one body."""

_JSON = ContentType.JSON  # Looking up an enum member costs as much as encoding a small body.
_BY_NAME_ONLY = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_PLAIN = (dict, list, str, int, float, bool, NoneType)
_BYTES = (bytes, bytearray, memoryview)
_plain = msgspec.json.Decoder().decode
_PYDANTIC = ("__pydantic_core_schema__", "__get_pydantic_core_schema__")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)  # DecodeError includes ValidationError.


class PayloadInvalid(Exception):
    """A body does not fit its declared type; the text says where and how."""


class Payload(Generic[T]):
    """Encodes and decodes bodies of a type. Raises `InvalidInput` for an unsupported type."""

    def __init__(self, declared: Any = Any) -> None:
        self.declared = declared
        self.is_plain = declared is Any
        codec = _codec(declared)
        self._write = codec.write
        self._read = codec.read
        self._take = codec.take

    def encode(self, value: T, content_type: ContentType = _JSON) -> bytes:
        """The bytes of a body; `InvalidInput` if it does not fit or would not arrive as sent."""
        if self.is_plain:
            return encode_body(value, content_type)
        try:
            if content_type is _JSON:
                return self._write(value)
            encoded = encode_body(value, content_type)
            self.decode(encoded, content_type)
        except Exception as error:  # Validators of the app may raise anything.
            raise self.refused(error) from _unexpected(error)
        return encoded

    def refused(self, error: Exception) -> InvalidInput:
        """The error for the sender of a body whose decoding raised `error`."""
        if isinstance(error, InvalidInput):
            return error
        fault = str(error)
        if not isinstance(error, PayloadInvalid):
            fault = f"does not fit {_name(self.declared)}: {type(error).__name__}: {fault}"
        return InvalidInput([FieldError("body", fault)])

    def check(self, body: bytes, content_type: ContentType) -> None:
        """Raises `InvalidInput` if a body that is encoded already does not fit."""
        try:
            self.decode(body, content_type)
        except Exception as error:  # Validators of the app may raise anything.
            raise self.refused(error) from _unexpected(error)

    def decode(self, body: bytes, content_type: ContentType) -> T:
        """The payload of a body; `PayloadInvalid` if it does not fit."""
        payload: T
        if content_type is _JSON and not self.is_plain:
            payload = self._read(body)
            return payload
        try:
            payload = decode_body(body, content_type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PayloadInvalid(f"is not {content_type}: {error}") from None
        return payload if self.is_plain else self._take(payload)


class ReadAs(Payload[T]):
    """The type of a queue whose handler reads another type: a body has to fit both."""

    def __init__(self, sent: Payload[T], read: Payload[Any]) -> None:
        super().__init__(sent.declared)
        self.reader = read

    def encode(self, value: T, content_type: ContentType = _JSON) -> bytes:
        """The bytes of a body; `InvalidInput` unless it fits both types."""
        encoded = super().encode(value, content_type)
        try:
            self.reader.decode(encoded, content_type)
        except Exception as error:  # As above.
            raise self.reader.refused(error) from _unexpected(error)
        return encoded

    def check(self, body: bytes, content_type: ContentType) -> None:
        """Raises `InvalidInput` unless an encoded body fits both types."""
        super().check(body, content_type)
        self.reader.check(body, content_type)


PayloadOf = Callable[[str, str | None], Payload[Any] | None]
"""The type of the messages of a queue and type; None if the app does not declare the queue. In the
queue of an entity's calls the type is a method: `InvalidInput` if its class does not have it."""


def no_types(_queue: str, _type: str | None) -> None:
    """A `PayloadOf` for callers without an app, such as a command without --app."""


def declared_payload(handler: Callable[..., Any], generic: type) -> Any:
    """The `T` of a handler whose first parameter is annotated `generic[T]`; `Any` without an
    annotation.

    Raises `InvalidInput` if `T` does not exist at runtime, or if the annotation is another type:
    messages would not be validated. A decorator's wrapper without annotations has the type of the
    function it wraps, and may call that with anything.
    """
    annotation, annotated = _first_annotation(handler)
    if annotation is inspect.Parameter.empty:
        return Any
    function = written(annotated)
    called = function.__call__ if isinstance(function, type) else function
    names = {generic.__name__: generic} | getattr(called, "__globals__", {})
    alone = SimpleNamespace(__annotations__={"first": annotation})
    try:
        annotation = typing.get_type_hints(alone, globalns=names, include_extras=True)["first"]
    except NameError as error:  # An annotation that only a type checker can resolve.
        if not re.search(r"\b(Message(Batch)?|Firing)\s*\[", str(annotation)):
            return Any
        fault = (
            f"takes a {annotation}, but there is no {error.name!r} when it is declared; import "
            "it at the top of the module, not only for type checkers (TYPE_CHECKING), and not "
            "inside a function"
        )
        raise InvalidInput([FieldError(function.__qualname__, fault)]) from None
    annotation = _unwrap_annotation(annotation)
    if typing.get_origin(annotation) is generic:
        (payload,) = typing.get_args(annotation)
        return Any if isinstance(payload, TypeVar) else payload
    if annotation in (generic, Any, object) or isinstance(annotation, TypeVar):
        return Any
    is_decorated = any(hasattr(callable_, "__wrapped__") for callable_ in (handler, called))
    if is_decorated or getattr(annotation, "_is_protocol", False):
        return Any
    fault = (
        f"receives a {generic.__name__}, not a {_name(annotation)}; its body would not be "
        f"validated. Write {_suggested_annotation(annotation, generic)}, or no annotation"
    )
    raise InvalidInput([FieldError(function.__qualname__, fault)])


def _unwrap_annotation(annotation: Any) -> Any:
    """The type inside `Annotated[…]`, an alias, or `… | None`."""
    if typing.get_origin(annotation) is Annotated:
        return _unwrap_annotation(annotation.__origin__)
    if type(annotation).__name__ == "TypeAliasType":
        return _unwrap_annotation(annotation.__value__)
    if typing.get_origin(annotation) in (Union, UnionType):
        given = [argument for argument in typing.get_args(annotation) if argument is not NoneType]
        return _unwrap_annotation(given[0]) if len(given) == 1 else annotation
    return annotation


def _suggested_annotation(annotation: Any, generic: type) -> str:
    """The annotation the author probably meant."""
    known = typing.get_origin(annotation) or annotation
    for base in (annotation, *getattr(annotation, "__orig_bases__", ())):
        if getattr(typing.get_origin(base), "__module__", "") == generic.__module__:
            return f"{generic.__name__}[{', '.join(map(_name, typing.get_args(base)))}]"
    if known in (Union, UnionType) or getattr(known, "__module__", "") == generic.__module__:
        return f"{generic.__name__}[…] with the type of the body"
    return f"{generic.__name__}[{_name(annotation)}]"


def _first_annotation(handler: Callable[..., Any]) -> tuple[Any, Callable[..., Any]]:
    """The annotation of a handler's first parameter (`Parameter.empty` if there is none), and the
    function in whose module it is defined."""
    wrapped = inspect.unwrap(handler)
    for follows in (False, True):
        signature = inspect.signature(handler, follow_wrapped=follows)
        first = next(iter(signature.parameters.values()), None)
        if first is None or first.annotation is first.empty or first.kind in _BY_NAME_ONLY:
            continue
        if follows or _annotations(handler) == _annotations(wrapped):  # `functools.wraps` copies.
            return first.annotation, wrapped
        if first.kind is not first.VAR_POSITIONAL:  # `*args` goes to the wrapped function.
            return first.annotation, handler
    return inspect.Parameter.empty, wrapped


def _annotations(function: Callable[..., Any]) -> object:
    return getattr(function, "__annotations__", None)


class Codec(Protocol):
    """Encodes values of a type as JSON and decodes them."""

    def write(self, value: Any) -> bytes:
        """The JSON of a value; `PayloadInvalid` if it would not arrive as sent."""

    def read(self, body: bytes) -> Any:
        """The value; `PayloadInvalid` if it does not fit the type."""

    def take(self, value: Any) -> Any:
        """Converts a text or bytes to the type; `PayloadInvalid` if it does not fit."""


def _codec(declared: Any) -> Codec:
    pydantic = sys.modules.get("pydantic")  # An app with a model has imported it.
    if pydantic is not None and has_models(declared):
        return _Pydantic(declared, pydantic)
    return _Msgspec(declared)


class _Msgspec:
    def __init__(self, declared: Any) -> None:
        self._declared = declared
        has_fields = is_dataclass(declared) and getattr(declared, "__dictoffset__", 0) != 0
        self._is_same = _are_same_fields if has_fields else operator.eq
        try:
            self._decode = msgspec.json.Decoder(declared).decode
            unknown = _unknown(type_info(declared), set())
        except (TypeError, NameError) as error:
            raise _undeclarable(declared, str(error)) from None
        if unknown is not None:
            fault = f"{_name(unknown)} cannot be decoded from JSON; make it a dataclass"
            raise _undeclarable(declared, fault)

    def write(self, value: Any) -> bytes:
        encoded = encode_json(value)  # Declared bytes are decoded to bytes.
        try:  # A struct is not validated when created, so it is validated here.
            came = self._decode(encoded)
        except _UNREADABLE as error:
            raise self._misfit(error) from None
        if not self._is_same(came, value) and not _is_json(value, encoded):
            self._check_arrived(value, came)
        return encoded

    def read(self, body: bytes) -> Any:
        try:
            return self._decode(body)
        except _UNREADABLE as error:
            raise self._misfit(error) from None

    def take(self, value: Any) -> Any:
        try:
            return msgspec.convert(value, self._declared, builtin_types=_BYTES)
        except msgspec.ValidationError as error:
            raise self._misfit(error) from None

    def _check_arrived(self, value: Any, came: Any) -> None:
        try:
            meant = msgspec.convert(value, self._declared, str_keys=True)
        except msgspec.ValidationError as error:
            raise self._misfit(error) from None
        if (fault := lost(meant, came)) is not None:
            raise _changed(fault)

    def _misfit(self, error: Exception) -> PayloadInvalid:
        return PayloadInvalid(f"does not fit {_name(self._declared)}: {error}")


class _Pydantic:
    def __init__(self, declared: Any, pydantic: ModuleType) -> None:
        self._name, self._invalid = _name(declared), pydantic.ValidationError
        try:
            self._adapter = pydantic.TypeAdapter(declared)
        except (pydantic.errors.PydanticUserError, NameError) as error:
            reason = str(error).partition("\n")[0].partition(". ")[0]
            fault = f"{reason}; use only Pydantic models and dataclasses in it"
            raise _undeclarable(declared, fault) from None
        parameters = inspect.signature(self._adapter.validate_json).parameters
        # The alias for encoding may differ from the one for decoding: accept both.
        self._names = {"by_alias": True, "by_name": True} if "by_name" in parameters else {}

    def write(self, value: Any) -> bytes:
        try:
            meant = self._adapter.validate_python(value)
        except self._invalid as error:
            raise self._misfit(error) from None
        faults = []
        for by_alias in (True, False):
            encoded = self._dump(meant, by_alias=by_alias)
            try:
                fault = lost(meant, self.read(encoded))
            except PayloadInvalid as error:
                fault = f"the encoded body {error}"
            if fault is None:
                return encoded
            faults.append(fault)
        raise _changed(faults[0])

    def read(self, body: bytes) -> Any:
        try:
            return self._adapter.validate_json(body, **self._names)
        except self._invalid as error:
            raise self._misfit(error) from None

    def take(self, value: Any) -> Any:
        try:
            return self._adapter.validate_python(value, strict=True)
        except self._invalid as error:
            raise self._misfit(error) from None

    def _dump(self, value: Any, *, by_alias: bool) -> bytes:
        try:
            plain = self._adapter.dump_python(
                value, mode="json", by_alias=by_alias, round_trip=True, warnings=False
            )
        except ValueError as error:  # Pydantic cannot encode it.
            raise PayloadInvalid(f"cannot be encoded as JSON: {error}") from None
        return encode_json(plain)

    def _misfit(self, error: Any) -> PayloadInvalid:
        faults = error.errors(include_url=False)
        shown = faults[:FAULTS_SHOWN_MAX]
        texts = [f"{fault['msg']} - at `{_json_path(fault['loc'])}`" for fault in shown]
        if len(faults) > FAULTS_SHOWN_MAX:
            texts.append(f"and {len(faults) - FAULTS_SHOWN_MAX} more")
        return PayloadInvalid(f"does not fit {self._name}: {'; '.join(texts)}")


def _are_same_fields(came: Any, value: Any) -> bool:
    """Like `==` of dataclasses at a third of the cost. If False, they may still be equal."""
    return type(came) is type(value) and came.__dict__ == value.__dict__


def _is_json(value: Any, encoded: bytes) -> bool:
    """Whether the value is plain JSON given in place of the type: a dict for a struct, a text for a
    time."""
    return type(value) in _PLAIN and bool(_plain(encoded) == value)


def _unexpected(error: Exception) -> Exception | None:
    """The cause to attach to `InvalidInput`: an error that is not ours; None otherwise."""
    return None if isinstance(error, PayloadInvalid | InvalidInput) else error


def _changed(fault: str) -> PayloadInvalid:
    return PayloadInvalid(f"would not arrive as it was sent: {fault}")


def has_models(declared: Any) -> bool:
    """Whether Pydantic must decode a type: it is or contains a model or a constraint."""
    return _has_models(declared, {})


def _has_models(declared: Any, seen: dict[int, Any]) -> bool:
    if id(declared) in seen:
        return False
    seen[id(declared)] = declared  # Keep a reference, or the id could be reused.
    if any(hasattr(declared, name) for name in _PYDANTIC):
        return True
    if type(declared).__module__.partition(".")[0] == "pydantic":  # A constraint, a discriminator.
        return True
    inner = [*typing.get_args(declared), typing.get_origin(declared)]
    inner += [getattr(declared, name, None) for name in ("__supertype__", "__value__")]
    inner += getattr(declared, "__metadata__", ())
    if isinstance(declared, type):
        try:
            inner += typing.get_type_hints(declared, include_extras=True).values()
        except (NameError, TypeError):
            return False  # The codec reports the error.
    return any(_has_models(part, seen) for part in inner)


def _unknown(node: Any, seen: set[int]) -> type | None:
    """A class within a type that msgspec cannot decode from JSON; None if there is none."""
    if id(node) in seen or not isinstance(node, tuple | Type | Field):
        return None
    seen.add(id(node))
    if isinstance(node, CustomType):
        return None if any(issubclass(plain, node.cls) for plain in _PLAIN) else node.cls
    inner = node if isinstance(node, tuple) else structs.astuple(node)
    return next((found for part in inner if (found := _unknown(part, seen))), None)


def _undeclarable(declared: Any, fault: str) -> InvalidInput:
    return InvalidInput([FieldError("payload", f"cannot be {_name(declared)}: {fault}")])


def _json_path(loc: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc)


def _name(declared: Any) -> str:
    if typing.get_origin(declared) is Annotated:
        return _name(declared.__origin__)
    is_alone = isinstance(declared, type) and not typing.get_args(declared)
    return declared.__name__ if is_alone else str(declared)
