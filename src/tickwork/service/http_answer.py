"""What an HTTP handler returns or raises, as an answer: wherever the handler runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus

from tickwork.core.answers.ids import ENCODER
from tickwork.core.http.message import JSON, HttpResponse
from tickwork.core.message.body import check_finite
from tickwork.core.problem import MEDIA_TYPE, Problem, problem, problem_of
from tickwork.errors import InvalidInput, StoreError, TickworkError

_TIMED_OUT = "timed_out"

_log = logging.getLogger("tickwork")


def answer_of(returned: object) -> HttpResponse:
    """What a handler returns, as an answer: None is 204, other values are JSON."""
    if isinstance(returned, HttpResponse):
        return returned
    if returned is None:
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    body = ENCODER.encode(returned)
    try:
        check_finite(returned, body, "answer")
    except InvalidInput as error:  # The fault of the handler, not of who called it.
        raise ValueError(f"a handler returned no JSON: {error}") from None
    return HttpResponse(headers={"content-type": JSON}, body=body)


def answer_of_error(error: BaseException, method: str, path: str) -> HttpResponse:
    """What a handler raised, as an answer: the problem of an error of Tickwork, otherwise a 500
    that reveals nothing. The log has it."""
    if isinstance(error, StoreError):
        _log.error("%s %s: the store raised an error: %s", method, path, error)
        return refused(problem(HTTPStatus.SERVICE_UNAVAILABLE))
    refusal = problem_of(error) if isinstance(error, TickworkError) else None
    if refusal is not None:
        return refused(*refusal)
    _log.error("%s %s failed", method, path, exc_info=error)
    return refused(problem(HTTPStatus.INTERNAL_SERVER_ERROR))


def timed_out(fault: str) -> HttpResponse:
    """The answer for a handler that was stopped because its time is over."""
    return refused(problem(HTTPStatus.GATEWAY_TIMEOUT, code=_TIMED_OUT, detail=fault))


def refused(refusal: Problem, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """A problem, as an answer."""
    return HttpResponse(
        status=refusal.status,
        headers={**(headers or {}), "content-type": MEDIA_TYPE},
        body=refusal.encoded(),
    )
