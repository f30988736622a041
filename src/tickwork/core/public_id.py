"""Ids as people and other programs see them: a prefix that names the kind, and the id.

`sch_0199…` sorts as the id does. Wherever an id is given, its prefix may be left out.
"""

from __future__ import annotations

import re
from enum import StrEnum
from uuid import UUID


class Prefix(StrEnum):
    """The prefix of each kind of id."""

    SCHEDULE = "sch"
    FIRING = "fir"
    MESSAGE = "msg"
    DEAD_LETTER = "dead"
    BATCH = "bat"
    ENDPOINT = "end"
    DELIVERY = "dlv"


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
