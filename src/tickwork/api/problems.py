"""Errors as `application/problem+json` (RFC 9457), with a stable code and the faulty fields.

Contract: whatever a route raises becomes one of these. What we know is told in full; what we
do not expect is logged here and leaves without a word about our insides.
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

from tickwork.errors import FieldError, InvalidInput, StoreError, StoreUnavailable

MEDIA_TYPE = "application/problem+json"
BODY_BYTES_MAX = 1_000_000
ERRORS_TOLD_MAX = 100
TEXT_LENGTH_MAX = 500

_INVALID_JSON = "invalid_json"


class Kind(NamedTuple):
    """What is always the same about the problems of one status."""

    code: str
    title: str
    detail: str = ""


_KINDS = {
    400: Kind("bad_request", "The request cannot be read", "The body cannot be read: it is empty."),
    403: Kind(
        "forbidden",
        "Not allowed from here",
        "This is told only to the machine that the server runs on; ask from there.",
    ),
    404: Kind(
        "not_found", "Nothing here", "There is nothing at this address; /docs lists what there is."
    ),
    405: Kind(
        "method_not_allowed",
        "Method not allowed",
        "This address does not know the method; the Allow header names those it knows.",
    ),
    413: Kind(
        "body_too_large",
        "The body is too large",
        f"The body is larger than {BODY_BYTES_MAX} bytes; send a reference instead.",
    ),
    415: Kind(
        "unsupported_media_type",
        "This media type cannot be read",
        "Send JSON, and say so with the header Content-Type: application/json.",
    ),
    422: Kind(InvalidInput.code, "The input is not valid"),
    503: Kind(
        StoreUnavailable.code,
        "The database does not answer",
        "The database cannot be reached or written at the moment; try again soon.",
    ),
    500: Kind(
        "internal_error", "Our fault", "Something went wrong on our side; it has been logged."
    ),
}

_log = logging.getLogger(__name__)


class FieldProblem(Struct, frozen=True):
    """One fault in one field."""

    field: Annotated[str, Meta(description="The field, with dots into objects.")]
    message: Annotated[str, Meta(description="What is wrong with it, and what to do.")]


class Problem(Struct, frozen=True, kw_only=True):
    """An error: `code` is for programs and never changes its meaning, texts may improve."""

    type: Annotated[str, Meta(description="A URI that names the kind of problem.")]
    title: str
    status: int
    detail: str
    code: Annotated[str, Meta(description="Stable; meant for programs.")]
    errors: Annotated[
        tuple[FieldProblem, ...], Meta(description="The faulty fields, if fields are at fault.")
    ] = ()


class InvalidJson(ClientException):
    """A body that is no JSON object at all; `detail` says why."""


def problem(
    status: int, *, detail: str = "", code: str = "", errors: tuple[FieldError, ...] = ()
) -> Problem:
    """A problem, with its texts and its list bounded: a caller's own bytes may be in them."""
    kind = _KINDS.get(status) or Kind("http_error", HTTPStatus(status).phrase)
    told = [FieldProblem(_cut(each.field), _cut(each.message)) for each in errors[:ERRORS_TOLD_MAX]]
    return Problem(
        type=f"urn:tickwork:problem:{code or kind.code}",
        title=kind.title,
        status=status,
        detail=_cut(detail or kind.detail),
        code=code or kind.code,
        errors=tuple(told),
    )


def handlers() -> ExceptionHandlersMap:
    """What becomes of each error that a route lets through."""
    return {
        InvalidInput: _on_invalid_input,
        InvalidJson: _on_invalid_json,
        StoreError: _on_store_error,
        ValidationException: _on_missing_body,
        HTTPException: _on_http_error,
        Exception: _on_unexpected,
    }


def described(*statuses: int) -> dict[int, ResponseSpec]:
    """The problems that a route may answer with, for its documentation."""
    return {status: _spec(status) for status in statuses}


def _on_invalid_input(_: Request[Any, Any, Any], error: InvalidInput) -> Response[Problem]:
    return _answer(_unprocessable(error.errors))


def _on_invalid_json(_: Request[Any, Any, Any], error: InvalidJson) -> Response[Problem]:
    detail = f"The body cannot be read: {error.detail}."
    return _answer(problem(error.status_code, code=_INVALID_JSON, detail=detail))


def _on_missing_body(_: Request[Any, Any, Any], error: ValidationException) -> Response[Problem]:
    """The body is the one thing that Litestar itself asks for; `ops` sees to the rest."""
    return _answer(problem(error.status_code, code=_INVALID_JSON))


def _on_store_error(_: Request[Any, Any, Any], error: StoreError) -> Response[Problem]:
    _log.error("the database failed: %s", error)
    return _answer(problem(HTTPStatus.SERVICE_UNAVAILABLE))


def _on_http_error(_: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("answered %d: %s", error.status_code, error.detail)
    return _answer(problem(error.status_code), error.headers)


def _on_unexpected(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(problem(HTTPStatus.INTERNAL_SERVER_ERROR))


def _unprocessable(errors: tuple[FieldError, ...]) -> Problem:
    detail = f"{errors[0].field}: {errors[0].message}"
    if len(errors) > 1:
        detail = f"{len(errors)} faults were found; the first is {detail}"
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail=detail, errors=errors)


def _answer(told: Problem, headers: Mapping[str, str] | None = None) -> Response[Problem]:
    return Response(
        told, status_code=told.status, media_type=MEDIA_TYPE, headers=dict(headers or {})
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
