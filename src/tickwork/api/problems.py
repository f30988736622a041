"""Renders errors as `application/problem+json` (RFC 9457), with a stable code and field errors.

Contract: every exception of a route becomes a problem. Known errors carry their details. An
unexpected error is logged, and its response reveals nothing internal.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from litestar import Request, Response
from litestar.exceptions import ClientException, HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.types import ExceptionHandlersMap

from tickwork.api.request_id import request_id_of
from tickwork.core.problem import (
    INVALID_JSON,
    MEDIA_TYPE,
    Problem,
    problem,
    problem_of,
    unprocessable,
)
from tickwork.errors import FieldError, StoreError, TickworkError

_log = logging.getLogger(__name__)

_DISCONNECTED = "client disconnected prematurely"
"""The detail of Litestar's error if a client closes its connection in the middle of a body."""


class InvalidJson(ClientException):
    """A body that is not a JSON object; `detail` says why."""


class BodyTooLarge(ClientException):
    """A body that would take too long to parse; `detail` says why."""

    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def handlers() -> ExceptionHandlersMap:
    """Returns the handler of each kind of exception."""
    return {
        InvalidJson: _on_invalid_json,
        BodyTooLarge: _on_large_body,
        StoreError: _on_store_error,
        TickworkError: _on_refused,
        ValidationException: _on_invalid_request,
        HTTPException: _on_http_error,
        Exception: _on_unexpected,
    }


def described(*statuses: int) -> dict[int, ResponseSpec]:
    """Returns the documentation of the problems that a route may answer with."""
    return {status: _spec(status) for status in statuses}


def _on_invalid_json(_: Request[Any, Any, Any], error: InvalidJson) -> Response[Problem]:
    detail = f"The body cannot be parsed: {error.detail}."
    return _respond(problem(error.status_code, code=INVALID_JSON, detail=detail))


def _on_large_body(_: Request[Any, Any, Any], error: BodyTooLarge) -> Response[Problem]:
    return _respond(problem(error.status_code, detail=error.detail))


def _on_refused(request: Request[Any, Any, Any], error: TickworkError) -> Response[Problem]:
    refusal = problem_of(error)
    if refusal is None:
        return _on_unexpected(request, error)
    return _respond(*refusal)


def _on_invalid_request(_: Request[Any, Any, Any], error: ValidationException) -> Response[Problem]:
    """Litestar checks that there is a body, and the query and headers. `ops` checks the rest."""
    found = error.extra if isinstance(error.extra, list) else []
    faults = [
        FieldError(str(fault.get("key")), str(fault.get("message")))
        for fault in found
        if fault.get("source") in ("query", "header", "path") and fault.get("key")
    ]
    if faults:
        return _respond(unprocessable(tuple(faults)))
    return _respond(problem(error.status_code, code=INVALID_JSON))


def _on_store_error(request: Request[Any, Any, Any], error: StoreError) -> Response[Problem]:
    _log.error("the store raised an error: %s (request %s)", error, request_id_of(request.scope))
    return _respond(problem(HTTPStatus.SERVICE_UNAVAILABLE))


def _on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    if error.detail == _DISCONNECTED:
        # Litestar calls it an error of the server. Nobody reads the answer.
        _log.debug("the client has gone (request %s)", request_id_of(request.scope))
        return _respond(problem(HTTPStatus.BAD_REQUEST, code=INVALID_JSON))
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


def _respond(body: Problem, headers: Mapping[str, str] | None = None) -> Response[Problem]:
    return Response(
        body, status_code=body.status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


def _spec(status: int) -> ResponseSpec:
    match status:
        case HTTPStatus.UNPROCESSABLE_ENTITY:
            example = unprocessable((FieldError("timezone", "'Mars' is not an IANA time zone"),))
        case HTTPStatus.BAD_REQUEST:
            example = problem(status, code=INVALID_JSON)
        case _:
            example = problem(status)
    return ResponseSpec(
        data_container=Problem,
        description=example.title,
        media_type=MEDIA_TYPE,
        generate_examples=False,
        examples=[Example(value=example)],
    )
