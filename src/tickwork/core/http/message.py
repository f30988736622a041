"""A request and an answer, as values. Services are called with them, and HTTP handlers get them.

The names of headers are in lower case. JSON is read with the type that the caller asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

import msgspec
from msgspec import Struct, field

from tickwork.core.answers.ids import ENCODER
from tickwork.core.message.body import check_finite
from tickwork.core.stable_hash import stable_hash
from tickwork.errors import FieldError, InvalidInput, ServiceFailed

T = TypeVar("T")

CORRELATION_HEADER = "tickwork-correlation-id"
"""The correlation id of what caused a call."""

TRACE_HEADER = "traceparent"
"""The trace of a call, as W3C Trace Context defines it."""

JSON = "application/json"

REQUEST_BYTES_MAX = 1_000_000
"""Maximum bytes of the body of a request."""

ANSWER_BYTES_MAX = 10_000_000
"""Maximum bytes of the body of an answer."""

_SHOWN_MAX = 300
"""Characters of an answer in an error."""

ERROR_MIN = 400
"""The first status that is an error."""


class HttpResponse(Struct, frozen=True, kw_only=True):
    """The answer of a service, or of an HTTP handler."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    service: str | None = None
    """The service that answered; None if a handler made it."""

    @property
    def is_error(self) -> bool:
        """Whether the status is 400 or above."""
        return self.status >= ERROR_MIN

    @property
    def text(self) -> str:
        """The body as a text."""
        return self.body.decode("utf-8", errors="replace")

    @overload
    def json(self) -> Any: ...

    @overload
    def json(self, type: type[T]) -> T: ...

    def json(self, type: Any = Any) -> Any:  # noqa: A002
        """The body as JSON, of this type if one is given. Raises `InvalidInput` if it is not."""
        return _decoded(self.body, type)

    def check(self) -> HttpResponse:
        """This answer. Raises `ServiceFailed` if its status is an error."""
        if self.is_error:
            raise ServiceFailed(self.service or "", self.status, self.text[:_SHOWN_MAX])
        return self


class HttpRequest(Struct, frozen=True, kw_only=True):
    """What an HTTP handler is called with."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that the handler names, as `slug` in `/brands/{slug}`."""

    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    correlation_id: str
    """The id of the whole story; messages that the handler sends inherit it."""

    key_id: str | None = None
    """The API key of the caller; None for a handler that needs none."""

    @property
    def text(self) -> str:
        """The body as a text."""
        return self.body.decode("utf-8", errors="replace")

    @overload
    def json(self) -> Any: ...

    @overload
    def json(self, type: type[T]) -> T: ...

    def json(self, type: Any = Any) -> Any:  # noqa: A002
        """The body as JSON, of this type if one is given. The caller gets a 422 if it is not."""
        return _decoded(self.body, type)


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidInput([FieldError("body", str(error))]) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput([FieldError("body", f"is not valid JSON: {error}")]) from None


def encoded(value: object) -> bytes:
    """A value as JSON. Raises `InvalidInput` for one that is none."""
    try:
        written = ENCODER.encode(value)
    except (TypeError, ValueError, msgspec.EncodeError) as error:
        raise InvalidInput([FieldError("json", f"cannot be written as JSON: {error}")]) from None
    check_finite(value, written, "json")
    return written


def traceparent(correlation_id: str, call: str) -> str:
    """The trace header of a call: without spans, the calls of one correlation are one trace."""
    trace = stable_hash(correlation_id), stable_hash(f"trace {correlation_id}")
    return f"00-{trace[0]:016x}{trace[1]:016x}-{stable_hash(call) or 1:016x}-01"
