"""Encodes message bodies to bytes and decodes them; and bodies to send together.

`json` accepts values that JSON can represent, `text` a str, `bytes` bytes. A value that could not
be decoded later, here or by another language, is refused with `InvalidInput`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from types import NoneType
from typing import Any, Final, Generic, TypeVar, Unpack

import msgspec

from tickwork.core.answers.ids import plain_id
from tickwork.core.fields import choice_error
from tickwork.core.model import ContentType
from tickwork.core.options.message import GivenContentType, SendOptions
from tickwork.errors import FieldError, InvalidInput

T = TypeVar("T")

NESTING_MAX = 100

_BYTES = (bytes, bytearray, memoryview)
_CONTAINERS = frozenset({dict, list, tuple})
_WITHOUT_FLOATS = (str, int, NoneType, msgspec.Raw)
_ALWAYS_FINITE = frozenset({str, int, bool, NoneType, msgspec.Raw})

_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_NO_QUOTED_MARKS = bytes(byte for byte in range(256) if byte not in b'[]{}:"')

_JSON: Final = ContentType.JSON  # An enum lookup costs as much as encoding a small body.
_ENCODER = msgspec.json.Encoder(enc_hook=plain_id)
_DECODER = msgspec.json.Decoder()


def encode_body(value: object, content_type: GivenContentType = _JSON) -> bytes:
    """Encodes a body. Raises `InvalidInput` for a value that the content type cannot represent."""
    if content_type is _JSON:
        if isinstance(value, _BYTES):
            fault = "is bytes, which JSON cannot represent; send it with content_type='bytes'"
            raise _refused(fault)
        return encode_json(value, "body")
    match content_type:
        case ContentType.TEXT:
            if not isinstance(value, str):
                raise _refused(f"must be a text, not {type(value).__name__}")
            try:
                return value.encode("utf-8")
            except UnicodeEncodeError:
                raise _refused("must be valid Unicode, without lone surrogates") from None
        case ContentType.BYTES:
            if not isinstance(value, _BYTES):
                raise _refused(f"must be bytes, not {type(value).__name__}")
            return bytes(value)
        case _:
            return encode_body(value, known_content_type(content_type))


def known_content_type(given: GivenContentType) -> ContentType:
    """The content type of this name. Raises `InvalidInput` for an unknown one."""
    if type(given) is ContentType:
        return given
    try:
        return ContentType(given)
    except ValueError:
        fault = choice_error(given, ContentType) or "is not a content type"
        raise InvalidInput([FieldError("content_type", fault)]) from None


def decode_body(body: bytes, content_type: ContentType) -> Any:
    """Decodes a body. JSON is decoded to plain values."""
    if content_type is _JSON:
        return _DECODER.decode(body)
    match content_type:
        case ContentType.TEXT:
            return body.decode("utf-8")
        case ContentType.BYTES:
            return body


def body_in_json(body: bytes, content_type: ContentType) -> Any:
    """A body to be sent as a part of JSON. One that is JSON stays as it is: to decode a hundred of
    them, and encode them again, holds the event loop for half a second."""
    return msgspec.Raw(body) if content_type is _JSON else decode_body(body, content_type)


def shown_body(body: bytes, content_type: ContentType) -> Any:
    """A decoded body for people to see; the bytes if they do not match their content type."""
    try:
        return decode_body(body, content_type)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body


def check_json(body: bytes) -> None:
    """Raises `InvalidInput` for bytes that are not JSON or are nested too deep."""
    _check_nesting(body)
    try:
        _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(f"is not valid JSON: {error}") from None


def encode_json(
    value: object, field: str = "", *, root: str | None = None, bytes_max: int | None = None
) -> bytes:
    """Encodes a value as JSON, with bytes in it as base64. Raises `InvalidInput` if JSON cannot
    represent it: the error is that of `field`, and names the path of a NaN from `root` on, which is
    the field unless it is given. One of more than `bytes_max`, which the caller refuses, is not
    searched for what JSON cannot represent: that takes as long as it is large."""
    if value is None:
        return b"null"
    try:
        encoded = _ENCODER.encode(value)
    except RecursionError:
        raise _refused(f"is nested more than {NESTING_MAX} levels deep", field) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise _refused(f"cannot be encoded as JSON: {error}", field) from None
    if bytes_max is not None and len(encoded) > bytes_max:
        return encoded
    if len(encoded) > NESTING_MAX:
        _check_nesting(encoded, field)
    # As in check_finite, without a call: most bodies have no null.
    if b"null" in encoded:
        check_finite(value, encoded, field, root=root)
    if type(value) in _CONTAINERS and _has_equal_keys(value):
        fault = "has keys that are the same in JSON, such as 1 and '1'; use texts as keys"
        raise _refused(fault, field)
    return encoded


def check_finite(
    value: object,
    encoded: bytes,
    field: str = "",
    *,
    root: str | None = None,
    plain: Callable[[Any], Any] = plain_id,
) -> None:
    """Raises `InvalidInput` for a NaN or an infinity in a value, and names its path. msgspec
    encodes both as null, so only a value with a null in its JSON is searched. `plain` converts
    values that msgspec does not know."""
    if b"null" not in encoded:
        return
    found = _non_finite(value, plain)
    if found is not None:
        number, steps = found
        path = "".join([(field or "$") if root is None else root, *reversed(steps)]).lstrip(".")
        fault = f"has {number!r} at {path}, which JSON cannot represent; use None or a text instead"
        raise _refused(fault, field)


def _has_equal_keys(value: object) -> bool:
    """Whether two keys of an object in a value have the same text in JSON: one would be lost."""
    kind = type(value)
    if kind is dict:
        assert isinstance(value, dict)
        for key, inner in value.items():
            if type(key) is not str:
                return _loses_keys(value)
            if type(inner) in _CONTAINERS and _has_equal_keys(inner):
                return True
    elif kind is list or kind is tuple:
        assert isinstance(value, list | tuple)
        if _CONTAINERS.isdisjoint(map(type, value)):
            return False  # Half a million numbers are looked through in 5 ms, and below in 30.
        for inner in value:
            if type(inner) in _CONTAINERS and _has_equal_keys(inner):
                return True
    return False


def _loses_keys(value: dict[object, object]) -> bool:
    names = _DECODER.decode(_ENCODER.encode(dict.fromkeys(value)))
    return len(names) < len(value) or any(map(_has_equal_keys, value.values()))


def _non_finite(value: object, plain: Callable[[Any], Any]) -> tuple[float, list[str]] | None:
    """The first NaN or infinity in a value, and the steps of its path from the last to the
    first: a path is written only if there is one."""
    if isinstance(value, _WITHOUT_FLOATS):
        return None
    if isinstance(value, float):
        return None if isfinite(value) else (value, [])
    inner: Iterable[tuple[object, object]]
    if type(value) is dict:
        inner = value.items()
    elif type(value) is list or type(value) is tuple:
        if _ALWAYS_FINITE.issuperset(map(type, value)):
            return None  # Two hundred thousand of them are looked through in 3 ms, below in 80.
        inner = enumerate(value)
    else:
        known = msgspec.to_builtins(value, builtin_types=(msgspec.Raw,), enc_hook=plain)
        return None if type(known) is type(value) else _non_finite(known, plain)
    for key, part in inner:
        if (found := _non_finite(part, plain)) is not None:
            found[1].append(_step(key))
            return found
    return None


def _step(key: object) -> str:
    """One step of a path into an object."""
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]"


def _check_nesting(encoded: bytes, field: str = "") -> None:
    # Counting brackets is cheap and nearly always enough; only suspicious bodies are looked into.
    if encoded.count(b"[") + encoded.count(b"{") > NESTING_MAX and _is_too_deep(encoded):
        raise _refused(f"is nested more than {NESTING_MAX} levels deep", field)


def marks_outside_texts(encoded: bytes) -> bytes:
    """The brackets, braces and colons of JSON that are in no text."""
    if b"\\" in encoded:
        encoded = encoded.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = encoded.translate(None, _NO_QUOTED_MARKS)
    return b"".join(marks.split(b'"')[::2])


def without_texts(encoded: bytes) -> bytes:
    """JSON with all texts empty."""
    if b"\\" in encoded:
        encoded = encoded.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b'""'.join(encoded.split(b'"')[::2])


def _is_too_deep(encoded: bytes) -> bool:
    """Takes the innermost pair of brackets away so many times. What is left is too deep, or not
    closed: then it is no JSON. A loop over the bytes would hold the event loop."""
    brackets = marks_outside_texts(encoded).translate(_AS_LISTS, b":")
    for _ in range(NESTING_MAX):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    return b"[]" in brackets or brackets.count(b"[") > NESTING_MAX


def _refused(message: str, field: str = "") -> InvalidInput:
    return InvalidInput([FieldError(field or "body", message)])


class Outgoing(Generic[T]):
    """A body with options of its own, for `send_batch` and `app.batch`.

    Its options replace those of the whole batch, also with 0. None is the same as left out.
    """

    __slots__ = ("body", "options")

    def __init__(self, body: T, **options: Unpack[SendOptions]) -> None:
        self.body, self.options = body, options

    def __repr__(self) -> str:
        given = [repr(self.body), *(f"{name}={value!r}" for name, value in self.options.items())]
        return f"Outgoing({', '.join(given)})"


_SINGLE_BODIES = (str, bytes, bytearray, memoryview, Mapping)


def is_collection(bodies: object) -> bool:
    """Whether these are several bodies. A text, bytes, a mapping or a Pydantic model is one body,
    although it is iterable."""
    is_model = hasattr(type(bodies), "model_fields")
    return isinstance(bodies, Iterable) and not isinstance(bodies, _SINGLE_BODIES) and not is_model
