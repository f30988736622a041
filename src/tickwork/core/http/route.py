"""The path of an HTTP handler: `/brands/{slug}/research`, where `{slug}` is one part of a path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from tickwork.core.fields import shown
from tickwork.errors import FieldError

PARTS_MAX = 32
PATH_LENGTH_MAX = 512

_LITERAL = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@-]+\Z")
_NAMED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}\Z")


class Route(Struct, frozen=True):
    """A method and the parts of a path; a part in braces matches any text."""

    method: str
    path: str

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/")[1:])

    @property
    def shape(self) -> tuple[str, ...]:
        """The parts without names: two routes of one shape match the same paths."""
        return tuple("{}" if part.startswith("{") else part for part in self.parts)

    @property
    def rank(self) -> tuple[bool, ...]:
        """Orders routes: plain parts before named ones, so /brands/new is not a brand."""
        return tuple(part.startswith("{") for part in self.parts)

    def match(self, parts: Sequence[str]) -> Mapping[str, str] | None:
        """The named parts of a path; None if the path is not of this route."""
        if len(parts) != len(self.parts):
            return None
        named: dict[str, str] = {}
        for own, given in zip(self.parts, parts, strict=True):
            if own.startswith("{"):
                if not given:
                    return None
                named[own[1:-1]] = given
            elif own != given:
                return None
        return named


def path_faults(path: object) -> list[FieldError]:
    """What is wrong with the path of a handler."""
    if not isinstance(path, str) or not path.startswith("/") or len(path) > PATH_LENGTH_MAX:
        return [FieldError("path", f"must be a path such as /brands/{{slug}}, not {shown(path)}")]
    parts = path.split("/")[1:]
    if len(parts) > PARTS_MAX:
        return [FieldError("path", f"must have at most {PARTS_MAX} parts")]
    names = [found[1] for part in parts if (found := _NAMED.match(part))]
    faults = [
        FieldError("path", f"{shown(name)} is named twice; give each part its own name")
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    for part in parts:
        if path != "/" and not _NAMED.match(part) and not _LITERAL.match(part):
            fault = f"the part {shown(part)} must be plain characters, or a name as in {{slug}}"
            faults.append(FieldError("path", fault))
    return faults
