"""Refuses NUL characters in the texts of requests with 400: no database stores one in a text, and
no name has one. The data of users may have them, in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from litestar.connection import ASGIConnection

from tickwork.api.query import HAS_NUL
from tickwork.errors import InvalidInput, NulCharacter

DATA_FIELDS = frozenset({"args", "body", "data", "params", "payload", "value"})
"""Fields of bodies that are data of users, which is stored as they gave it."""

_NUL, _ESCAPED = "\0", b"\\u0000"
_FAULT = "must not contain a NUL character"


def refuse_nul(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
    """Raises `InvalidInput` for a NUL character in the path, the query or a header."""
    scope: dict[str, Any] = cast(dict[str, Any], connection.scope)
    query = scope["query_string"]
    parts = [
        ("path", scope.get(HAS_NUL, False)),
        ("query", b"%00" in query or b"\0" in query),
        *((name.decode("latin-1"), b"\0" in value) for name, value in scope["headers"]),
    ]
    _refuse(name for name, has_nul in parts if has_nul)


def refuse_nul_in(raw: bytes, value: object) -> None:
    """Raises `InvalidInput` for a NUL character in a text of a parsed body. JSON has it only as an
    escape."""
    if _ESCAPED in raw:
        _refuse(_fields_with_nul(value, ""))


def _refuse(names: Iterator[str]) -> None:
    if faults := [NulCharacter(name, _FAULT) for name in names]:
        raise InvalidInput(faults)


def _fields_with_nul(value: object, field: str) -> Iterator[str]:
    """The texts with a NUL character; the depth of a body is bounded."""
    if isinstance(value, str) and _NUL in value:
        yield field or "body"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _fields_with_nul(item, f"{field}[{index}]")
    elif isinstance(value, dict):
        prefix = f"{field}." if field else ""
        for name, item in value.items():
            if _NUL in name:
                yield f"{prefix}{name}".replace(_NUL, "\\u0000")
            elif name not in DATA_FIELDS:
                yield from _fields_with_nul(item, f"{prefix}{name}")
