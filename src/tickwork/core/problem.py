"""Errors as problems (RFC 9457): a status, a stable code, texts and the errors of fields.

`problem_of` decides what an error is for a caller over HTTP. It knows no framework; the API and the
HTTP handlers of apps send what it returns.
"""

from __future__ import annotations

from math import ceil
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tickwork.errors import (
    BacklogFull,
    ClaimLost,
    Conflict,
    EntityBusy,
    EntityCallFailed,
    EntityMoved,
    FieldError,
    Forbidden,
    InvalidInput,
    NotFound,
    NulCharacter,
    PreconditionFailed,
    RateExceeded,
    RequestRunning,
    StoreUnavailable,
    TickworkError,
    TooMany,
    Unauthorized,
    UnknownField,
)

MEDIA_TYPE = "application/problem+json"

BODY_BYTES_MAX = 1_000_000
"""Maximum size of a request body."""

ERRORS_MAX = 100
"""Maximum number of field errors in a response."""

TEXT_LENGTH_MAX = 500
"""Maximum number of characters of a text in a response."""

RETRY_AFTER_SECONDS = 1
"""Seconds after which a caller may try again, where a queue is full."""

ROOM_SECONDS = 60
"""Seconds after which a caller may try again, where somebody has to make room first."""

INVALID_JSON = "invalid_json"
"""The code of a body that is not JSON."""

_MALFORMED: dict[type[FieldError], str] = {
    UnknownField: "unknown_field",
    NulCharacter: "nul_character",
}
"""Errors of fields that are answered with 400."""

_LEASE_LOST = "not_held"
_TOO_MANY_REQUESTS = 429


class Kind(NamedTuple):
    """The code and texts that all problems of a status share."""

    code: str
    title: str
    detail: str = ""


_KINDS = {
    400: Kind(
        "bad_request", "The request cannot be parsed", "The body cannot be parsed: it is empty."
    ),
    401: Kind(
        Unauthorized.code,
        "Unauthorized",
        "Send your API key in the header Authorization: Bearer tw_…",
    ),
    403: Kind(Forbidden.code, "Forbidden", "This needs a key with another scope."),
    404: Kind("not_found", "Not found", "There is no such path; /docs lists all of them."),
    405: Kind(
        "method_not_allowed",
        "Method not allowed",
        "This path does not support the method; the Allow header lists those it supports.",
    ),
    408: Kind(
        "request_timeout",
        "Request timeout",
        "The request did not come in time; send it again.",
    ),
    409: Kind(Conflict.code, "Conflict", "It exists already, or is still in use."),
    412: Kind(
        PreconditionFailed.code,
        "Precondition failed",
        "It was changed since you read it; read it and try again.",
    ),
    413: Kind(
        "body_too_large",
        "The body is too large",
        f"The body is larger than {BODY_BYTES_MAX} bytes; send a reference instead.",
    ),
    415: Kind(
        "unsupported_media_type",
        "Unsupported media type",
        "Send JSON with the header Content-Type: application/json.",
    ),
    422: Kind(InvalidInput.code, "The input is not valid"),
    429: Kind(TooMany.code, "Too many", "A limit of the tenant or queue is reached; try later."),
    431: Kind(
        "header_too_large",
        "The header is too large",
        "A URL has at most 16384 bytes, the header of a request with it 65536; send less.",
    ),
    503: Kind(
        StoreUnavailable.code,
        "The database is unavailable",
        "The database cannot be reached or written now; try again soon.",
    ),
    500: Kind(
        "internal_error", "Internal server error", "An unexpected error occurred and was logged."
    ),
}


class FieldProblem(Struct, frozen=True):
    """One error of one field."""

    field: Annotated[str, Meta(description="Path of the field, with dots into objects.")]
    message: Annotated[str, Meta(description="What is wrong and how to fix it.")]


class Problem(Struct, frozen=True, kw_only=True):
    """An error. `code` is for programs and never changes its meaning; texts may change."""

    type: Annotated[str, Meta(description="URI of the kind of problem.")]
    title: str
    status: int
    detail: str
    code: Annotated[str, Meta(description="Stable code for programs.")]
    errors: Annotated[
        tuple[FieldProblem, ...], Meta(description="Errors by field; empty if no field is wrong.")
    ] = ()
    limit: Annotated[str | UnsetType, Meta(description="With 429: the limit that is reached.")] = (
        UNSET
    )

    def encoded(self) -> bytes:
        """This problem as JSON."""
        return msgspec.json.encode(self)


def problem(
    status: int,
    *,
    detail: str = "",
    code: str = "",
    errors: tuple[FieldError, ...] = (),
    limit: str = "",
) -> Problem:
    """Returns a problem. Its texts and list are bounded, as they may quote the request."""
    kind = _KINDS.get(status) or Kind("http_error", "The request failed")
    listed = [FieldProblem(_cut(error.field), _cut(error.message)) for error in errors[:ERRORS_MAX]]
    return Problem(
        type=f"urn:tickwork:problem:{code or kind.code}",
        title=kind.title,
        status=status,
        detail=_cut(detail or kind.detail),
        code=code or kind.code,
        errors=tuple(listed),
        limit=limit or UNSET,
    )


class Refusal(NamedTuple):
    """A problem, and the headers of its response."""

    problem: Problem
    headers: dict[str, str]


def problem_of(error: TickworkError) -> Refusal | None:
    """The problem of an error that a caller can act on; None for an unexpected one."""
    if isinstance(error, Unauthorized):
        answer = problem(401, code=error.code, detail=_sentence(error))
        return Refusal(answer, {"WWW-Authenticate": "Bearer"})
    if isinstance(error, Forbidden):
        return Refusal(problem(403, code=error.code, detail=_sentence(error)), {})
    if isinstance(error, InvalidInput):
        return Refusal(unprocessable(error.errors), {})
    status, code = next(
        (refusal for kind, refusal in _REFUSALS.items() if isinstance(error, kind)), (None, "")
    )
    if status is None:
        return None
    headers, limit = {}, ""
    if status == _TOO_MANY_REQUESTS:
        headers["Retry-After"], limit = _wait_and_limit(error)
    if isinstance(error, RateExceeded):
        headers["RateLimit-Limit"] = f"{error.rate_per_second:g}"
        headers["RateLimit-Remaining"] = "0"
        headers["RateLimit-Reset"] = headers["Retry-After"]
    return Refusal(problem(status, code=code, detail=_sentence(error), limit=limit), headers)


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith("?") else ".")


_REFUSALS: dict[type[TickworkError], tuple[int, str]] = {
    NotFound: (404, NotFound.code),
    RequestRunning: (409, RequestRunning.code),
    Conflict: (409, Conflict.code),
    ClaimLost: (409, _LEASE_LOST),
    PreconditionFailed: (412, PreconditionFailed.code),
    EntityBusy: (409, EntityBusy.code),
    EntityMoved: (409, EntityMoved.code),
    EntityCallFailed: (500, EntityCallFailed.code),
    BacklogFull: (_TOO_MANY_REQUESTS, BacklogFull.code),
    RateExceeded: (_TOO_MANY_REQUESTS, RateExceeded.code),
    TooMany: (_TOO_MANY_REQUESTS, TooMany.code),
}


def _wait_and_limit(error: TickworkError) -> tuple[str, str]:
    """Whole seconds until a repeat may succeed, and which limit is reached."""
    if not isinstance(error, TooMany):
        return str(RETRY_AFTER_SECONDS), "backlog_bytes_max"
    seconds = error.retry_after_seconds
    return str(ROOM_SECONDS if seconds is None else max(ceil(seconds), 1)), error.limit


def unprocessable(errors: tuple[FieldError, ...]) -> Problem:
    """The problem of wrong fields."""
    detail = f"{errors[0].field}: {errors[0].message}"
    if len(errors) > 1:
        detail = f"{len(errors)} errors; the first is {detail}"
    for kind, code in _MALFORMED.items():
        if any(isinstance(error, kind) for error in errors):
            return problem(400, code=code, detail=detail, errors=errors)
    return problem(422, detail=detail, errors=errors)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 3]}..."
