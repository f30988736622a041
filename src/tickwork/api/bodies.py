"""Parses request bodies into JSON objects, or raises an error that says what is wrong.

Contract: a route receives an object of bounded depth, so that no later code exhausts the stack.
The verbs in `ops` check the fields, so a body is not decoded into a type; the type only documents
it. A route that takes no body refuses fields: what a caller asks for is never ignored.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.dto import AbstractDTO
from litestar.exceptions import HTTPException
from litestar.openapi.spec import OpenAPIType, Reference, Schema
from litestar.status_codes import HTTP_415_UNSUPPORTED_MEDIA_TYPE
from litestar.typing import FieldDefinition

from tickwork.api.nul import refuse_nul_in
from tickwork.api.null_fields import refuse_null_in
from tickwork.api.problems import BodyTooLarge, InvalidJson
from tickwork.core.fields import unknown_faults
from tickwork.core.message.body import marks_outside_texts, without_texts
from tickwork.errors import InvalidInput

DEPTH_MAX = 32
"""Maximum nesting depth of a body."""

PARTS_MAX = 60_000
"""Maximum number of names, objects and lists in a body. To parse them takes 30 milliseconds, in
which no other request is answered."""

SLOW_NUMBERS_MAX = 500
"""Maximum number of numbers in a body that are slow to parse: each takes up to 60 microseconds,
where others take 50 nanoseconds."""

EXPONENTS_MAX = 10_000
"""Maximum number of numbers with an exponent: each may take a microsecond, such as 1e23."""

DIGITS_MAX = 400
"""Digits from which on a number is refused: they are parsed in the square of their number."""

LONG_DIGITS = 21
"""Digits, with the point, from which on a number may be slow to parse. A float needs 17 after its
leading zeros, and a 64-bit integer 20."""

READS_BODY = "reads_body"
"""The option of a route that reads its body itself, and has no parameter `data`."""

Model = TypeVar("Model")

_BODY_HEADERS = ("content-length", "transfer-encoding")
_AS_LISTS = bytes.maketrans(b"{}", b"[]")
_NUMBERS = bytes(
    byte if byte in b"0123456789.e" else ord("e" if byte == ord("E") else ",")
    for byte in range(256)
)
_AS_ZEROS = bytes.maketrans(b"123456789.", b"0000000000")
_LEADING_ZEROS = (b",0.000", b",0.00", b",0.0", b",0.")


def read_object(raw: bytes) -> dict[str, Any]:
    """Parses the JSON object in a body."""
    value = _read(raw)
    if not isinstance(value, dict):
        raise InvalidJson("it is not an object such as {}")
    return value


def read_objects(raw: bytes) -> dict[str, Any] | list[Any]:
    """Parses the JSON object in a body, or a list of them."""
    value = _read(raw)
    if not isinstance(value, dict | list):
        raise InvalidJson("it is neither an object such as {} nor a list of them")
    return value


async def refuse_body(request: Request[Any, Any, Any]) -> None:
    """Raises `InvalidInput` for fields in the body of a request to a route that takes none. An
    empty object is no fault: some clients always send one."""
    handler = request.route_handler
    if "data" in handler.parsed_fn_signature.parameters or handler.opt.get(READS_BODY) is True:
        return
    if not any(name in request.headers for name in _BODY_HEADERS):
        return
    raw = await request.body()
    if raw.strip() and (given := read_object(raw)):
        raise InvalidInput(unknown_faults(given, frozenset()))


def _read(raw: bytes) -> Any:
    _check_structure(raw)
    _check_numbers(raw)
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError:
        raise InvalidJson("it is not valid UTF-8") from None
    except msgspec.DecodeError as error:
        raise InvalidJson(f"{error}") from None
    refuse_nul_in(raw, value)
    return value


class Documented(AbstractDTO[Model]):
    """`dto=Documented[PreviewRequest]`: parses an object and documents it as the model."""

    def decode_bytes(self, value: bytes) -> Any:
        connection = self.asgi_connection
        assert isinstance(connection, Request)
        _check_media_type(connection.content_type[0])
        body = self.read(value)
        refuse_null_in(value, body, self.model_type)
        return body

    def read(self, raw: bytes) -> Any:
        """Parses the body."""
        return read_object(raw)

    @classmethod
    def create_for_field_definition(cls, *_: object, **__: object) -> None:
        """Does nothing: there is no transfer model."""

    @classmethod
    def create_openapi_schema(
        cls,
        field_definition: FieldDefinition,
        handler_id: str,  # noqa: ARG003 (part of the interface)
        schema_creator: Any,
    ) -> Reference | Schema:
        documented: Reference | Schema = schema_creator.for_field_definition(
            FieldDefinition.from_annotation(
                cls.model_type, kwarg_definition=field_definition.kwarg_definition
            )
        )
        return documented


class DocumentedMany(Documented[Model]):
    """As `Documented`, for an object or a list of objects."""

    def read(self, raw: bytes) -> Any:
        return read_objects(raw)

    @classmethod
    def create_openapi_schema(
        cls, field_definition: FieldDefinition, handler_id: str, schema_creator: Any
    ) -> Reference | Schema:
        one = super().create_openapi_schema(field_definition, handler_id, schema_creator)
        if isinstance(one, Reference):
            return one
        plain = schema_creator.for_field_definition(FieldDefinition.from_annotation(cls.model_type))
        many = Schema(type=OpenAPIType.ARRAY, items=plain)
        return Schema(one_of=[plain, many], description=one.description, examples=one.examples)


def _check_media_type(media_type: str) -> None:
    name = media_type.strip().lower()
    if name and name != "application/json" and not name.endswith("+json"):
        raise HTTPException(status_code=HTTP_415_UNSUPPORTED_MEDIA_TYPE)


def _check_structure(raw: bytes) -> None:
    """Raises an error for a body that is nested too deeply or has too many parts, before it is
    parsed. It looks at the brackets and colons of the text, outside of strings."""
    openings = raw.count(b"[") + raw.count(b"{")
    if openings <= DEPTH_MAX and raw.count(b":") <= PARTS_MAX - DEPTH_MAX:
        return
    marks = marks_outside_texts(raw)
    brackets = marks.translate(_AS_LISTS, b":")
    if b"[" * (DEPTH_MAX + 1) in brackets:
        raise _too_deep()
    if brackets.count(b"[") + marks.count(b":") > PARTS_MAX:
        raise BodyTooLarge(
            f"The body has more than {PARTS_MAX:,} names, objects and lists; send it in pieces."
        )
    for _ in range(DEPTH_MAX):
        brackets = brackets.replace(b"[]", b"")
    if brackets.count(b"[") == brackets.count(b"]") > 0:
        raise _too_deep()


def _check_numbers(raw: bytes) -> None:
    """Raises an error for a body with many numbers that are slow to parse, or with one that is far
    too long. Most bodies have none, which is found out in a millisecond or two."""
    if _numbers_fault(raw.translate(_NUMBERS)) is None:
        return
    numbers = without_texts(raw).translate(_NUMBERS)
    for zeros in _LEADING_ZEROS:
        numbers = numbers.replace(zeros, b",")
    if (fault := _numbers_fault(numbers)) is not None:
        raise BodyTooLarge(f"The body has {fault}.")


def _numbers_fault(numbers: bytes) -> str | None:
    """What is wrong with the numbers of a text, in which all other characters are commas."""
    digits = numbers.translate(_AS_ZEROS)
    if b"0" * DIGITS_MAX in digits:
        return f"a number of {DIGITS_MAX} digits or more"
    slow = digits.count(b"e000") + digits.count(b"e,000") + digits.count(b"0" * LONG_DIGITS)
    if slow > SLOW_NUMBERS_MAX:
        what = "numbers of more than 20 digits, or with an exponent beyond 99"
        return f"more than {SLOW_NUMBERS_MAX} {what}; round them, or send them in pieces"
    if digits.count(b"0e") > EXPONENTS_MAX:
        return f"more than {EXPONENTS_MAX:,} numbers with an exponent; send them in pieces"
    return None


def _too_deep() -> InvalidJson:
    return InvalidJson(f"it is nested more than {DEPTH_MAX} levels deep")
