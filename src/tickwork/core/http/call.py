"""One call of a service: checks what the caller gives, and makes the request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from tickwork.core.delivery.headers import check_headers
from tickwork.core.fields import shown
from tickwork.core.http.message import (
    CORRELATION_HEADER,
    JSON,
    REQUEST_BYTES_MAX,
    TRACE_HEADER,
    HttpResponse,
    encoded,
    traceparent,
)
from tickwork.errors import FieldError, InvalidInput

TIMEOUT_SECONDS = 30.0
"""Seconds that a call may take, unless it says otherwise."""

TIMEOUT_SECONDS_MAX = 900.0

METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")

_PATH = re.compile(r"/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*(\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?\Z")
_UNRESERVED = re.compile(r"[^A-Za-z0-9._~-]")


class ServiceCall(Struct, frozen=True, kw_only=True):
    """A request to a service. `target` is its path and query, as it is sent."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    timeout_seconds: float


class ServiceTarget(Protocol):
    """What answers the calls of a service."""

    async def call(self, call: ServiceCall) -> HttpResponse: ...

    async def close(self) -> None: ...


def service_call(
    method: str,
    path: str,
    *,
    query: Mapping[str, object] | None,
    json: Any,
    body: bytes | None,
    headers: Mapping[str, str],
    own_headers: Mapping[str, str],
    timeout_seconds: float,
    correlation_id: str,
    call_id: str,
) -> ServiceCall:
    """The request of a call. `headers` are those of the call and replace those of the service.
    Raises `InvalidInput` with everything that is wrong."""
    check_headers(headers)
    faults = [*_faults(method, path, timeout_seconds)]
    if json is not None and body is not None:
        faults.append(FieldError("body", "is given besides json; give one of them"))
    content = b"" if body is None else bytes(body)
    sent: dict[str, str] = {
        CORRELATION_HEADER: _ascii(correlation_id),
        TRACE_HEADER: traceparent(correlation_id, call_id),
    }
    if json is not None:
        content = encoded(json)
        sent["content-type"] = JSON
    if len(content) > REQUEST_BYTES_MAX:
        fault = f"has {len(content)} bytes; the maximum is {REQUEST_BYTES_MAX}: send a reference"
        faults.append(FieldError("body", fault))
    if faults:
        raise InvalidInput(faults)
    for given in (own_headers, headers):
        sent |= {name.lower(): value for name, value in given.items()}
    return ServiceCall(
        method=method,
        target=_with_query(path, query or {}),
        headers=sent,
        body=content,
        timeout_seconds=timeout_seconds,
    )


def _faults(method: str, path: str, timeout_seconds: float) -> list[FieldError]:
    faults = []
    if method not in METHODS:
        faults.append(FieldError("method", f"{shown(method)} is none; use {', '.join(METHODS)}"))
    if not _PATH.match(str(path)) or path.startswith("//"):
        fault = (
            f"must be a path such as /v1/search, with other characters as %XX; not {shown(path)}"
        )
        faults.append(FieldError("path", fault))
    return faults + timeout_faults(timeout_seconds)


def timeout_faults(seconds: object) -> list[FieldError]:
    """The error of a timeout that is not a number of seconds in its range."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if is_number and 0 < seconds <= TIMEOUT_SECONDS_MAX:  # type: ignore[operator]
        return []
    fault = f"must be a number above 0 and at most {TIMEOUT_SECONDS_MAX:g}, not {shown(seconds)}"
    return [FieldError("timeout_seconds", fault)]


def _with_query(path: str, query: Mapping[str, object]) -> str:
    if not query:
        return path
    pairs = "&".join(f"{quoted(name)}={quoted(_text(value))}" for name, value in query.items())
    return f"{path}{'&' if '?' in path else '?'}{pairs}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def quoted(text: str) -> str:
    """A text as a part of a path or query."""
    return _UNRESERVED.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text
    )


def _ascii(text: str) -> str:
    """A correlation id as the value of a header."""
    return text if text.isascii() and text.isprintable() else quoted(text)
