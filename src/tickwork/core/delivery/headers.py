"""Checks the headers that a user adds to a webhook, and encodes the values of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tickwork.errors import FieldError, InvalidInput

HEADERS_MAX = 32
HEADER_BYTES_MAX = 8_192

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}\Z")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z")
_ENCODED = re.compile(r"[^A-Za-z0-9._~:-]+")
_OWN_PREFIXES = ("webhook-", "tickwork-", "proxy-", "sec-", ":")
_RESERVED = frozenset({
    "connection", "content-length", "expect", "host", "idempotency-key", "keep-alive", "te",
    "trailer", "transfer-encoding", "upgrade", "accept-encoding",
})  # fmt: skip
"""Headers of the connection, and those that Tickwork sets."""


def percent_encoded(text: str) -> str:
    """A text as the value of a header, which is ASCII: `%` and two digits for each other byte."""
    return _ENCODED.sub(_percents, text)


def _percents(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def check_headers(headers: Mapping[str, object], *, field: str = "headers") -> None:
    """Raises `InvalidInput` for headers that a webhook may not have."""
    if len(headers) > HEADERS_MAX:
        fault = f"must be at most {HEADERS_MAX} headers, not {len(headers)}"
        raise InvalidInput([FieldError(field, fault)])
    faults = [FieldError(f"{field}.{name}", fault) for name, fault in _faults(headers)]
    size = sum(len(f"{name}{value}".encode(errors="replace")) for name, value in headers.items())
    if size > HEADER_BYTES_MAX:
        faults.append(FieldError(field, f"must be at most {HEADER_BYTES_MAX} bytes in all"))
    if faults:
        raise InvalidInput(faults)


def _faults(headers: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    seen = set[str]()
    for name, value in headers.items():
        lower = str(name).lower()
        if not isinstance(name, str) or not _TOKEN.match(name):
            yield str(name), "is not a valid name of a header"
        elif lower in _RESERVED or lower.startswith(_OWN_PREFIXES):
            yield name, "is set by Tickwork or belongs to the connection; choose another name"
        elif lower in seen:
            yield name, "is given twice"
        elif not isinstance(value, str) or not _VALUE.match(value):
            yield name, "must be a text without line breaks and control characters"
        seen.add(lower)
