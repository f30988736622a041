"""Renders errors as `application/problem+json` (RFC 9457), with a stable code and field errors.

Contract: every exception of a route becomes a problem. Known errors carry their details. An
unexpected error is logged, and its response reveals nothing internal.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

from litestar import Request, Response
from litestar.exceptions import ClientException, HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.types import ExceptionHandlersMap
from msgspec import Meta, Struct

from tickwork.api.request_id import request_id_of
from tickwork.errors import (
    BacklogFull,
    ClaimLost,
    Conflict,
    FieldError,
    Forbidden,
    InvalidInput,
    NotFound,
    PreconditionFailed,
    StoreError,
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
"""Seconds after which a caller may try again, where a limit of a rate or a backlog is reached."""

_INVALID_JSON = "invalid_json"
_UNKNOWN_FIELD = "unknown_field"
_NOT_HELD = "not_held"


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
    503: Kind(
        StoreUnavailable.code,
        "The database is unavailable",
        "The database cannot be reached or written now; try again soon.",
    ),
    500: Kind(
        "internal_error", "Internal server error", "An unexpected error occurred and was logged."
    ),
}

_log = logging.getLogger(__name__)


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


class InvalidJson(ClientException):
    """A body that is not a JSON object; `detail` says why."""


def problem(
    status: int, *, detail: str = "", code: str = "", errors: tuple[FieldError, ...] = ()
) -> Problem:
    """Returns a problem. Its texts and list are bounded, as they may quote the request."""
    kind = _KINDS.get(status) or Kind("http_error", HTTPStatus(status).phrase)
    listed = [FieldProblem(_cut(each.field), _cut(each.message)) for each in errors[:ERRORS_MAX]]
    return Problem(
        type=f"urn:tickwork:problem:{code or kind.code}",
        title=kind.title,
        status=status,
        detail=_cut(detail or kind.detail),
        code=code or kind.code,
        errors=tuple(listed),
    )


def handlers() -> ExceptionHandlersMap:
    """Returns the handler of each kind of exception."""
    return {
        Unauthorized: _on_unauthorized,
        Forbidden: _on_forbidden,
        InvalidInput: _on_invalid_input,
        InvalidJson: _on_invalid_json,
        StoreError: _on_store_error,
        TickworkError: _on_refused,
        ValidationException: _on_invalid_request,
        HTTPException: _on_http_error,
        Exception: _on_unexpected,
    }


def described(*statuses: int) -> dict[int, ResponseSpec]:
    """Returns the documentation of the problems that a route may answer with."""
    return {status: _spec(status) for status in statuses}


def _on_unauthorized(_: Request[Any, Any, Any], error: Unauthorized) -> Response[Problem]:
    told = problem(HTTPStatus.UNAUTHORIZED, code=error.code, detail=_sentence(error))
    return _respond(told, {"WWW-Authenticate": "Bearer"})


def _on_forbidden(_: Request[Any, Any, Any], error: Forbidden) -> Response[Problem]:
    return _respond(problem(HTTPStatus.FORBIDDEN, code=error.code, detail=_sentence(error)))


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def _on_invalid_input(_: Request[Any, Any, Any], error: InvalidInput) -> Response[Problem]:
    return _respond(_unprocessable(error.errors))


def _on_invalid_json(_: Request[Any, Any, Any], error: InvalidJson) -> Response[Problem]:
    detail = f"The body cannot be parsed: {error.detail}."
    return _respond(problem(error.status_code, code=_INVALID_JSON, detail=detail))


_REFUSALS: dict[type[TickworkError], tuple[HTTPStatus, str]] = {
    NotFound: (HTTPStatus.NOT_FOUND, NotFound.code),
    Conflict: (HTTPStatus.CONFLICT, Conflict.code),
    ClaimLost: (HTTPStatus.CONFLICT, _NOT_HELD),
    PreconditionFailed: (HTTPStatus.PRECONDITION_FAILED, PreconditionFailed.code),
    BacklogFull: (HTTPStatus.TOO_MANY_REQUESTS, BacklogFull.code),
    TooMany: (HTTPStatus.TOO_MANY_REQUESTS, TooMany.code),
}


def _on_refused(request: Request[Any, Any, Any], error: TickworkError) -> Response[Problem]:
    status, code = next(
        (each for kind, each in _REFUSALS.items() if isinstance(error, kind)), (None, "")
    )
    if status is None:
        return _on_unexpected(request, error)
    headers = {}
    if status is HTTPStatus.TOO_MANY_REQUESTS:
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return _respond(problem(status, code=code, detail=_sentence(error)), headers)


def _on_invalid_request(_: Request[Any, Any, Any], error: ValidationException) -> Response[Problem]:
    """Litestar checks that there is a body, and the query and headers. `ops` checks the rest."""
    found = error.extra if isinstance(error.extra, list) else []
    faults = [
        FieldError(str(each.get("key")), str(each.get("message")))
        for each in found
        if each.get("source") in ("query", "header", "path") and each.get("key")
    ]
    if faults:
        return _respond(_unprocessable(tuple(faults)))
    return _respond(problem(error.status_code, code=_INVALID_JSON))


def _on_store_error(request: Request[Any, Any, Any], error: StoreError) -> Response[Problem]:
    _log.error("the store raised an error: %s (request %s)", error, request_id_of(request.scope))
    return _respond(problem(HTTPStatus.SERVICE_UNAVAILABLE))


def _on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        request_id = request_id_of(request.scope)
        _log.error(
            "responded with %d: %s (request %s)", error.status_code, error.detail, request_id
        )
    return _respond(problem(error.status_code), error.headers)


def _on_unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    asked = (request.method, request.url.path, request_id_of(request.scope))
    _log.error("%s %s failed (request %s)", *asked, exc_info=error)
    return _respond(problem(HTTPStatus.INTERNAL_SERVER_ERROR))


def _unprocessable(errors: tuple[FieldError, ...]) -> Problem:
    detail = f"{errors[0].field}: {errors[0].message}"
    if len(errors) > 1:
        detail = f"{len(errors)} errors; the first is {detail}"
    if any(isinstance(each, UnknownField) for each in errors):
        return problem(HTTPStatus.BAD_REQUEST, code=_UNKNOWN_FIELD, detail=detail, errors=errors)
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail=detail, errors=errors)


def _respond(body: Problem, headers: Mapping[str, str] | None = None) -> Response[Problem]:
    return Response(
        body, status_code=body.status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 3]}..."


def _spec(status: int) -> ResponseSpec:
    match status:
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            example = _unprocessable((FieldError("timezone", "'Mars' is not an IANA time zone"),))
        case HTTPStatus.BAD_REQUEST:
            example = problem(status, code=_INVALID_JSON)
        case _:
            example = problem(status)
    return ResponseSpec(
        data_container=Problem,
        description=example.title,
        media_type=MEDIA_TYPE,
        generate_examples=False,
        examples=[Example(value=example)],
    )
