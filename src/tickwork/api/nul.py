"""Refuses NUL characters in the texts of requests with 400: no database stores one in a text, and
no name has one. The data of users may have them, in JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec
from litestar.connection import ASGIConnection

from tickwork.api.query import HAS_NUL
from tickwork.core.fields import FAULTS_MAX
from tickwork.errors import InvalidInput, NulCharacter

DATA_FIELDS = frozenset({"args", "body", "data", "params", "payload", "value"})
"""Fields of bodies that are data of users, which is stored as they gave it."""

NAME_LENGTH_MAX = 60
"""Characters of a name that an error shows: a body of a megabyte may be one name."""

SLICE_ITEMS = 1_000
"""Number of items of a list that are looked through at once, if none of them is a list itself."""

LOOKED_AT_MAX = 40_000
"""Maximum number of items and fields that are looked at, besides the data of users."""

_NUL = "\0"
_ESCAPED, _BACKSLASH = b"\\u0000", b"\\\\"
_CONTAINERS = frozenset({dict, list})
_SEARCHED = frozenset({str, *_CONTAINERS})
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
    if _ESCAPED in raw and _has_nul(raw):
        search = _Search()
        search.look_at(value)
        _refuse(search.found)


def _has_nul(encoded: bytes) -> bool:
    return _ESCAPED in encoded.replace(_BACKSLASH, b"")


def _refuse(names: Iterable[str]) -> None:
    if faults := [NulCharacter(name, _FAULT) for name in names]:
        raise InvalidInput(faults)


class _Search:
    """Finds the texts with a NUL character in a body, whose depth is bounded: the first hundred.
    `steps` lead to the value that is looked at. They are joined only where a text is found, because
    a body may have half a million items below a name of half a megabyte."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._steps: list[str | int] = []
        self._looked_at = 0

    def look_at(self, value: object) -> None:
        """Looks at a value."""
        if isinstance(value, str):
            if _NUL in value:
                self._note()
        elif isinstance(value, list):
            self._look_at_items(value)
        elif isinstance(value, dict):
            self._look_at_fields(value)

    def _note(self) -> None:
        parts = (
            f"[{step}]" if isinstance(step, int) else f".{step[:NAME_LENGTH_MAX]}"
            for step in self._steps
        )
        self.found.append("".join(parts).lstrip(".").replace(_NUL, "\\u0000") or "body")

    def _is_over(self) -> bool:
        return len(self.found) >= FAULTS_MAX or self._looked_at > LOOKED_AT_MAX

    def _count(self, number: int) -> bool:
        """Counts what is looked at next. Returns whether that is too much: no valid body has so
        many items and fields, and which of them has the NUL does not matter."""
        self._looked_at += number
        if self._looked_at > LOOKED_AT_MAX:
            self._note()
        return self._is_over()

    def _look_at_fields(self, fields: dict[str, Any]) -> None:
        if self._count(len(fields)):
            return
        for name, value in fields.items():
            self._steps.append(name)
            if _NUL in name:
                self._note()
            elif value and type(value) in _SEARCHED and name not in DATA_FIELDS:
                self.look_at(value)
            self._steps.pop()
            if self._is_over():
                return

    def _look_at_items(self, items: list[Any]) -> None:
        for start in range(0, len(items), SLICE_ITEMS):
            part = items[start : start + SLICE_ITEMS]
            is_long = len(part) == SLICE_ITEMS and _CONTAINERS.isdisjoint(map(type, part))
            if is_long and not _has_nul(msgspec.json.encode(part)):
                continue
            if self._count(len(part)):
                return
            for index, item in enumerate(part, start):
                # Without a call for what has no NUL: there may be sixty thousand.
                if (_NUL in item) if type(item) is str else item and type(item) in _CONTAINERS:
                    self._steps.append(index)
                    self.look_at(item)
                    self._steps.pop()
                    if self._is_over():
                        return
