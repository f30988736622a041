"""Ids as people and other programs see them: a prefix that names the kind, and the id.

`sch_0199…` sorts as the id does. Wherever an id is given, its prefix may be left out.
"""

from __future__ import annotations

import re
from enum import StrEnum
from uuid import UUID

from tickwork.errors import NotFound


class Prefix(StrEnum):
    """The prefix of each kind of id."""

    SCHEDULE = "sch"
    FIRING = "fir"
    MESSAGE = "msg"
    DEAD_LETTER = "dead"
    BATCH = "bat"
    ENDPOINT = "end"
    DELIVERY = "dlv"
    RUN = "run"


_PREFIXES = re.compile(rf"({'|'.join(Prefix)})_")
_DIGITS = 32


def public_id(prefix: Prefix, value: UUID) -> str:
    """An id with its prefix."""
    return f"{prefix}_{value.hex}"


def parse_public_id(text: str, prefix: Prefix | None = None) -> UUID | None:
    """The id in a text, with any prefix or only with the given one, or without; None if there is
    none."""
    found = _PREFIXES.match(text)
    if found is not None and prefix not in (None, found[1]):
        return None
    digits = text if found is None else text[found.end() :]
    if len(digits) < _DIGITS:
        return None
    try:
        return UUID(digits)
    except ValueError:
        return None


def optional_id(prefix: Prefix, value: UUID | None) -> str | None:
    """An id with its prefix; None if there is none."""
    return None if value is None else public_id(prefix, value)


def read_path_id(prefix: Prefix, text: str, kind: str) -> UUID:
    """The id in a path. Raises `NotFound` if it is none of this kind: what is no id does not exist,
    as that of another tenant."""
    found = parse_public_id(text, prefix)
    if found is None:
        raise NotFound(kind, text)
    return found
