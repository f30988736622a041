"""Ids in paths. What is no id of this kind does not exist: 404, as for another tenant's."""

from __future__ import annotations

from uuid import UUID

from tickwork.core.public_id import Prefix, parse_public_id
from tickwork.errors import NotFound


def read_path_id(prefix: Prefix, text: str, kind: str) -> UUID:
    """The id in a path. Raises `NotFound` if it is none of this kind."""
    found = parse_public_id(text, prefix)
    if found is None:
        raise NotFound(kind, text)
    return found


def optional_id(prefix: Prefix, value: UUID | None) -> str | None:
    """An id as an answer has it; None if there is none."""
    return None if value is None else f"{prefix}_{value.hex}"
