"""Turns a problem in an answer into the error that the same call raises in an app.

The text of a problem is that of the error as a sentence, so class, code, text and the errors of
fields are the same on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tickwork import errors
from tickwork.errors import FieldError, TickworkError, UnknownField

_UNKNOWN_FIELD = "unknown_field"
_TEXT_LENGTH_MAX = 500


class _Problem(Struct):
    detail: str = ""
    code: str = ""
    errors: tuple[dict[str, str], ...] = ()
    limit: str = ""


_BY_CODE: dict[str, tuple[type[TickworkError], str]] = {
    "not_found": (
        errors.NotFound,
        r"there is no (?P<kind>.+?) (?P<name>[^ ;]+)(?:; (?P<hint>.*))?",
    ),
    "conflict": (errors.Conflict, ""),
    "request_running": (errors.RequestRunning, ""),
    "not_held": (errors.ClaimLost, ""),
    "precondition_failed": (
        errors.PreconditionFailed,
        r"(?P<kind>\w+) (?P<name>.+) (?P<what>(?:was changed since|exists already).*)",
    ),
    "entity_busy": (errors.EntityBusy, r"(?P<entity>\S+) '(?P<key>.*?)' (?P<text>.*)"),
    "entity_moved": (errors.EntityMoved, r"(?P<entity>\S+) '(?P<key>.*?)' (?P<text>.*)"),
    "call_failed": (errors.EntityCallFailed, r"(?P<entity>\S+) '(?P<key>.*?)' (?P<text>.*)"),
    "backlog_full": (
        errors.BacklogFull,
        r"queue (?P<queue>.+) is at its limit of (?P<bytes_max>\d+) bytes.*",
    ),
    "store_unavailable": (errors.StoreUnavailable, ""),
}
"""The error of each code, and how its text names what it is about."""


_BEGIN_WITH_A_NAME = frozenset({"entity_busy", "entity_moved", "call_failed"})
"""Codes of errors whose text begins with the name of a class."""


def error_of(status: int, body: bytes, headers: Mapping[str, str], server: str) -> TickworkError:
    """The error that an answer with a status of 400 or more stands for."""
    try:
        problem = msgspec.json.decode(body, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return errors.ServiceFailed(
            server, status, body[:_TEXT_LENGTH_MAX].decode(errors="replace")
        )
    if problem.errors:
        kind = UnknownField if problem.code == _UNKNOWN_FIELD else FieldError
        return errors.InvalidInput(
            kind(fault["field"], fault["message"]) for fault in problem.errors
        )
    text = _text(problem.detail)
    match status:
        case 401:
            return errors.Unauthorized(problem.code, text)
        case 403:
            return errors.Forbidden(problem.code, text)
    if problem.code in (errors.TooMany.code, errors.RateExceeded.code):
        return errors.TooMany(text, problem.limit, retry_after(headers))
    if problem.code not in _BY_CODE:
        return errors.ServiceFailed(server, status, f"{problem.code}: {text}")
    kind_of, pattern = _BY_CODE[problem.code]
    if problem.code in _BEGIN_WITH_A_NAME:
        text = problem.detail.removesuffix(".")
    return _rebuilt(kind_of, text, pattern)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds after which the server wants the request again."""
    value = headers.get("retry-after", "")
    return float(value) if value.isdigit() else None


def _rebuilt(kind: type[TickworkError], text: str, pattern: str) -> TickworkError:
    """The error with this text. Its arguments are in the text, as far as the pattern finds them."""
    found = re.fullmatch(pattern, text, re.DOTALL) if pattern else None
    error: Any = kind.__new__(kind)
    TickworkError.__init__(error, text)
    names = re.findall(r"\?P<(\w+)>", pattern)
    for name in names:
        value = found[name] if found else None
        setattr(error, name, int(value) if value and name.endswith("_max") else value)
    if kind is errors.ClaimLost:
        error.message_ids = ()
    return error  # type: ignore[no-any-return]


def _text(sentence: str) -> str:
    """The text of an error from its sentence: `There is no queue a.` → `there is no queue a`."""
    text = sentence.removesuffix(".")
    is_name = text[1:2].isupper()
    return text if is_name else f"{text[:1].lower()}{text[1:]}"
